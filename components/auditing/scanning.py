"""Read a dataset once, and keep a sketch of each record for an audit.

The content of a record is its images or audio if it has any, else its text, else all its features
except names and the label.
"""

import collections
import contextlib
import functools
import hashlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from components.auditing.findings import RecordName
from components.auditing.similarity import (
    ImageLook,
    ImageSketches,
    TextSketches,
    look_at_image,
    look_at_pixels,
    sketch_texts,
    split_words,
)
from trainer_utils.dataset import Dataset, read_shard_blocks
from trainer_utils.format.example import decode_example
from trainer_utils.format.index import name_of
from trainer_utils.format.media_formats import format_of, image_size
from trainer_utils.format.naming import NAME_FEATURES
from trainer_utils.storage import retry_transient

IMAGE, TEXT = 1, 2
"""The kind of a row's sketch; 0 without a sketch."""

ROW = np.dtype(
    [
        ("content", "V16"),
        ("split", "<u2"),
        ("label", "<i4"),  # index of the label, or -1
        ("sketch", "u1"),
        ("height", "<i4"),
        ("width", "<i4"),
        ("words", "<i4"),
        ("characters", "<i4"),
        ("brightness", "<f4"),
        ("contrast", "<f4"),
        ("sharpness", "<f4"),
        ("name", "<i8"),  # offset of its name
    ]
)
_SIZES = ("height", "width", "channels", "image_height", "image_width")
_MAX_WORDS_COUNTED = 1 << 20
_TEXTS_AT_ONCE = 256


