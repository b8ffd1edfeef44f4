"""The last step of rows: the framed examples of a bucket, put in order, as shards.

GatherBucket(plan=plan, pieces=70, uri=uri, gzip=False)(0)
"""

import dataclasses
import functools
import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from components.common.summaries import check_shared, working_folder, write_summary
from components.example_gen.row_encoding import read_frames
from components.example_gen.row_pieces import summary_name
from components.example_gen.row_plan import RowPlan
from trainer_utils.format import ShardName, ShardWriter
from trainer_utils.format.framing import RECORD_OVERHEAD_BYTES, footers_of
from trainer_utils.format.record_names import name_crc
from trainer_utils.writing.shards import verify_shard, write_shard

__all__ = ["GatherBucket"]

_WRITE_BYTES = 1 << 20
_MOST_BYTES = 2**31 - 1


@dataclasses.dataclass(frozen=True, kw_only=True)
class GatherBucket:
    """Puts a bucket's encoded rows in order, and writes its shards with a summary of them."""

    plan: RowPlan
    pieces: int
    uri: str
    gzip: bool

    def __call__(self, number: int) -> dict[str, int]:
        """Writes the shards of the bucket of this number, under their final names."""
        check_shared(self.uri)
        folder, bucket = working_folder(self.uri), self.plan.buckets[number]
        batches = [read_frames(folder, piece, number) for piece in range(self.pieces)]
        found = [batch for batch in batches if batch is not None and len(batch)]
        split = self.plan.split_shards[bucket.split]
        bounds = split.bounds[bucket.first_shard : bucket.stop_shard + 1]
        places = np.concatenate([np.zeros(0, np.int64), *(b.column(0).to_numpy() for b in found)])
        order = np.argsort(places)
        in_place = np.arange(bounds[0], bounds[-1])
        assert np.array_equal(places[order], in_place), "a row has no place, or two"
        frames, names = (_together([batch.column(n) for batch in found]) for n in (1, 2))
        step = max(1, int(_WRITE_BYTES * len(frames) / max(1, frames.nbytes)))

        def fill(rows: npt.NDArray[np.int64], writer: ShardWriter) -> None:
            for begin in range(0, len(rows), step):
                chosen = pa.array(rows[begin : begin + step])
                _append(writer, frames.take(chosen), names.take(chosen))

        shards = []
        for index, (start, stop) in enumerate(itertools.pairwise(bounds), bucket.first_shard):
            rows = order[start - bounds[0] : stop - bounds[0]]
            name = ShardName(
                split=split.name, shard_index=index, num_shards=split.num_shards, gzip=self.gzip
            )
            shards.append(write_shard(name, functools.partial(fill, rows), uri=self.uri))
            verify_shard(shards[-1], uri=self.uri)
        summary = {"shards": [dataclasses.asdict(shard) for shard in shards]}
        write_summary(folder, summary_name("gather", number), summary)
        return {"records_written": sum(shard.records for shard in shards)}


def _together(arrays: Sequence[pa.Array]) -> pa.Array:
    """Binary arrays as one; Arrow would join them anew each time that some rows are taken."""
    if sum(array.nbytes for array in arrays) > _MOST_BYTES:  # offsets of 32 bits do not reach
        arrays = [array.cast(pa.large_binary()) for array in arrays]
    return pa.concat_arrays(arrays) if arrays else pa.array([], pa.binary())


def _append(writer: ShardWriter, frames: pa.Array, names: pa.Array) -> None:
    ends, data = _contents(frames)
    lengths = np.diff(ends, prepend=0) - RECORD_OVERHEAD_BYTES
    known = None
    if not names.null_count:
        known = np.array([name_crc(name) for name in names.to_pylist()], np.uint32)
    writer.write_framed(data.to_pybytes(), lengths, footers_of(data, ends), known)


def _contents(values: pa.Array) -> tuple[npt.NDArray[np.int64], pa.Buffer]:
    """Where each value of a binary array ends, and all of them end to end."""
    kind = np.int64 if pa.types.is_large_binary(values.type) else np.int32
    buffer: Any = np.frombuffer(values.buffers()[1], kind)
    offsets = buffer[values.offset :][: len(values) + 1]
    start, stop = int(offsets[0]), int(offsets[-1])
    data = values.buffers()[2] or pa.py_buffer(b"")
    return (offsets[1:] - start).astype(np.int64), data.slice(start, stop - start)
