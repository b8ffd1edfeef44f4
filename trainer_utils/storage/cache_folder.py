"""A folder of copies that never takes more than it may, shared by the processes of a machine.

    folder = CacheFolder("/nvme/cache", most_bytes=64 << 30)
    folder.put("5f0c…-0-11.part", data, use=120.0, use_of=uses)      # False: there is no room
    folder.get("5f0c…-0-11.part")                                    # the bytes, or None

What goes out for what comes in is what is used last: the caller says at which position each copy
of its own is read next. Of other processes' copies a file's modification time says when they
expect to read it. Locks are the kernel's (flock): a process that is killed leaves none behind, and
what it had half-written is removed by the next that counts. Nothing is removed but files of this
cache's own names in its own folder, all of them copies.
"""

import contextlib
import errno
import fcntl
import heapq
import math
import os
import re
import shutil
import stat
import threading
import time
import uuid
from collections.abc import Callable, Iterator

from trainer_utils.format import ConfigError

__all__ = ["COPIES_FOLDER", "COPY_NAME", "OWN_FILES", "CacheFolder", "own_folder"]

UseOf = Callable[[str], float | None]
"""The position that a copy is read at next; infinity: never; None: it is somebody else's."""

COPIES_FOLDER = "shards"
"""Within the folder that the user names, which may hold other things."""

COPY_NAME = re.compile(r"[0-9a-f]{16}-[A-Za-z0-9_.-]+")
_TEMPORARY = re.compile(r"[0-9a-f]{32}\.tmp")
_LOCK, _LEDGER = OWN_FILES = "lock", "bytes"
_BLOCK = 4096  # what a file takes at the least, and in multiples of
_OWN_BYTES = 16 * _BLOCK  # of the lock, the ledger, and the folder itself
_FREE_SHARE = 0.5  # of the disk, where no bound is set
_RESCAN_SECONDS = 2.0
_GUESSED_SECONDS = 600.0  # until the next epoch, before anything was measured


