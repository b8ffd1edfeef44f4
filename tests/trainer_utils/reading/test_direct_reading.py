"""Records read as they are decoded: batch for batch what TensorFlow's reader and parser make."""

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from tests.trainer_utils.reading.jpegs import LARGE, ODD
from trainer_utils import DatasetWriter, InputOptions, input_fn
from trainer_utils.dataset.selection import open_sources
from trainer_utils.format import Feature
from trainer_utils.format.framing import frame_records, unframe
from trainer_utils.input_pipeline import InputPipeline
from trainer_utils.reading import direct_reading, readers

pytest.importorskip("cv2")

IMAGES = [*LARGE, *(ODD[kind] for kind in ("PNG", "CMYK", "JPEG", "grey PNG"))]
SIZE = {"image_size": (64, 48)}


@pytest.fixture(scope="module")
def photos(tmp_path_factory) -> str:
    """Photos of many kinds and sizes in three shards."""
    uri = str(tmp_path_factory.mktemp("photos") / "dataset")
    with DatasetWriter(uri, num_shards={"train": 3}) as writer:
        for number, image in enumerate(IMAGES):
            box = np.array([number, 2.5], np.float32)
            text = f"photo {number}"
            writer.write("train", {"image": image, "label": number, "at": box, "text": text})
    return uri


@pytest.fixture
def raw(tmp_path, monkeypatch, write_dataset) -> str:
    """Pixels as they are, all of one size; without an index, which is made by walking the shard."""
    rng = np.random.default_rng(1)
    features = {
        "image": Feature(type="string", extra={"encoding": "raw", "image_shape": [96, 80, 3]}),
        "label": Feature(type="int"),
    }
    examples = [
        {"image": [rng.integers(0, 256, 96 * 80 * 3, np.uint8).tobytes()], "label": [number]}
        for number in range(11)
    ]
    monkeypatch.setattr(readers, "_are_indexed", lambda files: True)
    return write_dataset(tmp_path, {"train": [examples[:5], examples[5:]]}, features)


@pytest.fixture
def by_strings(monkeypatch) -> Callable[..., list[Any]]:
    """Batches where records go through TensorFlow as strings."""

    def read(*arguments: Any, **options: Any) -> list[Any]:
        with monkeypatch.context() as context:
            context.setattr(direct_reading, "LEAST_BYTES", float("inf"))
            return batches(*arguments, **options)

    return read


@pytest.fixture
def made(monkeypatch) -> Iterator[list[int]]:
    """The rows of each batch that was read directly."""
    rows: list[int] = []
    make = direct_reading.DirectReading._made

    def count(self: Any, positions: Any, *seed: Any) -> Any:
        rows.append(len(positions))
        return make(self, positions, *seed)

    monkeypatch.setattr(direct_reading.DirectReading, "_made", count)
    monkeypatch.setattr(direct_reading, "LEAST_BYTES", 0)
    return rows


def batches(uri: str, *, worker: tuple[int, int, int] | None = None, **options: Any) -> list[Any]:
    """All batches as arrays; `worker`: its number, how many there are, and replicas in all."""
    options = {"batch_size": 4, "features": ["image"], "label": "label", **options}
    context = None
    if worker is not None:
        number, workers, replicas = worker
        context = tf.distribute.InputContext(workers, number, replicas)
    pipeline = InputPipeline(open_sources(uri, "train"), InputOptions(**options), context)
    return list(pipeline.dataset.as_numpy_iterator())


def assert_equal(found: list[Any], expected: list[Any]) -> None:
    assert len(found) == len(expected) > 0
    for one, other in zip(found, expected, strict=True):
        tf.nest.map_structure(np.testing.assert_array_equal, one, other)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"features": None},
        {"features": ["image", "at", "text"]},
        {"shuffle": False, "repeat": 2},
        {"shuffle": "global", "repeat": 2},
        {"shuffle": 7, "repeat": 3},
        {"remainder": "pad"},
        {"remainder": "drop"},
        {"remainder": "balance"},
        {"remainder": "balance", "batch_size": 6},
        {"drop_remainder": True, "shuffle": False},
        {"resize": "crop", "normalize": "imagenet"},
        {"augment": "random_resized_crop", "repeat": 2},
        {"augment": ["random_resized_crop", ("colour", 0.4), "blur"]},
        {"flip": True, "normalize": "unit"},
        {"batch_size": 100},
    ],
)
def test_batches_are_those_of_tensorflows_reader(photos, made, by_strings, options):
    found = batches(photos, **SIZE, **options)
    assert made
    assert_equal(found, by_strings(photos, **SIZE, **options))


