"""Records of shards that are elsewhere: fetched ahead of their use, kept by what is used next.

    cached = CachedRecords(shards, CacheFolder("/nvme/cache", 64 << 30))
    cached.expect(epoch, lanes, next_lanes)       # as an epoch begins
    read = read_cached(lambda: cached)            # as of `trainer_utils.reading.records`

Nothing waits for a whole shard: what is read is parts of about a MiB. Some threads fetch those that
are needed next, in the order of the plan; a part that is not there when it is needed is fetched at
once. Where the cache is full, the part that is used last of all goes, which is the best that can be
done (Belady); where all others are used sooner, a part is used and not kept.
"""

import contextlib
import heapq
import math
import os
import threading
import weakref
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor

import numpy as np
import numpy.typing as npt
import tensorflow as tf

from trainer_utils.dataset.opening import ShardFile
from trainer_utils.format import CorruptShardError, DatasetError, RecordBlock
from trainer_utils.format.file_ranges import FileRange, RecordName
from trainer_utils.format.framing import unframe
from trainer_utils.order.future import FutureUse, FutureUses
from trainer_utils.reading.raw_ops import map_elements
from trainer_utils.reading.records import Piece, ReadPiece
from trainer_utils.reading.shard_parts import Part, ShardParts
from trainer_utils.storage import read_range
from trainer_utils.storage.cache_folder import CacheFolder

__all__ = ["CachedRecords", "Lanes", "read_cached"]

Lanes = Sequence[Sequence[FileRange]]
"""Parts of files, in their order, of each lane of a worker."""

_Vector = npt.NDArray[np.object_]

_REQUESTS = 16  # at once, of parts ahead; as many again may be asked for by who cannot wait
_AHEAD_SHARE = 1 / 32  # of the cache: what is there early keeps out what could stay
_FEWEST_AHEAD = 2
_RECORDS_AT_ONCE = 32  # requests for single records
_LOOKS_AFTER_SECONDS = 5.0  # whether anybody still reads


class CachedRecords:
    """Reads records through a cache; from several threads at once.

    Args:
        shards: uncompressed, each with an index.
        folder: of the copies.
    """

    def __init__(self, shards: Sequence[ShardFile], folder: CacheFolder) -> None:
        self.parts = ShardParts(shards)
        self._folder = folder
        self._keeps_all = self.parts.total_bytes * 1.01 < folder.most_bytes
        self._lock = threading.RLock()
        self._room = threading.Event()  # of one more part ahead
        self._future = FutureUses(0, [])
        self._used: dict[tuple[str, int], float] = {}  # by path and first record of a part
        self._coming: dict[Part, Future[RecordBlock]] = {}
        self._ahead: dict[Part, float] = {}
        self._round = 0
        most = int(folder.most_bytes * _AHEAD_SHARE) >> 20
        self._most_ahead = min(max(most, _FEWEST_AHEAD), _REQUESTS)
        self._process = os.getpid()
        self._pools: tuple[ThreadPoolExecutor, ...] | None = None

    def expect(self, epoch: int, lanes: Lanes, next_lanes: Callable[[], Lanes]) -> None:
        """Says what is read from now on; fetching begins.

        Args:
            epoch: its number.
            lanes: what is left of it.
            next_lanes: makes what the one after it reads.
        """
        future = FutureUses(epoch, lanes, next_lanes())
        with self._lock:
            self._future = future
            self._used = {part: at for part, at in self._used.items() if at < future.start}
            self._ahead.clear()
            self._coming.clear()
            self._round += 1
            arguments = (weakref.ref(self), self.parts, future, self._round)
        self._room.set()
        self._folder.begin(future.start)
        firsts = [lane[0].part.path for lane in future.lanes() if lane]
        for path in dict.fromkeys(firsts):  # so that indexes come at once, not one by one
            self._pool(0).submit(self.parts.of, path)
        name = "tfx-shards-ahead"
        threading.Thread(target=_fetch_ahead, args=arguments, name=name, daemon=True).start()

    def read_names(self, names: Sequence[RecordName]) -> list[bytes]:
        """Single records: by whole parts where all of them can be kept, else by ranges."""
        return list(self._pool(1).map(self._record, names))

    def records_of_part(self, path: str, skip: int, take: int, number: int) -> _Vector:
        """Those of a piece of a file that lie in one of its parts, counted from its first."""
        part = self.parts.within(path, skip, skip + take)[number]
        block = self._read(part)
        records = block.records()
        first, last = max(skip - part.first, 0), min(skip + take, part.stop) - part.first
        return np.array(records[first:last], object)

    def _record(self, name: RecordName) -> bytes:
        path, number = name
        (part,) = self.parts.within(path, number, number + 1)
        offsets = self.parts.offsets(path)
        begin, end = int(offsets[number]), int(offsets[number + 1])
        copy = self.parts.name(part)
        if self._keeps_all:
            data = self._folder.get(copy)
            if data is None:
                self._fetch(part, math.inf)
                data = self._folder.get(copy)
            if data is not None:
                frame = data[begin - part.begin : end - part.begin]
                try:
                    return unframe(frame, path=path, record=number, offset=begin)
                except CorruptShardError:
                    self._folder.remove(copy)  # it is the copy that is bad, or else the next is
        data = read_range(path, start=begin, stop=end)
        return unframe(data, path=path, record=number, offset=begin)

    def _read(self, part: Part) -> RecordBlock:
        """A part's records, from where they are soonest; what was used is looked after."""
        with self._lock:
            coming = self._coming.get(part)
            own: Future[RecordBlock] | None = None
            if coming is None:  # so that nobody else fetches it at the same time
                own = self._coming[part] = Future()
        try:
            if coming is not None:
                with contextlib.suppress(OSError):  # another attempt, now that it is needed
                    return coming.result()
            block = self._kept(part) or self._fetch_now(part)
            if own is not None:
                own.set_result(block)
            return block
        except BaseException as error:
            if own is not None:
                own.set_exception(error)
            raise
        finally:
            with self._lock:
                self._coming.pop(part, None)
            self._note_use(part)

    def _kept(self, part: Part) -> RecordBlock | None:
        name = self.parts.name(part)
        data = self._folder.get(name)
        if data is None:
            return None
        try:
            return self.parts.verify(part, data)
        except CorruptShardError:
            self._folder.remove(name)
            return None

    def _fetch_now(self, part: Part) -> RecordBlock:
        """Fetches what is needed at once; kept by when it is needed again."""
        now = self._next_use(part)
        again = self._future.next_use(part.path, part.first, part.stop, after=now)
        return self._fetch(part, math.inf if again is None else again)

    def _fetch(self, part: Part, use: float) -> RecordBlock:
        block = self.parts.fetch(part)
        self._folder.put(self.parts.name(part), block.data, use=use, use_of=self._use_of)
        return block

    def _note_use(self, part: Part) -> None:
        """Its next use is another one now; and there is room for one more ahead."""
        with self._lock:
            at = self._next_use(part)
            if math.isfinite(at):
                self._used[part.path, part.first] = at
                self._folder.position = max(self._folder.position, at)
            self._ahead.pop(part, None)
            again = self._next_use(part)
        self._room.set()
        if self._folder.holds(name := self.parts.name(part)):
            self._folder.expect(name, again)

    def _next_use(self, part: Part) -> float:
        after = self._used.get((part.path, part.first), -1.0)
        found = self._future.next_use(part.path, part.first, part.stop, after=after)
        return math.inf if found is None else found

    def _use_of(self, name: str) -> float | None:
        """When a copy is read next; None of those that are no business of this worker."""
        records = self.parts.records_of(name)
        if records is None:
            return None
        path, first, stop = records
        after = self._used.get((path, first), -1.0)
        return self._future.next_use(path, first, stop, after=after)

    def _ask_ahead(self, position: float, part: Part, this: int) -> bool | None:
        """Has a part fetched, or finds it there; False: there is no room; None: all is over."""
        with self._lock:
            if this != self._round:
                return None
            used = self._used.get((part.path, part.first), -1.0)
            if used >= position or part in self._coming:
                return True
            if len(self._ahead) >= self._most_ahead:
                return False
            self._ahead[part] = position
            if not self._folder.holds(self.parts.name(part)):
                self._coming[part] = self._pool(0).submit(self._fetch, part, position)
            return True

    def _pool(self, number: int) -> ThreadPoolExecutor:
        """The threads that wait for requests: of parts ahead, of single records."""
        with self._lock:
            if self._pools is None or self._process != os.getpid():
                self._process = os.getpid()
                self._pools = (
                    ThreadPoolExecutor(_REQUESTS, thread_name_prefix="tfx-shards-parts"),
                    ThreadPoolExecutor(_RECORDS_AT_ONCE, thread_name_prefix="tfx-shards-records"),
                )
            return self._pools[number]


