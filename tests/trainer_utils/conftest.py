"""Datasets shared by several tests of reading."""

import itertools

import pytest

from tests.make import write_rows
from trainer_utils.format import Feature


def numbered(start: int, stop: int) -> list[dict[str, list[int]]]:
    return [{"id": [number]} for number in range(start, stop)]


@pytest.fixture(scope="session")
def of_all_kinds(tmp_path_factory, photos) -> str:
    """Write 11 examples: an image of varying size, a label, a weight, a string and tokens."""
    rows = (
        {
            "image": photos[number][: 20 + number],
            "label": "abc"[number % 3],
            "weight": number / 10,
            "text": f"text {number}",
            "tokens": list(range(number % 4)),
        }
        for number in range(11)
    )
    folder = tmp_path_factory.mktemp("kinds") / "dataset"
    return write_rows(folder, rows, num_shards=2, vocabulary=["a", "b", "c"])


@pytest.fixture(scope="session")
def uneven(tmp_path_factory, write_dataset) -> str:
    """Write 23 examples to train, in shards of 4, 0, 12, 1 and 6, and 9 to evaluate."""
    bounds = [0, 4, 4, 16, 17, 23]
    train = [numbered(start, stop) for start, stop in itertools.pairwise(bounds)]
    splits = {"train": train, "eval": [numbered(100, 104), numbered(104, 109)]}
    return write_dataset(tmp_path_factory.mktemp("uneven"), splits, {"id": Feature(type="int")})
