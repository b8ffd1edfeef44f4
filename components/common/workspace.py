"""The working folder of a run: one at a time writes a dataset, and goes on where one was killed.

Where the file system has locks, the first run holds one on the folder, and another is refused at
once; elsewhere the run that began last goes on, and the one before, finding its name, ends.
"""

import contextlib
import contextvars
import fcntl
import json
import os
import posixpath
import socket
import uuid
from collections.abc import Iterator

from absl import logging

from trainer_utils.format import ConfigError, DatasetError, Manifest
from trainer_utils.format.json_text import JsonObject
from trainer_utils.format.naming import (
    DATASET_FILES,
    INDEX_FOLDER,
    MANIFEST_FILE,
    RUN_FILE,
    SPLIT_PREFIX,
    VOCABULARY_FOLDER,
    WORKING_FOLDER,
    is_index_file,
    is_shard_file,
    vocabulary_of,
)
from trainer_utils.format.printable import printable
from trainer_utils.storage import (
    MachineError,
    exists,
    is_folder,
    is_remote,
    join,
    list_names,
    make_folder,
    read_text,
    remove_file,
    remove_tree,
    rename,
    write_text,
)
from trainer_utils.writing.publishing import remove_working_folder, working_folder

_SHOWN = 5


@contextlib.contextmanager
def folder_lock(folder: str, *, waiting: str = "") -> Iterator[None]:
    """Holds the lock of a local folder; where another process has it, waits for that to let go.

    A killed process leaves none behind. Where the file system has no locks, nobody waits.

    Args:
        waiting: what is logged where one has to wait.
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


class _Run:
    """A run of this process: its name, and its lock of the folder, where there are locks."""

    def __init__(self, uri: str) -> None:
        self.uri, self.name = uri, uuid.uuid4().hex
        self.folder: int | None = None
        self.meets_another = False

    def lock(self) -> bool:
        """Whether nobody else has the lock; true as well where there are no locks."""
        if self.folder is None and not is_remote(self.uri):
            folder = os.open(self.uri, os.O_RDONLY | os.O_DIRECTORY)
            try:
                fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
                self.folder = folder
            except OSError as error:  # some network file systems lock no folders
                os.close(folder)
                return not isinstance(error, BlockingIOError)
        return True

    def release(self) -> None:
        """Lets go of the lock."""
        if self.folder is not None:
            os.close(self.folder)


_current: contextvars.ContextVar[_Run | None] = contextvars.ContextVar("current", default=None)


def _own(uri: str) -> _Run | None:
    """The run of this process that writes there."""
    run = _current.get()
    return run if run is not None and run.uri == uri else None


@contextlib.contextmanager
def removed_on_failure(uri: str) -> Iterator[None]:
    """A run; if it fails, what it has written to `uri` is removed, working files and all.

    A whole dataset stays: the run has not begun to replace it, or is done. So does what another run
    is writing.
    """
    own = _Run(uri)
    token = _current.set(own)
    try:
        yield
    except BaseException:
        try:
            if exists(working_folder(uri)) and own.lock():
                run = _run_at(uri)  # this one, or one that is over
                if own.folder is not None or run is None or run.get("run") == own.name:
                    if not exists(join(uri, MANIFEST_FILE)):
                        _remove_files(uri)
                    remove_working_folder(uri)
        except Exception as error:  # the one that made the run fail says more
            logging.warning("%s: what the run wrote is left there: %s", printable(uri), error)
        raise
    finally:
        _current.reset(token)
        own.release()


def start_working(uri: str, *, key: str = "", keeps_dataset: bool = False) -> None:
    """Makes the working folder, and removes what an earlier run left, but for one of this key.

    Args:
        key: a digest of all that the outcome depends on; empty: nothing of before is of use.
        keeps_dataset: whether a whole dataset stays until `remove_dataset` is called, once nothing
            is left that a setting could be wrong for.

    Raises:
        DatasetError: another run is writing there.
        ConfigError: files of others are among what is there; they are named, nothing is removed.
    """
    make_folder(uri)
    own = _own(uri)
    if own is not None and not own.lock():
        rule, advice = (
            "no other run that writes there",
            "Wait for its end, or stop it, and run again.",
        )
        raise DatasetError.at(uri, expected=rule, got=_named(_run_at(uri)), advice=advice)
    _refuse_others(uri)
    if key:
        _take_over(uri, key)
    run = _run_at(uri) or {}
    if own is not None:
        own.meets_another = own.folder is None and bool(run)
    if not key or run.get("key") != key:
        if not (keeps_dataset and exists(join(uri, MANIFEST_FILE))):
            _remove_files(uri)
        remove_working_folder(uri)
    _mark(uri, key)


def remove_dataset(uri: str) -> None:
    """Removes a whole dataset, but not the working folder; what was begun in its place stays."""
    if exists(join(uri, MANIFEST_FILE)):
        key = str((_run_at(uri) or {}).get("key", ""))
        _mark(uri, "")  # if this run is killed meanwhile, the next begins anew
        _remove_files(uri)
        _mark(uri, key)


def check_own(uri: str) -> None:
    """Makes sure that this run writes there; DatasetError where another has begun since."""
    own = _own(uri)
    if own and own.folder is None and (run := _run_at(uri) or {}).get("run") != own.name:
        advice = "It began later, and what is there is its own: use that."
        rule = "that this run alone writes there"
        raise DatasetError.at(uri, expected=rule, got=_named(run), advice=advice)


def meets_another(uri: str) -> bool:
    """Whether a run that has not ended was there, and could write still: there are no locks."""
    own = _own(uri)
    return own is not None and own.meets_another


def _refuse_others(uri: str) -> None:
    """Refuses to write where a dataset's own files and folders are somebody else's."""
    names = list_names(uri, may_lack=True)  # a store has no empty folders
    is_ours = WORKING_FOLDER in names or _has_manifest(uri)
    found = [name for name in names if name in DATASET_FILES]
    for folder in filter(_is_of_dataset, {*names}.difference(DATASET_FILES)):
        if is_folder(join(uri, folder)):
            found += [f"{folder}/{name}" for name in list_names(join(uri, folder))]
    if is_ours:
        found = [
            path for path in found if path not in DATASET_FILES and vocabulary_of(path) is None
        ]
        found = [path for path in found if not is_shard_file(path) and not is_index_file(path)]
    if found:
        shown = ", ".join(map(repr, sorted(found)[:_SHOWN])) + ", …" * (len(found) > _SHOWN)
        raise ConfigError(
            f"output {uri!r}: expected a new folder, or a dataset that this program wrote and "
            f"nothing else in its folders, got {shown}. Move them away, or name another output."
        )


def _has_manifest(uri: str) -> bool:
    path = join(uri, MANIFEST_FILE)
    try:
        if not exists(path):
            return False
        Manifest.from_json(read_text(path), path=path, is_checked=False)
    except MachineError:
        raise
    except (OSError, ValueError):  # somebody else's
        return False
    return True


def _is_of_dataset(name: str) -> bool:
    folders = (INDEX_FOLDER, VOCABULARY_FOLDER)
    return name in DATASET_FILES or name in folders or name.startswith(SPLIT_PREFIX)


def _remove_files(uri: str) -> None:
    _refuse_others(uri)
    make_folder(working_folder(uri))  # by which the rest is known for ours
    if exists(join(uri, MANIFEST_FILE)):
        remove_file(join(uri, MANIFEST_FILE))  # first, so that nothing passes for whole
    for name in filter(_is_of_dataset, list_names(uri, may_lack=True)):
        (remove_file if name in DATASET_FILES else remove_tree)(join(uri, name))


def _take_over(uri: str, key: str) -> None:
    """Brings here what a killed run of this key left beside: TFX gives each run a new folder."""
    if is_remote(uri) or _has_manifest(uri) or (_run_at(uri) or {}).get("key") == key:
        return
    parent = os.path.dirname(os.path.abspath(uri))
    for name in sorted(list_names(parent)):
        other = _Run(os.path.join(parent, name))
        if other.uri == os.path.abspath(uri) or (_run_at(other.uri) or {}).get("key") != key:
            continue
        try:
            is_over = other.lock() and other.folder is not None
            if is_over and not _has_manifest(other.uri):
                _remove_files(uri)
                remove_working_folder(uri)
                for inner in list_names(other.uri):
                    rename(join(other.uri, inner), join(uri, inner))
                return
        finally:
            other.release()


def _mark(uri: str, key: str) -> None:
    """Puts this run's name into the working folder, over that of any other."""
    make_folder(folder := working_folder(uri))
    run: JsonObject = {"run": (_own(uri) or _Run(uri)).name, "key": key}
    run |= {"host": socket.gethostname(), "process": os.getpid()}
    write_text(join(folder, RUN_FILE), json.dumps(run), temporary_folder=folder)