@pytest.mark.parametrize("remainder", [None, "pad", "drop", "balance"])
@pytest.mark.parametrize("shuffle", [False, True, "global"])
def test_workers_and_replicas_get_their_rows(photos, made, by_strings, shuffle, remainder):
    for number in range(2):
        options = {"worker": (number, 2, 4), "batch_size": 8, "remainder": remainder}
        options |= {"shuffle": shuffle, **SIZE}
        found = batches(photos, **options)
        assert made
        assert_equal(found, by_strings(photos, **options))


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"normalize": "imagenet", "image_dtype": "bfloat16"},
        {"image_size": (40, 40), "channels": 1},
        {"augment": ["colour"], "repeat": 2},
        {"image_size": (96, 80), "resize": "crop", "remainder": "pad", "batch_size": 5},
    ],
)
def test_raw_pixels_too(raw, made, by_strings, options):
    found = batches(raw, **options)
    assert made
    assert_equal(found, by_strings(raw, **options))


def test_images_of_one_size_keep_it(tmp_path, made, by_strings):
    with DatasetWriter(str(tmp_path / "d")) as writer:
        for number in range(6):
            writer.write("train", {"image": LARGE[0], "label": number})
    found = batches(str(tmp_path / "d"))
    assert sorted(made) == [2, 4]
    assert found[0][0]["image"].shape == (4, 90, 120, 3)
    assert_equal(found, by_strings(str(tmp_path / "d")))


def test_features_of_any_fixed_shape_and_two_images(tmp_path, made, by_strings):
    with DatasetWriter(str(tmp_path / "d")) as writer:
        for number in range(3):
            example = {"image": LARGE[number], "other": LARGE[number + 1], "text": b"\xff\0"}
            for shape in ((1,), (3,)):
                for dtype in (np.int64, np.float32):
                    example[f"{dtype.__name__} {shape}"] = np.full(shape, number - 1.5, dtype)
            writer.write("train", example)
    for wanted in (None, ["image"]):
        for worker in (None, (1, 2, 4)):  # which has no rows of the second batch
            options = {"features": wanted, "label": None, "batch_size": 4, "worker": worker}
            found = batches(str(tmp_path / "d"), **options, **SIZE)
            assert made
            assert_equal(found, by_strings(str(tmp_path / "d"), **options, **SIZE))


def test_a_resumed_epoch_goes_on_where_it_was(photos, made):
    whole = input_fn(photos, batch_size=4, features="image", label="label", **SIZE, repeat=2)
    expected = list(whole.as_numpy_iterator())
    for step in (1, 3, len(expected) - 1):
        rest = input_fn(
            photos,
            batch_size=4,
            features="image",
            label="label",
            **SIZE,
            repeat=2,
            state=whole.state(step),
        )
        assert_equal(list(rest.as_numpy_iterator()), expected[step:])


@pytest.mark.parametrize(
    "options",
    [
        {"batch_size": None},
        {"on_corrupt": "skip"},
        {"augment": ["mixup"], "num_classes": 100},
        {"pre_batching_callback": lambda tensors: tensors},
        {"decoder": "tensorflow"},
    ],
)
def test_what_it_is_not_for_is_read_as_strings(photos, made, options):
    assert batches(photos, **SIZE, **options)
    assert not made


def test_short_records_are_read_as_strings(photos, made, monkeypatch):
    monkeypatch.setattr(direct_reading, "LEAST_BYTES", 1 << 20)
    assert batches(photos, **SIZE)
    assert not made


@pytest.mark.parametrize("shuffle", [False, True, "global"])
def test_a_damaged_record_is_named(tmp_path, photos, made, shuffle):
    uri = tmp_path / "copy"
    shutil.copytree(photos, uri)
    shard = sorted(Path(uri, "Split-train").iterdir())[1]
    data = bytearray(shard.read_bytes())
    data[2000] ^= 1
    shard.write_bytes(data)
    with pytest.raises(tf.errors.OpError, match=rf"{shard.name}.*record 0.*byte 0"):
        batches(str(uri), shuffle=shuffle, **SIZE)


