"""The working folder of a run, which ensures a single writer and lets a later run resume.

    with run_in(uri):
        prepare_workspace(uri, key=key)  # resumes the finished tasks of a run with this key
        results = map_tasks(…)           # stores the result of each task
        publish_dataset(uri, …)          # writes the manifest and removes the working folder

If the file system has locks, the first run holds one on the folder, and a second run is refused at
once. Otherwise the run that started last continues, and the earlier run ends when it sees that.

A folder is in one of the states of `FolderState`. `prepare_workspace` does this in each:

| state      | run of the same key | of another key, or none | the same, with `keeps_dataset` |
|------------|---------------------|-------------------------|--------------------------------|
| NEW        |                     | start                   | start                          |
| UNFINISHED | resume              | remove all, start       | remove all, start              |
| COMPLETE   |                     | remove all, start       | start                          |
| REPLACED   | resume              | remove all, start       | remove the work, start         |

A run that fails leaves its work if another run can resume it. Otherwise `run_in` removes its files,
but never a complete dataset.
"""

import contextlib
import contextvars
import fcntl
import os
import posixpath
from collections.abc import Iterator

from absl import logging

from components.runtime.dataset_folder import RESULTS_FOLDER, Run, Workspace
from components.runtime.unfinished_runs import kept_from_launcher, take_over
from trainer_utils import storage
from trainer_utils.core.errors import ConfigError, DatasetError
from trainer_utils.core.printable import printable
from trainer_utils.core.text_output import human_bytes, quantity

__all__ = [
    "FINISHED_WORK",
    "RESULTS_FOLDER",
    "check_folder",
    "check_ownership",
    "folder_lock",
    "is_within",
    "kept_from_launcher",
    "meets_another",
    "prepare_workspace",
    "relative_path",
    "remove_dataset",
    "run_in",
]

FINISHED_WORK = "finished_work"
"""Name of an error's attribute that reports how many tasks of its run are done."""

_current: contextvars.ContextVar[Run | None] = contextvars.ContextVar("current", default=None)


def _current_run(uri: str) -> Run | None:
    """Return the run of this process that writes to `uri`, or None."""
    run = _current.get()
    return run if run is not None and run.uri == uri else None


@contextlib.contextmanager
def run_in(uri: str, *, restarts: bool = False) -> Iterator[None]:
    """Hold a run that writes to `uri`. If it fails, its finished tasks stay for the next run.

    They stay as if the run had been killed, and the next run with the same key resumes from them.
    The run's files are removed if no other run can resume it: it has no key, no finished task, or
    invalid settings. A complete dataset stays: the run has not begun to replace it, or is done.
    Files of another run stay too.

    Args:
        uri: the folder of the dataset.
        restarts: discard the finished tasks of an earlier run with the same key.
    """
    run = Run(uri, restarts=restarts)
    token = _current.set(run)
    try:
        yield
    except BaseException as error:
        try:
            _end_failed(run, error)
        except Exception as problem:  # the error that made the run fail is more useful
            logging.warning("%s: files of the failed run remain: %s", printable(uri), problem)
        raise
    finally:
        _current.reset(token)
        run.release()


def _end_failed(run: Run, error: BaseException) -> None:
    """Keep and report the finished tasks of a failed run, or remove its files."""
    workspace = Workspace(run.uri)
    if not (storage.exists(workspace.working_folder) and run.lock()):
        return
    recorded = workspace.recorded_run()  # this run, or one that has ended
    if not (run.has_lock or recorded is None or recorded.run == run.name):
        return
    finished = workspace.count_finished()
    if recorded and recorded.key and finished and not isinstance(error, ConfigError):
        _report_kept_work(workspace, finished, error)
        return
    if not workspace.has_dataset():
        workspace.remove_files()
    workspace.remove_work()


def _report_kept_work(workspace: Workspace, finished: int, error: BaseException) -> None:
    """Log the finished tasks that stay; for Ctrl-C, put them into the error that is printed."""
    done = getattr(error, FINISHED_WORK, None) or quantity(finished, "finished task")
    kept = f"kept {done}: the same run resumes from them, or discards them with --restart"
    if isinstance(error, KeyboardInterrupt):
        error.args = (kept,)
        return
    if size := workspace.num_bytes():
        kept += f" ({human_bytes(size)})"
    logging.warning("%s: %s", printable(workspace.uri), kept)


