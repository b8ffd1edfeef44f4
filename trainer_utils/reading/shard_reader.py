"""Single records of shards, read where they lie: for the global shuffle, and past damage.

shards = ShardReader()
shards.read("data_tfrecord-00000-of-00008", [5, 3])    # [b"…", b"…"]

Every checksum is checked. A record that cannot be read is an error with file and offset, or, where
damage is to be skipped, `UNREADABLE`; then it is counted, and reported once an epoch.
"""

import logging
import resource
import threading
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

import numpy as np
import numpy.typing as npt
import tensorflow as tf

from trainer_utils.dataset.open_shard import OpenShard
from trainer_utils.dataset.shards import is_gzip
from trainer_utils.format import CorruptShardError, Shard
from trainer_utils.format.file_ranges import FileRange
from trainer_utils.reading.raw_ops import map_elements

__all__ = ["UNREADABLE", "ShardReader", "read_past_damage"]

UNREADABLE = b"\xff unreadable"  # no serialized example begins so: field 31 has no wire type 7
_MOST_OPEN, _MOST_UNPACKED = 256, 2  # files; more than a windowed shuffle reads at a time

_logger = logging.getLogger(__name__)


class ShardReader:
    """Reads records by number; from several threads at once.

    Args:
        locate: where a shard is to be read from, of its path; such as a copy of it. Asked when it
            is opened.
        entries: what the manifest says of shards, by path.
        counts: how many records shards had when their dataset was opened, where that is known.
        skips: whether records that cannot be read become `UNREADABLE`.
    """

    def __init__(
        self,
        *,
        locate: Callable[[str], str] = lambda path: path,
        entries: Mapping[str, Shard] = MappingProxyType({}),
        counts: Mapping[str, int | None] = MappingProxyType({}),
        skips: bool = False,
    ) -> None:
        self._locate = locate
        self._entries = entries
        self._counts = counts
        self._skips = skips
        self._lock = threading.Lock()
        self._shards: dict[str, OpenShard] = {}
        self._most_open = _most_open()
        self.unreadable: dict[tuple[str, int], str] = {}
        """Why each record that could not be read could not, by path and number."""

    def read(self, path: str, numbers: Sequence[int]) -> list[bytes]:
        """The payloads of records of one shard."""
        shard = self._shard(path)
        return [self._record(path, shard, number) for number in numbers]

    def view(
        self, path: str, number: int, memory: Callable[[int], npt.NDArray[np.uint8]]
    ) -> memoryview:
        """The payload of one record, until `memory` is used again: see `OpenShard.view`.

        Damage is an error here, whether or not it is to be skipped.
        """
        return self._shard(path).view(number, memory)

    def read_ahead(self, path: str, first: int, count: int) -> None:
        """Asks the system to have records in memory soon; returns at once."""
        self._shard(path).read_ahead(first, count)

    def look_again(self) -> None:
        """Has every shard opened anew: whoever locates it may find that it was changed."""
        with self._lock:
            self._shards.clear()

    def damage_of(self, path: str) -> CorruptShardError | None:
        """What is wrong with a shard beside its records; None where nothing is."""
        return self._shard(path).damage

    def first_readable(self, ranges: Sequence[FileRange]) -> bytes | None:
        """The first record that can be read; None where there is none."""
        for part in ranges:
            for number in range(part.skip, part.skip + part.take):
                (record,) = self.read(part.path, [number])
                if record != UNREADABLE:
                    return record
        return None

    def warn_of_unreadable(self, epoch: np.int64, records: int) -> None:
        """Says how many records were skipped so far, and the first few of them."""
        if bad := sorted(self.unreadable.items()):
            first = "; ".join(reason for _, reason in bad[:3])
            _logger.warning(
                "epoch %d: %d of %d records could not be read and were skipped: %s%s",
                int(epoch),
                len(bad),
                records,
                first,
                "; …" if len(bad) > 3 else "",
            )

    def _record(self, path: str, shard: OpenShard, number: int) -> bytes:
        try:
            return shard.record(number)
        except CorruptShardError as error:
            if not self._skips:
                raise
            with self._lock:
                self.unreadable[path, number] = str(error)
            return UNREADABLE

    def _shard(self, path: str) -> OpenShard:
        with self._lock:
            shard = self._shards.pop(path, None)
            if shard is None:
                shard = OpenShard(path, self._locate(path), self._entries.get(path))
                if not self._skips:
                    shard.refuse_more_than(self._counts.get(path))
            self._shards[path] = shard  # the last used is the last
            while len(self._shards) > (_MOST_UNPACKED if is_gzip(path) else self._most_open):
                self._shards.pop(next(iter(self._shards)))
            return shard


def _most_open() -> int:
    """How many files to hold open: a part of what the process may, which others need too."""
    allowed, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return _MOST_OPEN if allowed < 0 else max(min(_MOST_OPEN, allowed // 8), 1)


def read_past_damage(
    shards: Callable[[], ShardReader], at_once: int
) -> Callable[[dict[str, tf.Tensor]], tf.data.Dataset]:
    """How to read a piece (see `trainer_utils.reading.records`) where records may be damaged.

    Args:
        shards: what reads them, asked for at each call.
        at_once: records of a vector.
    """

    def block(path: bytes, first: np.int64, count: np.int64) -> npt.NDArray[np.object_]:
        numbers = range(int(first), int(first) + int(count))
        return np.array(shards().read(path.decode(), numbers), object)

    def read_piece(piece: dict[str, tf.Tensor]) -> tf.data.Dataset:
        def read(start: tf.Tensor) -> tf.Tensor:
            count = tf.minimum(piece["take"] - start, at_once)
            arguments = [piece["path"], piece["skip"] + start, count]
            records = tf.numpy_function(block, arguments, tf.string)
            return tf.ensure_shape(records, [None])

        return map_elements(tf.data.Dataset.range(0, piece["take"], at_once), read)

    return read_piece