class CacheFolder:
    """Copies by name.

    Args:
        folder: of this user alone; made if it is not there.
        most_bytes: that all files in it take together, whoever put them there. None: half of what
            is free on its disk, beside what it holds already.
        is_private: whether nobody else may even read in it.

    Raises:
        ConfigError: it is not this user's own.
    """

    def __init__(self, folder: str, most_bytes: int | None, *, is_private: bool = False) -> None:
        inner = os.path.join(own_folder(folder, is_shared=not is_private), COPIES_FOLDER)
        self.path = own_folder(inner)
        self._mutex = threading.Lock()
        self._sizes: dict[str, int] = {}
        self._heap: list[tuple[float, str]] = []
        self._scanned_at = -math.inf
        self.position, self._began = 0.0, (0.0, time.monotonic())
        with self._alone():
            used = self._count()
        free = shutil.disk_usage(self.path).free
        self.most_bytes = int((free + used) * _FREE_SHARE) if most_bytes is None else most_bytes

    def get(self, name: str) -> bytes | None:
        """A copy's bytes; None where there is none."""
        try:
            with open(os.path.join(self.path, name), "rb", buffering=0) as stream:
                return stream.read()
        except FileNotFoundError:
            return None

    def holds(self, name: str) -> bool:
        """Whether there is a copy, at this moment."""
        return os.path.exists(os.path.join(self.path, name))

    def put(self, name: str, data: bytes, *, use: float, use_of: UseOf) -> bool:
        """Keeps a copy, unless that would send away what is used sooner."""
        with self._reserved(name, len(data), use=use, use_of=use_of) as temporary:
            if temporary is None:
                return False
            with open(temporary, "wb", buffering=0) as stream:
                stream.write(data)
        self.expect(name, use)
        return self.holds(name)

    def putting(
        self, name: str, size: int, *, use_of: UseOf
    ) -> contextlib.AbstractContextManager[str | None]:
        """The path of a file to fill with `size` bytes, which then gets its name.

        None where there is no room. It is removed where its filling fails.
        """
        return self._reserved(name, size, use=-math.inf, use_of=use_of)

    def pin(self, name: str) -> int | None:
        """A descriptor that keeps a copy from being removed while it is open; None: it is gone."""
        try:
            descriptor = os.open(os.path.join(self.path, name), os.O_RDONLY)
        except FileNotFoundError:
            return None
        fcntl.flock(descriptor, fcntl.LOCK_SH)
        if not os.fstat(descriptor).st_nlink:  # removed in between
            os.close(descriptor)
            return None
        return descriptor

    def remove(self, name: str) -> None:
        """Removes a copy, such as a damaged one."""
        with self._mutex, self._alone():
            self._add(-self._unlink(name))

    def expect(self, name: str, use: float) -> None:
        """Says when a copy of one's own is read next."""
        with self._mutex:
            heapq.heappush(self._heap, (-use, name))
            seconds = min(self._seconds_until(use), 1e9)
        with contextlib.suppress(OSError):
            now = time.time()
            os.utime(os.path.join(self.path, name), (now, now + seconds))

    def begin(self, position: float) -> None:
        """Says where reading begins, from which its speed is measured."""
        with self._mutex:
            self.position, self._began = position, (position, time.monotonic())
            self._scanned_at = -math.inf

    def _seconds_until(self, use: float) -> float:
        start, since = self._began
        done, seconds = self.position - start, time.monotonic() - since
        if done <= 0:
            return _GUESSED_SECONDS
        return max(use - self.position, 0.0) * seconds / done

    @contextlib.contextmanager
    def _reserved(self, name: str, size: int, *, use: float, use_of: UseOf) -> Iterator[str | None]:
        """A temporary file that counts with `size` bytes, if there is room; it gets the name."""
        need, descriptor = _rounded(size), None
        temporary = os.path.join(self.path, f"{uuid.uuid4().hex}.tmp")
        with self._mutex, self._alone():
            if self._make_room(need, use, use_of):
                self._add(need)
                descriptor = os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600)
                fcntl.flock(descriptor, fcntl.LOCK_EX)  # it has an owner, who is alive
                os.ftruncate(descriptor, size)  # its size counts; it takes nothing yet
        if descriptor is None:
            yield None
            return
        is_written = False
        try:
            yield temporary
            is_written = True
        except OSError as error:
            if error.errno not in (errno.ENOSPC, errno.EDQUOT):
                raise
        finally:
            with self._mutex, self._alone():
                target = os.path.join(self.path, name)
                if is_written and not os.path.exists(target):  # else another process was first
                    os.rename(temporary, target)
                    self._sizes[name] = need
                else:
                    with contextlib.suppress(FileNotFoundError):
                        os.unlink(temporary)
                    self._add(-need)
            os.close(descriptor)

    def _make_room(self, need: int, use: float, use_of: UseOf) -> bool:
        """Removes what is used later than `use`, the last of it first, until there is room."""
        most = self.most_bytes - _OWN_BYTES
        if need > most:
            return False
        used = self._used()
        if used + need <= most:
            return True
        if time.monotonic() - self._scanned_at > _RESCAN_SECONDS:
            used = self._count()
            self._rank(use_of)
        kept = []
        while used + need > most and self._heap:
            key, name = heapq.heappop(self._heap)
            if name not in self._sizes:
                continue
            now = self._use(name, use_of)
            if now != -key:
                if now < -key:
                    heapq.heappush(self._heap, (-now, name))
                    continue
                key = -now
            if now <= use:
                kept.append((key, name))
                break
            freed = self._unlink(name)
            if not freed and name in self._sizes:  # somebody reads it
                kept.append((key, name))
                if len(kept) > 256:
                    break
            used -= freed
        for entry in kept:
            heapq.heappush(self._heap, entry)
        self._write(used)
        return used + need <= most

    def _use(self, name: str, use_of: UseOf) -> float:
        own = use_of(name)
        if own is not None:
            return own
        try:
            expected = os.stat(os.path.join(self.path, name)).st_mtime - time.time()
        except OSError:
            return math.inf
        if expected < 0:  # nobody came for it
            return math.inf
        start, since = self._began
        rate = (self.position - start) / max(time.monotonic() - since, 1e-3)
        return self.position + round(expected) * rate

    def _rank(self, use_of: UseOf) -> None:
        self._heap = [(-self._use(name, use_of), name) for name in self._sizes]
        heapq.heapify(self._heap)

    def _unlink(self, name: str) -> int:
        """Removes a copy that nobody has pinned; returns the bytes that this frees."""
        path = os.path.join(self.path, name)
        try:
            descriptor = os.open(path, os.O_RDONLY)
        except FileNotFoundError:
            self._sizes.pop(name, None)  # whoever removed it has counted it
            return 0
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            size = _rounded(os.fstat(descriptor).st_size)
            os.unlink(path)
        except OSError:
            return 0
        finally:
            os.close(descriptor)
        self._sizes.pop(name, None)
        return size

    def _count(self) -> int:
        """Adds up what is there; what dead processes left half-written goes. Under the lock."""
        self._sizes = {}
        used = 0
        with os.scandir(self.path) as entries:
            for entry in entries:
                if not entry.is_file(follow_symlinks=False):
                    continue
                size = _rounded(entry.stat(follow_symlinks=False).st_size)
                if _TEMPORARY.fullmatch(entry.name):
                    size -= _unlink_if_dead(entry.path, size)
                elif COPY_NAME.fullmatch(entry.name):
                    self._sizes[entry.name] = size
                used += size
        self._scanned_at = time.monotonic()
        self._write(used)
        return used

    def _used(self) -> int:
        try:
            with open(os.path.join(self.path, _LEDGER), encoding="ascii") as stream:
                return int(stream.read())
        except (OSError, ValueError):  # gone, or cut by a loss of power
            return self._count()

    def _write(self, used: int) -> None:
        descriptor = os.open(os.path.join(self.path, _LEDGER), os.O_CREAT | os.O_WRONLY, 0o600)
        try:
            os.pwrite(descriptor, b"%020d" % max(used, 0), 0)
        finally:
            os.close(descriptor)

    def _add(self, size: int) -> None:
        self._write(self._used() + size)

    @contextlib.contextmanager
    def _alone(self) -> Iterator[None]:
        """Holds other processes off."""
        descriptor = os.open(os.path.join(self.path, _LOCK), os.O_CREAT | os.O_RDWR, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            os.close(descriptor)


def own_folder(path: str, *, is_shared: bool = False) -> str:
    """A folder that nobody else can write to, though all may make files beside it.

    Args:
        path: of it; made with mode 700, where there is none, with those above it.
        is_shared: whether others may read what is in it.

    Raises:
        ConfigError: somebody else made it, or may write to it.
    """
    os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
    with contextlib.suppress(FileExistsError):
        os.mkdir(path, mode=0o700)
    found = os.lstat(path)  # a link would be a link here
    if not stat.S_ISDIR(found.st_mode):
        wrong = "no folder"
    elif found.st_uid != os.getuid():
        wrong = f"one of user {found.st_uid}"
    elif found.st_mode & (0o022 if is_shared else 0o077):
        wrong = f"one that others may use (mode {stat.S_IMODE(found.st_mode):o})"
    else:
        return path
    raise ConfigError(
        f"cache: expected {path!r} to be this user's own folder, with mode 700, got {wrong}. "
        "Remove it, set TMPDIR, or name a folder: cache_dir='…'.",
        setting="cache",
    )


def _unlink_if_dead(path: str, size: int) -> int:
    """Removes a temporary file whose owner is gone; returns the bytes that this frees."""
    try:
        descriptor = os.open(path, os.O_RDONLY)
    except OSError:
        return size
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.unlink(path)
    except OSError:
        return 0
    finally:
        os.close(descriptor)
    return size


def _rounded(size: int) -> int:
    return -(-size // _BLOCK) * _BLOCK
