"""Read and decode records of a dataset by number or by name, without TensorFlow.

    reader = ExampleReader("datasets/photos")
    for example in reader.read("train", [0, 17, 40_000]): ...
    examples = read_examples("datasets/photos", "train[100:]", count=20)
    examples = reader.named("cat/1.jpg")
    find_places(reader.dataset, "cat/1.jpg")[0].shard    # 'Split-train/data_…'

With a record index, any of a million records is found at once. The names of a record are its
`filename` (images, audio), its `id` (text) and its `record_id`. They are looked up in the dataset's
index. Without one every shard is read, since a name may occur more than once.
"""

import base64
import bisect
import dataclasses
import functools
import io
import itertools
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from trainer_utils.core.errors import DatasetError
from trainer_utils.core.json_text import Json, JsonObject
from trainer_utils.dataset import (
    Dataset,
    ShardFile,
    location,
    open_dataset,
    open_records,
    read_index,
    read_shard_blocks,
)
from trainer_utils.dataset.opening import find_numbers
from trainer_utils.format import Feature, RecordIndex, resolve_slices
from trainer_utils.format.example import decode_example
from trainer_utils.format.media_formats import FORMATS, encode_png, format_of, image_size
from trainer_utils.format.naming import NAME_FEATURES
from trainer_utils.storage.paths import encode_path, is_remote

_SUFFIXES = {known.name: known.extensions[0] for known in FORMATS} | {"RAW": ".png"}
_REQUEST_BYTES = 1 << 20  # a store returns this as fast as a single record
_FEW = 16  # up to this many names are searched in the raw bytes before records are decoded


@dataclasses.dataclass(frozen=True, kw_only=True)
class Value:
    """The value of a feature in one example."""

    values: Sequence[Any]  # integers, floats or bytes
    kind: str  # one of the kinds that `value_of` returns
    format: str = ""  # the format of an image or audio file: `JPEG`, `RAW` (pixels), `WAV`, …
    shape: tuple[int, ...] = ()  # the shape of an image, `(height, width, channels)`
    names: Sequence[str] = ()  # class names of integers, if there is a vocabulary

    @property
    def is_file(self) -> bool:
        """Whether its only value is the content of a file."""
        return self.kind in ("image", "sound", "bytes") and len(self.values) == 1

    @property
    def num_bytes(self) -> int:
        """Total size of all values that are bytes."""
        return sum(len(value) for value in self.values if isinstance(value, bytes))

    @functools.cached_property
    def content(self) -> bytes:
        """Content of the file; pixels are encoded as PNG."""
        data: bytes = self.values[0]
        if self.format != "RAW":
            return data
        return encode_png(np.frombuffer(data, np.uint8).reshape(self.shape))

    @property
    def suffix(self) -> str:
        """Suffix of the file's name, such as `.jpg`."""
        return _SUFFIXES.get(self.format, f".{self.format.lower() or 'bin'}")

    @property
    def texts(self) -> list[str]:
        """Return the values as strings. Bytes of file names that are not UTF-8 are escaped."""
        return [value.decode(errors="backslashreplace") for value in self.values]

    def to_json(self) -> Json:
        """Return plain JSON types: a single value as itself, bytes that are not text as base64."""
        values = [_plain(value) for value in self.values]
        return values[0] if len(values) == 1 else values


def value_of(
    values: Sequence[Any],
    feature: Feature | None = None,
    vocabulary: Sequence[str] = (),
) -> Value:
    """Determine the kind of values from their content; `vocabulary` has the class names."""
    if not values or not isinstance(values[0], memoryview):
        are_classes = all(isinstance(v, int) and 0 <= v < len(vocabulary) for v in values)
        names = [vocabulary[value] for value in values] if are_classes else []
        return Value(values=values, kind="number", names=names)
    contents = [bytes(value) for value in values]
    if feature is not None and feature.is_raw_image and len(contents) == 1:
        shape = tuple(feature.extra.get("image_shape", ()))
        return Value(values=contents, kind="image", format="RAW", shape=shape)
    if (image := image_size(contents[0])) is not None:
        shape = (image.height, image.width, image.channels)
        return Value(values=contents, kind="image", format=image.format, shape=shape)
    if (known := format_of(contents[0])) is not None and known.kind == "audio":
        return Value(values=contents, kind="sound", format=known.name)
    is_text = all(_text_of(content) is not None for content in contents)
    return Value(values=contents, kind="text" if is_text else "bytes")


