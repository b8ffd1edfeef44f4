"""Call a function for each task, in local processes or on a Beam runner.

The workspace keeps each result under its task's name. That is how a worker on another machine
returns a result, how a terminal shows progress, and how a killed run resumes.
"""

import contextlib
import dataclasses
import hashlib
import io
import pickle
import socket
import time
from collections.abc import Callable, Iterator
from typing import Any, Generic, TypeVar

from components.runtime.workspace import RESULTS_FOLDER
from trainer_utils import storage
from trainer_utils.core.errors import ConfigError, DatasetError, TfxShardsError

_TASKS, _RESULTS, _ERRORS = "tasks", RESULTS_FOLDER, "errors"
_NOT_AGAIN = (storage.MachineError, PermissionError)
_SHARE = "Pass an absolute path on a file system that all of them mount at that path, or a bucket"
# The types of results and errors, by module. Reading a result must not run foreign code, nor create
# objects of other classes.
_RESULT_TYPES = {
    "components.balancing.parts": ("ShardSurvey", "TaskResult"),
    "components.inputs.rejects": ("Reject",),
    "components.example_gen.file_examples": ("MediaFacts", "ShardSummary"),
    "components.example_gen.file_shards": ("EncodedPart",),
    "components.example_gen.row_pieces": ("EncodingReport", "PieceReport"),
    "components.example_gen.row_splits": ("PieceAssignment",),
    "components.shuffle.edits": ("EditCounts",),
    "components.tables.column_types": ("ColumnFacts",),
    "components.tables.cutting": ("PartCut",),
    "components.tables.pieces": ("BadRow", "Header", "Piece", "TextFile"),
    "components.tables.row_ends": ("RangeCut", "RowSpan"),
    "trainer_utils.dataset.inspection": ("DatasetFacts", "FeatureFacts", "ImageFacts"),
    "trainer_utils.core.errors": (
        "ConfigError",
        "CorruptShardError",
        "DatasetError",
        "InputError",
    ),
    "trainer_utils.format.index": ("RecordIndex",),
    "trainer_utils.format.manifest": ("Shard",),
    "trainer_utils.format.media_formats": ("ImageSize",),
    "trainer_utils.storage.host_errors": ("MachineError",),
}
_PLAIN = {
    *((module, name) for module, names in _RESULT_TYPES.items() for name in names),
    ("collections", "Counter"),
    ("collections", "OrderedDict"),
    ("numpy", "dtype"),
    ("numpy", "ndarray"),
    *((f"numpy.{core}.multiarray", name) for core in ("core", "_core")
      for name in ("_reconstruct", "scalar")),
    *((f"numpy.{core}.numeric", "_frombuffer") for core in ("core", "_core")),
}  # fmt: skip


Argument = TypeVar("Argument")
Result = TypeVar("Result")
_Argument_co = TypeVar("_Argument_co", covariant=True)


@dataclasses.dataclass(frozen=True)
class Task(Generic[_Argument_co]):
    """The argument of one call, with a name."""

    name: str  # name of its result in a workspace, and of a file
    argument: _Argument_co  # pickled when the call starts
    # records, bytes: the amount of work, for the progress display
    records: int = 0
    bytes: int = 0


@dataclasses.dataclass(frozen=True)
class Cost:
    """Approximate cost of all calls: `seconds` of one core, and the peak memory of one process."""

    seconds: float = 0.0
    process_bytes: int = 256 << 20


