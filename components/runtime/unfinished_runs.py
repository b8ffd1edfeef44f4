"""Keep the work of a failed run where TFX does not remove it, and take it over in a later run.

TFX's launcher removes the outputs of a failed run, and gives each run a new folder. So the files of
a failed run are moved next to its output, and the next run with the same key moves them to its own.
A bucket has no rename: there the store copies the objects, and no byte passes through this machine.

| the earlier run | on a file system | in a bucket |
|---|---|---|
| failed under TFX | taken from `.<name>.unfinished` | taken from `.unfinished` |
| was killed | taken from its output, once its lock is free | stays: it might still be writing |
"""

import contextlib
import os
from collections.abc import Iterator
from concurrent import futures

from absl import logging

from components.runtime.dataset_folder import FolderState, Run, Workspace
from trainer_utils import storage
from trainer_utils.core.printable import printable
from trainer_utils.format import naming

_UNFINISHED = ".unfinished"
_THREADS = 32  # concurrent copies in a store


@contextlib.contextmanager
def kept_from_launcher(uri: str) -> Iterator[None]:
    """Move the output of a failed run next to it: TFX removes failed outputs.

    The next run of the same key takes it from there. Only the newest such folder of an output
    stays.
    """
    try:
        yield
    except BaseException:
        try:
            if Workspace(uri).state() in (FolderState.UNFINISHED, FolderState.REPLACED):
                _set_aside_in_bucket(uri) if storage.is_remote(uri) else _set_aside(uri)
        except Exception as problem:  # the error that made the run fail is more useful
            logging.warning(
                "%s: the finished tasks are lost, since moving them failed: %s",
                *(printable(uri), problem),
            )
        raise


def take_over(uri: str, key: str) -> None:
    """Move the files of an ended run with this key to `uri`, if there are any.

    Nothing happens if `uri` has a dataset or work of this key itself.
    """
    workspace = Workspace(uri)
    if workspace.has_own_dataset() or _has_work_of(workspace, key):
        return
    if storage.is_remote(uri):
        _take_over_in_bucket(workspace, key)
        return
    path = os.path.abspath(uri)
    parent = os.path.dirname(path)
    for name in sorted(storage.list_names(parent)):
        other = Workspace(os.path.join(parent, name))
        if other.uri != path and _has_work_of(other, key) and _take_from(other, workspace):
            return


def _has_work_of(workspace: Workspace, key: str) -> bool:
    recorded = workspace.recorded_run()
    return recorded is not None and recorded.key == key


# On a file system ---------------------------------------------------------------------------------


def _set_aside(uri: str) -> None:
    path = os.path.abspath(uri)
    parent, name = os.path.split(path)
    for other in storage.list_names(parent):
        if other.endswith(_UNFINISHED):
            _remove_unless_locked(os.path.join(parent, other))
    storage.rename(path, os.path.join(parent, f".{name}{_UNFINISHED}"))
    storage.make_folder(path)


def _remove_unless_locked(folder: str) -> None:
    """Remove an earlier run's files, unless a run is writing there."""
    other = Run(folder)
    try:
        if other.lock():
            storage.remove_tree(folder)
    finally:
        other.release()


def _take_from(other: Workspace, workspace: Workspace) -> bool:
    """Move the files of another run if it has ended, and return whether it had."""
    run = Run(other.uri)
    try:
        is_over = run.lock() and run.has_lock
        if not is_over or other.has_own_dataset():
            return False
        workspace.remove_files()
        workspace.remove_work()
        for name in storage.list_names(other.uri):
            storage.rename(storage.join(other.uri, name), storage.join(workspace.uri, name))
        if other.uri.endswith(_UNFINISHED):
            storage.remove_tree(other.uri)
        return True
    finally:
        run.release()


# In a bucket --------------------------------------------------------------------------------------


def _aside_in_bucket(uri: str) -> str | None:
    """Return the folder next to an output that keeps the files of its last failed run.

    Nothing is next to a whole bucket.
    """
    parent = uri.rstrip("/").rpartition("/")[0]
    return storage.join(parent, _UNFINISHED) if storage.is_remote(parent) else None


def _set_aside_in_bucket(uri: str) -> None:
    """Copy the files. The launcher removes the originals, and fails without any."""
    aside = _aside_in_bucket(uri)
    if aside is not None and Workspace(uri).count_finished():
        storage.remove_tree(aside)
        _copy_objects(uri, aside)


def _take_over_in_bucket(workspace: Workspace, key: str) -> None:
    place = _aside_in_bucket(workspace.uri)
    if place is None or not _has_work_of(aside := Workspace(place), key):
        return
    workspace.remove_files()
    workspace.remove_work()
    try:
        _copy_objects(aside.uri, workspace.uri)
    except FileNotFoundError:  # another run has taken it over meanwhile
        workspace.remove_files()
        workspace.remove_work()
        return
    storage.remove_tree(aside.uri)


def _copy_objects(source: str, target: str) -> None:
    """Have the store copy all objects. The file that names the run is last, so nothing is missing.

    Raises:
        FileNotFoundError: an object was removed meanwhile.
    """
    last = f"{naming.WORKING_FOLDER}/{naming.RUN_FILE}"
    paths = [file.path for file in storage.list_files(source) if file.path != last]

    def copy(path: str) -> None:
        storage.copy_file(
            storage.join(source, path), storage.join(target, path), temporary_folder=target
        )

    with futures.ThreadPoolExecutor(_THREADS) as pool:
        for _ in pool.map(copy, paths):
            pass
    copy(last)
