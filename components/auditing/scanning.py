"""Reads a dataset once and keeps of each record what an audit compares, on disk where it is large.

A record's content is its images or sounds where it has any, else its texts, else all its features
but names and the label.
"""

import collections
import contextlib
import functools
import hashlib
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from components.auditing.images import THUMBNAIL_SIDE, ImageLook, look_at_image, look_at_pixels
from components.auditing.texts import TextSketches, map_file, sketch_texts, split_words
from trainer_utils.dataset import Dataset, read_shard_blocks
from trainer_utils.format.example import decode_example
from trainer_utils.format.images import image_size
from trainer_utils.format.index import name_of
from trainer_utils.format.media_formats import format_of
from trainer_utils.format.naming import NAME_FEATURES
from trainer_utils.storage import persist

IMAGE, TEXT = 1, 2
"""What a row's sketch is of; 0 stands for none."""

ROW = np.dtype(
    [
        ("content", "V16"),
        ("split", "<u2"),
        ("label", "<i4"),  # number of the label; -1 where there is none
        ("sketch", "u1"),
        ("height", "<i4"),
        ("width", "<i4"),
        ("words", "<i4"),
        ("characters", "<i4"),
        ("brightness", "<f4"),
        ("contrast", "<f4"),
        ("sharpness", "<f4"),
        ("name", "<i8"),  # where its name begins in the file of names
    ]
)
_SIZES = ("height", "width", "channels", "image_height", "image_width")
_MOST_WORDS_COUNTED = 1 << 20
_TEXTS_AT_ONCE = 256


@contextlib.contextmanager
def scan_dataset(
    dataset: Dataset, *, label: str, advance: Callable[[int], None]
) -> "Iterator[Scan]":
    """Reads every record, its checksums compared.

    Args:
        label: the feature that is a record's class; where no record has it, there are no classes.
        advance: called after each block with its bytes.

    Raises:
        CorruptShardError: a record is damaged.
        DatasetError: a record is no `tf.train.Example`.
    """
    with Scan(dataset, label) as scan:
        for number, shards in enumerate(dataset.shards.values()):
            for shard in shards:
                for block in read_shard_blocks(shard.path):
                    for record in block.records():
                        scan.add(number, record)
                    advance(len(block.data))
        scan.finish()
        yield scan


