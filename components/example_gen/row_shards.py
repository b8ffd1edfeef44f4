"""The last step of rows: the framed examples of a bucket, put in order, as shards.

shards = gather_bucket(0, plan=plan, pieces=70, uri=uri, gzip=False)
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from components.common.summaries import working_folder
from components.example_gen.row_encoding import read_frames
from components.example_gen.row_plan import Bucket, RowPlan
from trainer_utils.format import Shard, ShardName, ShardWriter
from trainer_utils.format.framing import RECORD_OVERHEAD_BYTES, footers_of
from trainer_utils.format.record_digests import Names
from trainer_utils.writing.shards import verify_shard, write_shard

__all__ = ["gather_bucket"]

_WRITE_BYTES = 1 << 20
_MOST_BYTES = 2**31 - 1


def gather_bucket(number: int, *, plan: RowPlan, pieces: int, uri: str, gzip: bool) -> list[Shard]:
    """Puts the rows of a bucket in order, and writes its shards under their final names."""
    bucket = plan.buckets[number]
    folder = working_folder(uri)
    batches = [read_frames(folder, piece, number) for piece in range(pieces)]
    found = [batch for batch in batches if batch is not None and len(batch)]
    split = plan.split_shards[bucket.split]
    start, stop = split.bounds[bucket.first_shard], split.bounds[bucket.stop_shard]
    places = np.concatenate([np.zeros(0, np.int64), *(b.column(0).to_numpy() for b in found)])
    order = np.argsort(places)
    assert np.array_equal(places[order], np.arange(start, stop)), "a row has no place, or two"
    frames, names = (_together([batch.column(n) for batch in found]) for n in (1, 2))
    return [
        _write_shard(bucket, shard, frames, names, order, plan, uri=uri, gzip=gzip)
        for shard in range(bucket.first_shard, bucket.stop_shard)
    ]


def _together(arrays: Sequence[pa.Array]) -> pa.Array:
    """Binary arrays as one; Arrow would join them anew each time that some rows are taken."""
    if sum(array.nbytes for array in arrays) > _MOST_BYTES:  # offsets of 32 bits do not reach
        arrays = [array.cast(pa.large_binary()) for array in arrays]
    return pa.concat_arrays(arrays) if arrays else pa.array([], pa.binary())


def _write_shard(
    bucket: Bucket,
    shard_index: int,
    frames: pa.Array,
    names: pa.Array,
    order: npt.NDArray[np.int64],
    plan: RowPlan,
    *,
    uri: str,
    gzip: bool,
) -> Shard:
    """Writes a shard and its index, and reads both back."""
    shards = plan.split_shards[bucket.split]
    first = shards.bounds[bucket.first_shard]
    start, stop = (bound - first for bound in shards.bounds[shard_index : shard_index + 2])
    step = _rows_a_write(frames)

    def fill(writer: ShardWriter) -> None:
        for begin in range(start, stop, step):
            chosen = pa.array(order[begin : min(begin + step, stop)])
            _append(writer, frames.take(chosen), names.take(chosen))

    name = ShardName(
        split=shards.name, shard_index=shard_index, num_shards=shards.num_shards, gzip=gzip
    )
    shard = write_shard(name, fill, uri=uri)
    verify_shard(shard, uri=uri)
    return shard


def _rows_a_write(frames: pa.Array) -> int:
    return max(1, int(_WRITE_BYTES * len(frames) / max(1, frames.nbytes)))


def _append(writer: ShardWriter, frames: pa.Array, names: pa.Array) -> None:
    ends, data = _contents(frames)
    lengths = np.diff(ends, prepend=0) - RECORD_OVERHEAD_BYTES
    known = None
    if not names.null_count:
        name_ends, texts = _contents(names)
        known = Names(np.diff(name_ends, prepend=0), texts.to_pybytes())
    writer.write_framed(data.to_pybytes(), lengths, footers_of(data, ends), known)


def _contents(values: pa.Array) -> tuple[npt.NDArray[np.int64], pa.Buffer]:
    """Where each value of a binary array ends, and all of them end to end."""
    kind = np.int64 if pa.types.is_large_binary(values.type) else np.int32
    buffer: Any = np.frombuffer(values.buffers()[1], kind)
    offsets = buffer[values.offset :][: len(values) + 1]
    start, stop = int(offsets[0]), int(offsets[-1])
    data = values.buffers()[2] or pa.py_buffer(b"")
    return (offsets[1:] - start).astype(np.int64), data.slice(start, stop - start)