def _text_of(content: bytes) -> str | None:
    try:
        return content.decode()
    except UnicodeDecodeError:
        return None


def _plain(value: object) -> Json:
    if isinstance(value, float):
        return value if abs(value) < float("inf") else str(value)  # JSON has neither NaN nor inf
    if not isinstance(value, bytes):
        return value
    text = _text_of(value)
    return {"base64": base64.b64encode(value).decode()} if text is None else text


@dataclasses.dataclass(frozen=True, kw_only=True)
class Example:
    """One record: its split, its number there from 0, its shard, and its values by feature."""

    split: str
    number: int
    shard: str
    values: Mapping[str, Value]

    @property
    def name(self) -> str:
        """Name of its source, or its split and number if the record has no name."""
        named = [self.values[key] for key in NAME_FEATURES if key in self.values]
        texts = [value.texts[0] for value in named if value.kind == "text" and value.values]
        return texts[0] if texts else f"{self.split} {self.number}"

    def to_json(self) -> JsonObject:
        """Return the example as plain JSON types."""
        values = {name: value.to_json() for name, value in self.values.items()}
        return {**vars(self), "values": values}


def read_examples(
    place: location.Place | os.PathLike[str], split: str | None = None, *, count: int = 20
) -> Iterator[Example]:
    """Yield the first records of a split or a slice, in the order of the shards.

    Args:
        place: any dataset that `inspect_dataset` reads.
        split: a split, or slices such as `train[100:]+eval`. None: the first split.
        count: the maximum number of records.

    Raises:
        DatasetError: there is no such dataset or split.
        CorruptShardError: a record is damaged.
    """
    reader = ExampleReader(place)
    spec = reader.splits[0] if split is None else split
    counts = {name: reader.count(name) for name in reader.splits}
    for wanted in resolve_slices(spec, counts):
        stop = min(wanted.stop, wanted.start + count)
        count -= max(stop - wanted.start, 0)
        yield from reader.read(wanted.split, range(wanted.start, stop))


