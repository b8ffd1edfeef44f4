"""Find the records of shards that have no index, and keep their offsets in the cache folder.

    counts = count_records(shards, versions, uri="/data/photos", folder=None)
    path = kept_offsets(shard.path, folder=None)        # for `IndexLayout`; None if none are kept

A file of TFRecords does not say where its records are. Each shard is therefore scanned once on a
machine, for all processes, runs and epochs. Of long records only the headers are read.
"""

import contextlib
import logging
import os
import random
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeAlias

from trainer_utils import storage
from trainer_utils.core.errors import ConfigError, CorruptShardError
from trainer_utils.core.step_display import show_step
from trainer_utils.dataset.compression import open_records
from trainer_utils.format import RecordIndex, scan_lengths
from trainer_utils.format.index import HEAD_BYTES, STRIDE, IndexLayout, offsets_to_bytes
from trainer_utils.format.layouts import ShardFile
from trainer_utils.format.tfrecord import Positions, scan_lengths_at
from trainer_utils.storage.kept_files import KeptFiles
from trainer_utils.storage.open_files import read_bytes_at

_logger = logging.getLogger(__name__)
_FOLDER = "offsets"  # in the cache folder
_SCANS = 8  # shards scanned at once: the disk or network is waited for
MIN_KEPT_BYTES = 1 << 20
"""Smaller shards are scanned again: it takes milliseconds."""
_MIN_REPORTED_BYTES = 256 << 20  # a scan of more is announced: it may take seconds
_REPORT_SECONDS = 30.0

OffsetReader: TypeAlias = Callable[[int, int], Positions]
"""Returns the offsets of the frames from one record to another, and the end of the last one."""


class OffsetFolder:
    """The kept offsets of shards, shared by all processes of a user on this machine.

    Args:
        folder: the cache folder; None for the default.

    Attributes:
        files: the kept files.
    """

    def __init__(self, folder: str | None = None) -> None:
        self.files = KeptFiles(_FOLDER, folder)

    @classmethod
    def open(cls, folder: str | None) -> "OffsetFolder | None":
        """Open the folder, or log why nothing can be kept and return None."""
        try:
            return cls(folder)
        except ConfigError as error:
            _logger.warning("The offsets of records cannot be kept for the next time: %s", error)
            return None

    def count(self, path: str, version: str) -> int | None:
        """Return the number of records of a shard whose offsets are kept."""
        kept = self._layout(path, version)
        return None if kept is None else kept[1].records

    def read(self, path: str, version: str) -> OffsetReader | None:
        """Return a function that returns the offsets of some records, if they are kept."""
        kept = self._layout(path, version)
        if kept is None:
            return None
        name, layout = kept

        def read(first: int, stop: int) -> Positions:
            begin = first - first % STRIDE
            offsets, _ = layout.read(
                lambda a, b: storage.read_range(name, start=a, stop=b), begin, stop, path=name
            )
            return offsets[first - begin :]

        return read

    def keep(self, path: str, version: str, index: RecordIndex) -> None:
        """Keep the offsets of a shard."""
        self.files.keep((path, version), offsets_to_bytes(index))

    def _layout(self, path: str, version: str) -> tuple[str, IndexLayout] | None:
        name = self.files.find((path, version))
        if name is None:
            return None
        with contextlib.suppress(OSError):
            head = storage.read_range(name, start=0, stop=HEAD_BYTES)
            layout = IndexLayout.of(head, storage.file_size(name))
            return None if layout is None else (name, layout)
        return None


def kept_offsets(path: str, size: int, *, folder: str | None) -> str | None:
    """Return the file with the offsets of a shard that was scanned before, or None.

    Args:
        path: the shard.
        size: its size in bytes as stored.
        folder: the cache folder; None for the default.
    """
    if size < MIN_KEPT_BYTES:
        return None
    with contextlib.suppress(ConfigError):  # it was logged when the dataset was opened
        return OffsetFolder(folder).files.find((path, storage.file_version(path)))
    return None


def keep_offsets(path: str, size: int, index: RecordIndex, *, folder: str | None) -> None:
    """Keep the offsets of a shard that has been scanned."""
    if size >= MIN_KEPT_BYTES and (offsets := OffsetFolder.open(folder)) is not None:
        offsets.keep(path, storage.file_version(path), index)


