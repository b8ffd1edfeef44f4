"""Moves records, in their frames, to the shards that the plan gives them.

    pipeline | BalanceSplits(splits, uri=uri, gzip=False)

A split that fits into memory is one bucket: one element reads all its shards and writes all its
new ones. A larger one takes two passes: every input shard is scattered into one part a bucket,
then every bucket is gathered, put in order and written.
"""

import contextlib
import dataclasses
import itertools
import uuid
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, BinaryIO, cast

import apache_beam as beam
import numpy as np
import numpy.typing as npt

from components.common.files import (
    join,
    make_folder,
    read_bytes,
    remove_file,
    write_atomically,
)
from components.common.source import SourceShard, read_shard_blocks
from components.common.summaries import working_folder, write_summary
from components.shard_balancer.plan import Bucket, SplitLayout
from trainer_utils.format import (
    CorruptShardError,
    DatasetError,
    RecordBlock,
    Shard,
    ShardName,
    ShardWriter,
)
from trainer_utils.format.naming import split_folder

__all__ = ["BalanceSplits", "SplitWork", "gather_bucket", "scatter_shard"]

_WRITE_BYTES = 4 << 20
_Placed = tuple[RecordBlock, npt.NDArray[np.int64]]


@dataclasses.dataclass(frozen=True)
class SplitWork:
    """One split: layout, buckets, and input shards with the number of their first record."""

    layout: SplitLayout
    buckets: tuple[Bucket, ...]
    shards: tuple[tuple[int, SourceShard], ...]


@dataclasses.dataclass(frozen=True)
class Part:
    """What one input shard gives to one bucket: framed records, and their places."""

    frames: str
    places: str


class BalanceSplits(beam.PTransform):
    """Writes the new shards of all splits, with a summary of each bucket.

    Args:
        splits: the work.
        uri: of the new dataset.
        gzip: whether to compress.
    """

    def __init__(self, splits: Sequence[SplitWork], *, uri: str, gzip: bool) -> None:
        super().__init__()
        self._splits, self._uri, self._gzip = splits, uri, gzip

    def expand(self, begin: Any) -> Any:
        """The shards and their summaries are side effects; the output holds nothing."""
        small = [work for work in self._splits if len(work.buckets) == 1]
        large = [work for work in self._splits if len(work.buckets) > 1]
        gather = beam.ParDo(_GatherFn(self._uri, self._gzip))
        if large:
            scatters = [(work, first, shard) for work in large for first, shard in work.shards]
            _ = (
                begin
                | "CreateScatters" >> beam.Create(scatters)
                | "ScatterShards" >> beam.ParDo(_ScatterFn(self._uri))
                | "GroupByBucket" >> beam.GroupByKey()
                | "GatherBuckets[large]" >> gather
            )
        return (
            begin
            | "CreateBuckets"
            >> beam.Create([(work.buckets[0].key, [(work.buckets[0], work)]) for work in small])
            | "GatherBuckets[small]" >> gather
        )


class _ScatterFn(beam.DoFn):
    def __init__(self, uri: str) -> None:
        self._uri = uri

    def process(self, element: tuple[SplitWork, int, SourceShard]) -> Iterator[Any]:
        work, first, shard = element
        with _reported(self._uri, f"scatter-{work.layout.split}-{first:012d}"):
            for bucket, part in scatter_shard(work.buckets, first, shard, uri=self._uri):
                yield bucket.key, (bucket, part)


class _GatherFn(beam.DoFn):
    def __init__(self, uri: str, gzip: bool) -> None:
        self._uri, self._gzip = uri, gzip
        self._records = beam.metrics.Metrics.counter("tfx_shards", "records_balanced")

    def process(self, element: tuple[str, Iterable[tuple[Bucket, SplitWork | Part]]]) -> None:
        buckets, sources = zip(*element[1], strict=True)
        bucket = buckets[0]
        name = f"gather-{bucket.key}"
        with _reported(self._uri, name):
            shards, content = gather_bucket(bucket, sources, uri=self._uri, gzip=self._gzip)
            self._records.inc(sum(shard.records for shard in shards))
            summary = {"shards": [dataclasses.asdict(s) for s in shards], "content": content}
            write_summary(working_folder(self._uri), name, summary)


@contextlib.contextmanager
def _reported(uri: str, name: str) -> Iterator[None]:
    """Hands bad data to the executor, so that its message is not buried in a worker's traceback."""
    try:
        yield
    except DatasetError as error:
        summary = {"error": str(error), "is_corrupt": isinstance(error, CorruptShardError)}
        write_summary(working_folder(uri), name, summary)


def scatter_shard(
    buckets: Sequence[Bucket], first: int, shard: SourceShard, *, uri: str
) -> Iterator[tuple[Bucket, Part]]:
    """Splits one input shard into a part a bucket, a block at a time.

    Args:
        buckets: of its split.
        first: the number of its first record within the split.
        shard: the file.
        uri: of the new dataset, in whose working folder the parts go.
    """
    stem = join(working_folder(uri), f"{buckets[0].layout.split}-{first:012d}-{uuid.uuid4().hex}")
    make_folder(working_folder(uri))
    stops = np.array([bucket.stop_place for bucket in buckets])
    with contextlib.ExitStack() as stack:
        parts = [Part(f"{stem}-{bucket.index}", f"{stem}-{bucket.index}.i8") for bucket in buckets]
        streams: list[tuple[BinaryIO, BinaryIO]] = [
            (
                stack.enter_context(_writing(part.frames, uri)),
                stack.enter_context(_writing(part.places, uri)),
            )
            for part in parts
        ]
        for block, places in _placed_shard(buckets[0].layout, first, shard):
            owners = np.searchsorted(stops, places, side="right")
            frames = block.frames()
            for owner, (data, index) in enumerate(streams):
                chosen = np.flatnonzero(owners == owner)
                data.write(b"".join([frames[i] for i in chosen.tolist()]))
                index.write(places[chosen].tobytes())
    yield from zip(buckets, parts, strict=True)


