"""`input_fn` against Datum's reader, TensorFlow's reader and PIL."""

import collections
import io
import itertools
import json
import math
import random
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from PIL import Image

from trainer_utils import ConfigError, DatasetError, input_fn
from trainer_utils.format import Feature
from trainer_utils.reading import batching, epoch_batches, ordered_records, tuning

IDS = {"id": Feature(type="int")}
IMAGES = {
    "image": Feature(type="string", shape=(40, 48, 3), extra={"sizes": "fixed"}),
    "id": Feature(type="int"),
}
MIXED = {**IMAGES, "image": Feature(type="string", shape=(40, 48, 3), extra={"sizes": "mixed"})}
DAMAGED = tf.errors.OpError
HEADER_BYTES, FOOTER_BYTES = 12, 4  # of a TFRecord: length and its sum, and the payload's sum


def encode(pixels: np.ndarray, kind: str = "PNG") -> bytes:
    stream = io.BytesIO()
    Image.fromarray(pixels).save(stream, kind)
    return stream.getvalue()


def ids(start: int, stop: int) -> list[dict[str, list[int]]]:
    return [{"id": [number]} for number in range(start, stop)]


def batches(uri: Any, split: str = "train", **options: Any) -> list[list[int]]:
    """The ids of every batch of an epoch."""
    dataset = input_fn(uri, split, features="id", **options)
    return [batch.tolist() for batch in dataset.as_numpy_iterator()]


def flat(groups: Iterable[Iterable[int]]) -> list[int]:
    return list(itertools.chain.from_iterable(groups))


def read_with_datum(uri: str, split: str) -> list[dict[str, np.ndarray]]:
    """Single examples, by Datum's own reader."""
    pytest.importorskip("datum")  # which `make test-trainer` does not install
    from datum.reader import load

    loaded = load(uri)
    loaded.dataset_configs.batch_size_val = 1
    return [
        {name: value[0] for name, value in example.items()}
        for example in loaded.val_fn(split).as_numpy_iterator()
    ]


def comparable(examples: Iterable[dict[str, Any]]) -> collections.Counter:
    """Counts examples by names, dtypes, shapes and bytes, whatever their order."""

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
def uneven(tmp_path_factory, write_dataset) -> str:
    """23 examples to train, in shards of 4, 0, 12, 1 and 6, and 9 to evaluate."""
    bounds = [0, 4, 4, 16, 17, 23]
    train = [ids(start, stop) for start, stop in itertools.pairwise(bounds)]
    splits = {"train": train, "eval": [ids(100, 104), ids(104, 109)]}
    return write_dataset(tmp_path_factory.mktemp("uneven"), splits, IDS)


@pytest.fixture(scope="module")
def wide(tmp_path_factory, write_dataset) -> str:
    """300 examples in three shards of 100."""
    shards = [ids(start, start + 100) for start in (0, 100, 200)]
    return write_dataset(tmp_path_factory.mktemp("wide"), {"train": shards}, IDS)


@pytest.fixture(scope="module")
def datum_boxes(photos, export_with_datum) -> str:
    """Photos with 1 to 3 boxes of 4 floats, and tags of different number, as Datum writes them."""
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


# --- The same as Datum's reader, and as others' ---


@pytest.mark.parametrize(("split", "records"), [("train", 23), ("val", 7)])
def test_photos_and_labels_are_those_that_datum_reads(datum_photos, split, records):
    theirs = read_with_datum(datum_photos, split)
    ours = input_fn(datum_photos, split, batch_size=None).as_numpy_iterator()
    assert len(theirs) == records
    assert comparable(ours) == comparable(theirs)


def test_sparse_features_of_any_rank_are_those_that_datum_reads(datum_boxes):
    ours = input_fn(datum_boxes, batch_size=None).as_numpy_iterator()
    assert comparable(ours) == comparable(read_with_datum(datum_boxes, "train"))


def test_a_sparse_features_shape_need_not_be_asked_for(datum_boxes):
    theirs = read_with_datum(datum_boxes, "train")
    ours = input_fn(datum_boxes, batch_size=None, features=["id", "boxes"]).as_numpy_iterator()
    wanted = [{name: example[name] for name in ("id", "boxes")} for example in theirs]
    assert {example["boxes"].shape for example in theirs} == {(1, 4), (2, 4), (3, 4)}
    assert comparable(ours) == comparable(wanted)


