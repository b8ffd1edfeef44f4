"""Run tasks in local processes or on Beam, as `beam_pipeline_args` ask for."""

import contextlib
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from absl import logging

from components.runtime.beam import asks_for_beam, call_on_beam, make_pipeline, parse_flags
from components.runtime.processes import Pool, count_processes, is_worth_processes
from components.runtime.tasks import Argument, Call, Cost, Result, Task
from components.runtime.workspace import FINISHED_WORK, RESULTS_FOLDER
from trainer_utils import storage
from trainer_utils.core.step_display import show_step

_POLL_SECONDS = {False: 0.5, True: 10.0}  # by whether the folder is remote: listing costs money
_LOG_SECONDS = 60.0
_SHORT_SECONDS = 0.5  # calls this short run in this process while others start
_PIPELINE_SECONDS = 60.0  # approximate time until a Beam runner has started its workers


class Runner(contextlib.AbstractContextManager["Runner"]):
    """Makes calls in local processes or on a Beam runner.

    Args:
        processes: the maximum number of local processes. 0: one per core. 1: this process only.
        make_pipeline: creates a Beam pipeline, whose runner makes all calls. None: local processes.
        module: the module that processes import when they start.
    """

    def __init__(
        self,
        *,
        processes: int = 0,
        make_pipeline: Callable[[], Any] | None = None,
        module: str = "",
    ) -> None:
        self._entries = 0
        self.processes, self.make_pipeline = processes, make_pipeline
        self._pool = Pool(module) if make_pipeline is None and processes != 1 else None

    def __enter__(self) -> "Runner":
        """Enter the runner. Its processes end when the first entry exits.

        A runner can be entered again by a step that it is passed to, so that steps share processes.
        """
        self._entries += 1
        return self

    def start_early(self, seconds: float) -> None:
        """Start the server of the processes, which imports their module, before the first call.

        Args:
            seconds: the time of one core that the coming work takes at least. Short work starts no
                server: it would take a core from that work.
        """
        if self._pool is not None and is_worth_processes(seconds):
            self._pool.start_early()

    def __exit__(self, *error: object) -> None:
        self._entries -= 1
        if self._pool is not None and not self._entries:
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

    def for_preparation(self, seconds: float) -> "Runner":
        """Return a runner of work that others wait for, which takes `seconds` of one core.

        It is this process if a Beam pipeline would take longer to start.
        """
        is_short = self.make_pipeline is not None and seconds < _PIPELINE_SECONDS
        return Runner(processes=1) if is_short else self

    def run(
        self,
        call: Call[Argument, Result],
        tasks: Sequence[Task[Argument]],
        processes: int,
        *,
        seconds: float,
        on_result: Callable[[Result], None] | None = None,
    ) -> list[Result]:
        """Return the result of `call` for each task, in order.

        Args:
            call: the call to make.
            tasks: its arguments.
            processes: the number of processes. 0: Beam decides.
            seconds: the approximate time of all calls in one process.
            on_result: called with each result as it arrives, except for results from Beam.
        """
        if processes == 1:
            results = []
            for task in tasks:
                results.append(call(task))
                if on_result is not None:
                    on_result(results[-1])
            return results
        if self._pool is not None:
            report = None if on_result is None else lambda _, result: on_result(result)
            is_short = 0 < seconds < _SHORT_SECONDS * len(tasks)
            return self._pool.map(call, tasks, processes, on_result=report, helps_start=is_short)
        assert self.make_pipeline is not None
        return call_on_beam(self.make_pipeline, call, tasks)


def map_tasks(
    function: Callable[[Argument], Result],
    tasks: Sequence[Task[Argument]],
    *,
    workspace: str,
    runner: Runner,
    cost: Cost = Cost(),
    paths: Sequence[str] = (),
    unit: str = "",
    noun: str = "shards",
    check: Callable[[Result], object] | None = None,
    on_result: Callable[[Result], None] | None = None,
) -> list[Result]:
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
    folder = storage.join(workspace, RESULTS_FOLDER)
    there = set(storage.list_names(folder, may_lack=True))
    if done := sum(task.name in there for task in tasks):
        # Logged as a warning since TFX and the command line show no lower level.
        logging.warning("resuming: %s of %s %s are done", f"{done:,}", f"{len(tasks):,}", noun)
    call = Call(function, workspace, frozenset(there.intersection(t.name for t in tasks)), check)
    processes = runner.count(len(tasks), cost, [workspace, *paths])
    try:
        with _show_progress(folder, tasks, unit):
            return runner.run(call, tasks, processes, seconds=cost.seconds, on_result=on_result)
    except BaseException as error:
        with contextlib.suppress(Exception):  # the original error is more useful
            there = set(storage.list_names(folder, may_lack=True))
            if done := sum(task.name in there for task in tasks):
                setattr(error, FINISHED_WORK, f"{done:,} of {len(tasks):,} {noun}")
        raise


@contextlib.contextmanager
def _show_progress(folder: str, tasks: Sequence[Task[Any]], unit: str) -> Iterator[None]:
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


def _watch(folder: str, tasks: Sequence[Task[Any]], unit: str, ended: threading.Event) -> None:
    """Show the progress of tasks by their results in a folder, until they have ended."""
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


def runner_of(
    arguments: Sequence[str],
    *,
    module: str,
    make_beam_pipeline: Callable[[], Any] | None = None,
) -> Runner:
    """Return a runner of local processes without `--runner` or with `DirectRunner`; else of Beam.

    Args:
        arguments: Beam's arguments. `--direct_num_workers` is the number of processes. The default,
            0, is one per core. With a `--direct_running_mode` other than `in_memory`, Beam runs its
            own.
        module: the module of `components` that has the workers' code, without `components.`.
        make_beam_pipeline: creates the pipeline, if the caller has already chosen one.
    """
    if make_beam_pipeline is None and not asks_for_beam(arguments):
        processes, module = parse_flags(arguments).processes, f"components.{module}"
        return Runner(processes=processes, module=module)
    return Runner(make_pipeline=make_beam_pipeline or (lambda: make_pipeline(arguments)))