def _run_at(uri: str) -> JsonObject | None:
    """The run that has its name in the working folder there."""
    path = join(working_folder(uri), RUN_FILE)
    try:
        found: JsonObject = json.loads(read_text(path)) if exists(path) else {}
    except (FileNotFoundError, NotADirectoryError, ValueError):  # removed, or of somebody else
        return None
    return found or None


def _named(run: JsonObject | None) -> str:
    if not run:
        return "another run"
    return f"another run, process {run['process']} on {run['host']}"


def path_of(name: str, value: object) -> str:
    """A path or url, given as a text or as `pathlib` has it; ConfigError of anything else."""
    path = os.fspath(value) if isinstance(value, (str, os.PathLike)) else None
    if not isinstance(path, str) or not path or "\0" in path:
        raise ConfigError.of(name, value, allowed="a path or a url")
    return path


def check_folder(name: str, folder: str) -> None:
    """Refuses a folder of this machine that cannot be made, or that cannot be written into."""
    if is_remote(folder):
        return
    place = os.path.abspath(folder)
    while not os.path.lexists(place):
        place = os.path.dirname(place)
    if not is_folder(place):
        raise ConfigError.of(name, folder, allowed=f"a folder, which the file {place!r} is not")
    if not os.access(place, os.W_OK | os.X_OK):
        is_read_only = os.statvfs(place).f_flag & os.ST_RDONLY
        why = "Read-only file system" if is_read_only else "no permission to write in"
        rule = f"a folder that can be written to: {why} {place!r}"
        raise ConfigError.of(name, folder, allowed=rule)


def is_within(place: str, folder: str) -> bool:
    """Whether a place is a folder, or lies in it, links followed."""
    inner, outer = _normal(place), _normal(folder)
    return posixpath.commonpath([inner, outer]) == outer


def _normal(uri: str) -> str:
    if is_remote(uri):
        scheme, _, path = uri.partition("://")
        return f"/{scheme}:/{posixpath.normpath(path)}"
    return os.path.realpath(uri)
