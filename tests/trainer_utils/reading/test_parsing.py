"""Parsed and decoded features, against the readers of Datum, TensorFlow and PIL."""

import collections
from collections.abc import Iterable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from tests.trainer_utils.frameworks.test_tensorflow import batches, flat
from tests.trainer_utils.reading.jpegs import encode
from trainer_utils import ConfigError, input_fn
from trainer_utils.format import Feature

IMAGES = {
    "image": Feature(type="string", shape=(40, 48, 3), extra={"sizes": "fixed"}),
    "id": Feature(type="int"),
}


def read_with_datum(uri: str, split: str) -> list[dict[str, np.ndarray]]:
    """Return single examples, read by Datum."""
    pytest.importorskip("datum")  # not installed by `make test-trainer`
    from datum.reader import load

    loaded = load(uri)
    loaded.dataset_configs.batch_size_val = 1
    return [
        {name: value[0] for name, value in example.items()}
        for example in loaded.val_fn(split).as_numpy_iterator()
    ]


def comparable(examples: Iterable[dict[str, Any]]) -> collections.Counter:
    """Count examples by names, dtypes, shapes and bytes, in any order."""

    def key(value: Any) -> tuple:
        array = np.asarray(value)
        return (
            array.dtype,
            array.shape,
            array.tolist() if array.dtype == object else array.tobytes(),
        )

    return collections.Counter(
        repr([(name, key(value)) for name, value in sorted(example.items())])
        for example in examples
    )


@pytest.fixture(scope="module")
def datum_boxes(photos, export_with_datum) -> str:
    """Write photos with 1 to 3 boxes of 4 floats, and different numbers of tags, with Datum."""
    rows = [
        {
            "image": photos[number],
            "id": number,
            "boxes": [[number / 2, side / 4, 0.5, 1.0] for side in range(1 + number % 3)],
            "tags": [f"tag {tag}" for tag in range(1 + number % 2)],
            "name": f"photo {number}",
            "is_blue": number % 2 == 0,
        }
        for number in range(7)
    ]
    return export_with_datum({"train": rows}, sparse_features=["boxes", "tags"])


# --- Compared with Datum's reader, and others ---


@pytest.mark.parametrize(("split", "records"), [("train", 23), ("val", 7)])
def test_photos_and_labels_equal_datums(datum_photos, split, records):
    theirs = read_with_datum(datum_photos, split)
    ours = input_fn(datum_photos, split, batch_size=None).as_numpy_iterator()
    assert len(theirs) == records
    assert comparable(ours) == comparable(theirs)


def test_sparse_features_of_any_rank_equal_datums(datum_boxes):
    ours = input_fn(datum_boxes, batch_size=None).as_numpy_iterator()
    assert comparable(ours) == comparable(read_with_datum(datum_boxes, "train"))


@pytest.mark.parametrize("extension", [".png", ".jpg"])
def test_grey_photos_equal_datums(photos, export_with_datum, extension):
    rows = [{"image": photo[:, :, 1], "id": number} for number, photo in enumerate(photos[:3])]
    uri = export_with_datum({"train": rows}, extension=extension)
    theirs = read_with_datum(uri, "train")
    assert {example["image"].shape for example in theirs} == {(40, 48, 1)}
    assert comparable(input_fn(uri, batch_size=None).as_numpy_iterator()) == comparable(theirs)
    (batch,) = input_fn(uri, features="image").as_numpy_iterator()
    assert batch.shape == (3, 40, 48, 1)


@pytest.mark.parametrize(
    "split",
    [
        "train[:80%]+eval",
        "train[30%:70%]",
        "train[5:-3]",
        "train[-1:]",
        "eval[:2]+train[3:5]+eval[-2:]",
        "train[:1]+train[:1]",
    ],
)
def test_slices_have_the_records_of_datums_slices(uneven, split):
    theirs = [int(example["id"]) for example in read_with_datum(uneven, split)]
    ours = flat(batches(uneven, split, batch_size=4))
    assert sorted(ours) == sorted(theirs)


