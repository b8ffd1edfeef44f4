"""Records of a dataset as people look at them: on a terminal, as JSON, as files.

records = read_examples("datasets/photos", "train[100:]", count=20)
print(as_text(records))
export_examples(records, "looked-at/")      # examples.csv, and a file for each image and sound

Reading takes the record index where there is one, so that any of a million records comes at once.
TensorFlow is not imported.
"""

import base64
import bisect
import contextlib
import csv
import dataclasses
import gzip
import io
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, BinaryIO, cast

from components.common.image_size import image_size
from pipelines.dataset_files import list_dataset
from pipelines.tables import human_bytes
from trainer_utils.format import (
    DatasetError,
    Feature,
    RecordIndex,
    resolve_slices,
    scan_lengths,
)
from trainer_utils.format.example_decoding import decode_example
from trainer_utils.format.layouts import FoundShard
from trainer_utils.format.naming import index_file

__all__ = ["Example", "ExampleReader", "Value", "as_text", "export_examples", "read_examples"]

EXAMPLES_FILE = "examples.csv"
_MOST_SHOWN = 72  # characters of a value on the terminal
_MOST_VALUES = 8  # of a list on the terminal
_MOST_IN_A_CELL = 32_767  # characters: what spreadsheets take
_SUFFIXES = {"JPEG": ".jpg", "PNG": ".png", "GIF": ".gif", "BMP": ".bmp"}
_SOUNDS = {b"fLaC": ".flac", b"OggS": ".ogg", b"ID3": ".mp3", b"\xff\xfb": ".mp3"}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Value:
    """What a feature holds in one example.

    Args:
        values: integers, floats or bytes.
        text: for the terminal, in one line.
        content: a file's content, where the value is one, else None.
        suffix: of such a file, such as `.jpg`.
    """

    values: Sequence[Any]
    text: str
    content: bytes | None = None
    suffix: str = ""

    def to_json(self) -> Any:
        """Plain JSON types; a single value as itself; bytes that are no text as base64."""
        values = [_plain(value) for value in self.values]
        return values[0] if len(values) == 1 else values


@dataclasses.dataclass(frozen=True, kw_only=True)
class Example:
    """One record: its split, its number in it from 0 on, its shard, and its values by feature."""

    split: str
    number: int
    shard: str
    values: Mapping[str, Value]

    def to_json(self) -> dict[str, Any]:
        """Plain JSON types."""
        values = {name: value.to_json() for name, value in self.values.items()}
        return {**vars(self), "values": values}


def read_examples(uri: str, split: str | None = None, *, count: int = 20) -> Iterator[Example]:
    """The first records of a split or a slice.

    Args:
        uri: of any dataset that `inspect_dataset` reads.
        split: a split, or slices such as `train[100:]+eval`; None: the first split.
        count: how many at the most.

    Yields:
        Examples in the order of the shards.

    Raises:
        DatasetError: there is no such dataset or split.
        CorruptShardError: a record on the way is damaged.
    """
    reader = ExampleReader(uri)
    spec = next(iter(reader.layout.shards)) if split is None else split
    for wanted in resolve_slices(spec, _Counts(reader)):
        stop = min(wanted.stop, wanted.start + count)
        count -= max(stop - wanted.start, 0)
        yield from reader.read(wanted.split, range(wanted.start, stop))


