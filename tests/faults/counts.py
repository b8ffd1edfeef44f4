"""The number of cases of a test: few, or many in the long part; `TFX_SHARDS_SHARE` scales it.

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
    """Return the number of cases in the long part, scaled by `TFX_SHARDS_SHARE`, at least 1."""
    return max(1, round(count * SHARE))


def some_or_many(quick: int, many: int) -> pytest.MarkDecorator:
    """Parametrize a test with `quick` cases, and `many` in the long part; 0: only the long part."""
    cases = [pytest.param(long(many), marks=pytest.mark.faults, id="long")]
    return pytest.mark.parametrize(
        "count", [*([pytest.param(quick, id="quick")] * (quick > 0)), *cases]
    )


def some_of_any_or_all_of_each(name: str, values: Sequence[Any]) -> pytest.MarkDecorator:
    """Parametrize a test with a sample of all values, and with each value in the long part."""
    each = [pytest.param(value, marks=pytest.mark.faults) for value in values]
    return pytest.mark.parametrize(name, [_ANY, *each])


def drawn(
    chance: random.Random, which: Any, quick: int, places: Sequence[int], values: Sequence[Any]
) -> list[tuple[int, Any]]:
    """Return (place, value) pairs: a sample of `quick` pairs, or all places with one value."""
    if which == _ANY:
        return chance.sample([*itertools.product(places, values)], quick)
    found = chance.sample(places, long(len(places)))
    return [(place, which) for place in sorted(found)]
