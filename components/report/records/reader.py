"""Any records of a dataset, by split and number or by name, decoded; TensorFlow is not imported.

    reader = ExampleReader("datasets/photos")
    for example in reader.read("train", [0, 17, 40_000]): ...
    examples = read_examples("datasets/photos", "train[100:]", count=20)
    examples = reader.named("cat/1.jpg")

Where there is a record index, any of a million records comes at once.
"""

import bisect
import dataclasses
import io
import itertools
from collections.abc import Iterator, Mapping, Sequence

from components.report.records.lookup import find_places
from components.report.records.values import Value, value_of
from trainer_utils.dataset import ShardFile, open_dataset, open_records, read_index
from trainer_utils.dataset.location import Place
from trainer_utils.format import DatasetError, RecordIndex, resolve_slices
from trainer_utils.format.example import decode_example
from trainer_utils.format.json_text import JsonObject
from trainer_utils.format.naming import NAME_FEATURES
from trainer_utils.storage.file_system import is_remote

_REQUEST_BYTES = 1 << 20  # of a store, that take as long as to ask for one record


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
    """The first records of a split or a slice, in the order of the shards.

    Args:
        place: any dataset that `inspect_dataset` reads.
        split: a split, or slices such as `train[100:]+eval`; None: the first split.
        count: how many at the most.

    Raises:
        DatasetError: there is no such dataset or split.
        CorruptShardError: a record on the way is damaged.
    """
    reader = ExampleReader(place)
    spec = reader.splits[0] if split is None else split
    counts = {name: reader.count(name) for name in reader.splits}
    for wanted in resolve_slices(spec, counts):
        stop = min(wanted.stop, wanted.start + count)
        count -= max(stop - wanted.start, 0)
        yield from reader.read(wanted.split, range(wanted.start, stop))


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
        self._indexes: dict[str, RecordIndex] = {}

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
        features, labels = self.dataset.features, self.dataset.vocabularies
        for number, shard, record in self.payloads(split, numbers):
            found = decode_example(record)
            values = {}
            for name in sorted(found, key=lambda name: (name not in features, name)):
                value = value_of(found[name], features.get(name), labels.get(name, ()))
                if value.kind == "bytes" and name in NAME_FEATURES:  # of a file, not in UTF-8
                    value = dataclasses.replace(value, kind="text")
                values[name] = value
            yield Example(split=split, number=number, shard=shard.name, values=values)

    def named(self, name: str, *, count: int = 20) -> Iterator[Example]:
        """The first `count` records whose `filename` or `id` is a name.

        Raises:
            DatasetError: there is none.
            CorruptShardError: a record is damaged, or any where no index says the names.
        """
        found = find_places(self.dataset, name)
        if not found:
            raise DatasetError(
                f"record {name!r}: expected the filename or id of a record of "
                f"{self.dataset.uri!r}, found none"
            )
        for split, group in itertools.groupby(found[:count], key=lambda each: each.split):
            firsts = {shard.name: first for first, shard in self.shards(split)}
            yield from self.read(split, [firsts[each.shard] + each.record for each in group])

    def payloads(
        self, split: str, numbers: Sequence[int]
    ) -> Iterator[tuple[int, ShardFile, bytes]]:
        """The same as `read` as they are stored, each with its number and shard; verified."""
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
        """The shards of a split, each with the number of its first record in the split."""
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
