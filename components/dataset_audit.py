"""DatasetAudit: find problems of a dataset, as TFX's anomalies and as JSON.

audit = DatasetAudit(examples=balanced.outputs["balanced_examples"], fail_on=("leakage",))
audit.outputs["anomalies"]
"""

from typing import TYPE_CHECKING

from tfx import types
from tfx.dsl.components.base import base_executor, executor_spec
from tfx.types import artifact_utils, standard_artifacts

from components import steps
from components.auditing.properties import properties_of_audit
from components.runtime.component_settings import ExecProperties
from components.settings import AuditSettings
from components.tfx.component import (
    Artifacts,
    DatasetComponent,
    channel,
    document_constructor,
    parameters_of,
    set_properties,
    uris_of,
)
from components.tfx.keywords import DatasetAuditKeywords

if TYPE_CHECKING:
    from typing_extensions import Unpack


class Executor(base_executor.BaseExecutor):
    """Executor of DatasetAudit."""

    def Do(
        self, input_dict: Artifacts, output_dict: Artifacts, exec_properties: ExecProperties
    ) -> None:
        """Write the findings, then fail if there are any of the kinds in `fail_on`.

        TFX removes the output of a failed run, so `<uri>.findings.json` stays next to it.

        Args:
            input_dict: `examples`: the Examples artifact; `against`: an earlier one, optional.
            output_dict: `anomalies`: the ExampleAnomalies artifact to fill.
            exec_properties: the settings, in the form of `AuditSettings.to_properties`.
        """
        self._log_startup(input_dict, output_dict, exec_properties)
        settings = AuditSettings.from_properties(exec_properties)
        uris = uris_of(input_dict)
        artifact = artifact_utils.get_single_instance(output_dict["anomalies"])
        audit = steps.audit(uris["examples"], artifact.uri, settings, against=uris.get("against"))
        set_properties(artifact, properties_of_audit(audit))
        steps.check_findings(audit, settings.fail_on, artifact.uri)


class DatasetAuditSpec(types.ComponentSpec):
    """The component's parameters, inputs and outputs."""

    PARAMETERS = parameters_of(AuditSettings)
    INPUTS = {
        "examples": channel(standard_artifacts.Examples),
        "against": channel(standard_artifacts.Examples, optional=True),
    }
    OUTPUTS = {"anomalies": channel(standard_artifacts.ExampleAnomalies)}


class DatasetAudit(DatasetComponent):
    """A component that finds copies, leakage, conflicting labels, shifts and unusual images.

    Leakage is a copy in another split. Copies are records with the same content. They are also
    images that were encoded again, resized, made grey or mirrored, texts that differ in a few
    words, and audio files with the same bytes.

    Outputs:
        anomalies: TFX's `ExampleAnomalies`: `Split-<name>/SchemaDiff.pb` for each split, with an
            anomaly for each kind of finding, and `findings.json` with all findings and their
            records. Its property `blessed` says for each split whether there are no findings, as
            ExampleValidator's does. `num_findings` is their number, and `is_blessed` is 1 without
            findings.
    """

    SPEC_CLASS = DatasetAuditSpec
    EXECUTOR_SPEC = executor_spec.ExecutorClassSpec(Executor)

    def __init__(
        self,
        examples: types.BaseChannel,
        *,
        against: types.BaseChannel | None = None,
        **settings: "Unpack[DatasetAuditKeywords]",
    ) -> None:
        """Create the component. `help(DatasetAudit)` describes every argument."""
        inputs = {"examples": examples, "against": against}
        super().__init__(AuditSettings, inputs, settings)


document_constructor(
    DatasetAudit,
    AuditSettings,
    DatasetAuditKeywords,
    examples="an Examples channel.",
    against="an earlier dataset to compare with.",
)