class Scan(TextSketches):
    """The sketches of all records, about a hundred bytes each. Text is sketched while scanning.

    Args:
        dataset: the dataset to scan.
        label: the feature with a record's class. If no record has it, there are no classes.

    Attributes:
        splits: names of splits by index.
        words: for each split, the number of records that contain each word.
        images: sketches of images.
    """

    def __init__(self, dataset: Dataset, label: str) -> None:
        super().__init__()
        self.splits = list(dataset.shards)
        self.words = [collections.Counter[str]() for _ in self.splits]
        self._labels: dict[str, int] = {}
        self.images = self.enter_context(ImageSketches())
        self._dataset, self._label = dataset, label
        self._rows, self._names, self._waiting = bytearray(), bytearray(), list[list[str]]()

    def read_all(self, *, advance: Callable[[int], None]) -> None:
        """Read and verify every record; `advance` is called with the bytes of each block."""
        for split, shards in enumerate(self._dataset.shards.values()):
            for shard in shards:
                for block in read_shard_blocks(shard.path):
                    for record in block.records():
                        self._rows += self._row_of(split, record).tobytes()
                    advance(len(block.data))
        self._sketch_texts()

    @functools.cached_property
    def rows(self) -> npt.NDArray[np.void]:
        """Rows of all records, `(records,)` of `ROW`, in the order of the splits."""
        return np.frombuffer(self._rows, ROW)

    @functools.cached_property
    def labels(self) -> list[str]:
        """Names of classes by index."""
        return [*self._labels]

    def record(self, number: int) -> RecordName:
        """Return the split, number, name and label of a record."""
        row = self.rows[number]
        place = number - int(np.searchsorted(self.rows["split"], row["split"]))
        split, start = self.splits[row["split"]], int(row["name"])
        name = self._names[start : self._names.index(b"\n", start)].decode("utf-8", "replace")
        label = self.labels[row["label"]] if row["label"] >= 0 else None
        return RecordName(split=split, number=place, name=name or f"{split} {place}", label=label)

    def _row_of(self, split: int, record: bytes) -> npt.NDArray[np.void]:
        """Return the row of a record: its label, the digest of its content, and its look."""
        decoded: dict[str, Any] = {**decode_example(record)}
        values = {
            name: feature_values for name, feature_values in decoded.items() if feature_values
        }
        row = np.zeros((), ROW)
        row["split"], row["label"], row["name"] = split, self._label_of(values), len(self._names)
        self._names += (name_of(values) or b"").replace(b"\n", b" ") + b"\n"
        media, texts, others = self._parts(values)
        row["content"] = _digest({name: values[name] for name in media or texts or others})
        if media:
            looks = (self._look(name, kind, values[name]) for name, kind in media.items())
            if (look := next(filter(None, looks), None)) is not None:
                row["sketch"] = IMAGE
                for field in ("height", "width", "brightness", "contrast", "sharpness"):
                    row[field] = getattr(look, field)
                self.images.add(look.sketch)
        elif texts:
            text = "\n".join(texts.values())
            words = split_words(text)
            row["words"], row["characters"] = len(words), len(text)
            if words:
                row["sketch"] = TEXT
                self._add_words(split, words)
        return row

    def _add_words(self, split: int, words: list[str]) -> None:
        counts = self.words[split]
        counts.update(set(words))
        if len(counts) > _MAX_WORDS_COUNTED:  # drop the rare ones
            kept = dict(counts.most_common(_MAX_WORDS_COUNTED // 2))
            counts.clear()
            counts.update(kept)
        self._waiting.append(words)
        if len(self._waiting) == _TEXTS_AT_ONCE:
            self._sketch_texts()

    def _sketch_texts(self) -> None:
        """Sketch the pending strings. Many at once take a fraction of the time."""
        self.add(sketch_texts(self._waiting))
        self._waiting.clear()

    def _label_of(self, values: Mapping[str, Sequence[Any]]) -> int:
        names, vocabulary = [], self._dataset.vocabularies.get(self._label, ())
        for value in values.get(self._label, ()):
            if isinstance(value, memoryview):
                names.append(bytes(value).decode("utf-8", "backslashreplace"))
            else:
                is_known = isinstance(value, int) and 0 <= value < len(vocabulary)
                names.append(vocabulary[value] if is_known else str(value))
        return self._labels.setdefault(", ".join(names), len(self._labels)) if names else -1

    def _parts(
        self, values: Mapping[str, Sequence[Any]]
    ) -> tuple[dict[str, str], dict[str, str], list[str]]:
        """Return media features with their kinds, text features, and all features to compare.

        The last excludes names and the label.
        """
        media, texts, others = dict[str, str](), dict[str, str](), list[str]()
        for name in sorted(values):
            if name in NAME_FEATURES or name == self._label or name in _SIZES:
                continue
            others.append(name)
            first = values[name][0]
            if isinstance(first, memoryview):
                if kind := self._kind_of(name, bytes(first)):
                    media[name] = kind
                else:
                    with contextlib.suppress(UnicodeDecodeError):
                        texts[name] = "\n".join(bytes(value).decode() for value in values[name])
        return media, texts, others

    def _kind_of(self, name: str, data: bytes) -> str:
        """Return `raw` for pixels, `image` or `audio` for encoded media, else an empty string."""
        feature, known = self._dataset.features.get(name), format_of(data)
        if feature is not None and feature.is_raw_image:
            return "raw"
        return known.kind if known else "image" if image_size(data) else ""

    def _look(self, name: str, kind: str, values: Sequence[Any]) -> ImageLook | None:
        data = bytes(values[0])
        if kind != "raw":
            return None if kind == "audio" else retry_transient(name, look_at_image, data)
        shape = tuple(self._dataset.features[name].extra.get("image_shape", ()))
        if len(shape) != 3 or len(data) != np.prod(shape) or shape[2] not in (1, 3, 4):
            return None
        return look_at_pixels(np.frombuffer(data, np.uint8).reshape(shape))


def _digest(values: Mapping[str, Sequence[Any]]) -> bytes:
    digest = hashlib.blake2b(digest_size=16)
    for name, feature_values in sorted(values.items()):
        digest.update(f"{len(name)} {name} {len(feature_values)} ".encode())
        for value in feature_values:
            data = value if isinstance(value, memoryview) else repr(value).encode()
            digest.update(len(data).to_bytes(8, "little"))
            digest.update(data)
    return digest.digest()
