"""Keep copies of remote files in a folder of limited size, shared by all processes.

    copy = CacheFolder("/nvme/cache", most_bytes=64 << 30).open(copy_name(path, version), size)
    copy.store(0, data)                       # its first MiB; False: the folder is full
    copy.holds(0, 1 << 20)                    # True: copy.read(0, 1 << 20) are these bytes

A copy is a sparse file of 1 MiB parts, followed by a byte per part with its state. Copies stay
while their dataset is read, epoch after epoch. Copies that were not used for a while are removed
for new ones. The kernel releases locks (flock) when a process is killed.
"""

import contextlib
import errno
import fcntl
import hashlib
import itertools
import os
import posixpath
import re
import shutil
import stat
import tempfile
import time
from collections.abc import Callable, Iterator

import numpy as np
import numpy.typing as npt

from trainer_utils.core.errors import ConfigError
from trainer_utils.format import Shard
from trainer_utils.storage import file_version, is_remote
from trainer_utils.storage.open_files import FileMapping, read_at, read_bytes_at

PART_BYTES = 1 << 20
"""Small enough for the first batch to arrive soon, and large enough for 16 concurrent requests to
fill a 10 Gb/s network with a latency of 10 ms.
"""
COPIES_FOLDER = "shards"
"""The name within the user's folder, which may contain other things."""

COPY_NAME = re.compile(r"[0-9a-f]{16}-[A-Za-z0-9_.-]+")
OWN_FILES = ("lock",)
"""The file next to the copies that holds the bytes they take."""
_WHOLE_MARK = b"complete"
WHOLE_END_BYTES = len(_WHOLE_MARK) + 8
"""Bytes after the content of a whole copy, which show that it is complete."""
_LOOK_SECONDS, _MAX_LOOKS = 0.02, 100
_BLOCK = 4096  # the unit of disk space
_OWN_BYTES = 16 * _BLOCK  # for the lock and the folder itself
_FREE_SHARE = 0.5  # of the disk, if no limit is set
_DIGITS = 20
_RECOUNT_SECONDS = 2.0
_STALE_SECONDS = 600.0
_ABSENT, _RESERVED, _THERE = range(3)  # states of a part


def copy_name(path: str, version: str, *, form: str = "") -> str:
    """Return the name of a file's copy, which is unique and ends with `copy_ending`.

    `version` differs between contents of the file. For shards, use `version_to_copy`.
    `form` differs between copies of the same content.
    """
    known = (path, version, form) if form else (path, version)
    key = hashlib.blake2b(repr(known).encode(), digest_size=8).hexdigest()
    return f"{key}-{copy_ending(path, version)}"


def copy_ending(path: str, version: str) -> str:
    """Return the ending for copies of one content, read from any address."""
    name = posixpath.basename(path)[-60:]  # the version is never cut
    return re.sub(r"[^A-Za-z0-9_.-]", "_", f"{version}-{name}")


def unpacked_name(path: str, version: str) -> str:
    """Return the name of the unpacked copy of a compressed file, which ends like a plain copy."""
    return copy_name(path, version, form="unpacked")


def shard_version(shard: Shard) -> str:
    """Return the version of a shard in a manifest."""
    return f"{shard.bytes}-{shard.crc32c:08x}"


def version_to_copy(path: str, entry: Shard | None) -> str:
    """Return the version of a shard for its copies: another one after its file has changed.

    A manifest has the version of a remote shard, so that no request is needed. A local file is
    looked up, as it may be damaged after its dataset was published.

    Args:
        path: the shard.
        entry: its entry in the manifest, if there is a manifest.
    """
    if entry is None or not is_remote(path):
        return file_version(path)
    return shard_version(entry)


def default_cache_dir() -> str:
    """Return this user's folder in the system's temporary folder."""
    return os.path.join(tempfile.gettempdir(), f"tfx-shards-{os.getuid()}")


