"""The DatasetAudit component: its interface.

audit = DatasetAudit(examples=balanced.outputs["balanced_examples"], fail_on=("leakage",))
audit.outputs["anomalies"]
"""

from typing import Any

from tfx import types
from tfx.dsl.components.base import base_component, executor_spec
from tfx.types import standard_artifacts

from components.common.component import channel, examples_channel, parameters_of, takes_settings
from components.dataset_audit.executor import Executor
from components.dataset_audit.settings import AuditSettings

__all__ = ["DatasetAudit"]


class DatasetAuditSpec(types.ComponentSpec):
    """The component's parameters, inputs and outputs."""

    PARAMETERS = parameters_of(AuditSettings)
    INPUTS = {
        "examples": examples_channel(),
        "against": channel(standard_artifacts.Examples, optional=True),
    }
    OUTPUTS = {"anomalies": channel(standard_artifacts.ExampleAnomalies)}


class DatasetAudit(base_component.BaseComponent):
    """Finds copies, leakage between splits, conflicts of labels, shifts and odd images.

    Copies are records of the same content, pictures that were encoded anew, resized, cropped a
    little, made grey or mirrored, texts that differ in a few words, and sounds that were encoded
    anew, resampled, made louder or quieter, or cut a little.

    Outputs:
        anomalies: TFX's `ExampleAnomalies`: `Split-<name>/SchemaDiff.pb` for each split, an anomaly
            for each kind of finding, and `findings.json` with all of them and their records. Its
            property `blessed` says by split whether nothing was found, as ExampleValidator's does;
            `num_findings` how much was found, `is_blessed` is 1 where nothing was.
    """

    SPEC_CLASS = DatasetAuditSpec
    EXECUTOR_SPEC = executor_spec.ExecutorClassSpec(Executor)

    @takes_settings(AuditSettings)
    def __init__(
        self,
        examples: types.BaseChannel,
        *,
        against: types.BaseChannel | None = None,
        **properties: Any,
    ) -> None:
        """Makes the component.

        Args:
            examples: an Examples channel.
            against: an earlier dataset, that this one is compared with.

        Raises:
            ConfigError: a setting is not allowed.
        """
        super().__init__(
            DatasetAuditSpec(
                examples=examples,
                **({"against": against} if against is not None else {}),
                anomalies=types.Channel(type=standard_artifacts.ExampleAnomalies),
                **properties,
            )
        )
