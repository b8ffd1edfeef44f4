"""The working folder of a run, which ensures a single writer and lets a later run resume.

If the file system has locks, the first run holds one on the folder, and a second run is refused at
once. Otherwise the run that started last continues, and the earlier run ends when it sees that.
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

from trainer_utils import storage
from trainer_utils.format import ConfigError, DatasetError, Manifest, naming
from trainer_utils.format.json_text import JsonObject
from trainer_utils.format.printable import printable
from trainer_utils.text_output import human_bytes
from trainer_utils.writing.publishing import remove_working_folder, working_folder

RESULTS_FOLDER = "results"  # in the working folder: a file for each finished task
FINISHED_WORK = "finished_work"
"""Name of an error's attribute that reports how many tasks of its run are done."""
_UNFINISHED = ".unfinished"
_SHOWN = 5


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


class _Run:
    """A run of this process: its name, and its lock of the folder if there are locks."""

    def __init__(self, uri: str) -> None:
        self.uri, self.name = uri, uuid.uuid4().hex
        self.folder: int | None = None
        self.meets_another = False
        self.restarts = False

    def lock(self) -> bool:
        """Return whether no other run has the lock; True if there are no locks."""
        if self.folder is None and not storage.is_remote(self.uri):
            folder = os.open(self.uri, os.O_RDONLY | os.O_DIRECTORY)
            try:
                fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
                self.folder = folder
            except OSError as error:  # some network file systems cannot lock folders
                os.close(folder)
                return not isinstance(error, BlockingIOError)
        return True

    def release(self) -> None:
        """Release the lock."""
        if self.folder is not None:
            os.close(self.folder)


_current: contextvars.ContextVar[_Run | None] = contextvars.ContextVar("current", default=None)


def _own(uri: str) -> _Run | None:
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
    own = _Run(uri)
    own.restarts = restarts
    token = _current.set(own)
    try:
        yield
    except BaseException as error:
        try:
            _end_failed(own, error)
        except Exception as problem:  # the error that made the run fail is more useful
            logging.warning("%s: files of the failed run remain: %s", printable(uri), problem)
        raise
    finally:
        _current.reset(token)
        own.release()


def _end_failed(own: _Run, error: BaseException) -> None:
    """Keep and report the finished tasks of a failed run, or remove its files."""
    uri = own.uri
    if not (storage.exists(working_folder(uri)) and own.lock()):
        return
    run = _run_at(uri)  # this run, or one that has ended
    if not (own.folder is not None or not run or run.get("run") == own.name):
        return
    finished = _count_finished(uri)
    if run.get("key") and finished and not isinstance(error, ConfigError):
        done = getattr(error, FINISHED_WORK, None) or f"{finished:,} finished tasks"
        kept = f"{done} are kept: the same run resumes from them, or discards them with --restart"
        if isinstance(error, KeyboardInterrupt):
            error.args = (kept,)  # for the line that reports it
        else:
            size = _bytes_in(uri)
            logging.warning("%s: %s%s", printable(uri), kept, size and f" ({human_bytes(size)})")
        return
    if not _is_whole(uri):
        _remove_files(uri)
    remove_working_folder(uri)


def _count_finished(uri: str) -> int:
    """Return the number of tasks whose results are kept in the working folder."""
    folder = storage.join(working_folder(uri), RESULTS_FOLDER)
    return len(storage.list_names(folder, may_lack=True))


def _bytes_in(uri: str) -> int:
    """Return the size of the files in a local folder; 0 for a bucket, where listing has a price."""
    return 0 if storage.is_remote(uri) else sum(file.size for file in storage.walk_files(uri))


@contextlib.contextmanager
def kept_from_launcher(uri: str) -> Iterator[None]:
    """Move the output of a failed run to a hidden folder next to it: TFX removes failed outputs.

    The next run of the same key takes it from there. Only the newest such folder of an output
    stays. Nothing is moved in a bucket.
    """
    try:
        yield
    except BaseException:
        if not storage.is_remote(uri) and storage.exists(working_folder(uri)):
            own = os.path.abspath(uri)
            parent, name = os.path.split(own)
            aside = os.path.join(parent, f".{name}{_UNFINISHED}")
            for other in storage.list_names(parent):
                if other.endswith(_UNFINISHED):
                    _remove_unfinished(os.path.join(parent, other))
            storage.rename(own, aside)
            storage.make_folder(own)
        raise


def _remove_unfinished(folder: str) -> None:
    """Remove an earlier run's files, unless a run is writing there."""
    other = _Run(folder)
    try:
        if other.lock():
            storage.remove_tree(folder)
    finally:
        other.release()


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
    own = _own(uri)
    if own is not None and not own.lock():
        rule, got = "no other run that writes there", _named(_run_at(uri))
        advice = "Wait until it ends, or stop it, and run again."
        raise DatasetError.at(uri, expected=rule, got=got, advice=advice)
    _refuse_others(uri)
    restarts = own is not None and own.restarts
    if key:
        _take_over(uri, key)
    run = _run_at(uri)
    if own is not None:
        own.meets_another = own.folder is None and bool(run)
        own.restarts = False
    if not key or run.get("key") != key or restarts:
        if finished := _count_finished(uri):
            of = "this run, which restarts" if restarts else "another run"
            logging.warning("%s: %s tasks of %s are discarded", printable(uri), f"{finished:,}", of)
        if not (keeps_dataset and _is_whole(uri)):
            _remove_files(uri)
        remove_working_folder(uri)
    _mark(uri, key)