class ExampleReader:
    """A reader of any records of a dataset, which keeps opened shards.

    Args:
        place: any dataset that `inspect_dataset` reads.

    Raises:
        DatasetError: there is no dataset, or it is incomplete.
    """

    def __init__(self, place: location.Place | os.PathLike[str]) -> None:
        self.dataset = open_dataset(place, inspect=False)
        self.splits = list(self.dataset.shards)
        self._indexes: dict[str, RecordIndex] = {}

    def count(self, split: str) -> int:
        """Return the number of records in a split."""
        return sum(map(self._records, self.dataset.shards[split]))

    def read(self, split: str, numbers: Sequence[int]) -> Iterator[Example]:
        """Yield records of a split by ascending number; raise CorruptShardError if damaged."""
        features, labels = self.dataset.features, self.dataset.vocabularies
        for number, shard, record in self.payloads(split, numbers):
            stored = decode_example(record)
            values = {}
            for name in sorted(stored, key=lambda name: (name not in features, name)):
                value = value_of(stored[name], features.get(name), labels.get(name, ()))
                if value.kind == "bytes" and name in NAME_FEATURES:  # a name, not UTF-8
                    value = dataclasses.replace(value, kind="text")
                values[name] = value
            yield Example(split=split, number=number, shard=shard.name, values=values)

    def named(self, name: str, *, count: int = 20) -> Iterator[Example]:
        """Yield the first `count` records with a `filename` or `id`; raise DatasetError if none."""
        places = find_places(self.dataset, name)
        if not places:
            raise DatasetError(
                f"record {name!r}: expected the filename or id of a record of "
                f"{self.dataset.uri!r}, found none"
            )
        for split, group in itertools.groupby(places[:count], key=lambda each: each.split):
            firsts = {shard.name: first for first, shard in self.shards(split)}
            yield from self.read(split, [firsts[each.shard] + each.record for each in group])

    def payloads(
        self, split: str, numbers: Sequence[int]
    ) -> Iterator[tuple[int, ShardFile, bytes]]:
        """Yield serialized, verified records, each with its number and shard; see `read`."""
        done = 0
        for first, shard in self.shards(split):
            after = first + self._records(shard)
            here = [n - first for n in numbers[done : bisect.bisect_left(numbers, after)]]
            if here:
                index = self._index(shard)
                with open_records(shard.path) as opened:
                    stream = opened
                    if is_remote(shard.path) and len(here) * _REQUEST_BYTES > shard.bytes:
                        stream = io.BytesIO(opened.read())
                    for place in here:
                        yield first + place, shard, index.read(stream, place, path=shard.path)
            done += len(here)

    def shards(self, split: str) -> Iterator[tuple[int, ShardFile]]:
        """Yield the shards of a split, each with the number of its first record there."""
        first = 0
        for shard in self.dataset.shards[split]:
            yield first, shard
            first += self._records(shard)

    def _records(self, shard: ShardFile) -> int:
        return len(self._index(shard)) if shard.records is None else shard.records

    def _index(self, shard: ShardFile) -> RecordIndex:
        if shard.path not in self._indexes:
            self._indexes[shard.path] = read_index(shard, is_strict=False)
        return self._indexes[shard.path]


@dataclasses.dataclass(frozen=True)
class Place:
    """The location of a record: its name, its split, and its number in its shard from 0."""

    name: str
    split: str
    shard: str  # relative to the dataset's uri
    record: int
    byte_offset: int  # offset of its frame in the uncompressed shard
    bytes: int  # size without the frame


def name_features(dataset: Dataset) -> list[str]:
    """Return the features that name a dataset's records. Third-party datasets may have none."""
    features = dataset.features
    return [n for n in NAME_FEATURES if n in features and features[n].type != "float"]


def names_of(values: Mapping[str, Sequence[Any]]) -> list[bytes]:
    """Return the names of a record from its feature values. Numbers become strings."""
    return [
        bytes(value) if isinstance(value, memoryview) else str(value).encode()
        for feature in NAME_FEATURES
        for value in values.get(feature, ())
        if not isinstance(value, float)
    ]


def find_places(dataset: Dataset, name: str) -> list[Place]:
    """Return the records with a name, in the order of the shards; raise if one is damaged."""
    places: list[Place] = []
    for split, shards in dataset.shards.items():
        for shard in shards:
            numbers = find_numbers(dataset, shard, [encode_path(name)])
            if numbers is None:
                places += read_places(shard, split, [name])
            elif numbers:
                index = read_index(shard, is_strict=False)
                spans = [(int(index.offsets[n]), int(index.lengths[n])) for n in numbers]
                places += [
                    Place(name, split, shard.name, number, *span)
                    for number, span in zip(numbers, spans, strict=True)
                ]
    return places


def read_places(shard: ShardFile, split: str, names: Iterable[str]) -> Iterator[Place]:
    """Yield the records with these names in a shard, reading and checking all its records."""
    wanted = {encode_path(name): name for name in names}
    may_be_numbers = any(name.lstrip(b"-").isdigit() for name in wanted)
    first = 0
    for block in read_shard_blocks(shard.path):
        is_looked_into = len(wanted) > _FEW or may_be_numbers
        if is_looked_into or any(name in block.data for name in wanted):
            for number, record in enumerate(block.records()):
                record_names = wanted.keys() & names_of(decode_example(record, NAME_FEATURES))
                if record_names:
                    place = block.file_offset + int(block.starts[number])
                    location = wanted[min(record_names)], split, shard.name, first + number
                    yield Place(*location, byte_offset=place, bytes=len(record))
        first += len(block)
