"""Tests of decoding JSON by annotations."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import pytest

from trainer_utils.core.decoding import Count, Crc32c, DecodeError, decode, encode_fields


class Part(NamedTuple):
    path: str
    records: Count
    crc32c: Crc32c | None = None


@dataclasses.dataclass(frozen=True, kw_only=True)
class Whole:
    parts: tuple[Part, ...] = ()
    sizes: Mapping[str, Count] = dataclasses.field(default_factory=dict)
    stages: Sequence[tuple[int, str | None]] = ()
    inner: "Whole | None" = None


PARTS = [{"path": "a", "records": 3, "crc32c": "0a1b2c3d"}, {"path": "b", "records": 0}]


def test_values_have_the_declared_types():
    value = {"parts": PARTS, "sizes": {"x": 1}, "stages": [[0, None]], "inner": {"sizes": {}}}
    parts = (Part("a", 3, 0x0A1B2C3D), Part("b", 0))
    expected = Whole(parts=parts, sizes={"x": 1}, stages=[(0, None)], inner=Whole())
    assert decode(Whole, value) == expected
    assert [encode_fields(part) for part in parts] == PARTS


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (
            {"parts": [PARTS[0], {**PARTS[1], "records": True}]},
            r"^parts\[1\]\.records: .* got True",
        ),
        ({"parts": [PARTS[0], {**PARTS[1], "records": -1}]}, r"^parts\[1\]\.records: .* got -1"),
        ({"parts": [{**PARTS[1], "records": 1 << 64}]}, r"^parts\[0\]\.records: .* below 2\*\*64"),
        ({"parts": [PARTS[1], {**PARTS[0], "crc32c": "xyz"}]}, r"^parts\[1\]\.crc32c: .* 'xyz'"),
        ({"parts": [{"path": "a"}]}, r"^parts\[0\]: expected a value of 'records', got none"),
        ({"parts": [{**PARTS[1], "size": 1}]}, r"^parts\[0\]: expected only path, .* got 'size'"),
        ({"sizes": {"x": 1, "y": 1.5}}, r"^sizes\['y'\]: expected an integer .* got 1\.5"),
        ({"stages": [[1, "a"], [2]]}, r"^stages\[1\]: expected a list of 2, got \[2\]"),
        ({"inner": {"sizes": []}}, r"^inner\.sizes: expected an object, got \[\]"),
    ],
)
def test_invalid_value_raises_with_its_place(value, message):
    with pytest.raises(DecodeError, match=message):
        decode(Whole, value)


def test_unknown_names_are_ignored_on_request():
    assert decode(Whole, {"new": 1}, takes_unknown=True) == Whole()
