"""Readers of untrusted bytes raise only our errors, for randomly changed input.

`TARGETS` are the readers, as functions of bytes. `seeds` are small valid inputs of each, written by
other libraries.
"""

import contextlib
import io
import json
import os
import random
import struct
import tarfile
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
import soundfile

from components.inputs.listing import FileTable, LayoutInputs
from components.inputs.rejects import RejectedInputError
from components.layouts.reading import read_layout
from components.layouts.webdataset import read_headers
from components.media.audio import store_audio
from components.media.images import store_image
from components.media.options import AudioOptions, ImageOptions
from components.tables.cutting import pieces_of
from components.tables.pieces import TableOptions
from components.tables.reading import PieceReader
from tests.faults.counts import some_or_many
from tests.faults.test_machine_faults import COCO, VOC
from tests.faults.tfrecords import frame
from tests.make import REPOSITORY, jpeg, photo, table, wav
from tests.trainer_utils.format.test_manifest import TEXT as MANIFEST_TEXT
from trainer_utils.core.errors import DatasetError, TfxShardsError
from trainer_utils.core.json_text import json_lines, text_of
from trainer_utils.format import Manifest, RecordIndex
from trainer_utils.format.datum import parse_features
from trainer_utils.format.example import decode_example
from trainer_utils.format.layouts import find_layout
from trainer_utils.format.media_formats import image_size
from trainer_utils.format.slices import resolve_slices
from trainer_utils.format.tfds import parse_tfds_features
from trainer_utils.format.tfrecord import read_blocks
from trainer_utils.order import FileRange, InputOrder, OrderOptions
from trainer_utils.storage import list_files

_MAX_PIXELS = 1 << 20  # limits the time for a small file with a forged large size
_FOLDER = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None


def is_ours(error: BaseException) -> bool:
    """Return whether an error has one of our classes and is not a reject for an unknown error."""
    if isinstance(error, RejectedInputError):
        return error.code != "INTERNAL"
    return isinstance(error, TfxShardsError)


def _manifest(data: bytes) -> None:
    text = text_of(data, path="manifest.json")
    manifest = Manifest.from_json(text, path="manifest.json", is_checked=False)
    again = Manifest.from_json(manifest.to_json(), path="manifest.json")
    assert again.splits == manifest.splits
    Manifest.from_json(text, path="manifest.json")


def _index(data: bytes) -> None:
    index = RecordIndex.from_bytes(data, path="train.npy")
    assert RecordIndex.from_bytes(index.to_bytes(), path="train.npy").framed_bytes >= 0
    assert len(index.offsets) < len(data) + 2


def _records(data: bytes) -> None:
    for block in read_blocks(io.BytesIO(data), path="shard"):
        for record in block.records():
            decode_example(record)


def _described(parse: Callable[..., object], *names: str) -> Callable[[bytes], None]:
    """Return a target for JSON of a dataset, parsed alone and as a file of the dataset."""

    def read(data: bytes) -> None:
        text = text_of(data, path="a.json")
        with contextlib.suppress(DatasetError):
            parse(text, path="a.json")
        for name in names:
            with contextlib.suppress(DatasetError):
                find_layout({name: len(data)}, {name: text}.__getitem__, uri="a")

    return read


def _rejects(data: bytes) -> None:
    json_lines(text_of(data, path="rejects.jsonl"), path="rejects.jsonl")


def _slices(data: bytes) -> None:
    records = {"train": 100, "eval": 7, "empty": 0}
    for part in resolve_slices(text_of(data, path="split"), records):
        assert 0 <= part.start <= part.stop <= records[part.split]


def _state(data: bytes) -> None:
    options = OrderOptions(batch_size=8, shuffle=16, state=text_of(data, path="state"))
    order = InputOrder([FileRange("a", 0, 100)], options, num_workers=2)
    records = order.records(epoch=order.start.epoch, step=order.start.step, worker=1)
    assert 0 < len(records) <= 4


def _image(data: bytes) -> None:
    image_size(data)
    stored = store_image(data, ImageOptions(max_pixels=_MAX_PIXELS), filename="a.jpg")
    assert stored.height * stored.width <= _MAX_PIXELS
    assert image_size(stored.data) is not None


def _audio(data: bytes) -> None:
    store_audio(data, AudioOptions(), filename="a.wav")


def _tar(data: bytes) -> None:
    for member in read_headers(io.BytesIO(data), path="a.tar", size=len(data)):
        assert member.offset_data <= len(data)


