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
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from absl import logging

from components.common.processes import Pool, count_processes
from components.common.workspace import FINISHED_WORK, RESULTS_FOLDER
from trainer_utils import storage
from trainer_utils.format import ConfigError, DatasetError, TfxShardsError
from trainer_utils.step_display import show_step

_TASKS, _RESULTS, _ERRORS = "tasks", RESULTS_FOLDER, "errors"
_POLL_SECONDS = {False: 0.5, True: 10.0}  # by whether the folder is remote: listing costs money
_LOG_SECONDS = 60.0
_NOT_AGAIN = (storage.MachineError, PermissionError)
_SHARE = "Pass an absolute path on a file system that all of them mount at that path, or a bucket"
# The types of results and errors, by module. Reading a result must not run foreign code, nor create
# objects of other classes.
_RESULT_TYPES = {
    "components.balancing.parts": ("ShardSurvey", "TaskResult"),
    "components.common.rejects": ("Reject",),
    "components.example_gen.file_examples": ("MediaFacts", "ShardSummary"),
    "components.example_gen.file_shards": ("EncodedPart",),
    "components.example_gen.row_pieces": ("EncodingReport", "PieceReport"),
    "components.shuffle.edits": ("EditCounts",),
    "components.tables.kinds": ("ColumnFacts",),
    "components.tables.pieces": ("BadRow",),
    "trainer_utils.dataset.inspection": ("DatasetFacts", "FeatureFacts", "ImageFacts"),
    "trainer_utils.format.errors": (
        "ConfigError",
        "CorruptShardError",
        "DatasetError",
        "InputError",
    ),
    "trainer_utils.format.index": ("RecordIndex",),
    "trainer_utils.format.manifest": ("Shard",),
    "trainer_utils.format.media_formats": ("ImageSize",),
    "trainer_utils.storage.file_system": ("MachineError",),
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


@dataclasses.dataclass(frozen=True)
class Task:
    """The argument of one call, with a name."""

    name: str  # name of its result in a workspace, and of a file
    argument: Any  # pickled when the call starts
    # records, bytes: the amount of work, for the progress display
    records: int = 0
    bytes: int = 0


@dataclasses.dataclass(frozen=True)
class Cost:
    """Approximate cost of all calls: `seconds` of one core, and the peak memory of one process."""

    seconds: float = 0.0
    process_bytes: int = 256 << 20


class Runner(contextlib.AbstractContextManager["Runner"]):
    """Makes calls in local processes or on a Beam runner.

    Args:
        processes: the maximum number of local processes. 0: one per core. 1: this process only.
        make_pipeline: creates a Beam pipeline, whose runner makes all calls. None: local processes.
        module: the module that processes import when they start.
        starts_early: start the import when the runner is entered, not at the first call.

    Attributes:
        on_result: called with each result as it arrives, except for results from Beam.
    """

    on_result: Callable[[Any], None] | None = None

    def __init__(
        self,
        *,
        processes: int = 0,
        make_pipeline: Callable[[], Any] | None = None,
        module: str = "",
        starts_early: bool = True,
    ) -> None:
        self._starts_early = starts_early
        self.processes, self.make_pipeline = processes, make_pipeline
        self._pool = Pool(module) if make_pipeline is None and processes != 1 else None

    def __enter__(self) -> "Runner":
        """Start the server of the processes early, if enabled."""
        if self._pool is not None and self._starts_early:
            self._pool.start_early()
        return self

    def __exit__(self, *error: object) -> None:
        if self._pool is not None:
            self._pool.end()

    def count(self, tasks: int, cost: Cost, paths: Sequence[str] = ()) -> int:
        """Return the number of concurrent calls on this machine. 0: Beam decides."""
        if self.make_pipeline is not None:
            return 0
        if self._pool is None or not all(
            storage.file_system_of(path).is_seen_by_others for path in paths
        ):
            return 1
        return count_processes(
            self.processes, tasks=tasks, seconds=cost.seconds, process_bytes=cost.process_bytes
        )

    def run(self, call: "Call", tasks: Sequence[Task], processes: int) -> list[Any]:
        """Return the result of `call` for each task, in order."""
        on_result = self.on_result
        if processes == 1:
            results = []
            for task in tasks:
                results.append(call(task))
                if on_result is not None:
                    on_result(results[-1])
            return results
        if self._pool is not None:
            report = None if on_result is None else lambda _, result: on_result(result)
            return self._pool.map(call, tasks, processes, on_result=report)
        from components.common.beam import call_on_beam  # rarely needed

        assert self.make_pipeline is not None
        return call_on_beam(self.make_pipeline(), call, tasks)


def map_tasks(
    function: Callable[[Any], Any],
    tasks: Sequence[Task],
    *,
    workspace: str,
    runner: Runner,
    cost: Cost = Cost(),
    paths: Sequence[str] = (),
    unit: str = "",
    noun: str = "shards",
    check: Callable[[Any], object] | None = None,
    on_result: Callable[[Any], None] | None = None,
) -> list[Any]:
    """Call `function` for the argument of each task that has no result yet.

    Args:
        function: a function that can be pickled. A task's result depends only on its argument.
            Results are plain values, and dataclasses and named tuples of tfx-shards.
        tasks: the tasks, in starting order.
        workspace: the folder for results, created by `prepare_workspace`.
        runner: makes the calls.
        cost: the cost of all calls together. Work of less than a second is done in this process.
        paths: paths that calls read, in addition to the workspace. If other processes may not see
            all of them, calls stay in this process.
        unit: the name of records in the progress display, such as `images`. Empty: no display.
        noun: the name of tasks, in the plural.
        check: called with each result of an earlier run. It raises if files that the result refers
            to are gone.
        on_result: called with each result as it arrives, in this process. An error that it raises
            ends the work. It is not called for results from Beam, which arrive only at the end.

    Returns:
        The results, in the order of the tasks.

    Raises:
        DatasetError: a process was killed, or a runner lost a part of the work.
        Exception: the original error of a call.
    """
    if not tasks:
        return []
    folder = storage.join(workspace, _RESULTS)
    there = set(storage.list_names(folder, may_lack=True))
    if done := sum(task.name in there for task in tasks):
        # Logged as a warning since TFX and the command line show no lower level.
        logging.warning("resuming: %s of %s %s are done", f"{done:,}", f"{len(tasks):,}", noun)
    call = Call(function, workspace, frozenset(there.intersection(t.name for t in tasks)), check)
    processes = runner.count(len(tasks), cost, [workspace, *paths])
    try:
        with _show_progress(folder, tasks, unit):
            runner.on_result = on_result
            return runner.run(call, tasks, processes)
    except BaseException as error:
        with contextlib.suppress(Exception):  # the original error is more useful
            there = set(storage.list_names(folder, may_lack=True))
            done = sum(task.name in there for task in tasks)
            setattr(error, FINISHED_WORK, f"{done:,} of {len(tasks):,} {noun}")
        raise


@dataclasses.dataclass(frozen=True)
class Call:
    """The call that `map_tasks` makes in any process. It stores each result before returning it."""

    function: Callable[[Any], Any]
    workspace: str
    there: frozenset[str]
    check: Callable[[Any], object] | None

    def __call__(self, task: Task) -> Any:
        """Return the result of a task, from this run or from an earlier run that was killed."""
        if task.name in self.there:
            with contextlib.suppress(DatasetError, OSError, pickle.UnpicklingError):
                result = self.read(task.name)
                if self.check is not None:
                    self.check(result)
                return result
        if not storage.is_remote(self.workspace):
            try:
                storage.list_names(self.workspace)
            except FileNotFoundError:
                raise self.unshared() from None
        with storage.retrying_for_minutes():
            return self._run(task)

    def _run(self, task: Task) -> Any:
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

    def read(self, name: str) -> Any:
        """Return the stored result of the task with this name."""
        try:
            return read_plain(storage.join(self.workspace, f"{_RESULTS}/{name}"))
        except FileNotFoundError:
            advice = f"The Beam runner lost it, or a worker wrote to a disk of its own. {_SHARE}"
            raise DatasetError.at(
                self.workspace, expected=f"the part {name!r}", got="none", advice=advice
            ) from None

    def write_task(self, task: Task) -> tuple[str, str]:
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
        task: Task = pickle.loads(data)
        try:
            self(task)
        except TfxShardsError as error:
            # Store the parts: Dask brings tblib, whose pickles `read_plain` refuses.
            self._write(f"{_ERRORS}/{name}", error.__reduce__())
            raise
        self._forget_error(name)  # from an earlier attempt
        beam.metrics.Metrics.counter("tfx_shards", "tasks").inc()

    def forget_errors(self) -> None:
        """Remove the errors that an earlier run or job stored."""
        storage.remove_tree(storage.join(self.workspace, _ERRORS))

    def _forget_error(self, name: str) -> None:
        path = storage.join(self.workspace, f"{_ERRORS}/{name}")
        if storage.exists(path):
            with contextlib.suppress(FileNotFoundError):  # another attempt was faster
                storage.remove_file(path)

    def reported(self) -> TfxShardsError | None:
        """Return the first stored error, by task name, of a task that has no result."""
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


@contextlib.contextmanager
def _show_progress(folder: str, tasks: Sequence[Task], unit: str) -> Iterator[None]:
    """Show progress until the block ends: a bar on a terminal, otherwise a log line per minute."""
    ended = threading.Event()
    watcher = threading.Thread(target=_watch, args=(folder, tasks, unit, ended), daemon=True)
    if unit:
        watcher.start()
    try:
        yield
    finally:
        ended.set()
        if unit:
            watcher.join()


def _watch(folder: str, tasks: Sequence[Task], unit: str, ended: threading.Event) -> None:
    work = {task.name: (task.records, task.bytes) for task in tasks}
    total = sum(task.records for task in tasks)
    started = last_logged = time.monotonic()
    with show_step(unit.capitalize()) as step:
        while not ended.wait(_POLL_SECONDS[storage.is_remote(folder)]):
            names = storage.list_names(folder, may_lack=True)
            finished = [work[name] for name in names if name in work]
            records, now = sum(records for records, _ in finished), time.monotonic()
            pace = sum(size for _, size in finished) / 1e6 / (now - started)
            step.update(records, total, note=f"{records:,}/{total:,}, {pace:.0f} MB/s")
            if not sys.stderr.isatty() and now - last_logged >= _LOG_SECONDS:
                last_logged = now
                seconds = (now - started) / max(1, records) * (total - records)
                left = f"{seconds:.0f} s" if records else "unknown"
                message = "%d of %d %s, %.0f MB/s, time left: %s"
                logging.info(message, records, total, unit, pace, left)
