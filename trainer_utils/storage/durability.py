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

_THREADS = 16  # the system's calls wait for the disk, which takes many at once
_NO_FOLDERS = (errno.EINVAL, errno.ENOTSUP, errno.EACCES, errno.EISDIR)


def begin_sync(path: str) -> None:
    """Has Linux begin to write a file to the disk, so that `sync_files` waits less. An fsync here
    would take an error of the disk from the one that is to report it. Source: sync_file_range(2).
    """
    call: Any = None if is_remote(path) else getattr(ctypes.CDLL(None), "sync_file_range", None)

    def begin(call: Any) -> None:
        with contextlib.suppress(OSError), open(path, "rb") as stream:
            size = ctypes.c_int64
            call(stream.fileno(), size(0), size(0), 2)  # SYNC_FILE_RANGE_WRITE

    if call is not None:
        threading.Thread(target=begin, args=[call], daemon=True).start()


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
