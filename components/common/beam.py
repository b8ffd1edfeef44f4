"""A TFX Beam executor that hands on what it is given, and keeps to the in-process runner without.

class Executor(LocalFirstBeamExecutor):
    def Do(self, input_dict, output_dict, exec_properties): …
"""

import contextlib
import copy
import gc
from collections.abc import Iterator, Sequence
from types import TracebackType

import apache_beam as beam
from apache_beam.options.pipeline_options import (
    DirectOptions,
    PipelineOptions,
    SetupOptions,
    StandardOptions,
)
from tfx.dsl.components.base import base_beam_executor

from components.common.tasks import Runner

__all__ = ["DASK_RUNNER", "IN_PROCESS_RUNNER", "LocalFirstBeamExecutor", "spare_old_objects"]

# Beam's DirectRunner would first try to download another runner (Prism) from the internet.
IN_PROCESS_RUNNER = "apache_beam.runners.portability.fn_api_runner.FnApiRunner"
# Beam knows this one by its full name alone.
DASK_RUNNER = "apache_beam.runners.dask.dask_runner.DaskRunner"
_NUM_WORKERS = "direct_num_workers"
_DASK_PARTITIONS = ("--dask_npartitions", "--dask_partition_size")


@contextlib.contextmanager
def spare_old_objects() -> Iterator[None]:
    """Keeps full collections of Python's garbage collector to what is made meanwhile.

    With TFX and TensorFlow imported, one pass over all objects takes 0.3 s, and a conversion of
    some thousand files asks for one.
    """
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


class LocalFirstBeamExecutor(base_beam_executor.BaseBeamExecutor):
    """TFX's Beam executor; without a `--runner`, or with `DirectRunner`, all runs in process.

    All of `beam_pipeline_args` goes to Beam as it is. What is added where nothing is said of it:
    the in-process runner, and that nothing of the main module is pickled for workers, which Beam
    would do on Dataflow, and which no component needs. On Dask, that an element is a partition:
    Beam's own default gives 128 of them, and so as many shards, to one worker.

    That runner has one thread. What it is given to write goes to processes of this machine, one a
    core, or as many as `--direct_num_workers` says; see `processes`.
    """

    def __init__(self, context: base_beam_executor.BaseBeamExecutor.Context | None = None) -> None:
        arguments = getattr(context, "beam_pipeline_args", None)
        if context is None or not arguments or _takes_package(arguments):
            super().__init__(context)
            return
        # TFX would pack itself for workers that install it, which takes seconds each time.
        without = copy.copy(context)
        without.beam_pipeline_args = None
        super().__init__(without)
        self._context, self._beam_pipeline_args = context, [*arguments]

    def _runner(self, module: str) -> Runner:
        """Who does the work on shards: processes of this machine, or Beam where that is asked for.

        Args:
            module: of `components`, where what they do comes from.
        """
        arguments = [str(argument) for argument in self._beam_pipeline_args or []]
        options = PipelineOptions(arguments)
        is_here = self._make_beam_pipeline_fn is None and _is_direct(options)
        if is_here and _is_in_memory(options):
            return Runner(processes=_most_processes(arguments), module=f"components.{module}")
        return Runner(make_pipeline=self._make_beam_pipeline)

    def _make_beam_pipeline(self) -> beam.Pipeline:
        if self._make_beam_pipeline_fn is not None:
            return self._make_beam_pipeline_fn()
        arguments = [str(argument) for argument in self._beam_pipeline_args or []]
        options = PipelineOptions(arguments)
        if options.view_as(SetupOptions).save_main_session is None:
            arguments.append("--no_save_main_session")
        if _is_direct(options):
            arguments.append(f"--runner={IN_PROCESS_RUNNER}")
        if _is_dask(options):
            if not any(argument.partition("=")[0] in _DASK_PARTITIONS for argument in arguments):
                arguments.append("--dask_partition_size=1")
            return _DaskPipeline(argv=arguments)
        return beam.Pipeline(argv=arguments)


class _DaskPipeline(beam.Pipeline):
    """A pipeline of DaskRunner, which leaves its client open, and the cluster that this began."""

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        try:
            super().__exit__(kind, error, traceback)
        finally:
            if (result := getattr(self, "result", None)) is not None:
                result.client.close()


def _takes_package(arguments: Sequence[object]) -> bool:
    options = PipelineOptions([str(argument) for argument in arguments])
    is_in_process = options.view_as(StandardOptions).runner == IN_PROCESS_RUNNER
    return not (is_in_process or _is_direct(options) or _is_dask(options))


def _is_dask(options: PipelineOptions) -> bool:
    return bool(options.view_as(StandardOptions).runner == DASK_RUNNER)


def _is_direct(options: PipelineOptions) -> bool:
    runner = options.view_as(StandardOptions).runner
    return runner is None or runner.lower() in ("direct", "directrunner", "switchingdirectrunner")


def _is_in_memory(options: PipelineOptions) -> bool:
    return bool(options.view_as(DirectOptions).direct_running_mode == "in_memory")


def _most_processes(arguments: list[str]) -> int:
    """What `--direct_num_workers` says, as Beam counts: 0 for all; Beam's own default is 1."""
    name = f"--{_NUM_WORKERS}"
    if any(argument.partition("=")[0] == name for argument in arguments):
        return int(getattr(PipelineOptions(arguments).view_as(DirectOptions), _NUM_WORKERS))
    return 0