class ExampleReader:
    """Reads any records of a dataset, wherever they are; what was opened once is remembered.

    Args:
        uri: of any dataset that `inspect_dataset` reads.

    Raises:
        DatasetError: there is none, or it is not whole.
    """

    def __init__(self, uri: str) -> None:
        self._files = list_dataset(uri)
        self.layout = self._files.layout()
        self.labels: Mapping[str, Sequence[str]] = {
            name: self._files.read_lines(path)
            for name, path in self.layout.vocabulary_files.items()
        }
        self._indexes: dict[str, RecordIndex] = {}

    def count(self, split: str) -> int:
        """Records of a split."""
        return sum(map(self._records, self.layout.shards[split]))

    def read(self, split: str, numbers: Sequence[int]) -> Iterator[Example]:
        """Some records of a split.

        Args:
            split: its name.
            numbers: in [0, count), in increasing order.

        Raises:
            CorruptShardError: one of them is damaged.
        """
        first = done = 0
        for shard in self.layout.shards[split]:
            after = first + self._records(shard)
            here = [n - first for n in numbers[done : bisect.bisect_left(numbers, after)]]
            if here:
                path, index = self._files.path(shard.path), self._index(shard)
                with self._open(shard) as stream:
                    for place in here:
                        yield Example(
                            split=split,
                            number=first + place,
                            shard=shard.path,
                            values=self._values(index.read(stream, place, path=path)),
                        )
            done += len(here)
            first = after

    def _values(self, record: bytes) -> dict[str, Value]:
        found, features = decode_example(record), self.layout.features or {}
        return {
            name: _value(found[name], features.get(name), self.labels.get(name, ()))
            for name in sorted(found, key=lambda name: (name not in features, name))
        }

    def _records(self, shard: FoundShard) -> int:
        return len(self._index(shard)) if shard.records is None else shard.records

    def _index(self, shard: FoundShard) -> RecordIndex:
        if shard.path not in self._indexes:
            self._indexes[shard.path] = self._read_index(shard)
        return self._indexes[shard.path]

    def _read_index(self, shard: FoundShard) -> RecordIndex:
        """As it lies beside the shard; where it is missing or bad, from the shard itself."""
        if shard.entry is not None and shard.entry.index_crc32c is not None:
            path = index_file(shard.path)
            with contextlib.suppress(DatasetError, OSError):
                data = self._files.read_bytes(path)
                return RecordIndex.from_bytes(data, path=path, shard=shard.entry)
        with self._open(shard) as stream:
            return RecordIndex(scan_lengths(stream, path=self._files.path(shard.path)))

    @contextlib.contextmanager
    def _open(self, shard: FoundShard) -> Iterator[BinaryIO]:
        with self._files.open(shard.path) as stream:
            if not shard.path.endswith(".gz"):
                yield stream
                return
            with gzip.GzipFile(fileobj=stream, mode="rb") as unzipped:
                yield cast(BinaryIO, unzipped)


class _Counts(Mapping[str, int]):
    """Records by split; a split's shards are looked at only if it is asked for."""

    def __init__(self, reader: ExampleReader) -> None:
        self._reader = reader

    def __getitem__(self, split: str) -> int:
        return self._reader.count(split)

    def __iter__(self) -> Iterator[str]:
        return iter(self._reader.layout.shards)

    def __len__(self) -> int:
        return len(self._reader.layout.shards)


def _value(values: Sequence[Any], feature: Feature | None, labels: Sequence[str]) -> Value:
    if values and isinstance(values[0], memoryview):
        contents = [bytes(value) for value in values]
        if feature is not None and feature.is_raw_image and len(contents) == 1:
            return _pixels(contents[0], feature)
        shown = [_shown_bytes(content) for content in contents]
        is_file = len(contents) == 1 and bool(shown[0][1])
        return Value(
            values=contents,
            text=_listed([text for text, _ in shown]),
            content=contents[0] if is_file else None,
            suffix=shown[0][1] if is_file else "",
        )
    texts = [
        f"{value} ({_escaped(labels[value])})"
        if isinstance(value, int) and 0 <= value < len(labels)
        else f"{value:.7g}"
        if isinstance(value, float)
        else str(value)
        for value in values[: _MOST_VALUES + 1]
    ]
    return Value(values=values, text=_listed(texts, count=len(values)))


def _pixels(content: bytes, feature: Feature) -> Value:
    shape = tuple(feature.extra.get("image_shape", ()))
    size = " x ".join(map(str, shape))
    return Value(
        values=[content], text=f"pixels, {size}", content=_png(content, shape), suffix=".png"
    )