@pytest.mark.parametrize("extension", [".png", ".jpg"])
def test_grey_photos_are_those_that_datum_reads(photos, export_with_datum, extension):
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
        "train",
        "eval",
        "train[:80%]+eval",
        "train[30%:70%]",
        "train[50%:]+train[:50%]",
        "train[5:-3]",
        "train[-1:]",
        "train[16:17]",
        "eval[:2]+train[3:5]+eval[-2:]",
        "train[:1]+train[:1]",
    ],
)
@pytest.mark.parametrize("shuffle", [False, True])
def test_slices_of_shards_hold_the_records_that_datum_takes(uneven, split, shuffle):
    theirs = [int(example["id"]) for example in read_with_datum(uneven, split)]
    ours = flat(batches(uneven, split, batch_size=4, shuffle=shuffle))
    assert sorted(ours) == sorted(theirs)


def test_without_shuffle_records_stay_in_the_order_of_the_files(uneven):
    files = sorted(str(path) for path in Path(uneven, "Split-train").iterdir())
    theirs = [
        tf.train.Example.FromString(record).features.feature["id"].int64_list.value[0]
        for record in tf.data.TFRecordDataset(files).as_numpy_iterator()
    ]
    assert theirs == list(range(23))
    assert flat(batches(uneven, batch_size=5, shuffle=False)) == theirs
    # Slices follow one another as they are written.
    assert flat(batches(uneven, "eval[7:]+train[:2]", shuffle=False)) == [107, 108, 0, 1]


@pytest.mark.parametrize(
    ("kind", "mode", "rank"),
    [
        ("PNG", "RGB", 3),
        ("PNG", "L", 2),
        ("PNG", "L", 3),  # grey, where colour is asked for: three equal channels
        ("PNG", "P", 3),
        ("JPEG", "RGB", 3),
        ("JPEG", "L", 2),
        ("JPEG", "L", 3),
    ],
)
def test_pixels_are_those_that_pil_decodes(tmp_path, photos, write_dataset, kind, mode, rank):
    stream = io.BytesIO()
    Image.fromarray(photos[0]).convert(mode).save(stream, kind)
    shape = (40, 48, 3)[:rank]
    uri = write_dataset(
        tmp_path,
        {"train": [[{"image": [stream.getvalue()]}]]},
        {"image": Feature(type="string", shape=shape)},
    )
    expected = np.asarray(Image.open(stream).convert("RGB" if rank == 3 else "L"))
    (image,) = input_fn(uri, batch_size=None, features="image").as_numpy_iterator()
    assert image.dtype == np.uint8
    np.testing.assert_array_equal(image, expected.reshape(40, 48, -1))


# --- What is asked for ---


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, {"image", "id", "label", "weight"}),
        ({"features": ["weight", "id"]}, {"weight", "id"}),
        ({"features": ["weight"]}, {"weight"}),
        ({"features": ("id", "label"), "label": "label"}, ({"id", "label"}, "label")),
        ({"label": "label"}, ({"image", "id", "weight"}, "label")),
        ({"features": "id"}, "id"),
        ({"features": "id", "label": "label"}, ("id", "label")),
        ({"features": ["id"], "label": "label"}, ({"id"}, "label")),
        ({"features": "label", "label": "label"}, ("label", "label")),
        ({"features": [], "label": "label"}, (set(), "label")),
    ],
)
@pytest.mark.parametrize("batch_size", [None, 23])
def test_features_and_label_arrange_what_is_yielded(datum_photos, options, expected, batch_size):
    read: dict[str, Any] = {"batch_size": batch_size, "shuffle": False}
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

    check(next(input_fn(datum_photos, **read, **options).as_numpy_iterator()), expected)


def test_features_that_are_not_asked_for_are_not_decoded(tmp_path, write_dataset):
    shard = [{"id": [7], "image": [b"no image"]}]
    uri = write_dataset(tmp_path, {"train": [shard]}, IMAGES)
    assert batches(uri) == [[7]]
    with pytest.raises(tf.errors.InvalidArgumentError):
        list(input_fn(uri, features="image"))


def test_an_example_without_a_dense_feature_is_an_error_and_no_zero(tmp_path, write_dataset):
    uri = write_dataset(tmp_path, {"train": [[{"id": [1]}, {"other": [2]}]]}, IDS)
    with pytest.raises(tf.errors.InvalidArgumentError, match="id"):
        batches(uri)


