"""The ImageExampleGen component: its interface.

images = ImageExampleGen(input_base="photos/")
images.outputs["examples"]
"""

from collections.abc import Mapping, Sequence
from typing import Any

from tfx import types
from tfx.dsl.components.base import executor_spec
from tfx.proto import example_gen_pb2, range_config_pb2

from components.common.checks import names_checked
from components.example_gen.component import (
    COMMON_PARAMETERS,
    EXAMPLES,
    FilesExampleGen,
    Runtime,
    optional,
    required,
)
from components.example_gen.driver import FileTreeDriver
from components.image_example_gen.executor import Executor
from components.image_example_gen.layouts import is_source_file
from components.image_example_gen.settings import ImageSettings
from components.media.images import MAX_PIXELS

__all__ = ["ImageExampleGen"]


class ImageExampleGenSpec(types.ComponentSpec):
    """The component's parameters and output."""

    PARAMETERS = {
        **COMMON_PARAMETERS,
        "image_roots": optional(str),
        "column_names": optional(str),
        "header": optional(int),
        "orientation": required(str),
        "frames": required(str),
        "resize_shorter_side": optional(int),
        "quality": required(int),
        "encoding": required(str),
        "verify": required(str),
        "max_pixels": required(int),
        "sample_rate": optional(int),
    }
    INPUTS: dict[str, Any] = {}
    OUTPUTS = EXAMPLES


class _Driver(FileTreeDriver):
    unit = "images"

    def is_source_file(self, path: str) -> bool:
        return is_source_file(path)


class ImageExampleGen(FilesExampleGen):
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
    settings_class = ImageSettings

    @names_checked
    def __init__(
        self,
        input_base: str | Runtime,
        *,
        input_config: example_gen_pb2.Input | Runtime | None = None,
        output_config: example_gen_pb2.Output | Runtime | None = None,
        range_config: range_config_pb2.RangeConfig | Runtime | None = None,
        layout: str | Runtime = "auto",
        columns: Mapping[str, str] | Runtime | None = None,
        image_roots: Sequence[str] | Runtime = (),
        column_names: Sequence[str] | Runtime = (),
        header: bool | Runtime | None = None,
        vocabulary: Sequence[str] | Mapping[str, Sequence[str]] | Runtime | None = None,
        group_by: str | Runtime | None = None,
        stratify: bool | Runtime = False,
        orientation: str | Runtime = "apply",
        frames: str | Runtime = "first",
        resize_shorter_side: int | Runtime | None = None,
        quality: int | Runtime = 95,
        encoding: str | Runtime = "file",
        verify: str | Runtime = "structure",
        max_pixels: int | Runtime = MAX_PIXELS,
        sample_rate: int | Runtime | None = None,
        seed: int | Runtime = 0,
        target_shard_bytes: int | Runtime = 128 << 20,
        compression: str | Runtime = "none",
        max_reject_fraction: float | Runtime = 0.01,
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
            columns: of a list, kinds by column: `int`, `float`, `string`, `text`, `label`,
                `image`, `audio`, `split` or `ignore`. Default: by their names and values. Where a
                row has several files, each is a feature by its column's name.
            image_roots: folders beside `input_base` that a list may point into.
            column_names: of a CSV or TSV without a header, or in place of its names.
            header: whether the first row of a CSV or TSV has the columns' names. Default: told
                by what stands in it; a doubt is an error.
            vocabulary: the labels in the order of their ids: of the feature `label`, or by
                feature. Others are rejected. Default: all labels, sorted.
            group_by: the column whose equal values share a split, such as a patient's number.
            stratify: whether hashed splits keep the share of each class, to within one image.
            orientation: `apply` turns photos as EXIF or XMP says, since TensorFlow does not look at
                them; `keep` leaves them.
            frames: of an animation, `first` keeps the first, `reject` none.
            resize_shorter_side: in pixels; larger images are made smaller, and encoded anew.
            quality: from 1 to 100, of JPEGs that are encoded anew.
            encoding: `file`, or `raw`: `resize_shorter_side` squared pixels as uint8 RGB, cut
                from the middle, which no trainer needs to decode.
            verify: `structure` (marks, sums, tables and sizes), or `decode` (every pixel, by Pillow
                and by TensorFlow).
            max_pixels: of an image, all its frames together.
            sample_rate: in Hz, to which sounds that a list names are resampled.
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
            "column_names": column_names,
            "header": header,
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
            "sample_rate": sample_rate,
            "seed": seed,
            "target_shard_bytes": target_shard_bytes,
            "compression": compression,
            "max_reject_fraction": max_reject_fraction,
        }
        super().__init__(
            input_base,
            input_config=input_config,
            output_config=output_config,
            range_config=range_config,
            settings=settings,
        )
