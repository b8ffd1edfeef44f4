"""Settings and tokens that `InputOrder` refuses; tests/order compares its order with the docs."""

import pytest

from trainer_utils.core.errors import ConfigError
from trainer_utils.order import FileRange, InputOrder, OrderOptions


def ranges_of(sizes, folder=""):
    return [FileRange(f"{folder}{n}", 0, size) for n, size in enumerate(sizes)]


def test_impossible_orders_are_refused(subtests):
    order = InputOrder(ranges_of([100]), OrderOptions(batch_size=8, shuffle=9), num_workers=2)
    for asked in ((0, 13, 0), (-1, 0, 0), (0, -1, 0), (0, 0, 2)):
        with subtests.test(asked=asked), pytest.raises(ConfigError):
            order.positions(*asked)


CHANGED = [
    ({"seed": 1}, "seed"),
    ({"shuffle": 10}, "digest"),
    ({"remainder": "pad"}, "digest"),
    ({"echoing": 2}, "digest"),
    ({"reshuffle_each_iteration": False}, "digest"),
    ({"batch_size": 16}, "batch_size"),
]


@pytest.mark.parametrize(("change", "named"), CHANGED)
def test_a_token_of_another_order_is_refused(change, named):
    def make(digest="d", **chosen):
        options = OrderOptions(**{"batch_size": 8, "shuffle": "global", **chosen})
        return InputOrder(ranges_of([100]), options, digest=digest)

    token = make().state(3)
    with pytest.raises(ConfigError, match=named):
        make(**change, state=token)
    with pytest.raises(ConfigError, match="digest"):
        make(digest="other", state=token)
