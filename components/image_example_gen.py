"""ImageExampleGen: images, in whatever layout they lie, to a dataset.

images = ImageExampleGen(input_base="photos/")
images.outputs["examples"]
"""

import os
from collections.abc import Mapping, Sequence

from tfx.dsl.components.base import executor_spec
from tfx.proto import example_gen_pb2, range_config_pb2

from components.example_gen.settings import ImageSettings
from components.media.options import ImageOptions
from components.tfx.component import Runtime, parameters_of
from components.tfx.example_gen import (
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
        input_base: str | os.PathLike[str] | Runtime,
        *,
        input_config: example_gen_pb2.Input | Runtime | None = None,
        output_config: example_gen_pb2.Output | Runtime | None = None,
        range_config: range_config_pb2.RangeConfig | Runtime | None = None,
        layout: str | Runtime = ImageSettings.layout,
        columns: Mapping[str, str] | Runtime | None = None,
        image_roots: Sequence[str] | Runtime | None = None,
        column_names: Sequence[str] | Runtime | None = None,
        header: bool | Runtime | None = None,
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
        orientation: str | Runtime = ImageOptions.orientation,
        frames: str | Runtime = ImageOptions.frames,
        resize_shorter_side: int | Runtime | None = None,
        quality: int | Runtime = ImageOptions.quality,
        encoding: str | Runtime = ImageOptions.encoding,
        verify: str | Runtime = ImageOptions.verify,
        max_pixels: int | Runtime = ImageOptions.max_pixels,
        sample_rate: int | Runtime | None = None,
        image_dir: str | Runtime | None = None,
        csv_path: str | Runtime | None = None,
        annotation_dir: str | Runtime | None = None,
        label_dir: str | Runtime | None = None,
        image_set_dir: str | Runtime | None = None,
        label_list: str | Runtime | None = None,
    ) -> None:
        """Makes the component.

        Args:
            input_base: a folder, a table of images, sounds or texts (CSV, TSV, JSON lines,
                Parquet) or an archive; a local path or one in a bucket.
            input_config: TFX's: patterns by split; the folders below a pattern's literal part are
                classes. They may hold {SPAN}, {VERSION}, {YYYY}, {MM} and {DD}. Default: all files.
            output_config: TFX's: hash splits with their shares, over each example's name or, by
                `partition_feature_name`, a column. Default: the splits that folders, files or rows
                name, else train and eval 2:1.
            range_config: TFX's: which span to take. Default: the latest.
            layout: `auto`, or the name of one: `folder` (`<split>/<class>/…`, `<class>/…`), `csv`,
                `tsv`, `jsonl`, `parquet`, `voc`, `segmentation`, `coco`, `tar`.
            columns: the kind of each column of a table: `int`, `float`, `string`, `text`, `label`,
                `image`, `audio`, `split` or `ignore`. Default: recognised from their names and
                values. Columns of kind `image` and `audio` name files, which go into the examples,
                each as a feature of the column's name.
            image_roots: folders outside `input_base` whose files a table may name; no others, if
                any is given. Default: a table may name any file by its whole path.
            column_names: names of the columns of a CSV or TSV without a header, or in place of
                those in it.
            header: whether the first row of a CSV or TSV has the columns' names. Default:
                recognised from the first rows of all files; if that leaves a doubt, it is an error.
            vocabulary: the labels in the order of their ids: a list for the feature `label`, or
                lists by feature, which Kubeflow's functions do not take. Other labels are rejected.
                Default: all labels found, sorted.
            tensors: columns of Parquet that hold serialized tensors, as `tf.io.serialize_tensor`
                makes them, with their dtype and shape: `float16[3,4]`, or `float16[3,?]` where they
                differ.
            group_by: a column, such as a patient's id: rows with equal values go to the same split;
                or `near_duplicates`: images that are copies of one another do, encoded anew,
                resized, made grey or mirrored. Every image is decoded for that.
            stratify: splits made by a hash keep the share of each class, to within one example.
            seed: seed of the hash that decides splits, order and shards. 64 bits, signed.
            num_shards: shards of every split, or by split, which Kubeflow's functions do not take.
                Fewer where there are fewer examples. Default: the number that comes closest to
                `target_shard_bytes`.
            target_shard_bytes: target size of a shard in bytes. At least 1.
            shard_multiple: the number of shards is a multiple of this, such as the number of
                workers. At least 1.
            compression: `none`, or `gzip` (slower to read, and Datum cannot read it).
            max_reject_fraction: the run fails if a larger share of the inputs is rejected. From 0
                to 1.
            feature_names: other names for features, by those that they have: `{'image':
                'image/encoded', 'label': 'image/class/label'}`. All other settings know them by the
                ones that they have.
            base_dataset: a dataset that an earlier run of this component made of the same inputs
                with the same settings: its shards whose inputs are as they were are linked or
                copied, not made again. Ids of labels do not move: new ones come last.
            orientation: `apply` rotates photos as EXIF or XMP says, since TensorFlow ignores these;
                `keep` leaves them as they are.
            frames: what becomes of an animation: `first` keeps its first frame, `reject` rejects
                it.
            resize_shorter_side: in pixels; larger images are scaled down and encoded again. At
                least 1. Default: sizes are kept.
            quality: quality of JPEGs that are encoded again. From 1 to 100.
            encoding: `file` keeps encoded images; `raw` stores pixels that need no decoding: the
                middle square, `(side, side, 3) uint8`, where `resize_shorter_side` is the side;
                smaller images are enlarged.
            verify: what is checked of each image: `structure` (markers, checksums, tables and
                sizes), or `decode` (every pixel, by Pillow).
            max_pixels: most pixels of an image, all frames together. From 1 to 178,956,970.
            sample_rate: rate in Hz that sounds are resampled to. From 1 to 768,000. Default: each
                keeps its own.
            image_dir: the folder of the images: `JPEGImages` of `voc` and `segmentation`; of lists
                named after splits, the split's name. `{split}` stands for that name:
                `images/{split}`.
            csv_path: the list, or one a split: `labels/{split}.csv`. Default: at the top.
            annotation_dir: the folder of the boxes of `voc`. Default: `Annotations`.
            label_dir: the folder of the label maps of `segmentation`. Default: `SegmentationClass`.
            image_set_dir: the folder of `train.txt` and the like, of `voc` and `segmentation`.
                Default: `ImageSets/Main`, `ImageSets/Segmentation` or `ImageSets`.
            label_list: a text whose lines are the classes of the images that lie in no class
                folder, in the order of their names, as of ImageNet's validation images.
        """
        super().__init__(ImageSettings, locals())
