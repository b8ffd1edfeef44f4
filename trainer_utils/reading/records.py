"""Serialized records of parts of files, as a `tf.data.Dataset` of vectors of strings.

vectors = read_pieces(columns_of(source.ranges), make_reader(source.mean_bytes))

Files are read by TensorFlow's own reader, which checks every checksum; where one is wrong, the
error names file, record and offset. A file that is read to its end must hold no more records than
it should.
Records come many at a time, since each one alone costs as much as 100 bytes of text.
"""

from collections.abc import Callable, Sequence
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import tensorflow as tf

from trainer_utils.format import CorruptShardError
from trainer_utils.format.file_ranges import FileRange
from trainer_utils.reading.raw_ops import flat_map, map_elements, read_tfrecords
from trainer_utils.reading.shard_reader import ShardReader

__all__ = [
    "PIECE_COLUMNS",
    "Piece",
    "ReadPiece",
    "columns_of",
    "make_reader",
    "read_pieces",
    "read_where_located",
    "records_at_once",
]

_READ_BYTES = 1 << 20  # a file; larger reads are no faster on disk
_MOST_AT_ONCE = 1024  # records; more are no faster

Piece: TypeAlias = dict[str, tf.Tensor]
"""A part of a file: `path` and `compression` (string), `skip`, `take` and `limit` (int64).

Each is `()`. `limit` is `take`, or -1 where all to the end of the file are to be read, so that a
file with more records than it should have is found.
"""

PIECE_COLUMNS = {
    "path": tf.string,
    "compression": tf.string,
    "skip": tf.int64,
    "take": tf.int64,
    "limit": tf.int64,
}

ReadPiece: TypeAlias = Callable[[Piece], tf.data.Dataset]


def columns_of(ranges: Sequence[FileRange]) -> dict[str, npt.NDArray[np.generic]]:
    """What `Piece` lists, `(parts,)` each, for `tf.data.Dataset.from_tensor_slices`."""
    gzip = [b"GZIP" if part.path.endswith(".gz") else b"" for part in ranges]
    return {
        "path": np.array([part.path.encode() for part in ranges], object),
        "compression": np.array(gzip, object),
        "skip": np.array([part.skip for part in ranges], np.int64),
        "take": np.array([part.take for part in ranges], np.int64),
        "limit": np.array([-1 if part.to_end else part.take for part in ranges], np.int64),
    }


def read_pieces(pieces: Piece, read: ReadPiece) -> tf.data.Dataset:
    """The records of pieces, one after the other; each column is `(pieces,)`.

    Files of which nothing is wanted are not opened, and what comes before a piece in its file is
    passed over without being copied or checked.

    Returns:
        `(any,) string` each.
    """
    return flat_map(tf.data.Dataset.from_tensor_slices(pieces), read)


def records_at_once(mean_bytes: float) -> int:
    """How many records of this mean size come in one vector."""
    return int(min(max(_READ_BYTES / max(mean_bytes, 1), 1), _MOST_AT_ONCE))


def make_reader(mean_bytes: float) -> ReadPiece:
    """Reads one part of a file, about a MiB at a time.

    Args:
        mean_bytes: of a record.
    """
    at_once = records_at_once(mean_bytes)

    def read_piece(piece: Piece) -> tf.data.Dataset:
        records = read_tfrecords(piece["path"], piece["compression"], _READ_BYTES)
        records = records.skip(piece["skip"]).take(piece["limit"]).ignore_errors()
        return _checked(records.batch(at_once), piece, at_once)

    return read_piece


def read_where_located(read: ReadPiece, locate: Callable[[str], str]) -> ReadPiece:
    """Reads a piece's file where `locate` says that it is, asked as the file is opened."""

    def place(path: bytes) -> bytes:
        return locate(path.decode()).encode()

    def read_piece(piece: Piece) -> tf.data.Dataset:
        path = tf.numpy_function(place, [piece["path"]], tf.string)
        return read({**piece, "path": tf.ensure_shape(path, ())})

    return read_piece


def _checked(vectors: tf.data.Dataset, piece: Piece, at_once: int) -> tf.data.Dataset:
    """Vectors of the sizes that they should have; else an error that names file and offset.

    TensorFlow's own errors do not name the file.
    """
    take = piece["take"]
    starts = tf.data.Dataset.range(0, take + at_once, at_once)  # one more, to see a vector too many
    nothing = tf.data.Dataset.from_tensors(tf.constant([], tf.string)).repeat()
    pairs = tf.data.Dataset.zip((vectors.concatenate(nothing), starts))

    def check(records: tf.Tensor, start: tf.Tensor) -> tf.Tensor:
        size = tf.clip_by_value(take - start, 0, at_once)

        def damaged() -> tf.Tensor:
            arguments = [piece["path"], piece["skip"], take]
            raised = tf.numpy_function(_raise_damage, arguments, tf.string)
            return tf.ensure_shape(raised, [None])

        return tf.cond(tf.equal(tf.size(records, tf.int64), size), lambda: records, damaged)

    return map_elements(pairs, check)


def _raise_damage(path: bytes, skip: int, take: int) -> None:
    """Finds what is wrong with a part of a shard, and raises it."""
    name = path.decode()
    shards = ShardReader()
    shards.read(name, range(skip, skip + take))
    if (damage := shards.damage_of(name)) is not None:
        raise damage
    raise CorruptShardError.at(
        name,
        expected=f"{skip + take} records",
        got="more",
        record=skip + take,
        advice="It is not the file that the dataset says: write the dataset again.",
    )
