"""Brings a dataset's files to the disk before its manifest says that they are there.

    begin_sync("examples/Split-train/data_tfrecord-00000-of-00008")
    sync_files(uri, ["Split-train/data_tfrecord-00000-of-00008", "vocab/label.txt"])
    sync_folder(uri)

After a loss of power a file system may have a rename that came last, and not what was written
before it. Object stores keep an object whole once it is closed: nothing is done there.

Source: fsync(2), rename(2); "All File Systems Are Not Created Equal" (Pillai and others, OSDI
2014), section 3.
"""

import contextlib
import ctypes
import errno
import os
import threading
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from trainer_utils.storage.file_system import naming_file
from trainer_utils.storage.paths import is_remote, join

__all__ = ["begin_sync", "sync_files", "sync_folder"]

_THREADS = 16  # the system's calls wait for the disk, which takes many at once
_SYNC_FILE_RANGE_WRITE = 2
_sync_file_range: Any = getattr(ctypes.CDLL(None), "sync_file_range", None)  # Linux has it
if _sync_file_range is not None:
    _sync_file_range.argtypes = (ctypes.c_int, ctypes.c_int64, ctypes.c_int64, ctypes.c_uint)
_NO_FOLDERS = (errno.EINVAL, errno.ENOTSUP, errno.EACCES, errno.EISDIR)


def begin_sync(path: str) -> None:
    """Has the system begin to write a file to the disk, so that `sync_files` waits less.

    Nobody waits for this, and nothing is kept from `sync_files`: an fsync here would take an error
    of the disk from the one that is to report it. Where the system cannot, nothing is done.

    Source: sync_file_range(2).
    """
    if not is_remote(path) and _sync_file_range is not None:
        threading.Thread(target=_begin_sync, args=(path,), daemon=True).start()


def _begin_sync(path: str) -> None:
    with contextlib.suppress(OSError):
        descriptor = os.open(path, os.O_RDONLY)
        try:
            _sync_file_range(descriptor, 0, 0, _SYNC_FILE_RANGE_WRITE)
        finally:
            os.close(descriptor)


def sync_files(uri: str, paths: Iterable[str]) -> None:
    """Waits until files are on the disk with their names, and the folder that they are in.

    Args:
        uri: of the dataset.
        paths: relative to it.
    """
    if is_remote(uri):
        return
    whole = [join(uri, path) for path in paths]
    folders = {os.path.dirname(path) for path in whole} | {uri, os.path.dirname(uri.rstrip("/"))}
    with ThreadPoolExecutor(_THREADS) as pool:
        list(pool.map(_sync, whole))
    for folder in sorted(folders, reverse=True):  # inner ones first
        sync_folder(folder)


def sync_folder(folder: str) -> None:
    """Waits until the names in a folder are on the disk; some file systems cannot say."""
    if is_remote(folder):
        return
    try:
        _sync(folder or ".")
    except OSError as error:
        if error.errno not in _NO_FOLDERS:
            raise


def _sync(path: str) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        with naming_file(path):
            os.fsync(descriptor)
    finally:
        os.close(descriptor)