@dataclasses.dataclass(frozen=True)
class Call(Generic[Argument, Result]):
    """The call that `map_tasks` makes in any process. It stores each result before returning it."""

    function: Callable[[Argument], Result]
    workspace: str
    there: frozenset[str]  # names of the tasks that have a result from an earlier run
    check: Callable[[Result], object] | None  # raises if an earlier result cannot be used

    def __call__(self, task: Task[Argument]) -> Result:
        """Return the result of a task, from this run or from an earlier run that was killed."""
        if (earlier := self.earlier_result(task)) is not None:
            return earlier[0]
        if not storage.is_remote(self.workspace):
            try:
                storage.list_names(self.workspace)
            except FileNotFoundError:
                raise self.unshared() from None
        with storage.retrying_for_minutes():
            return self._run(task)

    def earlier_result(self, task: Task[Argument]) -> tuple[Result] | None:
        """Return the result of a task from an earlier run in a tuple, or else None."""
        if task.name in self.there:
            with contextlib.suppress(DatasetError, OSError, pickle.UnpicklingError):
                result = self.read(task.name)
                if self.check is not None:
                    self.check(result)
                return (result,)
        return None

    def _run(self, task: Task[Argument]) -> Result:
        """Compute and store a result. Retry if the machine fails, since a task is repeatable."""
        pauses: Iterator[float] | None = None
        while True:
            try:
                result = self.function(task.argument)
                self._write(f"{_RESULTS}/{task.name}", result)
                return result
            except (OSError, MemoryError) as error:
                # A MachineError has already been retried.
                if not storage.is_host_error(error) or isinstance(error, _NOT_AGAIN):
                    raise
                path = str(getattr(error, "filename", None) or self.workspace)
                pauses = pauses or storage.retry_pauses(path, error)
                if (pause := next(pauses, None)) is None:
                    raise storage.machine_error(path, error) from error
            time.sleep(pause)

    def read(self, name: str) -> Result:
        """Return the stored result of the task with this name."""
        try:
            result: Result = read_plain(storage.join(self.workspace, f"{_RESULTS}/{name}"))
            return result
        except FileNotFoundError:
            advice = f"The Beam runner lost it, or a worker wrote to a disk of its own. {_SHARE}"
            raise DatasetError.at(
                self.workspace, expected=f"the part {name!r}", got="none", advice=advice
            ) from None

    def write_task(self, task: Task[Argument]) -> tuple[str, str]:
        """Write a task for remote workers, and return its name and the digest of its file."""
        data = pickle.dumps(task)
        self._write_bytes(f"{_TASKS}/{task.name}", data)
        return task.name, hashlib.sha256(data).hexdigest()

    def run_stored_task(self, written: tuple[str, str]) -> None:
        """Make the call in a Beam worker. Store an error, which a runner would turn into a string.

        Args:
            written: the return value of `write_task`. The digest arrives with the pipeline, so that
                a file written by someone else is never unpickled.
        """
        import apache_beam as beam  # rarely needed

        name, digest = written
        path = storage.join(self.workspace, f"{_TASKS}/{name}")
        try:
            data = storage.read_bytes(path)
        except FileNotFoundError:
            raise self.unshared() from None  # and do not create the folder here
        if hashlib.sha256(data).hexdigest() != digest:
            rule, advice = "the task that the executor wrote", "Run it again"
            raise DatasetError.at(path, expected=rule, got="another file", advice=advice)
        task: Task[Argument] = pickle.loads(data)
        try:
            self(task)
        except TfxShardsError as error:
            # Store the parts: Dask brings tblib, whose pickles `read_plain` refuses.
            self._write(f"{_ERRORS}/{name}", error.__reduce__())
            raise
        beam.metrics.Metrics.counter("tfx_shards", "tasks").inc()

    def forget_errors(self) -> None:
        """Remove the errors that an earlier run or job stored."""
        storage.remove_tree(storage.join(self.workspace, _ERRORS))

    def reported(self) -> TfxShardsError | None:
        """Return the first stored error, by task name, of a task that has no result.

        A task with a result and an error failed at first, and another attempt succeeded.
        """
        folder = storage.join(self.workspace, _ERRORS)
        done = set(storage.list_names(storage.join(self.workspace, _RESULTS), may_lack=True))
        for name in sorted({*storage.list_names(folder, may_lack=True)} - done):
            kind, arguments, data = read_plain(storage.join(folder, name))
            error: TfxShardsError = kind(*arguments)
            vars(error).update(data)
            return error
        return None

    def _write(self, path: str, value: object) -> None:
        self._write_bytes(path, pickle.dumps(value))

    def _write_bytes(self, path: str, data: bytes) -> None:
        storage.make_folder(storage.join(self.workspace, path.partition("/")[0]))
        target = storage.join(self.workspace, path)
        with storage.write_atomically(target, temporary_folder=self.workspace) as stream:
            stream.write(data)

    def unshared(self) -> ConfigError:
        """Return the error of a worker that does not see the workspace."""
        where = f"on {socket.gethostname()} there is no {self.workspace!r}"
        return ConfigError(
            f"pipeline_root: expected storage that all workers share, but {where}, which the "
            f"executor created. {_SHARE}",
            setting="pipeline_root",
        )


class _Plain(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        if (module, name) in _PLAIN:
            return super().find_class(module, name)
        raise pickle.UnpicklingError(f"expected plain values, got {module}.{name}")


def read_plain(path: str) -> Any:
    """Read a stored value, which may have only plain and listed types."""
    return _Plain(io.BytesIO(storage.retry_transient(path, storage.read_bytes, path))).load()
