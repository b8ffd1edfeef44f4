"""`cache=`: shards are copied somewhere fast when they are first read.

locate = make_locator("disk", digest)
locate("gs://bucket/set/Split-train/data_tfrecord-00000-of-00008")   # "/tmp/tfx-shards-1000/…"

What is kept are the files as they lie on disk, so that every epoch's order, augmentation and
resuming are what they are without a cache.
"""

import contextlib
import hashlib
import os
import posixpath
import shutil
import stat
import tempfile
import threading
from collections.abc import Callable

from trainer_utils.format import ConfigError
from trainer_utils.storage.files import exists, make_folder, open_for_reading, rename
from trainer_utils.storage.registry import file_system_of

__all__ = ["MEMORY", "make_locator"]

MEMORY = "ram://tfx-shards"
"""TensorFlow's file system in memory, of this process; who reads with TensorFlow registers it."""

_COPIED_AT_ONCE = 8 << 20

_lock = threading.Lock()
_locks: dict[str, threading.Lock] = {}


def make_locator(
    cache: str, digest: str, *, check: Callable[[str, str], None] = lambda path, copy: None
) -> Callable[[str], str]:
    """A function that copies a shard, the first time, and says where the copy is.

    Args:
        cache: `"memory"`, `"disk"` (this user's part of the folder for temporary files) or a
            folder. Copies in a folder are used by other processes too, and stay there; what is in
            one that others can write to is as good as they are.
        digest: of the datasets, so that a changed one is copied anew.
        check: of a shard's path and of its copy; raises where the copy is not to be kept.
    """
    folder = posixpath.join(_folder(cache), digest)
    make_folder(folder)

    def locate(path: str) -> str:
        key = hashlib.blake2b(path.encode(), digest_size=8).hexdigest()
        target = posixpath.join(folder, f"{key}-{posixpath.basename(path)}")
        with _lock:
            lock = _locks.setdefault(target, threading.Lock())
        with lock:
            if not exists(target):
                # Another process may copy it at the same time.
                part = posixpath.join(folder, f"{os.getpid()}-{posixpath.basename(target)}")
                with open_for_reading(path) as source, file_system_of(part).create(part) as copy:
                    shutil.copyfileobj(source, copy, _COPIED_AT_ONCE)
                check(path, part)
                rename(part, target)
        return target

    return locate


def _folder(cache: str) -> str:
    if cache == "memory":
        return MEMORY
    if cache != "disk":
        return cache
    return _own_folder(os.path.join(tempfile.gettempdir(), f"tfx-shards-{os.getuid()}"))


def _own_folder(path: str) -> str:
    """A folder that nobody else can read or write, though all may make files beside it.

    Raises:
        ConfigError: somebody else made it, or may write to it.
    """
    with contextlib.suppress(FileExistsError):
        os.mkdir(path, mode=0o700)
    found = os.lstat(path)  # a link would be a link here
    if not stat.S_ISDIR(found.st_mode):
        wrong = "no folder"
    elif found.st_uid != os.getuid():
        wrong = f"one of user {found.st_uid}"
    elif found.st_mode & 0o077:
        wrong = f"one that others may use (mode {stat.S_IMODE(found.st_mode):o})"
    else:
        return path
    raise ConfigError(
        f"cache: expected {path!r} to be this user's own folder, with mode 700, got {wrong}. "
        "Remove it, set TMPDIR, or name a folder: cache='…'.",
        setting="cache",
    )