# --- Selected features ---


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, {"image", "id", "label", "weight"}),
        ({"features": ["weight", "id"]}, {"weight", "id"}),
        ({"features": ("id", "label"), "label": "label"}, ({"id", "label"}, "label")),
        ({"label": "label"}, ({"image", "id", "weight"}, "label")),
        ({"features": "id", "batch_size": None}, "id"),
        ({"features": "label", "label": "label"}, ("label", "label")),
        ({"features": [], "label": "label", "batch_size": None}, (set(), "label")),
    ],
)
def test_features_and_label_arrange_the_batch(datum_photos, options, expected):
    read: dict[str, Any] = {"batch_size": options.get("batch_size", 23), "shuffle": False}
    everything = next(input_fn(datum_photos, **read).as_numpy_iterator())

    def check(got: Any, wanted: Any) -> None:
        if isinstance(wanted, tuple):
            assert isinstance(got, tuple)
            for part, name in zip(got, wanted, strict=True):
                check(part, name)
        elif isinstance(wanted, set):
            assert got.keys() == wanted
            for name in wanted:
                check(got[name], name)
        else:
            np.testing.assert_array_equal(got, everything[wanted])

    check(next(input_fn(datum_photos, **{**read, **options}).as_numpy_iterator()), expected)


def test_unselected_features_are_not_decoded(tmp_path, write_dataset):
    shard = [{"id": [7], "image": [b"no image"]}]
    uri = write_dataset(tmp_path, {"train": [shard]}, IMAGES)
    assert batches(uri) == [[7]]
    with pytest.raises(tf.errors.InvalidArgumentError):
        list(input_fn(uri, features="image"))


@pytest.mark.parametrize(
    ("feature", "shape"),
    [
        (IMAGES["image"], (None, 40, 48, 3)),
        (Feature(type="string", shape=(40, 48)), (None, None, None, 1)),
    ],
)
def test_images_of_one_size_have_static_shapes(tmp_path, photos, write_dataset, feature, shape):
    shard = [{"image": [encode(photo)]} for photo in photos[:3]]
    uri = write_dataset(tmp_path, {"train": [shard]}, {"image": feature})
    dataset = input_fn(uri, batch_size=2, features="image")
    assert dataset.element_spec == tf.TensorSpec(shape, tf.uint8)
    channels = shape[-1]
    assert [batch.shape for batch in dataset] == [(2, 40, 48, channels), (1, 40, 48, channels)]


def test_an_image_of_another_size_than_declared_is_an_error(tmp_path, photos, write_dataset):
    shard = [{"id": [0], "image": [encode(photos[0][:20])]}]
    uri = write_dataset(tmp_path, {"train": [shard]}, IMAGES)
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"got \(20, 48, 3\)"):
        list(input_fn(uri))


# --- Examples that differ in shape ---


@pytest.mark.parametrize(
    ("kind", "values", "padded"),
    [
        ("int", [[1], [2, 3, 4], []], [[1, 0, 0], [2, 3, 4], [0, 0, 0]]),
        ("string", [[b"a", b"b"], [b"c"]], [[b"a", b"b"], [b"c", b""]]),
    ],
)
def test_variable_lengths_are_padded_to_the_longest_of_the_batch(
    tmp_path, write_dataset, kind, values, padded
):
    features = {"x": Feature(type=kind, shape=(3,), dense=False)}
    uri = write_dataset(tmp_path, {"train": [[{"x": value} for value in values]]}, features)
    (batch,) = input_fn(uri, shuffle=False).as_numpy_iterator()
    assert batch["x"].tolist() == padded
    one_by_one = input_fn(uri, batch_size=None, shuffle=False).as_numpy_iterator()
    assert [example["x"].tolist() for example in one_by_one] == values


def test_images_of_undeclared_sizes_are_never_padded(photos, export_with_datum):
    """Datum does not declare mixed sizes. Black borders must not make the images alike."""
    uri = export_with_datum({"train": [{"image": photos[0]}, {"image": photos[1][:20]}]})
    with pytest.raises((ConfigError, tf.errors.InvalidArgumentError)):
        list(input_fn(uri, batch_size=2))
    (batch,) = input_fn(uri, batch_size=2, image_size=(8, 8)).as_numpy_iterator()
    assert batch["image"].shape == (2, 8, 8, 3)
