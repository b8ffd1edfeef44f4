"""The ImageExampleGen component: its interface.

images = ImageExampleGen(input_base="photos/")
images.outputs["examples"]
"""

from typing import Any

from tfx import types
from tfx.components.example_gen import utils
from tfx.dsl.components.base import base_beam_component, executor_spec
from tfx.orchestration import data_types
from tfx.proto import example_gen_pb2, range_config_pb2
from tfx.types import component_spec, standard_artifacts, standard_component_specs

from components.common.checks import known_now
from components.image_example_gen.driver import ImageExampleGenDriver
from components.image_example_gen.executor import Executor
from components.image_example_gen.settings import ImageSettings

__all__ = ["ImageExampleGen"]

_Runtime = data_types.RuntimeParameter


class ImageExampleGenSpec(types.ComponentSpec):
    """The component's parameters and output; the names that it shares with TFX's are TFX's."""

    PARAMETERS = {
        standard_component_specs.INPUT_BASE_KEY: component_spec.ExecutionParameter(type=str),
        standard_component_specs.INPUT_CONFIG_KEY: component_spec.ExecutionParameter(
            type=example_gen_pb2.Input
        ),
        standard_component_specs.OUTPUT_CONFIG_KEY: component_spec.ExecutionParameter(
            type=example_gen_pb2.Output
        ),
        standard_component_specs.RANGE_CONFIG_KEY: component_spec.ExecutionParameter(
            type=range_config_pb2.RangeConfig, optional=True
        ),
        "layout": component_spec.ExecutionParameter(type=str),
        "seed": component_spec.ExecutionParameter(type=int),
        "target_shard_bytes": component_spec.ExecutionParameter(type=int),
        "compression": component_spec.ExecutionParameter(type=str),
        "max_reject_fraction": component_spec.ExecutionParameter(type=float),
    }
    INPUTS: dict[str, Any] = {}
    OUTPUTS = {"examples": component_spec.ChannelParameter(type=standard_artifacts.Examples)}


class ImageExampleGen(base_beam_component.BaseBeamComponent):
    """Turns a folder or a list of images into sharded TFRecords of `tf.train.Example`.

    Every example has `image` (the file, byte for byte), `filename` (relative to `input_base`),
    `height`, `width` and `channels`, and `label` (int64, a place in the sorted vocabulary) where
    the inputs have classes. JPEG and PNG are taken. Bad files are listed in `rejects.jsonl`.

    Outputs:
        examples: TFX's `Examples`, and a Datum dataset.
    """

    SPEC_CLASS = ImageExampleGenSpec
    EXECUTOR_SPEC = executor_spec.BeamExecutorSpec(Executor)
    DRIVER_CLASS = ImageExampleGenDriver

    def __init__(
        self,
        input_base: str | _Runtime,
        *,
        input_config: example_gen_pb2.Input | _Runtime | None = None,
        output_config: example_gen_pb2.Output | _Runtime | None = None,
        range_config: range_config_pb2.RangeConfig | _Runtime | None = None,
        layout: str | _Runtime = "auto",
        seed: int | _Runtime = 0,
        target_shard_bytes: int | _Runtime = 128 << 20,
        compression: str | _Runtime = "none",
        max_reject_fraction: float | _Runtime = 0.01,
    ) -> None:
        """Makes the component.

        Args:
            input_base: a folder of images, or a CSV file of `split,image_uri,label`; a local path
                or `gs://`.
            input_config: TFX's. With several splits, each pattern selects one split's files and
                the folders below the pattern's literal part are classes. Patterns may hold
                {SPAN}, {VERSION}, {YYYY}, {MM} and {DD}. Default: all files, one split.
            output_config: TFX's: hash splits with their shares, over the filename or, by
                `partition_feature_name="label"`, over the label. Default: the splits that the
                folders or the CSV name, else train and eval 2:1.
            range_config: TFX's: which span to take. Default: the latest.
            layout: `auto`, `folder` (`<split>/<class>/…`, `<class>/…`) or `csv`.
            seed: of the hash that decides splits, order and shards. 64 bits, signed.
            target_shard_bytes: wished size of a shard in bytes, at least 1.
            compression: `none`, or `gzip` (slower to read, and Datum cannot).
            max_reject_fraction: the run fails when more than this part of the inputs, in [0, 1],
                was rejected.

        Raises:
            ConfigError: a setting is not allowed.
        """
        settings: dict[str, Any] = {
            "layout": layout,
            "seed": seed,
            "target_shard_bytes": target_shard_bytes,
            "compression": compression,
            "max_reject_fraction": max_reject_fraction,
        }
        ImageSettings(**known_now(settings))
        if isinstance(max_reject_fraction, int):
            settings["max_reject_fraction"] = float(max_reject_fraction)
        spec = ImageExampleGenSpec(
            input_base=input_base,
            input_config=input_config or utils.make_default_input_config(),
            output_config=output_config or example_gen_pb2.Output(),
            range_config=range_config,
            examples=types.Channel(type=standard_artifacts.Examples),
            **settings,
        )
        super().__init__(spec=spec)