class Scan(contextlib.ExitStack):
    """What is kept of each record, in temporary files and some hundred bytes.

    Attributes:
        splits: names, by number.
        texts: sketches of texts.
        words: how many records of each split have each word.
    """

    def __init__(self, dataset: Dataset, label: str) -> None:
        super().__init__()
        self._rows, self._thumbnails, self._names = (
            self.enter_context(tempfile.TemporaryFile())  # noqa: SIM115
            for _ in range(3)
        )
        self.texts = self.enter_context(TextSketches())
        self.splits = list(dataset.shards)
        self.words = [collections.Counter[str]() for _ in self.splits]
        self._features, self._label = dataset.features, label
        self._vocabulary = dataset.vocabularies.get(label, ())
        self._labels: dict[str, int] = {}
        self._row, self._waiting = np.zeros((), ROW), list[list[str]]()
        self._count = self._images = 0

    @functools.cached_property
    def rows(self) -> npt.NDArray[np.void]:
        """`(records,)` of `ROW`, in the order of the splits."""
        return map_file(self._rows, ROW, (self._count,))

    @functools.cached_property
    def thumbnails(self) -> npt.NDArray[np.uint8]:
        """`(images, 32, 32) uint8`."""
        shape = (self._images, THUMBNAIL_SIDE, THUMBNAIL_SIDE)
        return map_file(self._thumbnails, np.dtype(np.uint8), shape)

    @functools.cached_property
    def labels(self) -> list[str]:
        """Names of classes, by number."""
        return [*self._labels]

    def name_of(self, number: int) -> str:
        """A record's name; else its split and number in it."""
        self._names.seek(int(self.rows["name"][number]))
        name = self._names.readline()[:-1].decode("utf-8", "replace")
        split = self.splits[int(self.rows["split"][number])]
        return name or f"{split} {self.number_in_split(number)}"

    def number_in_split(self, number: int) -> int:
        """A record's place in its split."""
        split = self.rows["split"][number]
        return number - int(np.searchsorted(self.rows["split"], split))

    def add(self, split: int, record: bytes) -> None:
        """Takes in one record."""
        decoded: dict[str, Any] = {**decode_example(record)}
        values = {name: found for name, found in decoded.items() if found}
        row = self._row
        row[...] = np.zeros((), ROW)
        row["split"] = split
        row["label"] = self._label_of(values)
        row["name"] = self._names.tell()
        name = name_of(values) or b""
        self._names.write(name.replace(b"\n", b" ") + b"\n")
        media, texts, others = self._parts(values)
        row["content"] = _digest({name: values[name] for name in media or texts or others})
        if media:
            looks = (self._look(name, kind, values[name]) for name, kind in media.items())
            if (look := next(filter(None, looks), None)) is not None:
                for field in ("height", "width", "brightness", "contrast", "sharpness"):
                    row[field] = getattr(look, field)
                row["sketch"] = IMAGE
                self._thumbnails.write(look.thumbnail.tobytes())
                self._images += 1
        elif texts:
            words = "\n".join(bytes(v).decode() for name in texts for v in values[name])
            self._add_text(split, words)
        self._rows.write(row.tobytes())
        self._count += 1

    def _add_text(self, split: int, text: str) -> None:
        words = split_words(text)
        self._row["words"], self._row["characters"] = len(words), len(text)
        counts = self.words[split]
        counts.update(set(words))
        if len(counts) > _MOST_WORDS_COUNTED:  # the rare ones go
            kept = counts.most_common(_MOST_WORDS_COUNTED // 2)
            counts.clear()
            counts.update(dict(kept))
        if words:
            self._row["sketch"] = TEXT
            self._waiting.append(words)
            if len(self._waiting) == _TEXTS_AT_ONCE:
                self.finish()

    def finish(self) -> None:
        """Sketches the texts that wait for others: many at once take a fraction of the time."""
        self.texts.add(sketch_texts(self._waiting))
        self._waiting.clear()

    def _label_of(self, values: Mapping[str, Sequence[Any]]) -> int:
        if not (found := values.get(self._label)):
            return -1
        name = ", ".join(map(self._class_name, found))
        return self._labels.setdefault(name, len(self._labels))

    def _class_name(self, value: Any) -> str:
        if isinstance(value, memoryview):
            return bytes(value).decode("utf-8", "backslashreplace")
        is_known = isinstance(value, int) and 0 <= value < len(self._vocabulary)
        return self._vocabulary[value] if is_known else str(value)

    def _parts(
        self, values: Mapping[str, Sequence[Any]]
    ) -> tuple[dict[str, str], list[str], list[str]]:
        """The features that are media, by kind, the texts, and all but names and the label."""
        media: dict[str, str] = {}
        texts, others = [], []
        for name in sorted(values):
            if name in NAME_FEATURES or name == self._label or name in _SIZES:
                continue
            others.append(name)
            first = values[name][0]
            if isinstance(first, memoryview):
                if kind := self._kind_of(name, bytes(first)):
                    media[name] = kind
                elif _is_text(values[name]):
                    texts.append(name)
        return media, texts, others

    def _kind_of(self, name: str, data: bytes) -> str:
        """`raw` pixels, or what is encoded: `image`, `audio`, …; empty where it is no medium."""
        feature, known = self._features.get(name), format_of(data)
        if feature is not None and feature.is_raw_image:
            return "raw"
        return known.kind if known else "image" if image_size(data) else ""

    def _look(self, name: str, kind: str, values: Sequence[Any]) -> ImageLook | None:
        data = bytes(values[0])
        if kind != "raw":
            return None if kind == "audio" else persist(name, look_at_image, data)
        shape = tuple(self._features[name].extra.get("image_shape", ()))
        if len(shape) != 3 or len(data) != np.prod(shape) or shape[2] not in (1, 3, 4):
            return None
        return look_at_pixels(np.frombuffer(data, np.uint8).reshape(shape))


def _is_text(values: Sequence[memoryview]) -> bool:
    try:
        for value in values:
            bytes(value).decode()
    except UnicodeDecodeError:
        return False
    return True


def _digest(values: Mapping[str, Sequence[Any]]) -> bytes:
    digest = hashlib.blake2b(digest_size=16)
    for name, found in sorted(values.items()):
        digest.update(f"{len(name)} {name} {len(found)} ".encode())
        for value in found:
            data = value if isinstance(value, memoryview) else repr(value).encode()
            digest.update(len(data).to_bytes(8, "little"))
            digest.update(data)
    return digest.digest()
