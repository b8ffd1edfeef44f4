"""Who does the work that `beam_pipeline_args` ask for: processes of this machine, or a Beam runner.

Beam is imported where one of its runners is asked for, and not before.
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
# Beam knows this one by its full name alone.
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
    """Without a `--runner`, or with `DirectRunner`, processes of this machine; else Beam.

    Args:
        arguments: Beam's. `--direct_num_workers` says how many processes, 0 is one a core, the
            default; with another `--direct_running_mode` than `in_memory` Beam runs its own.
        module: of `components`, where what workers do comes from.
        make_beam_pipeline: makes the pipeline, where somebody else has decided about it.
        starts_early: as of `Runner`.
    """
    if make_beam_pipeline is None and not asks_for_beam(arguments):
        processes, module = _flags(arguments).processes, f"components.{module}"
        return Runner(processes=processes, module=module, starts_early=starts_early)
    return Runner(make_pipeline=make_beam_pipeline or (lambda: make_pipeline(arguments)))


def asks_for_beam(arguments: Sequence[str]) -> bool:
    """Whether arguments are of a runner of Beam's own; ConfigError where Beam is not installed."""
    asked = _flags(arguments)
    if _is_direct(asked) and asked.mode == "in_memory":
        return False
    if importlib.util.find_spec("apache_beam") is None:
        advice = "Run pip install 'tfx-shards[beam]'"
        rule = "none without Beam, which is not installed"
        raise ConfigError.of("beam_pipeline_args", list(arguments), allowed=rule, advice=advice)
    return True


def make_pipeline(arguments: Sequence[str]) -> "beam.Pipeline":
    """A Beam pipeline that is given these arguments as they are.

    What is added where nothing is said of it: the in-process runner; that nothing of the main
    module is pickled for workers; and on Dask, that an element is a partition, since Beam's
    own default gives 128 shards to one worker.
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
    """Whether workers elsewhere install a package that TFX makes of itself."""
    asked = _flags(arguments)
    return not (_is_direct(asked) or asked.runner in (IN_PROCESS_RUNNER, DASK_RUNNER))


def _flags(arguments: Sequence[str]) -> argparse.Namespace:
    """The three flags that decide, as Beam reads them."""
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
    """What `call` returns for each task, in their order; each is an element.

    A task goes to a worker by name, with a file: a plan of a million inputs is too large for the
    graphs that runners take.

    Raises:
        DatasetError: what a worker raised, in place of what a runner makes of it; or a result is
            missing.
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
                | "Call" >> beam.ParDo(call.make_named)
            )
    except Exception as error:
        told = call.reported()
        if told is None or str(error) == printable(str(told)):
            raise
        raise told from error
    finally:
        result: Any = getattr(pipeline, "result", None)
        if type(result).__name__ == "DaskRunnerResult":  # which leaves its client open, and the
            result.client.close()  # cluster that it began
    return [call.read(name) for name in names]
