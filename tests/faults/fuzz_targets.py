"""What reads bytes that nobody vouches for, as functions of bytes.

TARGETS["manifest"](b"{}")           # returns, or raises what `is_ours` knows
"""

import contextlib
import io
import os
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from components.common.file_table import FileTable
from components.common.layout_inputs import LayoutInputs
from components.common.rejects import RejectedInputError
from components.layouts import read_layout
from components.layouts.webdataset import read_headers
from components.media.audio import store_audio
from components.media.images import store_image
from components.media.options import AudioOptions, ImageOptions
from components.tables.pieces import TableOptions
from components.tables.reading import pieces_of, read_piece
from trainer_utils.format import DatasetError, Manifest, RecordIndex
from trainer_utils.format.datum import parse_features
from trainer_utils.format.example import decode_example
from trainer_utils.format.json_text import json_lines, text_of
from trainer_utils.format.layouts import find_layout
from trainer_utils.format.media_formats import image_size
from trainer_utils.format.slices import resolve_slices
from trainer_utils.format.tfds import parse_tfds_features
from trainer_utils.format.tfrecord import read_blocks
from trainer_utils.order import FileRange, InputOrder, OrderOptions
from trainer_utils.storage import list_files

__all__ = ["TARGETS", "is_ours"]

_MOST_PIXELS = 1 << 20  # so that a small file that claims many takes no time
_FOLDER = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None


def is_ours(error: BaseException) -> bool:
    """Whether it is of our family, and no reject by which an unknown error was caught."""
    if isinstance(error, RejectedInputError):
        return error.code != "INTERNAL"
    return isinstance(error, DatasetError)


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
    """The JSON of a dataset, by itself and among the files of its folder."""

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
    stored = store_image(data, ImageOptions(max_pixels=_MOST_PIXELS), filename="a.jpg")
    assert stored.height * stored.width <= _MOST_PIXELS
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
                rows = read_piece(inputs.base, piece, options)
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
    "xml": _layout("voc", "Annotations/a.xml", ("JPEGImages/a.jpg",)),
    "coco": _layout("coco", "annotations/instances_train.json", ("train/a.jpg",)),
}