def remove_dataset(uri: str) -> None:
    """Remove a complete dataset, but not the working folder with the work begun since."""
    if _is_whole(uri):
        key = str(_run_at(uri).get("key", ""))
        _mark(uri, "")  # if this run is killed meanwhile, the next starts again
        _remove_files(uri)
        _mark(uri, key)


def check_ownership(uri: str) -> None:
    """Raise DatasetError if another run has begun to write there since."""
    own = _own(uri)
    if own and own.folder is None and (run := _run_at(uri)).get("run") != own.name:
        advice = "That run started later and owns the files there. Use its result."
        rule = "no other run that writes there"
        raise DatasetError.at(uri, expected=rule, got=_named(run), advice=advice)


def meets_another(uri: str) -> bool:
    """Return whether an unfinished run was there and may still write, since there are no locks."""
    own = _own(uri)
    return own is not None and own.meets_another


def _refuse_others(uri: str) -> None:
    """Raise ConfigError if files or folders with a dataset's names are not from tfx-shards."""
    names = storage.list_names(uri, may_lack=True)  # a store has no empty folders
    found = [name for name in names if name in naming.DATASET_FILES]
    for folder in filter(_is_of_dataset, {*names}.difference(naming.DATASET_FILES)):
        if storage.is_folder(storage.join(uri, folder)):
            found += [f"{folder}/{name}" for name in storage.list_names(storage.join(uri, folder))]
    if naming.WORKING_FOLDER in names or _has_manifest(uri):
        found = [path for path in found if not _is_ours(path)]
    if found:
        shown = ", ".join(map(repr, sorted(found)[:_SHOWN])) + ", …" * (len(found) > _SHOWN)
        raise ConfigError(
            f"output {uri!r}: expected a new folder, or a dataset that this program wrote and "
            f"nothing else in its folders, got {shown}. Move them away, or name another output."
        )


def _is_whole(uri: str) -> bool:
    return storage.exists(storage.join(uri, naming.MANIFEST_FILE))


def _has_manifest(uri: str) -> bool:
    """Return whether there is a manifest written by tfx-shards, not another program's file."""
    path = storage.join(uri, naming.MANIFEST_FILE)
    try:
        return _is_whole(uri) and bool(
            Manifest.from_json(storage.read_text(path), path=path, is_checked=False)
        )
    except storage.MachineError:
        raise
    except (OSError, ValueError):
        return False


def _is_of_dataset(name: str) -> bool:
    folders = (naming.INDEX_FOLDER, naming.VOCABULARY_FOLDER)
    return name in naming.DATASET_FILES or name in folders or name.startswith(naming.SPLIT_PREFIX)


def _is_ours(path: str) -> bool:
    is_small = path in naming.DATASET_FILES or naming.vocabulary_of(path) is not None
    return is_small or naming.is_shard_file(path) or naming.is_index_file(path)


def _remove_files(uri: str) -> None:
    _refuse_others(uri)
    storage.make_folder(working_folder(uri))  # marks the rest as ours
    if _is_whole(uri):  # first, so that the rest does not look complete
        storage.remove_file(storage.join(uri, naming.MANIFEST_FILE))
    for name in filter(_is_of_dataset, storage.list_names(uri, may_lack=True)):
        remove = storage.remove_file if name in naming.DATASET_FILES else storage.remove_tree
        remove(storage.join(uri, name))


def _take_over(uri: str, key: str) -> None:
    """Move here the files of a killed run with this key: TFX gives each run a new folder."""
    if storage.is_remote(uri) or _has_manifest(uri) or _run_at(uri).get("key") == key:
        return
    parent = os.path.dirname(os.path.abspath(uri))
    for name in sorted(storage.list_names(parent)):
        other = _Run(os.path.join(parent, name))
        if other.uri == os.path.abspath(uri) or _run_at(other.uri).get("key") != key:
            continue
        try:
            is_over = other.lock() and other.folder is not None
            if is_over and not _has_manifest(other.uri):
                _remove_files(uri)
                remove_working_folder(uri)
                for inner in storage.list_names(other.uri):
                    storage.rename(storage.join(other.uri, inner), storage.join(uri, inner))
                if name.endswith(_UNFINISHED):
                    storage.remove_tree(other.uri)
                return
        finally:
            other.release()


def _mark(uri: str, key: str) -> None:
    """Write this run's name into the working folder, replacing any other."""
    storage.make_folder(folder := working_folder(uri))
    run: JsonObject = {"run": (_own(uri) or _Run(uri)).name, "key": key}
    run |= {"host": socket.gethostname(), "process": os.getpid()}
    storage.write_text(
        storage.join(folder, naming.RUN_FILE), json.dumps(run), temporary_folder=folder
    )


def _run_at(uri: str) -> JsonObject:
    """Return the run whose name is in the working folder, or an empty mapping."""
    path = storage.join(working_folder(uri), naming.RUN_FILE)
    try:
        return json.loads(storage.read_text(path)) or {} if storage.exists(path) else {}
    except (FileNotFoundError, NotADirectoryError, ValueError):  # removed, or not written by us
        return {}


def _named(run: JsonObject) -> str:
    who = f", process {run['process']} on {run['host']}" if run else ""
    return f"another run{who}"


def path_of(name: str, value: object) -> str:
    """Return a path or url, given a string, a `file://` URI or a `pathlib` path.

    Raises:
        ConfigError: it is anything else.
    """
    path = os.fspath(value) if isinstance(value, (str, os.PathLike)) else None
    if not isinstance(path, str) or not path or "\0" in path:
        raise ConfigError.of(name, value, allowed="a path or a url")
    return storage.local_path(path)


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
