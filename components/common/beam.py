"""Choose the runner that `beam_pipeline_args` ask for: local processes, or a Beam runner.

Beam is imported only if one of its runners is requested.
"""

import argparse
import importlib.util
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from components.common.tasks import Call, Runner, Task
from trainer_utils.format import ConfigError
from trainer_utils.format.printable import printable

if TYPE_CHECKING:
    import apache_beam as beam

# Beam's DirectRunner would first try to download another runner (Prism) from the internet.
IN_PROCESS_RUNNER = "apache_beam.runners.portability.fn_api_runner.FnApiRunner"
# Beam knows this runner only by its full name.
DASK_RUNNER = "apache_beam.runners.dask.dask_runner.DaskRunner"
_DIRECT_RUNNERS = ("direct", "directrunner", "switchingdirectrunner")
_DASK_PARTITIONS = ("--dask_npartitions", "--dask_partition_size")


def runner_of(
    arguments: Sequence[str],
    *,
    module: str,
    make_beam_pipeline: Callable[[], Any] | None = None,
    starts_early: bool = True,
) -> Runner:
    """Return a runner of local processes without `--runner` or with `DirectRunner`; else of Beam.

    Args:
        arguments: Beam's arguments. `--direct_num_workers` is the number of processes. The default,
            0, is one per core. With a `--direct_running_mode` other than `in_memory`, Beam runs its
            own.
        module: the module of `components` that has the workers' code, without `components.`.
        make_beam_pipeline: creates the pipeline, if the caller has already chosen one.
        starts_early: start to import `module` when the runner is entered; see `Runner`.
    """
    if make_beam_pipeline is None and not asks_for_beam(arguments):
        processes, module = _flags(arguments).processes, f"components.{module}"
        return Runner(processes=processes, module=module, starts_early=starts_early)
    return Runner(make_pipeline=make_beam_pipeline or (lambda: make_pipeline(arguments)))


def asks_for_beam(arguments: Sequence[str]) -> bool:
    """Return whether Beam's own runner is requested; raise ConfigError if Beam is not installed."""
    asked = _flags(arguments)
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
    asked = _flags(arguments)
    if _is_direct(asked):
        arguments.append(f"--runner={IN_PROCESS_RUNNER}")
    is_given = any(argument.partition("=")[0] in _DASK_PARTITIONS for argument in arguments)
    if asked.runner == DASK_RUNNER and not is_given:
        arguments.append("--dask_partition_size=1")
    return beam.Pipeline(argv=arguments)


def takes_package(arguments: Sequence[str]) -> bool:
    """Return whether remote workers install a package that TFX builds of itself."""
    asked = _flags(arguments)
    return not (_is_direct(asked) or asked.runner in (IN_PROCESS_RUNNER, DASK_RUNNER))


def _flags(arguments: Sequence[str]) -> argparse.Namespace:
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


def call_on_beam(pipeline: "beam.Pipeline", call: Call, tasks: Sequence[Task]) -> list[Any]:
    """Return the result of `call` for each task, in order. Each task is a Beam element.

    A task goes to a worker as a name and a file: a plan of a million inputs is too large for the
    graphs that runners accept.

    Raises:
        DatasetError: an error that a worker raised, instead of the runner's version of it; or a
            result is missing.
    """
    import apache_beam as beam

    call.forget_errors()
    names = [task.name for task in tasks]
    written = [call.write_task(task) for task in tasks]
    try:
        with pipeline:
            _ = (
                pipeline
                | "Create" >> beam.Create(written)
                | "Spread" >> beam.Reshuffle()
                | "Call" >> beam.ParDo(call.run_stored_task)
            )
    except Exception as error:
        told = call.reported()
        if told is None or str(error) == printable(str(told)):
            raise
        raise told from error
    finally:
        result: Any = getattr(pipeline, "result", None)
        if type(result).__name__ == "DaskRunnerResult":  # the runner leaves its client and
            result.client.close()  # the cluster that it started open
    return [call.read(name) for name in names]
