"""Tokens to go on from, as text and as what is left of an epoch."""

import dataclasses
import json

import pytest

from trainer_utils import ConfigError
from trainer_utils.order.layout import BatchLayout
from trainer_utils.order.options import OrderOptions
from trainer_utils.order.state import InputState, check_state, state_at

LAYOUT = BatchLayout(num_records=23, batch_size=8, num_workers=2, remainder=None)
OPTIONS = OrderOptions(batch_size=8, repeat=True)


@pytest.mark.parametrize("step", range(8))
def test_a_token_counts_the_records_before_it(step):
    token = state_at(step, OPTIONS, LAYOUT, "digest")
    assert (token.epoch, token.step) == divmod(step, 3)
    assert token.records == 8 * (step % 3)
    assert (token.batch_size, token.num_workers, token.seed) == (8, 2, 0)


@pytest.mark.parametrize("form", [lambda t: t, lambda t: t.to_json(), dataclasses.asdict])
def test_a_token_comes_back_in_any_form(form):
    token = state_at(4, OPTIONS, LAYOUT, "digest")
    assert check_state(OrderOptions(state=form(token))) == token


@pytest.mark.parametrize(
    ("change", "said"),
    [({"version": 1}, "version 1"), ({"epoch": -1}, "epoch"), ({"records": "8"}, "records"),
     ({"num_lanes": 0}, "num_lanes"), ({"batch_size": 0}, "batch_size"), ({"other": 1}, "token")],
)  # fmt: skip
def test_what_is_no_token_is_refused(change, said):
    fields = json.loads(state_at(4, OPTIONS, LAYOUT, "digest").to_json())
    with pytest.raises(ConfigError, match=said):
        InputState.from_json(json.dumps(fields | change))


def test_without_a_token_there_is_none():
    assert check_state(OrderOptions()) is None
