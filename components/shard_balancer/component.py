"""The ShardBalancer component: its interface.

balanced = ShardBalancer(examples=images.outputs["examples"], target_shard_bytes=128 << 20)
balanced.outputs["balanced_examples"]
"""

from collections.abc import Mapping, Sequence
from typing import Any

from tfx import types
from tfx.dsl.components.base import base_beam_component, executor_spec
from tfx.orchestration import data_types
from tfx.types import channel_utils, component_spec, standard_artifacts

from components.common.checks import as_properties, known_now, names_checked
from components.shard_balancer.executor import Executor
from components.shard_balancer.settings import BalancerSettings

__all__ = ["ShardBalancer"]

_Runtime = data_types.RuntimeParameter


class ShardBalancerSpec(types.ComponentSpec):
    """The component's parameters, input and output."""

    PARAMETERS = {
        # A number where a RuntimeParameter says so, else JSON.
        "num_shards": component_spec.ExecutionParameter(type=(int, str), optional=True),
        "target_shard_bytes": component_spec.ExecutionParameter(type=int),
        "shard_multiple": component_spec.ExecutionParameter(type=int),
        "shuffle": component_spec.ExecutionParameter(type=int),
        "balance": component_spec.ExecutionParameter(type=str),
        "stratify_by": component_spec.ExecutionParameter(type=str, optional=True),
        "seed": component_spec.ExecutionParameter(type=int),
        "compression": component_spec.ExecutionParameter(type=str),
        "memory_bytes": component_spec.ExecutionParameter(type=int),
    }
    INPUTS = {"examples": component_spec.ChannelParameter(type=standard_artifacts.Examples)}
    OUTPUTS = {
        "balanced_examples": component_spec.ChannelParameter(type=standard_artifacts.Examples)
    }


class ShardBalancer(base_beam_component.BaseBeamComponent):
    """Writes Examples artifacts anew, as one dataset in shards of equal size and in random order.

    Every record is moved byte for byte, in its frame; every checksum is checked on the way, and
    the new shards are read back. What goes in comes out, by count and by an order-free checksum.
    `components.shard_balancer.plan` says what would be done.

    Outputs:
        balanced_examples: TFX's `Examples`, and a Datum dataset.
    """

    SPEC_CLASS = ShardBalancerSpec
    EXECUTOR_SPEC = executor_spec.BeamExecutorSpec(Executor)

    @names_checked
    def __init__(
        self,
        examples: types.BaseChannel | Sequence[types.BaseChannel],
        *,
        num_shards: int | Mapping[str, int] | _Runtime | None = None,
        target_shard_bytes: int | _Runtime = 128 << 20,
        shard_multiple: int | _Runtime = 1,
        shuffle: bool | _Runtime = True,
        balance: str | _Runtime = "records",
        stratify_by: str | _Runtime | None = None,
        seed: int | _Runtime = 0,
        compression: str | _Runtime = "none",
        memory_bytes: int | _Runtime = 1 << 30,
    ) -> None:
        """Makes the component.

        Args:
            examples: one or several Examples artifacts, or a list of channels of them: ours,
                Datum's, TFDS's, a stock ExampleGen's, or ones that ImportExampleGen brought in. A
                split gets what all of them have of it.
            num_shards: of every split, or by split: `{"train": 8, "eval": 2}`. Fewer where there
                are fewer records. Default: as `target_shard_bytes` has it.
            target_shard_bytes: wished size of a shard in bytes.
            shard_multiple: the number of shards is a multiple of this, such as the number of
                workers.
            shuffle: a global permutation of each split's records; False keeps their order.
            balance: `records`: shards differ by one record at the most; `bytes`: by the bytes of
                the largest record at the most.
            stratify_by: a feature, such as `label`: each shard holds each value's share to within
                one record. Each example has one value of it, or none.
            seed: of that permutation. 64 bits, signed.
            compression: `none`, or `gzip` (slower to read, and Datum cannot).
            memory_bytes: how much memory a worker may use, at least 1 MiB (below 64 MiB it takes
                some more than that); a split that is larger goes through temporary files beside
                the output. Planning by bytes or by class takes some 40 bytes a record of its own.

        Raises:
            ConfigError: a setting is not allowed.
        """
        settings: dict[str, Any] = {
            "num_shards": num_shards,
            "target_shard_bytes": target_shard_bytes,
            "shard_multiple": shard_multiple,
            "shuffle": shuffle,
            "balance": balance,
            "stratify_by": stratify_by,
            "seed": seed,
            "compression": compression,
            "memory_bytes": memory_bytes,
        }
        BalancerSettings(**known_now(settings))
        settings = as_properties(settings, json_names=["num_shards"])
        if not isinstance(examples, types.BaseChannel):
            examples = channel_utils.union(examples)
        spec = ShardBalancerSpec(
            examples=examples,
            balanced_examples=types.Channel(type=standard_artifacts.Examples),
            **settings,
        )
        super().__init__(spec=spec)
