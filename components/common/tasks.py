"""Calls a function for each task, by processes of this machine or by a Beam runner.

What a call returns is kept in the workspace under its task's name. So a worker on another machine
hands it home, a terminal sees how far the work is, and a run that was killed goes on.
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
_POLL_SECONDS = {False: 0.5, True: 10.0}  # by whether the folder is remote: a listing has a price
_LOG_SECONDS = 60.0
_NOT_AGAIN = (storage.MachineError, PermissionError)
_SHARE = "Give an absolute path on a file system that is mounted alike on all of them, or a bucket"
# The types of results and errors, by module: reading a result must not run anybody's code, and
# must not make an object of another class of ours.
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
    """One call."""

    name: str  # of its result, in a workspace; also that of a file
    argument: Any  # of the call; pickled when its turn comes
    # records, bytes: what it comes to, for whoever looks on
    records: int = 0
    bytes: int = 0


@dataclasses.dataclass(frozen=True)
class Cost:
    """What all calls take: `seconds` of one core, about; and the memory of one at the most."""

    seconds: float = 0.0
    process_bytes: int = 256 << 20


class Runner(contextlib.AbstractContextManager["Runner"]):
    """Who makes the calls.

    Args:
        processes: of this machine, at the most; 0: one a core; 1: this process does it all.
        make_pipeline: makes a Beam pipeline, to whose runner all calls go; None: this machine.
        module: what processes import when they begin.
        starts_early: begin to import it when the runner is entered, and not at the first call.

    Attributes:
        on_result: is called with each result as it comes, but for those of Beam.
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
        """Begin to start processes, if there may be work for them."""
        if self._pool is not None and self._starts_early:
            self._pool.start_early()
        return self

    def __exit__(self, *error: object) -> None:
        if self._pool is not None:
            self._pool.end()

    def count(self, tasks: int, cost: Cost, paths: Sequence[str] = ()) -> int:
        """How many calls are made at a time on this machine; 0: it is Beam's to say."""
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
        """Return the result of `call` for each task, in their order."""
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
        from components.common.beam import call_on_beam  # few need it

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
    """Calls `function` for the argument of each task that has no result yet.

    Args:
        function: can be pickled; a task's result depends on its argument alone. Results are plain
            values, dataclasses and named tuples of ours.
        tasks: in the order in which they are begun.
        workspace: the folder that keeps results, which `start_working` has made.
        cost: of all calls together: what takes less than a second is done in this process.
        paths: what calls read beside the workspace. Where other processes may not see all of it,
            calls stay in this one.
        unit: what records are called, such as `images`, where progress is to be shown.
        noun: what tasks are called, in the plural.
        check: raises where what a result of an earlier run speaks of does not stand any more.
        on_result: called with each result as it comes, in this process. What it raises ends the
            work. Results of Beam come when all is done, and are not passed to it.

    Returns:
        The results, in the order of the tasks.

    Raises:
        DatasetError: a process was killed, or a runner lost a part of the work.
        Exception: what a call raised, as it was raised there.
    """
    if not tasks:
        return []
    folder = storage.join(workspace, _RESULTS)
    there = set(storage.list_names(folder, may_lack=True))
    if done := sum(task.name in there for task in tasks):
        # A warning: TFX and the command line show no other line.
        logging.warning("resuming: %s of %s %s are done", f"{done:,}", f"{len(tasks):,}", noun)
    call = Call(function, workspace, frozenset(there.intersection(t.name for t in tasks)), check)
    processes = runner.count(len(tasks), cost, [workspace, *paths])
    try:
        with _show_progress(folder, tasks, unit):
            runner.on_result = on_result
            return runner.run(call, tasks, processes)
    except BaseException as error:
        with contextlib.suppress(Exception):  # the error says more
            there = set(storage.list_names(folder, may_lack=True))
            done = sum(task.name in there for task in tasks)
            setattr(error, FINISHED_WORK, f"{done:,} of {len(tasks):,} {noun}")
        raise