class Copy:
    """A file's copy with some of its parts present, for several threads and processes.

    Attributes:
        address: the address of its memory mapping, for `MappedReader`.
    """

    def __init__(self, folder: "CacheFolder", path: str, descriptor: int, size: int) -> None:
        self._folder, self._path, self._descriptor = folder, path, descriptor
        self._size, self._num_parts = size, -(-size // PART_BYTES)
        self._mapping = FileMapping(descriptor, size)
        self.address = self._mapping.address

    def __del__(self, close: Callable[[int], None] = os.close) -> None:
        close(self._descriptor)  # `os` may be gone as Python ends

    def read(self, begin: int, end: int) -> bytes:
        """Return the bytes of a range that is present."""
        return read_bytes_at(self._descriptor, begin, end, path=self._path)

    def parts(self) -> npt.NDArray[np.bool_]:
        """Return whether each part is present."""
        is_there: npt.NDArray[np.bool_] = self._flags(0, self._num_parts) == _THERE
        return is_there

    def holds(self, begin: int, end: int) -> bool:
        """Return whether the bytes `[begin, end)` are present."""
        flags = self._flags(begin // PART_BYTES, -(-end // PART_BYTES))
        return bool((flags == _THERE).all())

    def _flags(self, first: int, last: int) -> npt.NDArray[np.uint8]:
        flags = np.zeros(last - first, np.uint8)  # zeros, since the file may have been truncated
        read_at(self._descriptor, flags, self._size + first, path=self._path)
        return flags

    def store(self, part: int, data: bytes) -> bool:
        """Store a part; return False if there is no space for it."""
        begin, flag = part * PART_BYTES, self._size + part
        if self._flags(part, part + 1)[0] == _ABSENT:
            if not self._folder.allocate(self._descriptor, begin, len(data)):
                return False
            os.pwrite(self._descriptor, bytes([_RESERVED]), flag)
        os.pwrite(self._descriptor, data, begin)
        os.pwrite(self._descriptor, bytes([_THERE]), flag)
        return True

    def forget(self, begin: int, end: int) -> None:
        """Mark parts as absent, since their bytes are damaged."""
        for part in range(begin // PART_BYTES, -(-end // PART_BYTES)):
            if self._flags(part, part + 1)[0] == _THERE:
                os.pwrite(self._descriptor, bytes([_RESERVED]), self._size + part)


class CacheFolder:
    """Copies of remote files by name.

    Args:
        folder: a folder that only this user may write to, created if missing. None:
            `default_cache_dir`, which nobody else may even read.
        most_bytes: the maximum size of all files in it together, from any process. None: half of
            the free space on its disk plus the current copies.

    Attributes:
        path: the path of the copies' folder.
        is_full: whether there was ever too little space.
    """

    def __init__(self, folder: str | None = None, most_bytes: int | None = None) -> None:
        self.path = own_folder(COPIES_FOLDER, given=folder)
        self.is_full = False
        self._names: set[str] = set()
        self._counted_at = time.monotonic()
        with _naming_setting(self.path):
            with self._exclusive_lock() as lock:
                used = self._count(lock)
            free = shutil.disk_usage(self.path).free
        self.most_bytes = int((free + used) * _FREE_SHARE) if most_bytes is None else most_bytes

    def open(self, name: str, size: int) -> Copy | None:
        """Open the copy of a file of `size` bytes, which stays while open; None without space."""
        self._names.add(name)
        path, total = os.path.join(self.path, name), size + -(-size // PART_BYTES)
        while True:
            descriptor = os.open(path, os.O_CREAT | os.O_RDWR | os.O_NOFOLLOW, 0o600)
            fcntl.flock(descriptor, fcntl.LOCK_SH)
            status = os.fstat(descriptor)
            if status.st_nlink:  # else it was removed in between
                break
            os.close(descriptor)
        os.utime(descriptor)
        if status.st_size != total and not self.allocate(descriptor, size, total - size):
            os.close(descriptor)
            return None
        return Copy(self, path, descriptor, size)

    def open_whole(self, name: str, make: Callable[[], Iterator[bytes]]) -> int | None:
        """Open a copy that is made at once, as of an unpacked file; the first process makes it.

        The copy stays while the descriptor is open.

        Args:
            name: the name of the copy.
            make: returns the pieces of its content. If it raises an error, nothing is kept.

        Returns:
            A descriptor of the content followed by `WHOLE_END_BYTES` more; None without space.
        """
        self._names.add(name)
        path = os.path.join(self.path, name)
        for attempt in itertools.count():
            descriptor = os.open(path, os.O_CREAT | os.O_RDWR | os.O_NOFOLLOW, 0o600)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_SH)  # waits for a process that makes the copy
                if not _is_whole(descriptor):
                    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    is_there = os.fstat(descriptor).st_nlink
                    needs_content = is_there and not _is_whole(descriptor)
                    if needs_content and not self._fill(descriptor, path, make):
                        os.close(descriptor)
                        return None
                    fcntl.flock(descriptor, fcntl.LOCK_SH)
                if os.fstat(descriptor).st_nlink:  # else it was removed in between
                    os.utime(descriptor)
                    return descriptor
            except BlockingIOError:  # another process looks at the copy, or something cut it short
                time.sleep(_LOOK_SECONDS)
                if attempt > _MAX_LOOKS:
                    with contextlib.suppress(FileNotFoundError):
                        os.unlink(path)
            except BaseException:
                os.close(descriptor)
                raise
            os.close(descriptor)
        raise AssertionError("the loop above returns")

    def _fill(self, descriptor: int, path: str, make: Callable[[], Iterator[bytes]]) -> bool:
        """Write a whole copy; return False, and remove it, without space."""
        is_done = False
        try:
            os.ftruncate(descriptor, 0)  # a killed process left a part
            place = 0
            for data in make():
                if not self._append(descriptor, place, data):
                    return False
                place += len(data)
            end = _WHOLE_MARK + place.to_bytes(8, "little")
            is_done = self._append(descriptor, place, end)
            return is_done
        finally:
            if not is_done:
                os.unlink(path)
                with self._exclusive_lock() as lock:
                    self._count(lock)

    def _append(self, descriptor: int, place: int, data: bytes) -> bool:
        if not self.allocate(descriptor, place, len(data)):
            return False
        view = memoryview(data)
        while view:
            written = os.pwrite(descriptor, view, place)
            view, place = view[written:], place + written
        return True

    def remove_unused(self, name: str) -> None:
        """Remove a copy unless somebody has it open."""
        if self._unlink(name):
            with self._exclusive_lock() as lock:
                self._count(lock)

    def allocate(self, descriptor: int, begin: int, size: int) -> bool:
        """Reserve space for some bytes of a file; return whether there was enough."""
        need = (-(-size // _BLOCK) + (begin % _BLOCK > 0)) * _BLOCK
        with self._exclusive_lock() as lock:
            if (used := self._with_room(lock, need)) is not None:
                try:
                    os.posix_fallocate(descriptor, begin, size)
                    _write(lock, used + need)
                    return True
                except OSError as error:
                    if error.errno not in (errno.ENOSPC, errno.EDQUOT):
                        raise
        self.is_full = True
        return False

    def remove(self, name: str) -> None:
        """Remove a copy, such as one of records that must be deleted."""
        with self._exclusive_lock() as lock:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(os.path.join(self.path, name))
            self._count(lock)

    def _with_room(self, lock: int, need: int) -> int | None:
        """Free `need` bytes by removing old copies if needed; return the used bytes, or None."""
        most = self.most_bytes - _OWN_BYTES - need
        try:
            used = int(os.pread(lock, _DIGITS, 0))
        except ValueError:  # truncated by a loss of power
            used = self._count(lock)
        if used <= most:
            return used
        is_recent = self.is_full and time.monotonic() - self._counted_at < _RECOUNT_SECONDS
        if most < 0 or is_recent:
            return None
        used, old = self._count(lock), time.time() - _STALE_SECONDS
        for used_at, name in sorted((status.st_mtime, name) for name, status in self._files()):
            if used <= most or used_at >= old:
                break
            if COPY_NAME.fullmatch(name) and name not in self._names:
                used -= self._unlink(name)
        return used if used <= most else None

    def _files(self) -> Iterator[tuple[str, os.stat_result]]:
        with os.scandir(self.path) as entries:
            for entry in entries:
                if entry.is_file(follow_symlinks=False):
                    yield entry.name, entry.stat(follow_symlinks=False)

    def _unlink(self, name: str) -> int:
        """Remove a copy that nobody has open; return the number of bytes freed."""
        path = os.path.join(self.path, name)
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
        except OSError:
            return 0
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.unlink(path)
            return os.fstat(descriptor).st_blocks * 512
        except OSError:
            return 0
        finally:
            os.close(descriptor)

    def _count(self, lock: int) -> int:
        """Add up the sizes of all files."""
        used = sum(status.st_blocks * 512 for _, status in self._files())
        self._counted_at = time.monotonic()
        _write(lock, used)
        return used

    @contextlib.contextmanager
    def _exclusive_lock(self) -> Iterator[int]:
        """Lock out other threads and processes, and yield the descriptor of the lock."""
        descriptor = os.open(os.path.join(self.path, *OWN_FILES), os.O_CREAT | os.O_RDWR, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield descriptor
        finally:
            os.close(descriptor)


def _is_whole(descriptor: int) -> bool:
    """Return whether a copy of `open_whole` is complete."""
    size = os.fstat(descriptor).st_size - WHOLE_END_BYTES
    end = os.pread(descriptor, WHOLE_END_BYTES, size) if size >= 0 else b""
    return end == _WHOLE_MARK + size.to_bytes(8, "little") if size >= 0 else False


def _write(lock: int, used: int) -> None:
    os.pwrite(lock, b"%0*d" % (_DIGITS, max(used, 0)), 0)


def own_folder(name: str, *, given: str | None) -> str:
    """Return a folder within the cache's that nobody else can write to, created if missing.

    In a `given` cache folder others may read, but not in `default_cache_dir`.

    Raises:
        ConfigError: another user created the folder, or may write to it.
    """
    outer = given or default_cache_dir()
    inner = os.path.join(outer, name)
    with _naming_setting(inner):
        os.makedirs(os.path.dirname(outer) or ".", exist_ok=True)
        _make_own(outer, 0o022 if given is not None else 0o077)
        _make_own(inner, 0o077)
    return inner


def _make_own(path: str, forbidden: int) -> None:
    """Create a folder of this user; raise ConfigError if it is someone else's or open to others."""
    with contextlib.suppress(FileExistsError):
        os.mkdir(path, mode=0o700)
    status = os.lstat(path)  # not `stat`: a link must not be followed
    if not stat.S_ISDIR(status.st_mode):
        wrong = "no folder"
    elif status.st_uid != os.getuid():
        wrong = f"one of user {status.st_uid}"
    elif status.st_mode & forbidden:
        wrong = f"one that others may use (mode {stat.S_IMODE(status.st_mode):o})"
    else:
        return
    raise ConfigError(
        f"cache: expected {path!r} to be this user's own folder, with mode 700, got {wrong}. "
        "Remove it, set TMPDIR, or name a folder: cache='…'.",
        setting="cache",
    )


@contextlib.contextmanager
def _naming_setting(path: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        rule = f"a folder to write to ({error.strerror}: {error.filename or path})"
        raise ConfigError.of("cache", path, allowed=rule) from error
