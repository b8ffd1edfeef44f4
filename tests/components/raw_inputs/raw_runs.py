"""Convert inputs without TFX, and compare batches of raw and of converted inputs."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from components import steps
from components.balancing.settings import BalancerSettings
from components.raw_inputs.requests import prepare
from trainer_utils import iterate
from trainer_utils.options import InputOptions


def convert(source: Path | str, out: Path, **settings: Any) -> str:
    """Convert inputs as `tfx-shards convert` does, and return the uri of the balanced dataset."""
    request = prepare(str(source), **settings)
    examples, balanced = str(out / "examples"), str(out / "balanced")
    steps.convert(request.selection, examples, request.settings)
    steps.balance([examples], balanced, BalancerSettings(**request.balancer))
    return balanced


def assert_equal(found: Any, expected: Any) -> None:
    """Assert that two batches have the same values, shapes and dtypes."""
    assert type(found) is type(expected)
    if isinstance(found, dict):
        assert found.keys() == expected.keys()
        for name in found:
            assert_equal(found[name], expected[name])
    elif isinstance(found, tuple):
        assert len(found) == len(expected)
        for one, other in zip(found, expected, strict=True):
            assert_equal(one, other)
    else:
        assert found.dtype == expected.dtype
        assert found.shape == expected.shape
        np.testing.assert_array_equal(found, expected)


def batches(
    place: Any,
    split: str = "train",
    *,
    conversion: Any = None,
    rank: int = 0,
    world_size: int = 1,
    **settings: Any,
) -> Iterator[Any]:
    options = InputOptions(conversion=conversion, **settings)
    return iter(iterate(place, split, rank=rank, world_size=world_size, options=options))


def assert_same_batches(
    raw: Any, converted: str, *, conversion: Any = None, second: Any = None, **settings: Any
) -> int:
    """Assert that raw inputs give the batches of a dataset, and return their number.

    Args:
        raw: the raw inputs.
        converted: the dataset; or other raw inputs, with `second` as their conversion.
        conversion: the conversion of the raw inputs.
        second: the conversion of `converted`.
        settings: settings of both inputs.
    """
    found = batches(raw, conversion=conversion, **settings)
    count = 0
    for one, other in zip(found, batches(converted, conversion=second, **settings), strict=True):
        assert_equal(one, other)
        count += 1
    return count
