"""Any records of a dataset, by split and number, decoded; TensorFlow is not imported.

    reader = ExampleReader("datasets/photos")
    for example in reader.read("train", [0, 17, 40_000]): ...
    examples = read_examples("datasets/photos", "train[100:]", count=20)
    examples = read_named("datasets/photos", "cat/1.jpg")

Where there is a record index, any of a million records comes at once.
"""

import bisect
import contextlib
import dataclasses
import io
import itertools
import mmap
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from pipelines.tools.records.search import find_places
from pipelines.tools.records.values import Value, value_of
from trainer_utils.dataset import ShardFile, open_dataset, open_records, read_index
from trainer_utils.dataset.location import Place
from trainer_utils.format import DatasetError, RecordIndex, resolve_slices
from trainer_utils.format.base64_pixels import base64_size
from trainer_utils.format.example_decoding import decode_example
from trainer_utils.format.framing import FOOTER_BYTES, HEADER_BYTES
from trainer_utils.format.json_text import JsonObject
from trainer_utils.format.naming import NAME_FEATURES
from trainer_utils.storage.paths import is_remote

__all__ = ["Example", "ExampleReader", "Glance", "read_examples", "read_named"]


_REQUEST_BYTES = 1 << 20  # of a store, that take as long as to ask for one record


class Glance(NamedTuple):
    """A record at a glance.

    Args:
        number: in its split.
        checksum: of its bytes: length and masked CRC-32C, as its frame has them; not compared.
        values: of the features that were asked for, as `decode_example` gives them.
    """

    number: int
    checksum: int
    values: Mapping[str, Sequence[Any]]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Example:
    """One record: its split, its number in it from 0 on, its shard, and its values by feature."""

    split: str
    number: int
    shard: str
    values: Mapping[str, Value]

    @property
    def name(self) -> str:
        """What it was made of, as far as it says so; else its split and number."""
        named = [self.values[key] for key in NAME_FEATURES if key in self.values]
        texts = [value.texts[0] for value in named if value.kind == "text" and value.values]
        return texts[0] if texts else f"{self.split} {self.number}"

    def to_json(self) -> JsonObject:
        """Plain JSON types."""
        values = {name: value.to_json() for name, value in self.values.items()}
        return {**vars(self), "values": values}


def read_examples(place: Place, split: str | None = None, *, count: int = 20) -> Iterator[Example]:
    """The first records of a split or a slice.

    Args:
        place: any dataset that `inspect_dataset` reads.
        split: a split, or slices such as `train[100:]+eval`; None: the first split.
        count: how many at the most.

    Yields:
        Examples in the order of the shards.

    Raises:
        DatasetError: there is no such dataset or split.
        CorruptShardError: a record on the way is damaged.
    """
    reader = ExampleReader(place)
    spec = reader.splits[0] if split is None else split
    for wanted in resolve_slices(spec, _Counts(reader)):
        stop = min(wanted.stop, wanted.start + count)
        count -= max(stop - wanted.start, 0)
        yield from reader.read(wanted.split, range(wanted.start, stop))


def read_named(place: Place, name: str, *, count: int = 20) -> Iterator[Example]:
    """The records of a name.

    Args:
        place: any dataset that `inspect_dataset` reads.
        name: their `filename` or `id`.
        count: how many at the most.

    Yields:
        Examples in the order of the splits and shards.

    Raises:
        DatasetError: there is no such dataset or record.
        CorruptShardError: a record is damaged, or any where no index says the names.
    """
    reader = ExampleReader(place)
    found = find_places(reader.dataset, name)
    if not found:
        raise DatasetError(
            f"record {name!r}: expected the filename or id of a record of "
            f"{reader.dataset.uri!r}, found none"
        )
    for split, group in itertools.groupby(found[:count], key=lambda each: each.split):
        firsts = {shard.name: first for first, shard in reader.shards(split)}
        yield from reader.read(split, [firsts[each.shard] + each.record for each in group])


