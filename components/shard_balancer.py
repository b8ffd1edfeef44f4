"""ShardBalancer: rewrite Examples artifacts as one dataset of equal, globally shuffled shards.

balanced = ShardBalancer(examples=images.outputs["examples"], target_shard_bytes=128 << 20)
balanced.outputs["balanced_examples"]
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tfx import types
from tfx.dsl.components.base import base_beam_component, executor_spec
from tfx.types import artifact_utils, channel_utils, standard_artifacts

from components import steps
from components.balancing.planning import plan
from components.balancing.settings import BalancerSettings
from components.runtime.component_settings import ExecProperties
from components.runtime.workspace import kept_from_launcher
from components.shuffle.edits import fingerprint_of_files
from components.tfx.component import (
    Artifacts,
    channel,
    check_channel,
    document_constructor,
    make_spec,
    parameters_of,
    set_properties,
)
from components.tfx.executor import LocalFirstBeamExecutor, PropertiesDriver
from components.tfx.keywords import ShardBalancerKeywords
from trainer_utils.dataset import open_dataset

if TYPE_CHECKING:
    from typing_extensions import Unpack

__all__ = ["FINGERPRINT", "EditsDriver", "Executor", "ShardBalancer", "plan"]


FINGERPRINT = "changes_fingerprint"
_KEPT_PROPERTIES = ("span", "version")


class Executor(LocalFirstBeamExecutor):
    """Executor of ShardBalancer."""

    def Do(
        self, input_dict: Artifacts, output_dict: Artifacts, exec_properties: ExecProperties
    ) -> None:
        """Write the balanced dataset.

        Args:
            input_dict: `examples`: the Examples artifacts to balance. If a Transform wrote them,
                also its input as `before_transform`, and its graph as `transform_graph`.
            output_dict: `balanced_examples`: the Examples artifact to fill.
            exec_properties: the fields of `BalancerSettings`, `num_shards` as JSON.
        """
        self._log_startup(input_dict, output_dict, exec_properties)
        examples_artifacts = input_dict["examples"]
        artifact = artifact_utils.get_single_instance(output_dict["balanced_examples"])
        settings = BalancerSettings.from_properties(exec_properties)
        runner = self._runner("balancing.parts")
        with kept_from_launcher(artifact.uri), runner:
            result = steps.balance(
                [examples.uri for examples in examples_artifacts],
                artifact.uri,
                settings,
                before_transform=[
                    dataset.uri for dataset in input_dict.get("before_transform", ())
                ],
                transform_graphs=[graph.uri for graph in input_dict.get("transform_graph", ())],
                runner=runner,
            )
        set_properties(artifact, result.properties)
        _keep_properties(examples_artifacts, artifact)


def _keep_properties(artifacts: Sequence[types.Artifact], artifact: types.Artifact) -> None:
    """Copy span and version to the output if all inputs have the same."""
    for name in _KEPT_PROPERTIES:
        values = {
            examples.get_int_custom_property(name)
            for examples in artifacts
            if examples.has_custom_property(name)
        }
        if len(values) == 1 and all(examples.has_custom_property(name) for examples in artifacts):
            artifact.set_int_custom_property(name, values.pop())


class EditsDriver(PropertiesDriver):
    """A driver that makes TFX run again when files or datasets that settings name have changed.

    TFX takes a run from its cache if settings and input artifacts are the same. By itself it does
    not notice changes in the files of `exclude` and `relabel`, or in the datasets of `add`.
    """

    def resolve(self, exec_properties: ExecProperties, output: str = "") -> ExecProperties:  # noqa: D102
        settings = BalancerSettings.from_properties(exec_properties)
        fingerprint = fingerprint_of_files(
            {"exclude": settings.exclude, "relabel": settings.relabel},
            [open_dataset(uri, inspect=False).digest for uri in settings.add],
        )
        return (
            exec_properties
            if fingerprint is None
            else {**exec_properties, FINGERPRINT: fingerprint}
        )


class ShardBalancerSpec(types.ComponentSpec):
    """The component's parameters, input and output."""

    PARAMETERS = parameters_of(BalancerSettings)
    INPUTS = {
        "examples": channel(standard_artifacts.Examples),
        "before_transform": channel(standard_artifacts.Examples, optional=True),
        "transform_graph": channel(standard_artifacts.TransformGraph, optional=True),
    }
    OUTPUTS = {"balanced_examples": channel(standard_artifacts.Examples)}


class ShardBalancer(base_beam_component.BaseBeamComponent):
    """A component that rewrites examples as one dataset of equal, randomly ordered shards.

    Every record is moved byte for byte in its frame, every checksum is verified on the way, and the
    new shards are read back. The records in and out agree by count and by an order-free checksum.
    Records may be left out, relabelled, or selected by a condition, and further datasets added; all
    of these are counted. `components.shard_balancer.plan` previews the result.

    Outputs:
        balanced_examples: TFX's `Examples`, and a Datum dataset.
    """

    SPEC_CLASS = ShardBalancerSpec
    EXECUTOR_SPEC = executor_spec.BeamExecutorSpec(Executor)
    DRIVER_CLASS = EditsDriver  # implements both of TFX's driver interfaces

    def __init__(
        self,
        examples: types.BaseChannel | Sequence[types.BaseChannel],
        **settings: "Unpack[ShardBalancerKeywords]",
    ) -> None:
        """Create the component. `help(ShardBalancer)` describes every argument."""
        given: Any = examples
        if isinstance(examples, (list, tuple)) and examples:
            for channel in examples:
                check_channel("examples", channel, ShardBalancerSpec.INPUTS["examples"])
            given = channel_utils.union(examples)
        else:
            check_channel("examples", examples, ShardBalancerSpec.INPUTS["examples"])
        inputs = {"examples": given, **_of_transform(given)}
        super().__init__(spec=make_spec(ShardBalancerSpec, BalancerSettings, inputs, settings))


document_constructor(
    ShardBalancer,
    BalancerSettings,
    ShardBalancerKeywords,
    examples="one or several Examples artifacts, or a list of channels of them, written by "
    "tfx-shards, Datum, TFDS or a stock ExampleGen, or imported by ImportExampleGen. Each output "
    "split merges the split of that name from all inputs. Examples of a Transform keep the "
    "vocabularies of its input for id features that it passes through, and use the vocabularies "
    "that it writes under a feature's name (`vocab_filename='label'`).",
)


def _of_transform(examples: types.BaseChannel) -> dict[str, types.BaseChannel]:
    """Return the inputs that have the vocabularies of a Transform's examples."""
    producer = getattr(examples, "producer_component", None)
    if producer is None or "transform_graph" not in producer.outputs:
        return {}
    return {
        "before_transform": producer.inputs["examples"],
        "transform_graph": producer.outputs["transform_graph"],
    }