def gather_bucket(
    bucket: Bucket, sources: Iterable[SplitWork | Part], *, uri: str, gzip: bool
) -> tuple[list[Shard], str]:
    """Reads a bucket's records, puts them in their places and writes its shards.

    Returns:
        The shards, and an order-free sum over the records, as 16 hexadecimal digits.

    Raises:
        CorruptShardError: an input is damaged.
        DatasetError: not every place gets exactly one record.
    """
    sources = list(sources)
    records = _Records(bucket.first_place, bucket.stop_place)
    for source in sources:
        placed = _placed_work(source) if isinstance(source, SplitWork) else _placed_part(source)
        for block, places in placed:
            records.add(block, places)
    records.check(bucket)
    shards = [
        _write_shard(bucket.layout, index, records, uri=uri, gzip=gzip)
        for index in range(bucket.first_shard, bucket.last_shard + 1)
    ]
    for source in sources:
        if isinstance(source, Part):
            remove_file(source.frames)
            remove_file(source.places)
    return shards, f"{records.content:016x}"


class _Records:
    """Framed records in their places."""

    def __init__(self, first_place: int, stop_place: int) -> None:
        self._first_place = first_place
        self._frames: list[bytes | memoryview | None] = [None] * (stop_place - first_place)
        self.content = 0

    def add(self, block: RecordBlock, places: npt.NDArray[np.int64]) -> None:
        slots = places - self._first_place
        if len(slots) and (slots.min() < 0 or slots.max() >= len(self._frames)):
            raise DatasetError("expected the records that were planned for, got others")
        for slot, frame in zip(cast(list[int], slots.tolist()), block.frames(), strict=True):
            self._frames[slot] = frame
        facts = block.lengths.astype(np.uint64) << np.uint64(32) | block.payload_crcs
        mixed = (facts ^ facts >> np.uint64(29)) * np.uint64(0xBF58476D1CE4E5B9)
        self.content = (self.content + int(np.sum(mixed, dtype=np.uint64))) % 2**64

    def check(self, bucket: Bucket) -> None:
        missing = self._frames.count(None)
        if missing:
            raise DatasetError(
                f"split {bucket.layout.split!r}: expected {len(self._frames)} records as the "
                f"dataset says, got {len(self._frames) - missing}. "
                "The dataset was changed: write it again."
            )

    def frames(self, start: int, stop: int) -> Iterator[tuple[bytes, int]]:
        """The framed records of the places `start` to `stop`, joined, some MiB at a time."""
        frames = cast(
            list[bytes], self._frames[start - self._first_place : stop - self._first_place]
        )
        sizes = np.cumsum([len(frame) for frame in frames])
        cuts = np.searchsorted(sizes, np.arange(_WRITE_BYTES, sizes[-1], _WRITE_BYTES)) + 1
        ends = np.unique(np.append(cuts, len(frames)))
        for begin, end in itertools.pairwise([0, *ends.tolist()]):
            yield b"".join(frames[begin:end]), end - begin


def _write_shard(
    layout: SplitLayout, index: int, records: _Records, *, uri: str, gzip: bool
) -> Shard:
    name = ShardName(split=layout.split, shard_index=index, num_shards=layout.num_shards, gzip=gzip)
    start, stop = layout.bounds[index : index + 2].tolist()
    make_folder(join(uri, split_folder(layout.split)))
    with _writing(join(uri, name.path), uri) as stream:
        writer = ShardWriter(stream, gzip=gzip)
        if stop > start:
            for frames, number in records.frames(start, stop):
                writer.write_framed(frames, number)
        digest = writer.finish()
    return Shard(
        path=name.path,
        split=layout.split,
        records=digest.records,
        bytes=digest.bytes,
        crc32c=digest.crc32c,
    )


def _placed_work(work: SplitWork) -> Iterator[_Placed]:
    for first, shard in work.shards:
        yield from _placed_shard(work.layout, first, shard)


def _placed_shard(layout: SplitLayout, first: int, shard: SourceShard) -> Iterator[_Placed]:
    number = first
    for block in read_shard_blocks(shard.path):
        stop = number + len(block)
        if stop > first + shard.records:
            break
        yield block, layout.places(number, stop)
        number = stop
    else:
        if number == first + shard.records:
            return
    raise DatasetError(
        f"shard {shard.path!r}: expected {shard.records} records as the dataset says, "
        "got another number. The dataset was changed: write it again."
    )


def _placed_part(part: Part) -> Iterator[_Placed]:
    places = np.frombuffer(read_bytes(part.places), np.int64)
    number = 0
    for block in read_shard_blocks(part.frames):
        yield block, places[number : number + len(block)]
        number += len(block)


def _writing(path: str, uri: str) -> contextlib.AbstractContextManager[BinaryIO]:
    make_folder(working_folder(uri))
    return write_atomically(path, temporary_folder=working_folder(uri))
