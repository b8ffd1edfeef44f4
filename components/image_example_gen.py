"""ImageExampleGen: convert images, in many layouts, to a dataset.

images = ImageExampleGen(input_base="photos/")
images.outputs["examples"]
"""

import os
from collections.abc import Mapping, Sequence

from tfx.dsl.components.base import executor_spec
from tfx.proto import example_gen_pb2, range_config_pb2

from components.example_gen.settings import ImageSettings
from components.media.options import ImageOptions
from components.tfx.component import Runtime, document_constructor, parameters_of
from components.tfx.example_gen import (
    TFX_ARGUMENTS,
    TFX_PARAMETERS,
    ExampleGenExecutor,
    FilesExampleGen,
    FilesExampleGenSpec,
    FileTreeDriver,
)


class Executor(ExampleGenExecutor):
    """Executor of ImageExampleGen."""

    settings_class = ImageSettings


class _Driver(FileTreeDriver):
    settings_class = ImageSettings


class ImageExampleGenSpec(FilesExampleGenSpec):
    """The component's parameters."""

    PARAMETERS = {**TFX_PARAMETERS, **parameters_of(ImageSettings)}


class ImageExampleGen(FilesExampleGen):
    """A component that converts images, in many layouts, to TFRecords of `tf.train.Example`.

    Every example has `image`, `filename` (relative to `input_base`), `height`, `width` and
    `channels`. `image` is the file, byte for byte if TensorFlow reads it. The layout adds its own
    features: the `label` of a class folder, the columns of a list, the boxes of an annotation.
    String labels become int64 ids, which are indices in the sorted vocabulary
    `vocab/<feature>.txt`. Bad files are listed in `rejects.jsonl`.

    Outputs:
        examples: TFX's `Examples`, and a Datum dataset.
    """

    SPEC_CLASS = ImageExampleGenSpec
    EXECUTOR_SPEC = executor_spec.BeamExecutorSpec(Executor)
    DRIVER_CLASS = _Driver

    def __init__(
        self,
        input_base: str | os.PathLike[str] | Runtime,
        *,
        input_config: example_gen_pb2.Input | Runtime | None = None,
        output_config: example_gen_pb2.Output | Runtime | None = None,
        range_config: range_config_pb2.RangeConfig | Runtime | None = None,
        splits: Mapping[str, float] | None = None,
        layout: str | Runtime = ImageSettings.layout,
        columns: Mapping[str, str] | Runtime | None = None,
        file_roots: Sequence[str] | Runtime | None = None,
        ignore: Sequence[str] | Runtime | None = None,
        follow_links: bool | Runtime = ImageSettings.follow_links,
        column_names: Sequence[str] | Runtime | None = None,
        header: bool | Runtime | None = None,
        delimiter: str | Runtime | None = None,
        quoting: str | Runtime = ImageSettings.quoting,
        vocabulary: Sequence[str] | Mapping[str, Sequence[str]] | Runtime | None = None,
        tensors: Mapping[str, str] | Runtime | None = None,
        group_by: str | Runtime | None = None,
        stratify: bool | Runtime = ImageSettings.stratify,
        seed: int | Runtime = ImageSettings.seed,
        num_shards: int | Mapping[str, int] | Runtime | None = None,
        target_shard_bytes: int | Runtime = ImageSettings.target_shard_bytes,
        shard_multiple: int | Runtime = ImageSettings.shard_multiple,
        compression: str | Runtime = ImageSettings.compression,
        max_reject_fraction: float | Runtime = ImageSettings.max_reject_fraction,
        feature_names: Mapping[str, str] | Runtime | None = None,
        base_dataset: str | Runtime | None = None,
        rows: str | Runtime = ImageSettings.rows,
        label_separator: str | Runtime | None = None,
        find_files: str | Runtime = ImageSettings.find_files,
        list_encoding: str | Runtime = ImageSettings.list_encoding,
        box_format: str | Runtime | None = None,
        box_frame: str | Runtime | None = None,
        orientation: str | Runtime = ImageOptions.orientation,
        frames: str | Runtime = ImageOptions.frames,
        resize_shorter_side: int | Runtime | None = None,
        quality: int | Runtime = ImageOptions.quality,
        encoding: str | Runtime = ImageOptions.encoding,
        verify: str | Runtime = ImageOptions.verify,
        max_pixels: int | Runtime = ImageOptions.max_pixels,
        sixteen_bit: str | Runtime = ImageOptions.sixteen_bit,
        sample_rate: int | Runtime | None = None,
        image_dir: str | Runtime | None = None,
        csv_path: str | Runtime | None = None,
        annotation_dir: str | Runtime | None = None,
        label_dir: str | Runtime | None = None,
        image_set_dir: str | Runtime | None = None,
        label_list: str | Runtime | None = None,
    ) -> None:
        """Create the component. `help(ImageExampleGen)` describes every argument."""
        super().__init__(ImageSettings, locals())


document_constructor(ImageExampleGen, ImageSettings, **TFX_ARGUMENTS)
