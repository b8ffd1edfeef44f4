"""Several datasets mixed by weights."""

import collections
import math

import numpy as np
import pytest

from tests.make import refusing
from trainer_utils import input_fn, iterate
from trainer_utils.format import Feature

FEATURES = {"id": Feature(type="int")}


@pytest.fixture(scope="module")
def uris(tmp_path_factory, write_dataset) -> list[str]:
    """Write 300 records of numbers below 1000, and 50 from 1000 on."""
    ids = [[{"id": [n]} for n in range(a, b)] for a, b in [(0, 200), (200, 300), (1000, 1050)]]
    folder = tmp_path_factory.mktemp("mixed")
    return [
        write_dataset(folder / "large", {"train": ids[:2]}, FEATURES),
        write_dataset(folder / "small", {"train": ids[2:]}, FEATURES),
    ]


WEIGHTS = ([3, 1], [0.75, 0.25], np.array([3, 1]), (np.float32(3), np.int64(1)))


@pytest.mark.parametrize("weights", WEIGHTS, ids=repr)
def test_an_epoch_has_all_records_and_follows_the_weights(uris, weights):
    dataset = input_fn(uris, features="id", batch_size=40, weights=weights)
    batches = [batch.tolist() for batch in dataset.as_numpy_iterator()]
    counts = collections.Counter(n for batch in batches for n in batch)
    assert set(counts) == {*range(300), *range(1000, 1050)}
    assert {counts[n] for n in range(300)} == {1}
    assert {counts[n] for n in range(1000, 1050)} == {2}
    assert {sum(n >= 1000 for n in batch) for batch in batches} == {10}


NO_WEIGHTS = [
    *([], [1], [1, 2, 3], [1, 0], [1, -1], [1, math.nan], [1, math.inf], [1, True]),
    *(["1", 1], "ab", 3, [1, None], [1e-6, 1], [1, 1e9], [1e-320, 1]),
]


def test_weights_for_other_datasets_are_refused(uris, subtests):
    for weights in NO_WEIGHTS:
        with subtests.test(weights=weights), refusing("weights"):
            iterate(uris, weights=weights)
