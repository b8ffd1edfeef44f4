"""Serialized records of parts of files, as a `tf.data.Dataset` of vectors of strings.

vectors = stream(piece_table(source.ranges), 0, source.num_records, reader(source.mean_bytes))

Files are read by TensorFlow's own reader, which checks every checksum; where one is wrong, the
error names file, record and offset. A file that is read to its end must hold no more records than
it should.
Records come many at a time, since each one alone costs as much as 100 bytes of text.
"""

from collections.abc import Callable, Sequence

import numpy as np
import tensorflow as tf

from trainer_utils.dataset import FileRange
from trainer_utils.format import CorruptShardError
from trainer_utils.shard_reader import ShardReader

__all__ = [
    "PieceTable",
    "ReadPiece",
    "in_order",
    "piece_table",
    "reader",
    "records_at_once",
    "stream",
    "turns",
]

_READ_BYTES = 1 << 20  # a file; larger reads are no faster on disk
_MOST_AT_ONCE = 1024  # records; more are no faster

PieceTable = dict[str, tf.Tensor]
ReadPiece = Callable[[PieceTable], tf.data.Dataset]


def piece_table(ranges: Sequence[FileRange]) -> PieceTable:
    """Parts of files as columns, which a graph can cut and reorder.

    Returns:
        `path` (string), `skip` and `take` (int64, records), `to_end` (bool), each `(parts,)`.
    """
    return {
        "path": tf.constant([part.path for part in ranges], tf.string),
        "skip": tf.constant([part.skip for part in ranges], tf.int64),
        "take": tf.constant([part.take for part in ranges], tf.int64),
        "to_end": tf.constant([part.to_end for part in ranges], tf.bool),
    }


def stream(
    pieces: PieceTable, start: tf.Tensor | int, stop: tf.Tensor | int, read: ReadPiece
) -> tf.data.Dataset:
    """The records `start` to `stop` of all those of the pieces, one after the other.

    Files before `start` are not opened, and in the first file the records before it are passed
    over without being copied or checked.

    Returns:
        `(any,) string` each.
    """
    take = pieces["take"]
    first = tf.cumsum(take, exclusive=True)
    begin = tf.clip_by_value(tf.cast(start, tf.int64) - first, 0, take)
    end = tf.clip_by_value(tf.cast(stop, tf.int64) - first, 0, take)
    cut = {
        "path": pieces["path"],
        "skip": pieces["skip"] + begin,
        "take": end - begin,
        "to_end": pieces["to_end"] & tf.equal(end, take),
    }
    wanted = tf.reshape(tf.where(end > begin), [-1])
    kept = {name: tf.gather(column, wanted) for name, column in cut.items()}
    return tf.data.Dataset.from_tensor_slices(kept).flat_map(read)


def records_at_once(mean_bytes: float) -> int:
    """How many records of this mean size come in one vector."""
    return int(min(max(_READ_BYTES / max(mean_bytes, 1), 1), _MOST_AT_ONCE))


def reader(mean_bytes: float) -> ReadPiece:
    """Reads one part of a file, about a MiB at a time.

    Args:
        mean_bytes: of a record.
    """
    at_once = records_at_once(mean_bytes)

    def read_piece(piece: PieceTable) -> tf.data.Dataset:
        is_gzip = tf.strings.regex_full_match(piece["path"], r".*\.gz")
        compression = tf.where(is_gzip, "GZIP", "")
        # -1: all, so that a file with more records than it should have is found.
        limit = tf.where(piece["to_end"], tf.constant(-1, tf.int64), piece["take"])
        records = tf.data.TFRecordDataset(piece["path"], compression, _READ_BYTES)
        records = records.skip(piece["skip"]).take(limit).ignore_errors()
        return _checked(records.batch(at_once), piece, at_once)

    return read_piece


def _checked(vectors: tf.data.Dataset, piece: PieceTable, at_once: int) -> tf.data.Dataset:
    """Vectors of the sizes that they should have; else an error that names file and offset.

    TensorFlow's own errors do not name the file.
    """
    take = piece["take"]
    sizes = tf.minimum(take - tf.range(0, take, at_once), at_once)
    sizes = tf.concat([sizes, [0]], 0)  # so that a vector too many is seen
    nothing = tf.data.Dataset.from_tensors(tf.constant([], tf.string)).repeat()
    pairs = tf.data.Dataset.zip(
        (vectors.concatenate(nothing), tf.data.Dataset.from_tensor_slices(sizes))
    )

    def check(records: tf.Tensor, size: tf.Tensor) -> tf.Tensor:
        def damaged() -> tf.Tensor:
            arguments = [piece["path"], piece["skip"], take]
            told = tf.numpy_function(_raise_damage, arguments, tf.string)
            return tf.ensure_shape(told, [None])

        return tf.cond(tf.equal(tf.size(records, tf.int64), size), lambda: records, damaged)

    return pairs.map(check)


def _raise_damage(path: bytes, skip: int, take: int) -> None:
    """Finds what is wrong with a part of a shard, and raises it."""
    name = path.decode()
    ShardReader().read(name, range(skip, skip + take))
    raise CorruptShardError(
        f"{name!r}: expected {skip + take} records, got more (record {skip + take}). "
        "It is not the file that the dataset says: write the dataset again."
    )


def in_order(
    ranges: Sequence[FileRange],
    *,
    rows: int,
    num_workers: int = 1,
    turn: int = 0,
    used: int,
    later: int = 0,
    read: ReadPiece,
) -> Callable[[tf.Tensor, tf.Tensor], tf.data.Dataset]:
    """Records in the order of the files, dealt to workers in turn.

    Args:
        ranges: of all workers.
        rows: a worker's share of a batch.
        num_workers, turn: every so many-th record is taken, beginning with that of this number.
        used: how many records all workers take in an epoch.
        later: how many records later each epoch begins than the one before, so that those left
            out are others each time.
        read: how a piece is read.

    Returns:
        A function of the epoch and of the first step in it, to vectors of serialized records.
    """
    pieces = piece_table(ranges)
    total = sum(part.take for part in ranges)

    def order(epoch: tf.Tensor, step: tf.Tensor) -> tf.data.Dataset:
        first = epoch * later % max(total, 1)
        start = first + step * rows * num_workers
        records = stream(pieces, start, tf.minimum(first + used, total), read)
        if later:
            again = stream(pieces, tf.maximum(start - total, 0), first + used - total, read)
            records = records.concatenate(again)
        batches = records.rebatch(rows * num_workers)
        if num_workers > 1:
            batches = batches.map(lambda records: records[turn::num_workers])
        return batches

    return order


def turns(sizes: Sequence[int]) -> list[int]:
    """Who is served first where records are dealt in turn: those who get one more than others."""
    by_size = sorted(range(len(sizes)), key=lambda worker: -sizes[worker])
    return [int(turn) for turn in np.argsort(by_size, kind="stable")]