def _table(kind: str) -> Callable[[bytes], None]:
    def read(data: bytes) -> None:
        with _folder({f"a.{kind}": data}) as inputs:
            options = TableOptions()
            pieces = pieces_of(
                inputs, f"a.{kind}", kind=kind, split=None, options=options, folder=inputs.base
            )
            for piece in pieces:
                rows = PieceReader(inputs.base, options).read(piece)
                good = {len(column) for column in rows.columns.values()}
                assert len(good) <= 1
                assert max(good, default=0) + len(rows.bad) <= rows.found
                assert all(bad.code != "INTERNAL" for bad in rows.bad), rows.bad

    return read


def _layout(name: str, path: str, others: tuple[str, ...]) -> Callable[[bytes], None]:
    def read(data: bytes) -> None:
        with _folder({path: data, **dict.fromkeys(others, b"x")}) as inputs:
            listing = read_layout(inputs, layout=name)
            codes = {left.code for left in listing.excluded}
            assert "INTERNAL" not in codes, list(listing.excluded)

    return read


@contextlib.contextmanager
def _folder(files: dict[str, bytes]) -> Iterator[LayoutInputs]:
    with tempfile.TemporaryDirectory(dir=_FOLDER) as base:
        for name, data in files.items():
            path = Path(base, name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
        yield LayoutInputs(base=base, root="", files=FileTable.of(list_files(base)))


TARGETS: dict[str, Callable[[bytes], None]] = {
    "manifest": _manifest,
    "index": _index,
    "records": _records,
    "datum": _described(parse_features, "shard_info.json", "datum_to_type_and_shape_mapping.json"),
    "tfds": _described(parse_tfds_features, "dataset_info.json", "features.json"),
    "rejects": _rejects,
    "slices": _slices,
    "state": _state,
    "image": _image,
    "audio": _audio,
    "tar": _tar,
    "csv": _table("csv"),
    "tsv": _table("tsv"),
    "jsonl": _table("jsonl"),
    "json": _table("json"),
    "parquet": _table("parquet"),
    "xml": _layout("voc", "Annotations/a.xml", ("JPEGImages/a.jpg",)),
    "coco": _layout("coco", "annotations/instances_train.json", ("train/1.jpg",)),
}


_TFDS = REPOSITORY / "tests/golden/tfds"
_DATUM = {"image": {"type": "image", "shape": [], "dense": 1}, "id": {"type": "int", "shape": []}}
_EXAMPLE = (  # {"id": [7], "t": [b"ab"]}, encoded by protobuf
    b"\n\x1a\n\x0b\n\x02id\x12\x05\x1a\x03\n\x01\x07\n\x0b\n\x01t\x12\x06\n\x04\n\x02ab"
)
_EXIF = b"Exif\0\0II*\0\x08\0\0\0\x01\0\x12\x01\x03\0\x01\0\0\0\x06" + bytes(7)


_ROWS = [
    {"n": n, "text": f"text {n % 7}", "list": [n] * (n % 3), "texts": ["a", "b"][: n % 3]}
    for n in range(60)
]


def seeds() -> dict[str, list[bytes]]:
    """Return the valid inputs by name of the target."""
    texts = {
        "datum": [json.dumps(_DATUM), json.dumps({"train": {"Split-train/a": 3}})],
        "tfds": [(_TFDS / f"{name}.json").read_text() for name in ("features", "dataset_info")],
        "rejects": ['{"path": "a.jpg", "code": "EMPTY_FILE", "detail": "0 bytes"}\n'],
        "slices": ["train[:80%]", "train[10:20]+eval", "train[-5:]+eval[:1]", "train[3%:]"],
        "state": [_token()],
        "csv": ['id,text,stars\n1,"a ""b"", c",4.5\n2,é,\n', 'text\n"a\nb"\n'],
        "tsv": ["id\ttext\n1\ta b\n2\t\n"],
        "jsonl": ['{"id": 1, "text": "a", "more": {"x": [1, 2]}}\n{"id": 2, "text": null}\n'],
        "json": ['{"a": {"text": "x", "n": 1}, "b": {"text": "y", "n": 2}}', '[{"text": "x"}]'],
        "coco": [json.dumps(COCO)],
    }
    return {
        **{name: [text.encode() for text in found] for name, found in texts.items()},
        "manifest": [MANIFEST_TEXT.encode()],
        "index": [RecordIndex(np.array([20, 3, 77], np.uint32)).to_bytes(), _npy()],
        "records": [frame(_EXAMPLE) + frame(b"") + frame(_EXAMPLE)],
        "image": _images(),
        "audio": _sounds(),
        "tar": [
            _a_tar(tarfile.USTAR_FORMAT),
            _a_tar(tarfile.PAX_FORMAT),
            _a_tar(tarfile.GNU_FORMAT),
        ],
        "parquet": [table(_ROWS, "parquet", row_group_size=20)],
        "xml": [VOC.encode()],
    }


def _token() -> str:
    options = OrderOptions(batch_size=8, shuffle=16)
    order = InputOrder([FileRange("a", 0, 100)], options, num_workers=2)
    return order.state(5).to_json()


def _npy() -> bytes:
    stream = io.BytesIO()
    np.save(stream, np.arange(5, dtype=np.uint32))
    return stream.getvalue()


def _images() -> list[bytes]:
    found = [photo(0, kind, size=(9, 7)) for kind in ("PNG", "GIF", "BMP", "WEBP", "TIFF")]
    options = {"exif": _EXIF}, {"progressive": True, "quality": 30}
    return [*found, *(jpeg(0, size=(9, 7), **each) for each in options)]


def _sounds() -> list[bytes]:
    ogg = io.BytesIO()
    soundfile.write(ogg, np.sin(np.arange(60) / 3), 8000, format="OGG", subtype="VORBIS")
    frames = b"\xff\xfb\x10\xc4" + bytes(100)  # an MPEG 1 layer 3 header
    odd = [frames * 2, struct.pack("<4sI4s", b"RIFF", 4, b"WAVE")]
    return [wav(frames=60), wav(kind="FLAC", frames=60), ogg.getvalue(), *odd]


def _a_tar(form: int) -> bytes:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w", format=form) as archive:
        for name, data in {"a.jpg": b"x" * 9, "d" * 90 + "/ü.cls": b"3"}.items():
            member = tarfile.TarInfo(name)
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
    return stream.getvalue()[: 512 * 8]


QUICK, LONG = 60, 20_000  # inputs per target
_WORDS = (b"0", b"-1", b"18446744073709551616", b"1e999", b"null", b"[]", b"{}", b'"', b",", b"\n")
_WORDS += (
    b"\0",
    b"\xff\xff\xff\xff",
    b"\x7f\xff\xff\xff",
    b"\xed\xa0\x80",
    b"NaN",
    b"\xef\xbb\xbf",
)


def mutate(data: bytes, other: bytes, chance: random.Random) -> bytes:
    """Return data after several changes: bits, words, parts removed, doubled or exchanged."""
    for _ in range(chance.choice([1, 1, 2, 3, 8])):
        first, last = sorted((chance.randint(0, len(data)), chance.randint(0, len(data))))
        middle = data[first:last]
        kind = chance.randrange(6)
        if kind == 0 and first < len(data):
            bit = bytes([data[first] ^ 1 << chance.randrange(8)])
            data = data[:first] + bit + data[first + 1 :]
        elif kind == 1:
            word = chance.choice(_WORDS)
            data = data[:first] + word + data[first + chance.choice([0, len(word)]) :]
        elif kind == 2:
            data = data[:first] + data[min(last, first + 40) :]
        elif kind == 3:
            data = data[:last] + middle[:200] + data[last:]
        elif kind == 4:
            data = data[:first] + other[chance.randint(0, len(other)) :][:100] + data[first:]
        else:
            data = data[:first] + chance.randbytes(min(4, len(middle))) + data[first + 4 :]
    return data


def error_of(name: str, data: bytes) -> Exception | None:
    """Return the exception that a target raises for the data, or None."""
    try:
        TARGETS[name](data)
    except Exception as error:
        return error
    return None


@some_or_many(QUICK, LONG)
@pytest.mark.parametrize("name", TARGETS)
def test_readers_raise_only_our_errors(name, count, chance):
    good = seeds()[name]
    for _ in range(count):
        data = mutate(chance.choice(good), chance.choice(good), chance)
        error = error_of(name, data)
        assert error is None or is_ours(error), f"{name}: {error!r}: {data!r}"


def test_every_target_accepts_its_valid_seeds():
    assert seeds().keys() == TARGETS.keys()
    for name, good in seeds().items():
        assert None in [error_of(name, data) for data in good], name