def read_cached(cached: Callable[[], CachedRecords]) -> ReadPiece:
    """Reads the records of a piece of a file, in vectors.

    Args:
        cached: what reads them, asked for at each call.
    """

    def count(path: bytes, skip: np.int64, take: np.int64) -> np.int64:
        parts = cached().parts.within(path.decode(), int(skip), int(skip + take))
        return np.int64(len(parts))

    def records(path: bytes, skip: np.int64, take: np.int64, number: np.int64) -> _Vector:
        return cached().records_of_part(path.decode(), int(skip), int(take), int(number))

    def read_piece(piece: Piece) -> tf.data.Dataset:
        arguments = [piece["path"], piece["skip"], piece["take"]]
        parts = tf.ensure_shape(tf.numpy_function(count, arguments, tf.int64), ())

        def read(number: tf.Tensor) -> tf.Tensor:
            vector = tf.numpy_function(records, [*arguments, number], tf.string)
            return tf.ensure_shape(vector, [None])

        return map_elements(tf.data.Dataset.range(parts), read)

    return read_piece


def _fetch_ahead(
    owner: "weakref.ref[CachedRecords]", parts: ShardParts, future: FutureUses, this: int
) -> None:
    """Asks for the parts of an epoch in the order of their use, some of them ahead.

    It ends with the epoch, with whoever asked for it, or with an error, which comes to light where
    the part is needed.
    """
    with contextlib.suppress(DatasetError, OSError, RuntimeError):
        for position, part in _in_order(parts, future):
            while True:
                cached = owner()
                if cached is None:
                    return
                room = cached._room
                room.clear()
                asked = cached._ask_ahead(position, part, this)
                del cached
                if asked is None:
                    return
                if asked:
                    break
                room.wait(_LOOKS_AFTER_SECONDS)


def _in_order(parts: ShardParts, future: FutureUses) -> Iterator[tuple[float, Part]]:
    """The parts of an epoch, each with the position of its use."""

    def lane_parts(lane: Sequence[FutureUse]) -> Iterator[tuple[float, Part]]:
        for position, piece in lane:
            for part in parts.within(piece.path, piece.skip, piece.skip + piece.take):
                yield position + max(part.first, piece.skip) - piece.skip, part

    return heapq.merge(*(lane_parts(lane) for lane in future.lanes()))
