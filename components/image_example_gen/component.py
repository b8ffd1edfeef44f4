"""The ImageExampleGen component: its interface.

images = ImageExampleGen(input_base="photos/")
images.outputs["examples"]
"""

from collections.abc import Mapping, Sequence
from typing import Any

from tfx import types
from tfx.components.example_gen import utils
from tfx.dsl.components.base import base_beam_component, executor_spec
from tfx.orchestration import data_types
from tfx.proto import example_gen_pb2, range_config_pb2
from tfx.types import component_spec, standard_artifacts, standard_component_specs

from components.common.checks import as_properties, known_now
from components.example_gen.driver import FileTreeDriver
from components.image_example_gen.executor import Executor
from components.image_example_gen.images import MAX_PIXELS
from components.image_example_gen.layouts import is_source_file
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
        "columns": component_spec.ExecutionParameter(type=str, optional=True),
        "image_roots": component_spec.ExecutionParameter(type=str, optional=True),
        "vocabulary": component_spec.ExecutionParameter(type=str, optional=True),
        "group_by": component_spec.ExecutionParameter(type=str, optional=True),
        "stratify": component_spec.ExecutionParameter(type=int),
        "orientation": component_spec.ExecutionParameter(type=str),
        "frames": component_spec.ExecutionParameter(type=str),
        "resize_shorter_side": component_spec.ExecutionParameter(type=int, optional=True),
        "quality": component_spec.ExecutionParameter(type=int),
        "encoding": component_spec.ExecutionParameter(type=str),
        "verify": component_spec.ExecutionParameter(type=str),
        "max_pixels": component_spec.ExecutionParameter(type=int),
        "seed": component_spec.ExecutionParameter(type=int),
        "target_shard_bytes": component_spec.ExecutionParameter(type=int),
        "compression": component_spec.ExecutionParameter(type=str),
        "max_reject_fraction": component_spec.ExecutionParameter(type=float),
    }
    INPUTS: dict[str, Any] = {}
    OUTPUTS = {"examples": component_spec.ChannelParameter(type=standard_artifacts.Examples)}


class _Driver(FileTreeDriver):
    def is_source_file(self, path: str) -> bool:
        return is_source_file(path)


class ImageExampleGen(base_beam_component.BaseBeamComponent):
    """Turns images, in whatever layout they lie, into sharded TFRecords of `tf.train.Example`.

    Every example has `image` (the file, byte for byte where TensorFlow reads it), `filename`
    (relative to `input_base`), `height`, `width` and `channels`, and the features that the layout
    gives: `label` of a class folder, the columns of a list, the boxes of an annotation. Labels
    that are texts become int64 ids, places in the sorted vocabulary `vocab/<feature>.txt`. Bad
    files are listed in `rejects.jsonl`.

    Outputs:
        examples: TFX's `Examples`, and a Datum dataset.
    """

    SPEC_CLASS = ImageExampleGenSpec
    EXECUTOR_SPEC = executor_spec.BeamExecutorSpec(Executor)
    DRIVER_CLASS = _Driver

    def __init__(
        self,
        input_base: str | _Runtime,
        *,
        input_config: example_gen_pb2.Input | _Runtime | None = None,
        output_config: example_gen_pb2.Output | _Runtime | None = None,
        range_config: range_config_pb2.RangeConfig | _Runtime | None = None,
        layout: str | _Runtime = "auto",
        columns: Mapping[str, str] | _Runtime | None = None,
        image_roots: Sequence[str] | _Runtime = (),
        vocabulary: Sequence[str] | Mapping[str, Sequence[str]] | _Runtime | None = None,
        group_by: str | _Runtime | None = None,
        stratify: bool | _Runtime = False,
        orientation: str | _Runtime = "apply",
        frames: str | _Runtime = "first",
        resize_shorter_side: int | _Runtime | None = None,
        quality: int | _Runtime = 95,
        encoding: str | _Runtime = "file",
        verify: str | _Runtime = "structure",
        max_pixels: int | _Runtime = MAX_PIXELS,
        seed: int | _Runtime = 0,
        target_shard_bytes: int | _Runtime = 128 << 20,
        compression: str | _Runtime = "none",
        max_reject_fraction: float | _Runtime = 0.01,
    ) -> None:
        """Makes the component.

        Args:
            input_base: a folder, or a list of images (CSV, TSV, JSON lines, Parquet); a local
                path or `gs://`.
            input_config: TFX's. With several splits, each pattern selects one split's files and
                the folders below the pattern's literal part are classes. Patterns may hold
                {SPAN}, {VERSION}, {YYYY}, {MM} and {DD}. Default: all files, one split.
            output_config: TFX's: hash splits with their shares, over the filename or, by
                `partition_feature_name`, over a column. Default: the splits that the folders or
                the list name, else train and eval 2:1.
            range_config: TFX's: which span to take. Default: the latest.
            layout: `auto`, or the name of one: `folder` (`<split>/<class>/…`, `<class>/…`), `csv`,
                `tsv`, `jsonl`, `parquet`, `voc`, `coco`, `segmentation`, `tar`.
            columns: of a list, kinds by column: `int`, `float`, `string`, `label`, `image`,
                `split` or `ignore`. Default: by their names and values.
            image_roots: folders beside `input_base` that a list may point into.
            vocabulary: the labels in the order of their ids: of the feature `label`, or by
                feature. Others are rejected. Default: all labels, sorted.
            group_by: the column whose equal values share a split, such as a patient's number.
            stratify: whether hashed splits keep the share of each class, to within one image.
            orientation: `apply` turns photos as their EXIF tag says, since TensorFlow does not
                look at it; `keep` leaves them.
            frames: of an animation, `first` keeps the first, `reject` none.
            resize_shorter_side: in pixels; larger images are made smaller, and encoded anew.
            quality: from 1 to 100, of JPEGs that are encoded anew.
            encoding: `file`, or `raw`: `resize_shorter_side` squared pixels as uint8 RGB, cut
                from the middle, which no trainer needs to decode.
            verify: `structure` (header, end, plausible size) or `decode` (every pixel).
            max_pixels: of an image, all its frames together.
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
            "columns": columns,
            "image_roots": image_roots,
            "vocabulary": vocabulary,
            "group_by": group_by,
            "stratify": stratify,
            "orientation": orientation,
            "frames": frames,
            "resize_shorter_side": resize_shorter_side,
            "quality": quality,
            "encoding": encoding,
            "verify": verify,
            "max_pixels": max_pixels,
            "seed": seed,
            "target_shard_bytes": target_shard_bytes,
            "compression": compression,
            "max_reject_fraction": max_reject_fraction,
        }
        ImageSettings.from_arguments(known_now(settings))
        settings = as_properties(settings, json_names=ImageSettings.JSON_PROPERTIES)
        spec = ImageExampleGenSpec(
            input_base=input_base,
            input_config=input_config or utils.make_default_input_config(),
            output_config=output_config or example_gen_pb2.Output(),
            range_config=range_config,
            examples=types.Channel(type=standard_artifacts.Examples),
            **settings,
        )
        super().__init__(spec=spec)