@pytest.mark.parametrize("shuffle", [False, True, "global"])
@pytest.mark.parametrize("image", [b"", b"no image at all"])
def test_what_is_no_image_is_named(tmp_path, made, write_dataset, monkeypatch, image, shuffle):
    features = {"image": Feature(type="string", shape=(90, 120, 3), extra={"encoding": "JPEG"})}
    examples = [{"image": [image if number == 6 else LARGE[0]]} for number in range(9)]
    uri = write_dataset(tmp_path, {"train": [examples]}, features)
    monkeypatch.setattr(readers, "_are_indexed", lambda files: True)
    with pytest.raises(tf.errors.OpError, match=r"-00000-of-00001', record 6: "):
        batches(uri, label=None, shuffle=shuffle, **SIZE)
    assert made


def test_a_shard_cut_short_meanwhile_is_an_error_that_names_the_record(tmp_path, photos, made):
    uri = tmp_path / "copy"
    shutil.copytree(photos, uri)
    dataset = input_fn(str(uri), batch_size=2, features="image", shuffle=False, repeat=9, **SIZE)
    iterator = iter(dataset)
    next(iterator)
    shard = sorted(Path(uri, "Split-train").iterdir())[-1]
    with shard.open("r+b") as file:
        file.truncate(shard.stat().st_size - 7)
    with pytest.raises(tf.errors.OpError, match=rf"{shard.name}.*record \d+, byte \d+"):
        list(iterator)
    assert made


@pytest.mark.parametrize("shuffle", [False, True, "global"])
@pytest.mark.parametrize(
    ("in_place", "least"), [(False, 0), (True, 0), (False, float("inf")), (True, float("inf"))]
)
def test_a_shard_replaced_between_epochs_is_found(
    tmp_path, photos, made, shuffle, in_place, least, monkeypatch
):
    monkeypatch.setattr(direct_reading, "LEAST_BYTES", least)
    uri = tmp_path / "copy"
    shutil.copytree(photos, uri)
    dataset = input_fn(str(uri), batch_size=4, features="image", shuffle=shuffle, **SIZE)
    list(dataset)
    of_another_run(sorted(Path(uri, "Split-train").iterdir())[0], in_place=in_place)
    with pytest.raises(tf.errors.OpError, match="CRC-32C"):
        list(dataset)
    assert bool(made) == (least == 0)


def of_another_run(shard: Path, *, in_place: bool = True) -> None:
    """Makes its first record another, whole and of the same length."""
    data = shard.read_bytes()
    length = int.from_bytes(data[:8], "little") + 16
    record = bytearray(unframe(data[:length], path="", offset=0))
    record[-5] ^= 1
    target = shard if in_place else shard.with_suffix(".other")
    target.write_bytes(frame_records([bytes(record)]) + data[length:])
    target.replace(shard)


def test_a_shard_of_another_run_is_found_before_the_epoch_ends(tmp_path, photos, made):
    """Its records are whole, and their lengths the same: only the file's sum differs."""
    uri = tmp_path / "copy"
    shutil.copytree(photos, uri)
    of_another_run(sorted(Path(uri, "Split-train").iterdir())[0])
    with pytest.raises(tf.errors.OpError, match="CRC-32C"):
        batches(str(uri), **SIZE)


@pytest.mark.parametrize(
    ("of_image", "message"),
    [
        ({"extra": {"encoding": "raw", "image_shape": [9, 9, 3]}}, "243 bytes of pixels"),
        ({"shape": (2,)}, "2 string values"),
        ({"type": "int"}, "1 int value "),
    ],
)
def test_values_unlike_those_the_dataset_says_name_the_record(
    tmp_path, monkeypatch, made, write_dataset, of_image, message
):
    features = {
        "image": Feature(type="string", shape=(90, 120, 3)),
        "other": Feature(**{"type": "string", **of_image}),
    }
    examples = [{"image": [LARGE[0]], "other": [b"another"]}]
    uri = write_dataset(tmp_path, {"train": [examples]}, features)
    monkeypatch.setattr(readers, "_are_indexed", lambda files: True)
    with pytest.raises(tf.errors.OpError, match=rf"other.*{message}.*record 0"):
        batches(uri, features=["image", "other"], label=None, **SIZE)