@dataclasses.dataclass(frozen=True)
class Call:
    """One call of `map_tasks`, in whatever process: its result is kept before it is returned."""

    function: Callable[[Any], Any]
    workspace: str
    there: frozenset[str]
    check: Callable[[Any], object] | None

    def __call__(self, task: Task) -> Any:
        """The result of a task, of this run or of the one that was killed."""
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
        """Compute and keep a result; if the machine fails, again: a task writes the same again."""
        pauses: Iterator[float] | None = None
        while True:
            try:
                result = self.function(task.argument)
                self._write(f"{_RESULTS}/{task.name}", result)
                return result
            except (OSError, MemoryError) as error:
                # A MachineError was retried where it came from.
                if not storage.is_fault(error) or isinstance(error, _NOT_AGAIN):
                    raise
                path = str(getattr(error, "filename", None) or self.workspace)
                pauses = pauses or storage.retry_pauses(path, error)
                if (pause := next(pauses, None)) is None:
                    raise storage.machine_error(path, error) from error
            time.sleep(pause)

    def read(self, name: str) -> Any:
        """The result that a task of this name has left."""
        try:
            return read_plain(storage.join(self.workspace, f"{_RESULTS}/{name}"))
        except FileNotFoundError:
            advice = f"The Beam runner lost it, or a worker wrote to a disk of its own. {_SHARE}"
            raise DatasetError.at(
                self.workspace, expected=f"the part {name!r}", got="none", advice=advice
            ) from None

    def write_task(self, task: Task) -> tuple[str, str]:
        """Put a task where a worker elsewhere finds it; return its name and its file's digest."""
        data = pickle.dumps(task)
        self._write_bytes(f"{_TASKS}/{task.name}", data)
        return task.name, hashlib.sha256(data).hexdigest()

    def make_named(self, written: tuple[str, str]) -> None:
        """Make the call in a worker of Beam; keep an error, which a runner makes a string of.

        Args:
            written: what `write_task` returned. The digest comes with the pipeline, so that no file
                is unpickled that somebody else has put there.
        """
        import apache_beam as beam  # few need it

        name, digest = written
        path = storage.join(self.workspace, f"{_TASKS}/{name}")
        try:
            data = storage.read_bytes(path)
        except FileNotFoundError:
            raise self.unshared() from None  # and nothing is written there
        if hashlib.sha256(data).hexdigest() != digest:
            rule, advice = "the task that the executor wrote", "Run it again"
            raise DatasetError.at(path, expected=rule, got="another file", advice=advice)
        task: Task = pickle.loads(data)
        try:
            self(task)
        except TfxShardsError as error:
            # Its parts: what pickles it may be tblib, which Dask brings, and which is not read.
            self._write(f"{_ERRORS}/{name}", error.__reduce__())
            raise
        self._forget_error(name)  # of an attempt before
        beam.metrics.Metrics.counter("tfx_shards", "tasks").inc()

    def forget_errors(self) -> None:
        """Remove the errors that an earlier run or job kept."""
        storage.remove_tree(storage.join(self.workspace, _ERRORS))

    def _forget_error(self, name: str) -> None:
        path = storage.join(self.workspace, f"{_ERRORS}/{name}")
        if storage.exists(path):
            with contextlib.suppress(FileNotFoundError):  # another attempt was faster
                storage.remove_file(path)

    def reported(self) -> TfxShardsError | None:
        """Return the first kept error, by the name of its task, of a task that has no result."""
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
        """The error of a worker that does not see the workspace."""
        where = f"on {socket.gethostname()} there is no {self.workspace!r}"
        return ConfigError(
            f"pipeline_root: expected storage that all workers share, but {where}, which the "
            f"executor made. {_SHARE}",
            setting="pipeline_root",
        )


class _Plain(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        if (module, name) in _PLAIN:
            return super().find_class(module, name)
        raise pickle.UnpicklingError(f"expected plain values, got {module}.{name}")


def read_plain(path: str) -> Any:
    """Return a value that was kept, of nothing but plain and named types."""
    return _Plain(io.BytesIO(storage.persist(path, storage.read_bytes, path))).load()


@contextlib.contextmanager
def _show_progress(folder: str, tasks: Sequence[Task], unit: str) -> Iterator[None]:
    """A bar on a terminal, elsewhere a log line a minute, until the block ends."""
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
