"""A TFX Beam executor that hands on what it is given, and keeps to this machine without.

class Executor(LocalFirstBeamExecutor):
    def Do(self, input_dict, output_dict, exec_properties):
        with self._runner("balancing.parts") as runner: …
"""

import copy

import apache_beam as beam
from tfx.dsl.components.base import base_beam_executor

from components.common.beam import make_pipeline, runner_of, takes_package
from components.common.tasks import Runner


class LocalFirstBeamExecutor(base_beam_executor.BaseBeamExecutor):
    """TFX's Beam executor; without a `--runner`, or with `DirectRunner`, all runs here."""

    def __init__(self, context: base_beam_executor.BaseBeamExecutor.Context | None = None) -> None:
        arguments = [str(one) for one in getattr(context, "beam_pipeline_args", None) or ()]
        if context is None or not arguments or takes_package(arguments):
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
        arguments = [str(argument) for argument in self._beam_pipeline_args or ()]
        made_by = None if self._make_beam_pipeline_fn is None else self._make_beam_pipeline
        return runner_of(arguments, module=module, make_beam_pipeline=made_by)

    def _make_beam_pipeline(self) -> beam.Pipeline:
        if self._make_beam_pipeline_fn is not None:
            return self._make_beam_pipeline_fn()
        return make_pipeline([str(argument) for argument in self._beam_pipeline_args or ()])
