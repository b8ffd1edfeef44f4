"""Datasets that several tests of reading share."""

import itertools

import pytest

from trainer_utils.format import Feature


def numbered(start: int, stop: int) -> list[dict[str, list[int]]]:
    return [{"id": [number]} for number in range(start, stop)]


@pytest.fixture(scope="session")
def uneven(tmp_path_factory, write_dataset) -> str:
    """23 examples to train, in shards of 4, 0, 12, 1 and 6, and 9 to evaluate."""
    bounds = [0, 4, 4, 16, 17, 23]
    train = [numbered(start, stop) for start, stop in itertools.pairwise(bounds)]
    splits = {"train": train, "eval": [numbered(100, 104), numbered(104, 109)]}
    return write_dataset(tmp_path_factory.mktemp("uneven"), splits, {"id": Feature(type="int")})