def count_records(
    shards: Sequence[ShardFile], versions: Sequence[str], *, uri: str, folder: str | None
) -> list[int]:
    """Return the number of records of each shard, from kept offsets or a scan.

    Args:
        shards: shards without an index.
        versions: the version of each, as from `storage.file_version`.
        uri: the uri of the dataset, for messages.
        folder: the cache folder; None for the default.

    Raises:
        CorruptShardError: a length is damaged, or a file ends inside a record. Of several damaged
            shards, the first is named.
    """
    is_large = any(shard.bytes >= MIN_KEPT_BYTES for shard in shards)
    offsets = OffsetFolder.open(folder) if is_large else None
    counts: list[int | None] = [None] * len(shards)
    if offsets is not None:
        for number, (shard, version) in enumerate(zip(shards, versions, strict=True)):
            if shard.bytes >= MIN_KEPT_BYTES:
                counts[number] = offsets.count(shard.path, version)
    missing = [number for number, count in enumerate(counts) if count is None]
    if missing:
        total = sum(shards[number].bytes for number in missing)
        kept_in = None if offsets is None else offsets.files.path
        with _reported_scan(uri, len(missing), total, kept_in) as report:

            def scan(number: int) -> int:
                return _scan(shards[number], versions[number], offsets, report)

            # Processes that start together begin at different shards, and share the work.
            start = random.Random(os.getpid()).randrange(len(missing))
            with ThreadPoolExecutor(_SCANS, thread_name_prefix="tfx-shards-scan") as pool:
                rotated = missing[start:] + missing[:start]
                scans = {number: pool.submit(scan, number) for number in rotated}
                for number in missing:
                    counts[number] = scans[number].result()
        if offsets is not None:
            offsets.files.remove_old()
    return [count for count in counts if count is not None]


def _scan(
    shard: ShardFile,
    version: str,
    offsets: OffsetFolder | None,
    report: Callable[[int], object],
) -> int:
    """Return the number of records of a shard, and keep their offsets."""
    if offsets is None or shard.bytes < MIN_KEPT_BYTES:
        return len(scan_shard(shard, report=report))
    with offsets.files.lock((shard.path, version)):
        count = offsets.count(shard.path, version)  # another process may have scanned it
        if count is not None:
            report(shard.bytes)
            return count
        index = scan_shard(shard, report=report)
        offsets.keep(shard.path, version, index)
        return len(index)


def scan_shard(shard: ShardFile, *, report: Callable[[int], object] = bool) -> RecordIndex:
    """Return the lengths of all records of a shard, checking each length's checksum.

    Args:
        shard: the shard.
        report: called with the number of stored bytes passed since the last call.
    """
    if shard.is_gzip or storage.is_remote(shard.path):
        with open_records(shard.path) as stream:
            lengths = scan_lengths(stream, path=shard.path)
        report(shard.bytes)
        return RecordIndex(lengths)
    with storage.open_for_reading(shard.path) as stream:

        def read(begin: int, end: int) -> bytes:
            return read_bytes_at(stream.fileno(), begin, end, path=shard.path)

        size = os.fstat(stream.fileno()).st_size
        return RecordIndex(scan_lengths_at(read, size, path=shard.path, report=report))


def open_offsets(shard: ShardFile, version: str, folder: OffsetFolder | None) -> OffsetReader:
    """Return a function that returns the offsets of some records, from a scan if none are kept."""
    if folder is not None and shard.bytes >= MIN_KEPT_BYTES:
        with contextlib.suppress(CorruptShardError):  # damaged: they are found again
            if (read := folder.read(shard.path, version)) is not None:
                return read
    index = scan_shard(shard)
    if folder is not None and shard.bytes >= MIN_KEPT_BYTES:
        folder.keep(shard.path, version, index)
    return lambda first, stop: index.offsets[first : stop + 1]


@contextlib.contextmanager
def _reported_scan(
    uri: str, num_files: int, total: int, kept_in: str | None
) -> Iterator[Callable[[int], None]]:
    """Show the progress of a scan on a terminal, or log it if it is long.

    Yields:
        A function to call with the number of bytes passed since the last call.
    """
    lock, started = threading.Lock(), time.monotonic()
    done, logged_at = 0, started
    is_logged = total >= _MIN_REPORTED_BYTES
    if is_logged:
        kept = "They cannot be kept." if kept_in is None else f"They are kept in {kept_in!r}."
        _logger.warning(
            "%r: nothing says where the records of %d of its files are, so %.1f GB are scanned "
            "for their offsets. %s A dataset that needs no scan: tfx-shards balance %s OUT",
            *(uri, num_files, total / 1e9, kept, uri),
        )
    with show_step("Finding records") as step:

        def report(count: int) -> None:
            nonlocal done, logged_at
            with lock:
                done += count
                step.update(done, total=total)
                now = time.monotonic()
                if is_logged and now - logged_at >= _REPORT_SECONDS:
                    logged_at = now
                    _logger.warning(
                        "%r: %.1f of %.1f GB scanned in %.0f s",
                        *(uri, done / 1e9, total / 1e9, now - started),
                    )

        yield report