class ExampleReader:
    """Reads any records of a dataset, wherever they are; what was opened once is remembered.

    Args:
        place: any dataset that `inspect_dataset` reads.

    Raises:
        DatasetError: there is none, or it is not whole.
    """

    def __init__(self, place: Place) -> None:
        self.dataset = open_dataset(place, inspect=False)
        self.splits = list(self.dataset.shards)
        self.labels = self.dataset.vocabularies
        self._indexes: dict[str, RecordIndex] = {}

    def read_lines(self, name: str) -> list[str]:
        """The lines of one of its small files."""
        return self.dataset.read_lines(name)

    def count(self, split: str) -> int:
        """Records of a split."""
        return sum(map(self._records, self.dataset.shards[split]))

    def read(self, split: str, numbers: Sequence[int]) -> Iterator[Example]:
        """Some records of a split.

        Args:
            split: its name.
            numbers: in [0, count), in increasing order.

        Raises:
            CorruptShardError: one of them is damaged.
        """
        for number, shard, record in self.payloads(split, numbers):
            yield Example(split=split, number=number, shard=shard.name, values=self._values(record))

    def payloads(
        self, split: str, numbers: Sequence[int]
    ) -> Iterator[tuple[int, ShardFile, bytes]]:
        """The same as they are stored, each with its number and shard; verified."""
        first = done = 0
        for shard in self.dataset.shards[split]:
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
            first = after

    def scan(
        self, split: str, names: Collection[str] | None, *, start: int = 0
    ) -> Iterator[Glance]:
        """Some features, or all, of every record from `start` on, for searching and comparing.

        Images beside them are jumped over where a shard is local and not compressed; checksums are
        not checked, as `read` does.

        Raises:
            DatasetError: a record is no `tf.train.Example`.
        """
        for first, shard in self.shards(split):
            if start < first + self._records(shard):
                yield from self.scan_shard(shard, names, first=first, start=start)

    def scan_shard(
        self, shard: ShardFile, names: Collection[str] | None, *, first: int, start: int = 0
    ) -> Iterator[Glance]:
        """The same of one shard, whose first record is the `first`-th of its split."""
        begun = max(start - first, 0)
        with self.view(shard) as (view, offsets):
            bounds = itertools.pairwise(offsets[begun:].tolist())
            for number, (begin, end) in enumerate(bounds, first + begun):
                payload = view[begin + HEADER_BYTES : end - FOOTER_BYTES]
                crc = int.from_bytes(view[end - FOOTER_BYTES : end], "little")
                yield Glance(number, len(payload) << 32 | crc, decode_example(payload, names))

    def shards(self, split: str) -> Iterator[tuple[int, ShardFile]]:
        """The shards of a split, each with the number of its first record in the split."""
        first = 0
        for shard in self.dataset.shards[split]:
            yield first, shard
            first += self._records(shard)

    def value(
        self, name: str, values: Sequence[Any], size: tuple[int, int, int] | None = None
    ) -> Value:
        """What some values of a feature are; `size` is as of `value_of`."""
        feature = self.dataset.features.get(name)
        found = value_of(values, feature, self.labels.get(name, ()), size)
        if found.kind == "bytes" and name in NAME_FEATURES:  # of a file, that is not in UTF-8
            return dataclasses.replace(found, kind="text")
        return found

    @contextlib.contextmanager
    def view(self, shard: ShardFile) -> Iterator[tuple[memoryview, npt.NDArray[np.int64]]]:
        """The bytes of a shard, of which only those in use are read where it is local and not
        compressed, and the offsets of its frames, `(records + 1,)`."""
        offsets = self._index(shard).offsets
        if is_remote(shard.path) or shard.is_gzip or len(offsets) == 1:
            with open_records(shard.path) as stream:
                yield memoryview(stream.read()), offsets
            return
        with open(shard.path, "rb") as stream:
            yield memoryview(mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ)), offsets

    def _values(self, record: bytes) -> dict[str, Value]:
        found, features = decode_example(record), self.dataset.features
        ordered = sorted(found, key=lambda name: (name not in features, name))
        return {n: self.value(n, found[n], base64_size(n, found)) for n in ordered}

    def _records(self, shard: ShardFile) -> int:
        return len(self._index(shard)) if shard.records is None else shard.records

    def _index(self, shard: ShardFile) -> RecordIndex:
        if shard.path not in self._indexes:
            self._indexes[shard.path] = read_index(shard, is_strict=False)
        return self._indexes[shard.path]


class _Counts(Mapping[str, int]):
    """Records by split; a split's shards are opened only if it is asked for."""

    def __init__(self, reader: ExampleReader) -> None:
        self._reader = reader

    def __getitem__(self, split: str) -> int:
        return self._reader.count(split)

    def __iter__(self) -> Iterator[str]:
        return iter(self._reader.splits)

    def __len__(self) -> int:
        return len(self._reader.splits)
