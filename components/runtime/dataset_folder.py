"""The folder of a dataset while runs write to it: its state, its files, and the run it belongs to.

    workspace = Workspace("examples/")
    workspace.state()          # FolderState.UNFINISHED
    workspace.recorded_run()   # RunRecord(run="4f…", key="9a…", host="worker-3", process=4711)

`workspace.py` has the rules for runs.
"""

import dataclasses
import enum
import fcntl
import json
import os
import socket
import uuid

from trainer_utils import storage
from trainer_utils.core.errors import ConfigError
from trainer_utils.core.json_text import JsonObject
from trainer_utils.format import Manifest, naming
from trainer_utils.writing.working_folder import remove_working_folder, working_folder

RESULTS_FOLDER = "results"  # in the working folder: a file for each finished task
_MAX_NAMED = 5  # files named in a message


class FolderState(enum.Enum):
    """The state of a folder, which follows from its manifest and its working folder."""

    NEW = "neither a manifest nor a working folder"
    UNFINISHED = "only a working folder: a run is writing the dataset, or has ended early"
    COMPLETE = "only a manifest: the dataset is complete"
    REPLACED = "both: a run is preparing to replace a complete dataset, or has ended early"


@dataclasses.dataclass(frozen=True)
class RunRecord:
    """A run as the working folder records it."""

    run: str  # the name of the run
    key: str  # digest of everything that its result depends on; empty: no run resumes from it
    host: str
    process: int

    def __str__(self) -> str:
        return f"another run, process {self.process} on {self.host}"


class Run:
    """A run of this process that writes to a folder.

    Args:
        uri: the folder.
        restarts: discard the finished tasks of an earlier run with the same key.

    Attributes:
        name: the unique name of the run.
        meets_another: whether an unfinished run was there and may still write, without locks.
    """

    def __init__(self, uri: str, *, restarts: bool = False) -> None:
        self.uri, self.restarts = uri, restarts
        self.name, self.meets_another = uuid.uuid4().hex, False
        self._descriptor: int | None = None

    @property
    def has_lock(self) -> bool:
        """Whether the run holds the lock of its folder; False if there are no locks."""
        return self._descriptor is not None

    def lock(self) -> bool:
        """Take the lock. Return whether no other run has it; True if there are no locks."""
        if self._descriptor is None and not storage.is_remote(self.uri):
            descriptor = os.open(self.uri, os.O_RDONLY | os.O_DIRECTORY)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                self._descriptor = descriptor
            except OSError as error:  # some network file systems cannot lock folders
                os.close(descriptor)
                return not isinstance(error, BlockingIOError)
        return True

    def release(self) -> None:
        """Release the lock."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


class Workspace:
    """The folder of a dataset, with its working folder.

    Args:
        uri: the path or url of the folder.
    """

    def __init__(self, uri: str) -> None:
        self.uri, self.working_folder = uri, working_folder(uri)

    def state(self) -> FolderState:
        """Return the state of the folder."""
        if storage.exists(self.working_folder):
            return FolderState.REPLACED if self.has_dataset() else FolderState.UNFINISHED
        return FolderState.COMPLETE if self.has_dataset() else FolderState.NEW

    def has_dataset(self) -> bool:
        """Return whether there is a manifest, so that the dataset is complete."""
        return storage.exists(storage.join(self.uri, naming.MANIFEST_FILE))

    def has_own_dataset(self) -> bool:
        """Return whether there is a manifest written by tfx-shards, not another program's file."""
        path = storage.join(self.uri, naming.MANIFEST_FILE)
        try:
            return self.has_dataset() and bool(
                Manifest.from_json(storage.read_text(path), path=path, is_checked=False)
            )
        except storage.MachineError:
            raise
        except (OSError, ValueError):
            return False

    def count_finished(self) -> int:
        """Return the number of tasks whose results are kept."""
        folder = storage.join(self.working_folder, RESULTS_FOLDER)
        return len(storage.list_names(folder, may_lack=True))

    def num_bytes(self) -> int:
        """Return the size of all files; 0 in a bucket, where listing has a price."""
        if storage.is_remote(self.uri):
            return 0
        return sum(file.size for file in storage.walk_files(self.uri))

    def record(self, run: Run, key: str) -> None:
        """Write a run's name into the working folder, replacing any other."""
        storage.make_folder(self.working_folder)
        value: JsonObject = {"run": run.name, "key": key}
        value |= {"host": socket.gethostname(), "process": os.getpid()}
        storage.write_text(
            self._record_path, json.dumps(value), temporary_folder=self.working_folder
        )

    def recorded_run(self) -> RunRecord | None:
        """Return the run whose name is in the working folder, if any."""
        path = self._record_path
        try:
            value = json.loads(storage.read_text(path)) if storage.exists(path) else None
            return RunRecord(**value) if value else None
        except (FileNotFoundError, NotADirectoryError, ValueError, TypeError):
            return None  # removed meanwhile, or not written by us

    @property
    def _record_path(self) -> str:
        return storage.join(self.working_folder, naming.RUN_FILE)

    def refuse_foreign_files(self) -> None:
        """Raise ConfigError if files or folders with a dataset's names are not from tfx-shards."""
        uri = self.uri
        names = storage.list_names(uri, may_lack=True)  # a store has no empty folders
        paths = [name for name in names if name in naming.DATASET_FILES]
        for folder in filter(_is_of_dataset, {*names}.difference(naming.DATASET_FILES)):
            place = storage.join(uri, folder)
            if storage.is_folder(place):
                paths += [f"{folder}/{name}" for name in storage.list_names(place)]
        if naming.WORKING_FOLDER in names or self.has_own_dataset():
            paths = [path for path in paths if not _is_ours(path)]
        if paths:
            named = [*map(repr, sorted(paths)[:_MAX_NAMED])]
            if len(paths) > _MAX_NAMED:
                named.append("…")
            raise ConfigError(
                f"output {uri!r}: expected a new folder, or a dataset that this program wrote and "
                f"nothing else in its folders, got {', '.join(named)}. Move them away, or name "
                "another output."
            )

    def remove_files(self) -> None:
        """Remove the files of a dataset, complete or not, but not the working folder."""
        self.refuse_foreign_files()
        storage.make_folder(self.working_folder)  # marks the rest as ours
        if self.has_dataset():  # first, so that the rest does not look complete
            storage.remove_file(storage.join(self.uri, naming.MANIFEST_FILE))
        for name in filter(_is_of_dataset, storage.list_names(self.uri, may_lack=True)):
            remove = storage.remove_file if name in naming.DATASET_FILES else storage.remove_tree
            remove(storage.join(self.uri, name))

    def remove_work(self) -> None:
        """Remove the working folder with the finished tasks."""
        remove_working_folder(self.uri)


def _is_of_dataset(name: str) -> bool:
    folders = (naming.INDEX_FOLDER, naming.VOCABULARY_FOLDER)
    return name in naming.DATASET_FILES or name in folders or name.startswith(naming.SPLIT_PREFIX)


def _is_ours(path: str) -> bool:
    is_small = path in naming.DATASET_FILES or naming.vocabulary_of(path) is not None
    return is_small or naming.is_shard_file(path) or naming.is_index_file(path)
