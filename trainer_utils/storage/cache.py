"""Copies of whole shards, for those that cannot be read in parts: gzip files, and other people's.

    locate = WholeCopies(CacheFolder("/nvme/cache", 64 << 30)).locate
    locate("gs://bucket/set/Split-train/data_tfrecord-00000-of-00008.gz")   # "/nvme/cache/shards/…"

What is kept are the files as they lie there, so that every epoch's order, augmentation and resuming
are what they are without a cache.
"""

import contextlib
import hashlib
import os
import posixpath
import re
import shutil
import tempfile
import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from types import MappingProxyType

from trainer_utils.format import ConfigError, CorruptShardError, Shard
from trainer_utils.storage.cache_folder import CacheFolder
from trainer_utils.storage.files import (
    exists,
    file_size,
    file_version,
    make_folder,
    open_for_reading,
    read_range,
    rename,
)
from trainer_utils.storage.registry import file_system_of

__all__ = ["MEMORY", "WholeCopies", "cache_folder", "copy_to_memory", "default_cache_dir"]

MEMORY = "ram://tfx-shards"
"""TensorFlow's file system in memory, of this process; who reads with TensorFlow registers it."""

_COPIED_AT_ONCE = 8 << 20
_REQUESTS = 8
_MOST_PINNED = 64  # copies that may be open
_ATTEMPTS = 2

Check = Callable[[str, str], None]
"""Of a shard's path and of its copy; raises where the copy is not to be kept."""


def cache_folder(cache: str | None, cache_dir: str | None, most_bytes: int | None) -> CacheFolder:
    """The folder of copies that the settings of an input name.

    Args:
        cache: `"disk"` or a folder; or None.
        cache_dir: a folder; None: this user's own beside other temporary files.
        most_bytes: as of `CacheFolder`.
    """
    if cache_dir is None and cache not in (None, "disk"):
        cache_dir = cache
    return CacheFolder(cache_dir or default_cache_dir(), most_bytes, is_private=cache_dir is None)


def default_cache_dir() -> str:
    """This user's own folder, where `cache_dir` names none."""
    return os.path.join(tempfile.gettempdir(), f"tfx-shards-{os.getuid()}")


class WholeCopies:
    """Copies shards when they are first read; from several threads at once.

    Args:
        folder: of the copies.
        check: before a copy is used; one that fails is made again, once.
        entries: what the manifest says of shards, by path; others are known by their version.
    """

    def __init__(
        self,
        folder: CacheFolder,
        check: Check = lambda path, copy: None,
        entries: Mapping[str, Shard] = MappingProxyType({}),
    ) -> None:
        self._folder, self._check, self._entries = folder, check, entries
        self._lock = threading.Lock()
        self._locks: dict[str, threading.Lock] = {}
        self._pinned: OrderedDict[str, int] = OrderedDict()

    def locate(self, path: str) -> str:
        """The copy of a shard, which stays while it is among those last asked for.

        Raises:
            ConfigError: there is no room for it.
            CorruptShardError: it is not the shard that it should be.
            OSError: it cannot be read.
        """
        with self._lock:
            lock = self._locks.setdefault(path, threading.Lock())
        with lock:
            entry = self._entries.get(path)
            known = file_version(path) if entry is None else f"{entry.bytes}-{entry.crc32c}"
            name = _name(path, known)
            for attempt in range(_ATTEMPTS):
                if self._pin(name):
                    break
                try:
                    self._copy(path, name)
                except CorruptShardError:
                    if attempt == _ATTEMPTS - 1:
                        raise
            return os.path.join(self._folder.path, name)

    def _copy(self, path: str, name: str) -> None:
        size = file_size(path)
        with self._folder.putting(name, size, use_of=lambda name: None) as temporary:
            if temporary is None:
                raise ConfigError(
                    f"cache_bytes: expected room for {path!r}, {size} bytes, beside what is being "
                    f"read, got {self._folder.most_bytes}",
                    setting="cache_bytes",
                    value=self._folder.most_bytes,
                )
            _download(path, temporary, size)
            self._check(path, temporary)
        self._pin(name)

    def _pin(self, name: str) -> bool:
        with self._lock:
            descriptor = self._pinned.pop(name, None)
            if descriptor is None:
                descriptor = self._folder.pin(name)
            if descriptor is None:
                return False
            self._pinned[name] = descriptor
            while len(self._pinned) > _MOST_PINNED:
                os.close(self._pinned.popitem(last=False)[1])
            return True

    def __del__(self) -> None:
        for descriptor in self._pinned.values():
            with contextlib.suppress(OSError):
                os.close(descriptor)


def copy_to_memory(digest: str, check: Check) -> Callable[[str], str]:
    """A function that copies a shard to memory, the first time, and says where the copy is.

    Args:
        digest: of the datasets, so that a changed one is copied anew.
        check: of a copy, before it is used.
    """
    folder = posixpath.join(MEMORY, digest)
    make_folder(folder)
    lock, locks = threading.Lock(), dict[str, threading.Lock]()

    def locate(path: str) -> str:
        key = hashlib.blake2b(path.encode(), digest_size=8).hexdigest()
        target = posixpath.join(folder, f"{key}-{posixpath.basename(path)}")
        with lock:
            own = locks.setdefault(target, threading.Lock())
        with own:
            if not exists(target):
                part = f"{target}.{threading.get_ident()}"
                with open_for_reading(path) as source, file_system_of(part).create(part) as copy:
                    shutil.copyfileobj(source, copy, _COPIED_AT_ONCE)
                check(path, part)
                rename(part, target)
        return target

    return locate


def _name(path: str, version: str) -> str:
    key = hashlib.blake2b(repr((path, version)).encode(), digest_size=8).hexdigest()
    title = re.sub(r"[^A-Za-z0-9_.-]", "_", posixpath.basename(path))[-100:]
    # What reads it goes by the ending.
    return f"{key}-{title}"


def _download(path: str, target: str, size: int) -> None:
    """Copies a file by ranges, some at once."""
    descriptor = os.open(target, os.O_WRONLY)

    def copy(start: int) -> None:
        stop = min(start + _COPIED_AT_ONCE, size)
        data = read_range(path, start=start, stop=stop)
        if len(data) != stop - start:
            raise OSError(f"{path!r}: expected {size} bytes, got {start + len(data)}")
        os.pwrite(descriptor, data, start)

    try:
        with ThreadPoolExecutor(_REQUESTS) as pool:
            list(pool.map(copy, range(0, size, _COPIED_AT_ONCE)))
    finally:
        os.close(descriptor)