@pytest.mark.parametrize(
    ("feature", "value", "spec"),
    [
        (Feature(type="int"), [1], ((None,), tf.int64)),
        (Feature(type="float"), [0.5], ((None,), tf.float32)),
        (Feature(type="string"), [b"a"], ((None,), tf.string)),
        (Feature(type="float", shape=(3,)), [0.5, 1.0, 1.5], ((None, 3), tf.float32)),
        (Feature(type="int", shape=(2, 3)), [1, 2, 3, 4, 5, 6], ((None, 2, 3), tf.int64)),
        (Feature(type="string", shape=(2,)), [b"a", b"b"], ((None, 2), tf.string)),
        (Feature(type="int", shape=(2,), dense=False), [1, 2], ((None, None), tf.int64)),
    ],
)
def test_batches_have_the_features_shape_and_dtype(tmp_path, write_dataset, feature, value, spec):
    uri = write_dataset(tmp_path, {"train": [[{"x": value}] * 3]}, {"x": feature})
    dataset = input_fn(uri, batch_size=2, features="x")
    assert dataset.element_spec == tf.TensorSpec(*spec)
    expected = np.reshape(np.array(value), feature.shape).tolist()
    assert [batch.tolist() for batch in dataset.as_numpy_iterator()] == [
        [expected, expected],
        [expected],
    ]


