"""The ShardBalancer component: its interface.

balanced = ShardBalancer(examples=images.outputs["examples"], target_shard_bytes=128 << 20)
balanced.outputs["balanced_examples"]
"""

from collections.abc import Sequence
from typing import Any

from tfx import types
from tfx.dsl.components.base import base_beam_component, executor_spec
from tfx.types import channel_utils, standard_artifacts

from components.common.component import channel, examples_channel, parameters_of, takes_settings
from components.shard_balancer.driver import ChangesDriver
from components.shard_balancer.executor import Executor
from components.shard_balancer.settings import BalancerSettings

__all__ = ["ShardBalancer"]


class ShardBalancerSpec(types.ComponentSpec):
    """The component's parameters, input and output."""

    PARAMETERS = parameters_of(BalancerSettings)
    INPUTS = {
        "examples": examples_channel(),
        "before_transform": channel(standard_artifacts.Examples, optional=True),
        "transform_graph": channel(standard_artifacts.TransformGraph, optional=True),
    }
    OUTPUTS = {"balanced_examples": examples_channel()}


class ShardBalancer(base_beam_component.BaseBeamComponent):
    """Writes Examples artifacts anew, as one dataset in shards of equal size and in random order.

    Every record is moved byte for byte, in its frame; every checksum is checked on the way, and
    the new shards are read back. What goes in comes out, by count and by an order-free checksum.
    Records may be left out, relabelled, or kept by a condition, and further datasets added; all
    that is counted. `components.shard_balancer.plan` says what would be done.

    Outputs:
        balanced_examples: TFX's `Examples`, and a Datum dataset.
    """

    SPEC_CLASS = ShardBalancerSpec
    EXECUTOR_SPEC = executor_spec.BeamExecutorSpec(Executor)
    DRIVER_CLASS = ChangesDriver  # it is both kinds that TFX has

    @takes_settings(BalancerSettings)
    def __init__(
        self, examples: types.BaseChannel | Sequence[types.BaseChannel], **properties: Any
    ) -> None:
        """Makes the component.

        Args:
            examples: one or several Examples artifacts, or a list of channels of them: ours,
                Datum's, TFDS's, a stock ExampleGen's, or ones that ImportExampleGen brought in. A
                split gets what all of them have of it. Those of a Transform keep the vocabularies
                of its own input, for features of ids that it passes on, and take the ones that it
                makes itself under a feature's name (`vocab_filename="label"`).

        Raises:
            ConfigError: a setting is not allowed.
        """
        if not isinstance(examples, types.BaseChannel):
            examples = channel_utils.union(examples)
        spec = ShardBalancerSpec(
            examples=examples,
            **_of_transform(examples),
            balanced_examples=types.Channel(type=standard_artifacts.Examples),
            **properties,
        )
        super().__init__(spec=spec)


def _of_transform(examples: types.BaseChannel) -> dict[str, types.BaseChannel]:
    """What knows the vocabularies of a Transform's examples, which have none beside them."""
    producer = getattr(examples, "producer_component", None)
    if producer is None or "transform_graph" not in producer.outputs:
        return {}
    return {
        "before_transform": producer.inputs["examples"],
        "transform_graph": producer.outputs["transform_graph"],
    }
