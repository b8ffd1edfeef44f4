"""How much a test does: a little, or in the long part much; `TFX_SHARDS_SHARE` asks for a share.

@some_or_many(40, 400)
def test_changes(count): ...                     # 40, and with `-m faults` 400
@some_of_any_or_all_of_each("fate", ["EIO", "KILL"])
def test_calls(fate, chance):
    for number, own in drawn(chance, fate, 2, calls, FATES): ...
"""

import itertools
import os
import random
from collections.abc import Sequence
from typing import Any

import pytest

__all__ = ["drawn", "long", "some_of_any_or_all_of_each", "some_or_many"]

SHARE = float(os.environ.get("TFX_SHARDS_SHARE", "1"))
_ANY = "any"


def long(count: int) -> int:
    """So many of the long part, by the share that was asked for; at least one."""
    return max(1, round(count * SHARE))


def some_or_many(quick: int, many: int) -> pytest.MarkDecorator:
    """Tries a test so often, or in the long part that often; 0: there alone."""
    cases = [pytest.param(long(many), marks=pytest.mark.faults, id="long")]
    return pytest.mark.parametrize(
        "count", [*([pytest.param(quick, id="quick")] * (quick > 0)), *cases]
    )


def some_of_any_or_all_of_each(name: str, values: Sequence[Any]) -> pytest.MarkDecorator:
    """Tries a test with some of any of these, or in the long part with all of each."""
    each = [pytest.param(value, marks=pytest.mark.faults) for value in values]
    return pytest.mark.parametrize(name, [_ANY, *each])


def drawn(
    chance: random.Random, which: Any, quick: int, places: Sequence[int], values: Sequence[Any]
) -> list[tuple[int, Any]]:
    """Places with values: so many of any, or all of the one value, or the share of them."""
    if which == _ANY:
        return chance.sample([*itertools.product(places, values)], quick)
    found = chance.sample(places, long(len(places)))
    return [(place, which) for place in sorted(found)]