@pytest.mark.parametrize(
    ("feature", "shape"),
    [
        (IMAGES["image"], (None, 40, 48, 3)),
        (Feature(type="string", shape=(40, 48), extra={"sizes": "fixed"}), (None, 40, 48, 1)),
        (Feature(type="string", shape=(40, 48, 3)), (None, None, None, 3)),
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


def test_an_image_that_belies_its_size_is_an_error(tmp_path, photos, write_dataset):
    shard = [{"id": [0], "image": [encode(photos[0][:20])]}]
    uri = write_dataset(tmp_path, {"train": [shard]}, IMAGES)
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"20,48,3\]"):
        list(input_fn(uri))


@pytest.mark.parametrize("size", [(20, 24), (64, 50), [40, 48]])
def test_images_are_resized_as_tensorflow_resizes_them(tmp_path, photos, write_dataset, size):
    cut = [photos[0], photos[1][:30], photos[2][:, :31]]
    shard = [{"id": [n], "image": [encode(pixels)]} for n, pixels in enumerate(cut)]
    uri = write_dataset(tmp_path, {"train": [shard]}, MIXED)
    dataset = input_fn(uri, features="image", image_size=size, shuffle=False)
    (batch,) = dataset.as_numpy_iterator()
    expected = [np.rint(tf.image.resize(pixels, size).numpy()).astype(np.uint8) for pixels in cut]
    assert dataset.element_spec == tf.TensorSpec((None, *size, 3), tf.uint8)
    np.testing.assert_array_equal(batch, np.stack(expected))


# --- Examples that differ in shape ---


@pytest.mark.parametrize(
    ("kind", "values", "padded"),
    [
        ("int", [[1], [2, 3, 4], []], [[1, 0, 0], [2, 3, 4], [0, 0, 0]]),
        ("float", [[0.5], [1.5, 2.5]], [[0.5, 0.0], [1.5, 2.5]]),
        ("string", [[b"a", b"b"], [b"c"]], [[b"a", b"b"], [b"c", b""]]),
    ],
)
@pytest.mark.parametrize("with_image", [False, True], ids=["alone", "with an image"])
def test_variable_lengths_are_padded_to_the_longest_of_the_batch(
    tmp_path, photos, write_dataset, kind, values, padded, with_image
):
    """Whole batches are parsed at once, or one by one beside an image: the same comes out."""
    features = {"x": Feature(type=kind, shape=(3,), dense=False)}
    examples: list[dict] = [{"x": value} for value in values]
    if with_image:
        features["image"] = IMAGES["image"]
        examples = [{**example, "image": [encode(photos[0])]} for example in examples]
    uri = write_dataset(tmp_path, {"train": [examples]}, features)
    (batch,) = input_fn(uri, shuffle=False).as_numpy_iterator()
    assert batch["x"].tolist() == padded
    one_by_one = input_fn(uri, batch_size=None, shuffle=False).as_numpy_iterator()
    assert [example["x"].tolist() for example in one_by_one] == values


@pytest.mark.parametrize("with_image", [False, True], ids=["alone", "with an image"])
def test_variable_lengths_may_be_ragged(tmp_path, photos, write_dataset, with_image):
    features = {"x": Feature(type="int", shape=(3,), dense=False), "id": Feature(type="int")}
    values = [[1], [2, 3, 4], [], [5, 6]]
    examples: list[dict] = [{"x": value, "id": [n]} for n, value in enumerate(values)]
    if with_image:
        features["image"] = IMAGES["image"]
        examples = [{**example, "image": [encode(photos[0])]} for example in examples]
    uri = write_dataset(tmp_path, {"train": [examples]}, features)
    (batch,) = input_fn(uri, shuffle=False, ragged=True)
    assert isinstance(batch["x"], tf.RaggedTensor)
    assert batch["x"].to_list() == values
    assert batch["id"].numpy().tolist() == [0, 1, 2, 3]
    if with_image:
        assert batch["image"].shape == (4, 40, 48, 3)


def test_sparse_matrices_are_padded_in_each_dimension(datum_boxes):
    theirs = {int(e["id"]): e["boxes"] for e in read_with_datum(datum_boxes, "train")}
    (batch,) = input_fn(datum_boxes, features=["id", "boxes"]).as_numpy_iterator()
    assert batch["boxes"].shape == (7, 3, 4)
    assert sorted(batch["id"]) == sorted(theirs)
    for number, boxes in zip(batch["id"], batch["boxes"], strict=True):
        size = len(theirs[number])
        np.testing.assert_array_equal(boxes[:size], theirs[number])
        assert not boxes[size:].any()


@pytest.fixture
def two_sizes(tmp_path, photos, write_dataset) -> str:
    shard = [
        {"id": [number], "image": [encode(pixels)]}
        for number, pixels in enumerate([photos[0], photos[1][:20]])
    ]
    return write_dataset(tmp_path / "two sizes", {"train": [shard]}, MIXED)


def test_images_of_mixed_sizes_are_not_batched_without_a_size(two_sizes):
    with pytest.raises(ConfigError, match=r"image_size: .*'image' differ.* got None"):
        input_fn(two_sizes, batch_size=2)
    assert batches(two_sizes, batch_size=2, shuffle=False) == [[0, 1]]


@pytest.mark.parametrize("batch_size", [None, 1])
def test_images_of_mixed_sizes_are_read_one_by_one(two_sizes, batch_size):
    images = input_fn(two_sizes, features="image", batch_size=batch_size, shuffle=False)
    assert [image.shape[-3:] for image in images] == [(40, 48, 3), (20, 48, 3)]


@pytest.mark.parametrize("sparse_features", [[], ["tags"]], ids=["dense", "beside sparse"])
def test_images_of_sizes_that_nothing_says_are_never_padded(
    photos, export_with_datum, sparse_features
):
    """Datum does not say that sizes are mixed. Black borders must not make them alike."""
    rows = [
        {"image": photos[0], "tags": [1] if sparse_features else 1},
        {"image": photos[1][:20], "tags": [1, 2] if sparse_features else 2},
    ]
    uri = export_with_datum({"train": rows}, sparse_features=sparse_features)
    with pytest.raises((ConfigError, tf.errors.InvalidArgumentError)):
        list(input_fn(uri, batch_size=2))
    (batch,) = input_fn(uri, batch_size=2, image_size=(8, 8)).as_numpy_iterator()
    assert batch["image"].shape == (2, 8, 8, 3)


# --- Several datasets ---


@pytest.mark.parametrize("shuffle", [False, True])
def test_datasets_of_a_list_are_read_one_after_the_other_or_mixed(uneven, wide, shuffle):
    read = flat(batches([wide, uneven], "train[:10]", shuffle=shuffle))
    in_turn = [*range(10), *range(10)]
    assert (read == in_turn) is not shuffle
    assert sorted(read) == sorted(in_turn)


def test_a_dataset_of_ours_and_one_of_datums_are_read_together(uneven, datum_photos):
    assert sorted(flat(batches([uneven, datum_photos]))) == sorted([*range(23), *range(23)])


def test_an_artifact_and_the_patterns_of_a_trainer_are_read_as_the_uri(uneven):
    artifact = pytest.importorskip("tfx.types.standard_artifacts").Examples()
    artifact.uri = uneven
    expected = batches(uneven)
    assert batches(artifact) == expected
    assert batches([artifact]) == expected
    assert batches([f"{uneven}/Split-train/*"]) == expected  # as in fn_args.train_files


@pytest.mark.parametrize(
    ("other", "value"),
    [
        (Feature(type="string"), [b"a"]),
        (Feature(type="float"), [0.5]),
        (Feature(type="int", shape=(6,)), [1, 2, 3, 4, 5, 6]),
        (Feature(type="int", shape=(2, 3), dense=False), [1, 2, 3, 4, 5, 6]),
        (Feature(type="int", shape=(3, 2)), [1, 2, 3, 4, 5, 6]),  # would be read as (2, 3)
    ],
)
def test_datasets_that_disagree_on_a_feature_are_refused(tmp_path, write_dataset, other, value):
    first = Feature(type="int", shape=(2, 3))
    one = [{"x": [1, 2, 3, 4, 5, 6], "id": [1]}]
    uris = [
        write_dataset(tmp_path / "a", {"train": [one]}, {**IDS, "x": first}),
        write_dataset(tmp_path / "b", {"train": [[{"x": value, "id": [2]}]]}, {**IDS, "x": other}),
    ]
    with pytest.raises(DatasetError, match="feature 'x': expected the same in all") as caught:
        input_fn(uris)
    assert all(uri in str(caught.value) for uri in uris)
    assert sorted(flat(batches(uris))) == [1, 2]


def test_a_feature_that_one_of_the_datasets_lacks_is_refused(tmp_path, write_dataset, uneven):
    other = write_dataset(
        tmp_path, {"train": [[{"x": [1], "id": [1]}]]}, {**IDS, "x": Feature(type="int")}
    )
    for uris in ([uneven, other], [other, uneven]):
        with pytest.raises(DatasetError, match=rf"feature 'x': .*\({uneven}\)"):
            input_fn(uris, features="x")


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ((40, "fixed"), (20, "fixed")),
        ((40, None), (20, None)),
        ((40, "fixed"), (40, "mixed")),
        ((40, "mixed"), (40, "fixed")),
        ((40, None), (40, "mixed")),
    ],
)
def test_datasets_whose_images_differ_in_size_need_a_size(
    tmp_path, photos, write_dataset, first, second
):
    uris = []
    for number, (height, sizes) in enumerate([first, second]):
        extra = {} if sizes is None else {"sizes": sizes}
        image = Feature(type="string", shape=(height, 48, 3), extra=extra)
        heights = [height, 30] if sizes == "mixed" else [height, height]
        shard = [{"image": [encode(photos[0][:rows])]} for rows in heights]
        uris.append(write_dataset(tmp_path / str(number), {"train": [shard]}, {"image": image}))
    with pytest.raises(ConfigError, match=r"image_size: .*'image' differ"):
        input_fn(uris, batch_size=4)
    (batch,) = input_fn(uris, features="image", image_size=(8, 8)).as_numpy_iterator()
    assert batch.shape == (4, 8, 8, 3)
    assert len(list(input_fn(uris, batch_size=None))) == 4


