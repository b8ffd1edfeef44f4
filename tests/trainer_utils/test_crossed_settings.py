"""Every two settings of the input together: the specified batches, or an error that names one.

An error by TensorFlow itself is a defect.
"""

import itertools

import numpy as np
import pytest
import tensorflow as tf

from trainer_utils import input_fn, iterate
from trainer_utils.core.errors import TfxShardsError

SETTINGS = {
    "batch_size": [None, 1, 100],
    "shuffle": [False, "global"],
    "repeat": [2],
    "remainder": ["drop", "pad", "balance"],
    "echoing": [2],
    "on_corrupt": ["skip"],
    "state": [2],
    "where": ["weight > 0.2"],
    "image_size": [None],
    "image": [
        {"resize": "crop"},
        {"resize": "pad", "channels": 1},
        {"normalize": "unit"},
        {"normalize": "unit", "dtype": "bfloat16"},
    ],
    "augment": ["random_resized_crop", ["flip"], ["colour", "cutout"], ["mixup"], ["cutmix"]],
    "ragged": [True],
    "features": ["image", ["tokens", "label"], "text"],
    "label": [None, "weight", "text"],
    "labels": [{"sample_weight": "weight"}, {"one_hot": True}, {"num_classes": 5}],
    "mask": ["text"],
    "prefetch": [0],
    "pre_batching_callback": [lambda example: dict(example)],
    "post_batching_callback": [lambda batch: dict(batch)],
}
BASE = {"batch_size": 4, "image_size": (8, 8), "label": "label"}
RECORDS = 11
PAIRS = list(itertools.combinations(SETTINGS, 2))


@pytest.fixture
def uri(of_all_kinds) -> str:
    return of_all_kinds


def _crossed(one: str, other: str) -> list[dict[str, object]]:
    return [
        {**BASE, one: mine, other: theirs}
        for mine, theirs in itertools.product(SETTINGS[one], SETTINGS[other])
    ]


def _has_spec(spec: object, element: object) -> bool:
    tf.nest.assert_same_structure(spec, element, expand_composites=True)
    pairs = zip(
        tf.nest.flatten(spec, expand_composites=True),
        tf.nest.flatten(element, expand_composites=True),
        strict=True,
    )
    return all(s.dtype == t.dtype and s.shape.is_compatible_with(t.shape) for s, t in pairs)


def _read(uri: str, settings: dict[str, object]) -> int | None:
    """Return the number of elements, or None if the settings are refused."""
    refusal = ""
    try:
        dataset = input_fn(uri, "train", **settings)
    except TfxShardsError as error:
        refusal = str(error)
    if refusal:
        assert "expected" in refusal, settings
        assert any(name in refusal for name in settings), (settings, refusal)
        return None
    elements = list(dataset)
    assert all(_has_spec(dataset.element_spec, element) for element in elements), settings
    known = int(dataset.cardinality())
    assert known in (len(elements), tf.data.UNKNOWN_CARDINALITY), settings
    return len(elements)


def _read_arrays(uri: str, settings: dict[str, object]) -> int | None:
    """Do the same as `_read` with `iterate`."""
    try:
        return sum(1 for _ in iterate(uri, "train", **settings))
    except TfxShardsError:
        return None


def _check_pairs(uri: str, pairs: list[tuple[str, str]]) -> None:
    for settings in itertools.chain.from_iterable(_crossed(*pair) for pair in pairs):
        elements = _read(uri, settings)
        assert elements in (None, _read_arrays(uri, settings)), settings


@pytest.mark.slow
@pytest.mark.parametrize(
    "part", [0, *(pytest.param(part, marks=pytest.mark.faults) for part in range(1, 10))]
)
def test_every_tenth_pair(uri, part):
    _check_pairs(uri, PAIRS[part::10])


def test_single_examples_have_no_remainder(uri):
    dataset = input_fn(uri, "train", batch_size=None, features="weight", remainder="drop")
    found = sorted(np.float32(value) for value in dataset.as_numpy_iterator())
    np.testing.assert_allclose(found, np.arange(RECORDS) / 10, rtol=1e-6)
