"""Make Beam pipelines, and run tasks on them.

Beam is imported only if one of its runners is requested.
"""

import argparse
import importlib.util
from collections.abc import Callable, Sequence
from concurrent import futures
from typing import TYPE_CHECKING, Any

from components.runtime.tasks import Argument, Call, Result, Task
from trainer_utils.core.errors import ConfigError
from trainer_utils.core.printable import printable

if TYPE_CHECKING:
    import apache_beam as beam

# Beam's DirectRunner would first try to download another runner (Prism) from the internet.
IN_PROCESS_RUNNER = "apache_beam.runners.portability.fn_api_runner.FnApiRunner"
# Beam knows this runner only by its full name.
DASK_RUNNER = "apache_beam.runners.dask.dask_runner.DaskRunner"
_DIRECT_RUNNERS = ("direct", "directrunner", "switchingdirectrunner")
_THREADS = 32  # concurrent calls of a store
_DASK_PARTITIONS = ("--dask_npartitions", "--dask_partition_size")


def asks_for_beam(arguments: Sequence[str]) -> bool:
    """Return whether Beam's own runner is requested; raise ConfigError if Beam is not installed."""
    asked = parse_flags(arguments)
    if _is_direct(asked) and asked.mode == "in_memory":
        return False
    if importlib.util.find_spec("apache_beam") is None:
        advice = "Run pip install 'tfx-shards[beam]'"
        rule = "none without Beam, which is not installed"
        raise ConfigError.of("beam_pipeline_args", list(arguments), allowed=rule, advice=advice)
    return True


def make_pipeline(arguments: Sequence[str]) -> "beam.Pipeline":
    """Return a Beam pipeline with these arguments, and defaults for missing ones.

    The defaults are the in-process runner and no pickling of the main module for workers. On Dask,
    each element is a partition, since Beam's own default gives 128 shards to one worker.
    """
    import apache_beam as beam
    from apache_beam.options.pipeline_options import PipelineOptions, SetupOptions

    arguments = list(arguments)
    if PipelineOptions(arguments).view_as(SetupOptions).save_main_session is None:
        arguments.append("--no_save_main_session")
    asked = parse_flags(arguments)
    if _is_direct(asked):
        arguments.append(f"--runner={IN_PROCESS_RUNNER}")
    is_given = any(argument.partition("=")[0] in _DASK_PARTITIONS for argument in arguments)
    if asked.runner == DASK_RUNNER and not is_given:
        arguments.append("--dask_partition_size=1")
    return beam.Pipeline(argv=arguments)


def takes_package(arguments: Sequence[str]) -> bool:
    """Return whether remote workers install a package that TFX builds of itself."""
    asked = parse_flags(arguments)
    return not (_is_direct(asked) or asked.runner in (IN_PROCESS_RUNNER, DASK_RUNNER))


def parse_flags(arguments: Sequence[str]) -> argparse.Namespace:
    """Parse the three flags that decide, with Beam's rules."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False, exit_on_error=False)
    parser.add_argument("--runner")
    parser.add_argument("--direct_num_workers", dest="processes", type=int, default=0)
    parser.add_argument("--direct_running_mode", dest="mode", default="in_memory")
    try:
        return parser.parse_known_args(list(arguments))[0]
    except argparse.ArgumentError as error:
        raise ConfigError.of(
            "beam_pipeline_args", list(arguments), allowed=f"Beam's flags ({error})"
        ) from error


def _is_direct(asked: argparse.Namespace) -> bool:
    return asked.runner is None or asked.runner.lower() in _DIRECT_RUNNERS


def call_on_beam(
    make_pipeline: Callable[[], "beam.Pipeline"],
    call: Call[Argument, Result],
    tasks: Sequence[Task[Argument]],
) -> list[Result]:
    """Return the result of `call` for each task, in order. Each unfinished task is a Beam element.

    A task goes to a worker as a name and a file: a plan of a million inputs is too large for the
    graphs that runners accept. Files are written and read in threads, since a store answers a call
    after some 20 ms. Results of an earlier run are read here, unless they have to be checked, which
    may mean to read whole shards. Without an unfinished task, no pipeline is started.

    Args:
        make_pipeline: creates the pipeline.
        call: the call.
        tasks: the tasks.

    Raises:
        DatasetError: an error that a worker raised, instead of the runner's version of it; or a
            result is missing.
    """
    with futures.ThreadPoolExecutor(_THREADS) as pool:
        known: dict[str, tuple[Result] | None] = {}
        if call.check is None:
            earlier = [task for task in tasks if task.name in call.there]
            results = pool.map(call.earlier_result, earlier)
            known = {task.name: result for task, result in zip(earlier, results, strict=True)}
        open_tasks = [task for task in tasks if known.get(task.name) is None]
        if open_tasks:
            call.forget_errors()
            _run_pipeline(make_pipeline(), call, [*pool.map(call.write_task, open_tasks)])
        names = [task.name for task in open_tasks]
        known |= {
            name: (argument,)
            for name, argument in zip(names, pool.map(call.read, names), strict=True)
        }
    return [result[0] for task in tasks if (result := known[task.name]) is not None]


def _run_pipeline(
    pipeline: "beam.Pipeline", call: Call[Any, Any], written: Sequence[tuple[str, str]]
) -> None:
    """Run a pipeline on the tasks that `Call.write_task` wrote."""
    import apache_beam as beam

    try:
        with pipeline:
            _ = (
                pipeline
                | "Create" >> beam.Create(written)
                | "Spread" >> beam.Reshuffle()
                | "Call" >> beam.ParDo(call.run_stored_task)
            )
    except Exception as error:
        reported = call.reported()
        if reported is None or str(error) == printable(str(reported)):
            raise
        raise reported from error
    finally:
        result: Any = getattr(pipeline, "result", None)
        if type(result).__name__ == "DaskRunnerResult":  # the runner leaves its client and
            result.client.close()  # the cluster that it started open
