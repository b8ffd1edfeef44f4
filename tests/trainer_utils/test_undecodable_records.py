"""Intact records that a decoder rejects: an error with their name, or skipped."""

import itertools
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest
import tensorflow as tf

import trainer_utils
from tests.make import wav
from tests.trainer_utils.reading.jpegs import cuts, encode
from trainer_utils import CorruptShardError, input_fn, iterate
from trainer_utils.format import Feature
from trainer_utils.format.tensors import encode_tensor
from trainer_utils.storage import MachineError

PARTS = cuts([(32, 32)] * 12)
GOOD = [encode(part, subsampling=0) for part in PARTS]


def _441(pixels: np.ndarray) -> bytes:
    """Return a 4:4:1 JPEG, made of a 4:1:1 JPEG of a square image."""
    import simplejpeg

    data = bytearray(simplejpeg.encode_jpeg(pixels, colorsubsampling="411"))
    frame = data.index(b"\xff\xc0")
    assert data[frame + 11] == 0x41
    data[frame + 11] = 0x14
    return bytes(data)


def _of_no_image(data: bytes) -> list[bytes]:
    huge = bytearray(data)
    frame = huge.index(b"\xff\xc0")
    huge[frame + 5 : frame + 9] = b"\xff\xff\xff\xff"
    return [b"", b"no image", data[: len(data) // 2], bytes(huge), b"GIF89a" + bytes(20)]


BAD = _of_no_image(GOOD[0])
IMAGE = {
    "image": Feature(type="string", shape=(32, 32, 3)),
    "id": Feature(type="int"),
}


def _write(write_dataset, folder: Path, images: list[bytes], features=None) -> str:
    rows = [{"image": [image], "id": [number]} for number, image in enumerate(images)]
    return write_dataset(folder, {"train": [rows[:6], rows[6:]]}, features or IMAGE)


def _ids(read: Any, uri: str, **settings: Any) -> list[int]:
    batches = read(uri, "train", batch_size=4, **settings)
    rows = batches.as_numpy_iterator() if isinstance(batches, tf.data.Dataset) else batches
    return [int(number) for batch in rows for number in batch["id"]]


@pytest.mark.parametrize("image_size", [None, (20, 24)])
def test_a_jpeg_of_an_unusual_subsampling_is_read(write_dataset, tmp_path, image_size):
    uri = _write(write_dataset, tmp_path, [_441(part) for part in PARTS])
    assert sorted(_ids(iterate, uri, image_size=image_size)) == list(range(12))


@pytest.mark.parametrize("bad", BAD)
def test_any_error_of_a_decoder_names_the_record(write_dataset, tmp_path, bad, subtests):
    uri = _write(write_dataset, tmp_path, [*GOOD[:8], bad, *GOOD[9:]])
    for shuffle in (True, False):
        with subtests.test(shuffle=shuffle):
            with pytest.raises(CorruptShardError, match="00001-of-00002") as caught:
                _ids(iterate, uri, shuffle=shuffle)
            assert caught.value.record == 2


@pytest.mark.parametrize(
    ("read", "settings"),
    [
        (input_fn, {}),
        (iterate, {"image_size": (16, 16)}),
        (iterate, {"shuffle": "global"}),
        (iterate, {"shuffle": False, "remainder": "pad"}),
        (iterate, {"pre_batching_callback": dict}),
    ],
)
def test_other_records_replace_undecodable_ones(write_dataset, tmp_path, read, settings):
    images = list(GOOD)
    images[1:6] = BAD
    uri = _write(write_dataset, tmp_path, images)
    batches = read(uri, "train", batch_size=4, on_corrupt="skip", **settings)
    for _ in range(2):
        rows = batches.as_numpy_iterator() if read is input_fn else batches
        found = [
            int(number)
            for batch in rows
            for number, weight in zip(
                batch["id"], batch.get("mask", itertools.repeat(1)), strict=False
            )
            if weight
        ]
        assert (len(found), {*found}) == (12, {0, *range(6, 12)})
    assert {number for _, number in batches.unreadable} == {1, 2, 3, 4, 5}


def test_bad_clips_and_values_are_skipped_too(write_dataset, tmp_path, our_messages):
    extra = {"encoding": "wav", "sample_rate": 8000, "channels": 1}
    features = {
        "audio": Feature(type="string", extra=extra),
        "id": Feature(type="int"),
        "pair": Feature(type="float", shape=(2,)),
        "tensor": Feature(type="string", extra={"tensor": {"dtype": "int8", "shape": [2]}}),
    }
    tensors = [encode_tensor(np.ones(size, np.int8)) for size in (2, 3)]
    rows = [
        {"audio": [wav()], "id": [n], "pair": [0.5, 1.5], "tensor": [tensors[0]]} for n in range(8)
    ]
    rows[2]["audio"] = [b"no sound"]
    rows[5]["pair"] = [0.5]
    rows[6]["tensor"] = [tensors[1]]
    uri = write_dataset(tmp_path, {"train": [rows]}, features)
    found = _ids(iterate, uri, on_corrupt="skip")
    assert (len(found), {*found}) == (8, {0, 1, 3, 4, 7})
    assert any("3 of 8 records" in line for line in our_messages())
    with pytest.raises(CorruptShardError, match=r"tensors int8\[2\].*\(record 6\)"):
        _ids(iterate, uri, features=["id", "tensor"])
    assert trainer_utils.plan(uri, "train", batch_size=4).steps == 2


def _no_memory_of_opencv() -> Exception:
    error = cv2.error("OpenCV(4) Insufficient memory")
    error.code = cv2.Error.StsNoMem
    return error


@pytest.mark.parametrize(
    ("make", "decoder", "size"),
    [
        (MemoryError, "simplejpeg.decode_jpeg_header", {"image_size": (20, 24)}),
        (ImportError, "simplejpeg.decode_jpeg", {"image_size": (20, 24)}),
        (_no_memory_of_opencv, "cv2.resize", {"image_size": (20, 24)}),
        (MemoryError, "PIL.Image.open", {"image_size": (20, 24)}),
        (MemoryError, "simplejpeg.decode_jpeg", {"batch_size": None}),
    ],
)
def test_a_lack_of_memory_is_not_blamed_on_a_record(
    write_dataset, tmp_path, monkeypatch, make, decoder, size
):
    uri = _write(write_dataset, tmp_path / "data", GOOD)

    def fail(*_: object, **__: object) -> object:
        raise make()

    if decoder == "PIL.Image.open":
        monkeypatch.setattr("trainer_utils.reading.images.plain_jpeg_size", lambda data: None)
    monkeypatch.setattr(decoder, fail)
    with pytest.raises(MachineError, match="No record is to blame"):
        next(iter(iterate(uri, "train", on_corrupt="skip", **{"batch_size": 4, **size})))