def _png(content: bytes, shape: Sequence[int]) -> bytes:
    from PIL import Image

    mode = {1: "L", 3: "RGB", 4: "RGBA"}[shape[2]]
    stream = io.BytesIO()
    Image.frombytes(mode, (shape[1], shape[0]), content).save(stream, "PNG")
    return stream.getvalue()


def _shown_bytes(content: bytes) -> tuple[str, str]:
    """A line that says what some bytes are, and the suffix of their file if they are one."""
    size = human_bytes(len(content))
    if (image := image_size(content)) is not None:
        what = f"{image.format}, {image.height} x {image.width} x {image.channels}, {size}"
        return what, _SUFFIXES[image.format]
    if content[:4] == b"RIFF" and content[8:12] == b"WAVE":
        return f"WAV, {size}", ".wav"
    for head, suffix in _SOUNDS.items():
        if content.startswith(head):
            return f"{suffix[1:].upper()}, {size}", suffix
    try:
        text = content.decode()
    except UnicodeDecodeError:
        return f"bytes, {size}", ".bin"
    return _quoted(text), ""


def _quoted(text: str) -> str:
    shown = text if len(text) <= _MOST_SHOWN else text[: _MOST_SHOWN - 1] + "…"
    return f'"{_escaped(shown)}"'


def _escaped(text: str) -> str:
    """Without what would move a terminal's cursor, colour it, or forge a line."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def _listed(texts: Sequence[str], *, count: int | None = None) -> str:
    count = len(texts) if count is None else count
    if count == 1:
        return texts[0]
    more = f", … {count:,} values" if count > _MOST_VALUES else ""
    return f"[{', '.join(texts[:_MOST_VALUES])}{more}]"


def _plain(value: Any) -> Any:
    if not isinstance(value, bytes):
        return value if value == value and abs(value) != float("inf") else str(value)
    try:
        return value.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(value).decode()}


def as_text(examples: Iterator[Example]) -> str:
    """Examples for a terminal: a head line each, and a line a feature."""
    blocks = []
    for example in examples:
        width = max((len(_escaped(name)) for name in example.values), default=0)
        lines = [f"{example.split} {example.number:,}"]
        lines += [f"  {_escaped(n).ljust(width)}  {v.text}" for n, v in example.values.items()]
        blocks.append("\n".join(lines))
    return "\n\n".join(blocks) if blocks else "no records"


def export_examples(examples: Iterator[Example], folder: str) -> int:
    """Writes examples where any program can look at them.

    Args:
        examples: of `read_examples`.
        folder: is made; `examples.csv` in it has a row an example and a column a feature, with a
            path where the value is an image, a sound, other bytes, or a text too long for a cell.

    Returns:
        How many.

    Raises:
        DatasetError: there is something in the folder already.
    """
    os.makedirs(folder, exist_ok=True)
    if os.listdir(folder):
        raise DatasetError(
            f"{folder!r}: expected an empty folder, found files in it. Name another."
        )
    rows = [_export(example, folder) for example in examples]
    names = list(dict.fromkeys(name for row in rows for name in row))
    with open(os.path.join(folder, EXAMPLES_FILE), "w", encoding="utf-8", newline="") as stream:
        writer = csv.DictWriter(stream, names, restval="")
        writer.writeheader()
        writer.writerows(rows)
    return len(rows)


def _export(example: Example, folder: str) -> dict[str, str]:
    row = {"split": example.split, "record": str(example.number)}
    for column, (name, value) in enumerate(example.values.items()):
        cell, content, suffix = "", value.content, value.suffix
        if content is None:
            plain = value.to_json()
            cell = plain if isinstance(plain, str) else json.dumps(plain, ensure_ascii=False)
            if len(cell) > _MOST_IN_A_CELL:
                content, suffix = cell.encode(), ".txt"
        if content is not None:
            # By its number: a feature's name may hold what no file name can.
            cell = f"{example.split}-{example.number:08d}-{column}{suffix}"
            with open(os.path.join(folder, cell), "xb") as stream:
                stream.write(content)
        row[name if name not in row else f"{name} (feature)"] = cell
    return row
