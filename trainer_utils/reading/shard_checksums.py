"""Whether shards are the files that the manifest names: their whole sums, beside the reading.

    sums = ShardChecksums({path: entry}, skips=False)
    sums.begin(path)         # as a shard is opened; returns at once
    sums.finish()            # before the last batch of an epoch; raises where one is another

A shard of another run may have the same size, and records that are whole: only its checksum
differs. One thread goes through each file as it is opened, at 4 GB/s while its bytes are being read
anyway, and no file a second time while it stays as it is.
"""

import queue
import threading
from collections.abc import Mapping

from trainer_utils.dataset.shards import open_records
from trainer_utils.format import (
    CorruptShardError,
    DatasetError,
    Shard,
    combine_checksums,
    multiset_checksum,
    read_blocks,
)
from trainer_utils.format.crc32c import extend_crc32c
from trainer_utils.storage import file_version, open_for_reading, remove_file

__all__ = ["ShardChecksums"]

_READ_BYTES = 1 << 18  # 256 KiB, which stay in the cache of a core

# Files that were found to be what they should, by their state.
_good: set[tuple[object, ...]] = set()
_jobs: "queue.SimpleQueue[_Check]" = queue.SimpleQueue()
_lock = threading.Lock()
_worker: threading.Thread | None = None


class ShardChecksums:
    """Compares shards with the manifest; from several threads at once.

    Args:
        entries: what the manifest says of shards, by path; of others nothing is checked.
        skips: whether a damaged record is left to who reads it. What is whole must still be that
            of the manifest.
    """

    def __init__(self, entries: Mapping[str, Shard], *, skips: bool = False) -> None:
        self._entries = entries
        self._skips = skips
        self._lock = threading.Lock()
        self._checks: dict[str, _Check] = {}

    def __bool__(self) -> bool:
        return bool(self._entries)

    def begin(self, path: str, location: str | None = None) -> None:
        """Has a shard checked.

        Args:
            path: as the dataset names it.
            location: where it is read from, if that is a copy.

        Raises:
            CorruptShardError: a shard begun before is found to be another.
        """
        entry = self._entries.get(path)
        if entry is None:
            return
        with self._lock:
            known = self._checks.get(path)
            if known is None or (known.is_done and known.error is None):  # it may have changed
                self._checks[path] = _Check(path, location or path, entry, self._skips)
                _enqueue(self._checks[path])
            bad = [key for key, check in self._checks.items() if check.error is not None]
            found = [self._checks.pop(key) for key in bad]  # whoever reads on looks at them anew
        for check in found:
            check.raise_error()

    def check(self, path: str, location: str) -> None:
        """Compares a copy before it is used.

        Raises:
            CorruptShardError: it is not the shard that the manifest names.
        """
        if (entry := self._entries.get(path)) is not None:
            _Check(path, location, entry, self._skips).raise_error()

    def finish(self) -> None:
        """Waits for all that was begun.

        Raises:
            CorruptShardError: a shard is not the one that the manifest names.
        """
        with self._lock:
            checks = list(self._checks.values())
            self._checks.clear()  # the next epoch looks whether they are still as they were
        for check in checks:
            check.raise_error()


class _Check:
    """The check of one file, which whoever comes first runs, and others wait for."""

    def __init__(self, path: str, location: str, entry: Shard, skips: bool) -> None:
        self._path, self._location, self._entry, self._skips = path, location, entry, skips
        self._lock = threading.Lock()
        self._state: str | None = None  # of the file that was checked
        self.is_done = False
        self.error: CorruptShardError | None = None

    def run(self) -> None:
        with self._lock:
            if not self.is_done:
                try:
                    self.error = self._find()
                except (OSError, DatasetError) as error:
                    message = f"{self._path!r}: cannot be read: {error}"
                    self.error = CorruptShardError(message, path=self._path)
                self.is_done = True

    def raise_error(self) -> None:
        """Raises what was found; of a file that was changed since, what is there now."""
        self.run()
        now = _state_if_any(self._location)
        if self.error is not None and now not in (None, self._state):
            self.is_done, self.error = False, None
            self.run()
        if self.error is not None:
            raise self.error

    def _find(self) -> CorruptShardError | None:
        self._state = file_version(self._location)
        state = (self._location, self._entry.crc32c, self._state)
        if state in _good:
            return None
        crc = 0
        with open_for_reading(self._location) as stream:
            while data := stream.read(_READ_BYTES):
                crc = extend_crc32c(crc, data)
        if crc == self._entry.crc32c:
            _good.add(state)
            return None
        error = self._difference(crc)
        if error is not None and self._location != self._path:
            remove_file(self._location)  # the copy, to be made anew
        return error

    def _difference(self, crc: int) -> CorruptShardError | None:
        """The problem: the first damaged record, or that all records are others."""
        contents = []
        try:
            with open_records(self._location) as stream:
                for block in read_blocks(stream, path=self._path):
                    contents.append(multiset_checksum(block.lengths, block.payload_crcs))
        except CorruptShardError as error:
            return None if self._skips else error
        is_other = combine_checksums(contents) != self._entry.content
        form = "other records" if is_other else "the same records in another form"
        return CorruptShardError.at(
            self._path,
            expected=f"the file that the manifest names, with CRC-32C {self._entry.crc32c:08x}",
            got=f"one with {crc:08x}, of {form}",
            advice="It is of another dataset or run: put the right one back, or write the "
            "dataset again.",
        )


def _state_if_any(path: str) -> str | None:
    try:
        return file_version(path)
    except OSError:
        return None


def _enqueue(check: _Check) -> None:
    global _worker
    _jobs.put(check)
    with _lock:
        if _worker is None or not _worker.is_alive():  # not, for one, in a process that was forked
            _worker = threading.Thread(target=_work, name="tfx-shards-sums", daemon=True)
            _worker.start()


def _work() -> None:
    while True:
        _jobs.get().run()