# --- Order ---


def test_each_epoch_holds_every_record_once_in_another_order(wide):
    dataset = input_fn(wide, features="id", batch_size=32)
    epochs = [tuple(flat(dataset.as_numpy_iterator())) for _ in range(3)]
    assert all(sorted(epoch) == list(range(300)) for epoch in epochs)
    assert len({*epochs, tuple(range(300))}) == 4


def test_the_order_is_the_seeds_own(wide, monkeypatch):
    order = batches(wide, seed=3)
    assert batches(wide, seed=3) == order
    assert batches(wide, seed=4) != order
    for cores in (1, 5):
        for module in (batching, epoch_batches, ordered_records, tuning):
            monkeypatch.setattr(module, "usable_cores", lambda cores=cores: cores)
        assert batches(wide, seed=3) == order


def test_shuffling_mixes_the_shards(wide):
    first_half = flat(batches(wide, batch_size=50))[:150]
    from_shard = collections.Counter(number // 100 for number in first_half)
    # Hypergeometric: 50 of each expected, standard deviation 4.1; five of these either side.
    assert all(29 < from_shard[shard] < 71 for shard in range(3))


@pytest.mark.parametrize("by", ["records", "bytes"])
def test_shuffling_holds_no_more_than_its_share_of_memory(wide, by):
    """A batch of one is of one lane. Three windows are there at a time, of 10 records each.

    The records of each window are neighbours in the file, round its end.
    """
    sizes = [path.stat().st_size for path in Path(wide, "Split-train").iterdir()]
    held = 30 * (sum(sizes) / 300 + 40)  # 40 bytes for each string of TensorFlow's
    limit = {"shuffle": 30} if by == "records" else {"shuffle_bytes": math.ceil(held)}
    order = flat(batches(wide, "train[:100]", batch_size=1, **limit))  # of one shard
    assert sorted(order) == list(range(100))
    windows = [order[start : start + 10] for start in range(0, 100, 10)]
    assert any(window != sorted(window) for window in windows)
    first = next(n for n in windows[0] if (n - 1) % 100 not in windows[0])
    for number, window in enumerate(windows):
        places = {(first + 10 * number + place) % 100 for place in range(len(window))}
        assert set(window) == places


def test_without_shuffle_each_epoch_has_the_same_order(wide):
    dataset = input_fn(wide, features="id", batch_size=32, shuffle=False)
    assert [flat(dataset.as_numpy_iterator()) for _ in range(2)] == [list(range(300))] * 2


# --- Length ---


@pytest.mark.parametrize("batch_size", [1, 4, 23, 24])
@pytest.mark.parametrize("drop_remainder", [False, True])
@pytest.mark.parametrize("split", ["train", "train[:12]", "train[:0]"])
def test_the_number_of_batches_is_known_and_true(uneven, split, batch_size, drop_remainder):
    dataset = input_fn(
        uneven, split, features="id", batch_size=batch_size, drop_remainder=drop_remainder
    )
    records = {"train": 23, "train[:12]": 12, "train[:0]": 0}[split]
    sizes = [len(batch) for batch in dataset.as_numpy_iterator()]
    full, rest = divmod(records, batch_size)
    assert sizes == [batch_size] * full + ([rest] if rest and not drop_remainder else [])
    assert int(dataset.cardinality()) == len(sizes)
    static = batch_size if drop_remainder else None
    assert dataset.element_spec == tf.TensorSpec((static,), tf.int64)


def test_single_examples_are_counted_too(uneven):
    dataset = input_fn(uneven, batch_size=None)
    assert int(dataset.cardinality()) == len(list(dataset)) == 23
    assert dataset.element_spec == {"id": tf.TensorSpec((), tf.int64)}


def test_images_dropped_at_the_end_leave_static_shapes(datum_photos):
    dataset = input_fn(
        datum_photos, features="image", batch_size=8, drop_remainder=True, image_size=(16, 20)
    )
    assert dataset.element_spec == tf.TensorSpec((8, 16, 20, 3), tf.uint8)
    assert len(list(dataset)) == int(dataset.cardinality()) == 2


def test_a_repeated_dataset_goes_through_every_epoch_to_its_end(uneven):
    dataset = input_fn(uneven, features="id", batch_size=4, repeat=3)
    read = [batch.tolist() for batch in dataset.as_numpy_iterator()]
    assert int(dataset.cardinality()) == len(read) == 18
    epochs = [flat(read[start : start + 6]) for start in (0, 6, 12)]
    assert all(sorted(epoch) == list(range(23)) for epoch in epochs)
    assert epochs[0] != epochs[1] != epochs[2]


def test_a_dataset_repeats_without_end(uneven):
    dataset = input_fn(uneven, features="id", batch_size=4, repeat=True)
    assert int(dataset.cardinality()) == tf.data.INFINITE_CARDINALITY
    counts = collections.Counter(flat(dataset.take(6 * 20).as_numpy_iterator()))
    assert counts == dict.fromkeys(range(23), 20)


# --- Damage ---


@pytest.fixture
def fragile(tmp_path, write_dataset) -> Callable[..., Path]:
    """A fresh dataset of three shards of 10 records."""

    def write(*, gzip: bool = False) -> Path:
        shards = [ids(start, start + 10) for start in (0, 10, 20)]
        write_dataset(tmp_path / "fragile", {"train": shards}, IDS, gzip=gzip)
        return tmp_path / "fragile"

    return write


READS = pytest.mark.parametrize(
    "options",
    [
        {"shuffle": False},
        {"shuffle": True},
        {"shuffle": True, "repeat": True},
        {"shuffle": False, "drop_remainder": True, "batch_size": 7},
        {"shuffle": False, "batch_size": None},
    ],
    ids=["in order", "shuffled", "without end", "full batches", "single"],
)


def drain(uri: Path, **options: Any) -> None:
    """Reads an epoch, or of an endless dataset the records of ten."""
    dataset = input_fn(str(uri), **options).take(300)
    collections.deque(dataset.as_numpy_iterator(), maxlen=0)


def middle_shard(uri: Path) -> Path:
    return sorted((uri / "Split-train").iterdir())[1]


def frame_starts(data: bytes | bytearray) -> list[int]:
    starts, position = [], 0
    while position < len(data):
        starts.append(position)
        length = int.from_bytes(data[position : position + 8], "little")
        position += HEADER_BYTES + length + FOOTER_BYTES
    return starts


@pytest.mark.parametrize("place", [0, 7, 8, HEADER_BYTES, HEADER_BYTES + 9, -FOOTER_BYTES, -1])
@pytest.mark.parametrize("record", [0, 4, 9])
def test_a_flipped_bit_anywhere_ends_the_epoch_at_its_record(fragile, record, place):
    uri = fragile()
    data = bytearray(middle_shard(uri).read_bytes())
    starts = [*frame_starts(data), len(data)]
    data[starts[record] + place if place >= 0 else starts[record + 1] + place] ^= 16
    middle_shard(uri).write_bytes(data)
    where = rf"00001-of-00003': expected .*\(record {record}, byte {starts[record]}\)"
    with pytest.raises(tf.errors.OpError, match=where):
        drain(uri, shuffle=False)


@READS
def test_a_flipped_bit_is_an_error_however_records_are_read(fragile, options):
    uri = fragile()
    data = bytearray(middle_shard(uri).read_bytes())
    data[frame_starts(data)[4] + HEADER_BYTES + 3] ^= 1
    middle_shard(uri).write_bytes(data)
    with pytest.raises(tf.errors.OpError, match=r"00001-of-00003': .*record 4, byte"):
        drain(uri, **options)


def test_no_flipped_byte_of_a_gzip_shard_changes_what_is_read(fragile):
    """Either an error comes, or all records do: bytes of the gzip header carry no data."""
    uri = fragile(gzip=True)
    path = middle_shard(uri)
    data = path.read_bytes()
    outcomes: list[bool | None] = []
    for place in random.Random(0).sample(range(len(data)), 25):
        path.write_bytes(data[:place] + bytes([data[place] ^ 16]) + data[place + 1 :])
        try:
            outcomes.append(flat(batches(str(uri), shuffle=False)) == list(range(30)))
        except tf.errors.OpError:
            outcomes.append(None)
    assert False not in outcomes
    assert None in outcomes


@READS
@pytest.mark.parametrize("gzip", [False, True])
@pytest.mark.parametrize("keep", [0.5, 0.96, 1.0], ids=["half", "most", "but one record"])
def test_a_shard_cut_short_and_filled_up_is_an_error(fragile, options, gzip, keep):
    """Its size is that of the manifest, so that opening the dataset cannot tell."""
    uri = fragile(gzip=gzip)
    path = middle_shard(uri)
    data = path.read_bytes()
    whole = frame_starts(data)[-1] if keep == 1 and not gzip else int(len(data) * min(keep, 0.98))
    path.write_bytes(data[:whole].ljust(len(data), b"\0"))
    with pytest.raises(tf.errors.OpError):
        drain(uri, **options)


@READS
@pytest.mark.parametrize(
    "records",
    [[10, 11, 10], [10, 9, 10], [11, 9, 10], [9, 11, 10]],
    ids=["one less", "one more", "one less, one more", "one more, one less"],
)
def test_a_shard_of_other_records_than_the_manifest_says_is_an_error(fragile, options, records):
    uri = fragile()
    manifest = json.loads((uri / "manifest.json").read_text())
    for shard, said in zip(manifest["shards"], records, strict=True):
        shard["records"] = said
    (uri / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(DAMAGED):
        drain(uri, **options)


def test_datums_shards_with_fewer_records_than_datum_says_are_an_error(photos, export_with_datum):
    rows = [{"image": photo, "id": number} for number, photo in enumerate(photos[:5])]
    uri = export_with_datum({"train": rows})
    (path,) = Path(uri).glob("*.tfrecord")
    data = path.read_bytes()
    path.write_bytes(data[: frame_starts(data)[-1]])
    for batch_size in (2, None):
        with pytest.raises(DAMAGED):
            drain(Path(uri), batch_size=batch_size)


def test_each_pipeline_finds_the_damage_in_its_share(fragile):
    uri = fragile()
    manifest = json.loads((uri / "manifest.json").read_text())
    manifest["shards"][2]["records"] = 12
    (uri / "manifest.json").write_text(json.dumps(manifest))
    contexts = [tf.distribute.InputContext(2, index, 2) for index in range(2)]
    assert len(flat(batches(str(uri), batch_size=2, input_context=contexts[0]))) == 16
    with pytest.raises(DAMAGED):
        batches(str(uri), batch_size=2, input_context=contexts[1])


# --- Several input pipelines ---


@pytest.mark.parametrize("num_pipelines", [1, 2, 3, 4, 5])
@pytest.mark.parametrize(
    ("split", "shuffle"), [("train", True), ("train", False), ("train[3:-1]+eval", True)]
)
def test_pipelines_get_equal_shares_that_do_not_overlap(uneven, num_pipelines, split, shuffle):
    expected = flat(batches(uneven, split, shuffle=False))
    datasets = [
        input_fn(
            uneven,
            split,
            features="id",
            batch_size=2 * num_pipelines,
            shuffle=shuffle,
            input_context=tf.distribute.InputContext(num_pipelines, index, num_pipelines),
        )
        for index in range(num_pipelines)
    ]
    parts = [[batch.tolist() for batch in dataset.as_numpy_iterator()] for dataset in datasets]
    read = [number for part in parts for number in flat(part)]
    # All take as many steps as they say, of as many records as the others' or one more or less.
    assert {int(dataset.cardinality()) for dataset in datasets} == {*map(len, parts)}
    for step in zip(*parts, strict=True):
        assert max(map(len, step)) - min(map(len, step)) <= 1
    assert sorted(read) == sorted(expected)


@pytest.mark.parametrize("num_pipelines", [2, 3])
def test_pipelines_share_several_datasets(uneven, datum_photos, num_pipelines):
    uris = [uneven, datum_photos]
    shares = [
        flat(
            batches(
                uris,
                batch_size=num_pipelines,
                input_context=tf.distribute.InputContext(num_pipelines, index, num_pipelines),
            )
        )
        for index in range(num_pipelines)
    ]
    assert {len(share) for share in shares} <= {46 // num_pipelines, -(-46 // num_pipelines)}
    assert sorted(flat(shares)) == sorted([*range(23), *range(23)])


def test_one_of_more_pipelines_than_records_gets_an_empty_batch(uneven):
    sizes = []
    for index in range(5):
        context = tf.distribute.InputContext(5, index, 5)
        (batch,) = batches(uneven, "train[:4]", batch_size=5, input_context=context)
        sizes.append(len(batch))
    assert sorted(sizes) == [0, 1, 1, 1, 1]


@pytest.mark.parametrize(
    ("num_pipelines", "num_replicas", "global_batch", "local"),
    [(1, 1, 6, 6), (1, 2, 6, 3), (2, 2, 6, 3), (2, 4, 8, 2), (3, 3, 3, 1)],
)
def test_a_replica_gets_its_share_of_the_batch(
    uneven, num_pipelines, num_replicas, global_batch, local
):
    context = tf.distribute.InputContext(num_pipelines, 0, num_replicas)
    first, *_ = batches(uneven, batch_size=global_batch, input_context=context)
    assert len(first) == local


def test_single_examples_are_shared_too(uneven):
    parts = [
        list(
            input_fn(
                uneven,
                features="id",
                batch_size=None,
                shuffle=False,
                input_context=tf.distribute.InputContext(2, index, 2),
            ).as_numpy_iterator()
        )
        for index in range(2)
    ]
    assert parts == [list(range(11)), list(range(11, 22))]


# --- Settings ---


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("batch_size", 0),
        ("batch_size", -1),
        ("batch_size", True),
        ("batch_size", 1.5),
        ("batch_size", "64"),
        ("image_size", (0, 8)),
        ("image_size", (8, -8)),
        ("image_size", (8, 8.0)),
        ("image_size", (8, 8, 3)),
        ("image_size", 224),
        ("repeat", 0),
        ("repeat", -1),
        ("repeat", 1.5),
        ("seed", 1.5),
        ("prefetch", -3),
        ("features", []),
    ],
)
def test_a_setting_that_is_not_allowed_is_named_with_its_value(uneven, setting, value):
    with pytest.raises(ConfigError) as caught:
        input_fn(uneven, **{setting: value})
    message = str(caught.value)
    assert message.startswith(f"{setting}: expected ")
    assert repr(value) in message
    assert "\n" not in message


@pytest.mark.parametrize(("batch_size", "replicas"), [(7, 2), (1, 4), (9, 6)])
def test_a_batch_that_the_replicas_cannot_share_is_refused(uneven, batch_size, replicas):
    context = tf.distribute.InputContext(2, 0, replicas)
    with pytest.raises(ConfigError, match=rf"the {replicas} replicas, got {batch_size}$"):
        input_fn(uneven, batch_size=batch_size, input_context=context)


def test_an_empty_list_of_datasets_is_refused():
    with pytest.raises(ConfigError, match=r"artifact_uri: expected .* got an empty list"):
        input_fn([])