def prepare_workspace(uri: str, *, key: str = "", keeps_dataset: bool = False) -> None:
    """Create the working folder, and remove files of earlier runs with another key.

    Args:
        uri: the folder of the dataset.
        key: a digest of everything that the result depends on. Empty: earlier work is of no use.
        keeps_dataset: keep a complete dataset until `remove_dataset` is called, when all settings
            have been checked.

    Raises:
        DatasetError: another run is writing there.
        ConfigError: the folder has third-party files. They are named, and nothing is removed.
    """
    storage.make_folder(uri)
    run, workspace = _current_run(uri), Workspace(uri)
    if run is not None and not run.lock():
        raise _written_by_another(workspace, "Wait until it ends, or stop it, and run again.")
    workspace.refuse_foreign_files()
    if key:
        take_over(uri, key)
    recorded = workspace.recorded_run()
    resumes = bool(key) and recorded is not None and recorded.key == key
    restarts = run is not None and run.restarts
    if run is not None:
        run.meets_another = recorded is not None and not run.has_lock
        run.restarts = False  # a run may prepare its workspace again, after some tasks
    if not resumes or restarts:
        if finished := workspace.count_finished():
            owner = "this run, which restarts" if restarts else "another run"
            logging.warning(
                "%s: %s tasks of %s are discarded", printable(uri), f"{finished:,}", owner
            )
        if not (keeps_dataset and workspace.has_dataset()):
            workspace.remove_files()
        workspace.remove_work()
    workspace.record(run or Run(uri), key)


def remove_dataset(uri: str) -> None:
    """Remove a complete dataset, but not the working folder with the work begun since."""
    workspace = Workspace(uri)
    if workspace.has_dataset():
        run, recorded = _current_run(uri) or Run(uri), workspace.recorded_run()
        workspace.record(run, "")  # if this run is killed meanwhile, the next starts again
        workspace.remove_files()
        workspace.record(run, recorded.key if recorded else "")


def check_ownership(uri: str) -> None:
    """Raise DatasetError if another run has begun to write there since."""
    run, workspace = _current_run(uri), Workspace(uri)
    if run is None or run.has_lock:
        return
    recorded = workspace.recorded_run()
    if recorded is None or recorded.run != run.name:
        advice = "That run started later and owns the files there. Use its result."
        raise _written_by_another(workspace, advice)


def meets_another(uri: str) -> bool:
    """Return whether an unfinished run was there and may still write, since there are no locks."""
    run = _current_run(uri)
    return run is not None and run.meets_another


def _written_by_another(workspace: Workspace, advice: str) -> DatasetError:
    return DatasetError.at(
        workspace.uri,
        expected="no other run that writes there",
        got=str(workspace.recorded_run() or "another run"),
        advice=advice,
    )


# Folders ------------------------------------------------------------------------------------------


@contextlib.contextmanager
def folder_lock(folder: str, *, waiting: str = "") -> Iterator[None]:
    """Hold the lock of a local folder, after waiting for another process to release it.

    A killed process leaves no lock behind. Without locks in the file system, nothing waits.

    Args:
        folder: the folder.
        waiting: the message that is logged before waiting.
    """
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if waiting:
                logging.warning("%s: %s", printable(folder), waiting)
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        except OSError:
            pass
        yield
    finally:
        os.close(descriptor)


def check_folder(name: str, folder: str) -> None:
    """Raise ConfigError if a local folder cannot be created or written to."""
    if storage.is_remote(folder):
        return
    place = os.path.abspath(folder)
    while not os.path.lexists(place):
        place = os.path.dirname(place)
    if not storage.is_folder(place):
        raise ConfigError.of(name, folder, allowed=f"a folder, which the file {place!r} is not")
    if not os.access(place, os.W_OK | os.X_OK):
        is_read_only = os.statvfs(place).f_flag & os.ST_RDONLY
        why = "Read-only file system" if is_read_only else "no permission to write in"
        rule = f"a folder that can be written to: {why} {place!r}"
        raise ConfigError.of(name, folder, allowed=rule)


def is_within(place: str, folder: str) -> bool:
    """Return whether a path is a folder or is inside it, after following links."""
    inner, outer = _normal(place), _normal(folder)
    return posixpath.commonpath([inner, outer]) == outer


def relative_path(place: str, folder: str) -> str:
    """Return the path of a place relative to a folder that it is in, after following links."""
    return posixpath.relpath(_normal(place), _normal(folder))


def _normal(uri: str) -> str:
    if storage.is_remote(uri):
        scheme, _, path = uri.partition("://")
        return f"/{scheme}:/{posixpath.normpath(path)}"
    return os.path.realpath(uri)
