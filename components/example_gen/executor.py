"""Turns inputs into a dataset: plan, check, write, publish.

class Executor(ExampleGenExecutor):
    producer = "ImageExampleGen"
    conversion_class = ImageConversion
"""

from typing import Any, ClassVar

from tfx import types
from tfx.types import artifact_utils

from components.common.beam import LocalFirstBeamExecutor
from components.common.collector import spare_old_objects
from components.common.lineage import make_origin
from components.common.publish import describe_artifact, publish_dataset
from components.common.settings import Artifacts, ExecProperties
from components.common.workspace import removed_on_failure
from components.example_gen.conversion import Conversion
from components.example_gen.manifest import make_manifest
from components.example_gen.outcome import check_outcome
from components.example_gen.tfx_properties import selection_of, set_span, with_spans

__all__ = ["ExampleGenExecutor"]


class ExampleGenExecutor(LocalFirstBeamExecutor):
    """What the executors of all ExampleGens have in common.

    Attributes:
        producer: the component's name, for the manifest.
        conversion_class: its steps.
    """

    producer: ClassVar[str]
    conversion_class: ClassVar[type[Conversion[Any]]]

    def Do(
        self, input_dict: Artifacts, output_dict: Artifacts, exec_properties: ExecProperties
    ) -> None:
        """Converts the inputs.

        Args:
            input_dict: empty.
            output_dict: `examples`: the Examples artifact to fill.
            exec_properties: `input_base`, `input_config`, `output_config`, `range_config` as in
                TFX's FileBasedExampleGen, and the fields of the settings. Where TFX's driver
                ran, it has filled in spans; where none did, they are resolved here.

        Raises:
            InputError: the input is missing, malformed, or too much of it was rejected.
            ConfigError: a setting is not allowed.
        """
        self._log_startup(input_dict, output_dict, exec_properties)
        artifact = artifact_utils.get_single_instance(output_dict["examples"])
        conversion_class = self.conversion_class
        with self._runner(conversion_class.workers_module) as runner, spare_old_objects():
            selection = selection_of(exec_properties)
            conversion = conversion_class.of(exec_properties, selection, runner)
            with removed_on_failure(artifact.uri):
                self._convert(conversion, artifact, exec_properties)

    def _convert(
        self, conversion: Conversion[Any], artifact: types.Artifact, exec_properties: ExecProperties
    ) -> None:
        uri = artifact.uri
        plan = conversion.plan(uri)
        conversion.check(plan, uri)
        written = conversion.write(plan, uri)
        rejects = (*plan.rejects, *written.rejects)
        check_outcome(conversion, plan, rejects, written=written.num_records, uri=uri)
        settings, vocabularies = conversion.settings, plan.vocabularies
        manifest = make_manifest(
            self.producer,
            plan,
            written,
            settings=settings,
            partition=conversion.selection.partition,
        )
        describe_artifact(artifact, manifest, gzip=settings.gzip, vocabularies=vocabularies)
        set_span(artifact, conversion.located, exec_properties)
        features = settings.described(written.features)
        origin = make_origin(
            self.producer,
            with_spans(exec_properties, conversion.located),
            output="examples",
        )
        publish_dataset(
            uri, manifest, features, vocabularies=vocabularies, rejects=rejects, origin=origin
        )
