# Made by `make settings` from the declarations of the settings.
from typing import Any

from kfp.dsl.pipeline_task import PipelineTask

from components.kubeflow.images import default_image, using_image

__all__ = [
    "audio_example_gen",
    "default_image",
    "image_example_gen",
    "schema_export",
    "shard_balancer",
    "text_example_gen",
    "train_input_check",
    "using_image",
]

def audio_example_gen(
    *,
    source: Any = None,
    input_base: str = "",
    input_version: str = "",
    input_patterns: dict = {},
    splits: dict = {},
    split_by: str = "",
    dataset_root: str = "",
    layout: str = "auto",
    columns: dict = {},
    image_roots: list = [],
    column_names: list = [],
    header: bool = False,
    vocabulary: list = [],
    group_by: str = "",
    stratify: bool = False,
    seed: int = 0,
    target_shard_bytes: int = 134217728,
    compression: str = "none",
    max_reject_fraction: float = 0.01,
    sample_rate: int = 0,
    channels: int = 0,
) -> PipelineTask:
    """Turns sounds, in folders or tables, into a sharded and verified dataset.

    Where a sentence names a default, an empty value, 0 or False means it. Whole numbers are below
    2^53, which Kubeflow holds exactly.

    Args:
        source: the inputs as an artifact of another step; or else
        input_base: where they are: a folder, a table or an archive, on a mounted volume or gs://.
        input_version: of what is at input_base; where it is given and equal, Kubeflow may take the
            step from its cache. Without one the step always runs.
        input_patterns: patterns by split, for inputs that lie by split.
        splits: shares by split, for inputs that are split by a hash.
        split_by: the column that is hashed; empty: the name of each file, or the id of each row.
        dataset_root: a folder on a volume that all pods share, or gs://, to keep the shards in
            instead of the artifact, so that no pod copies them.
        layout: `auto`, or the name of one: `folder` (`<split>/<class>/…`, `<class>/…`), `csv`,
            `tsv`, `jsonl`, `parquet`.
        columns: kinds by column of a table: `int`, `float`, `string`, `text`, `label`, `image`,
            `audio`, `split` or `ignore`. Default: by their names and all their values. Columns
            of kind `image` and `audio` name files, which go into the examples, each as a
            feature of the column's name.
        image_roots: folders beside `input_base` that a table's rows may point into.
        column_names: of a CSV or TSV without a header, or in place of its names.
        header: whether the first row of a CSV or TSV has the columns' names. Default: told by
            what stands in it, and in all files; a doubt is an error.
        vocabulary: the labels in the order of their ids: of the feature `label`, or by feature.
            Others are rejected. Default: all labels, sorted.
        group_by: the column whose equal values share a split, such as a patient.
        stratify: hashed splits keep the share of each class, to within one example.
        seed: of the hash that decides splits, order and shards. 64 bits, signed.
        target_shard_bytes: target size of a shard in bytes. At least 1.
        compression: `none`, or `gzip` (slower to read, and Datum cannot).
        max_reject_fraction: the run fails when more than this part of the inputs was rejected.
            From 0 to 1.
        sample_rate: in Hz, to which sounds are resampled. From 1 to 768,000. Default: each
            keeps its own.
        channels: 1 mixes all channels into one, 2 doubles a single one. Default: as they are.

    Returns:
        examples: the dataset.
    """

def image_example_gen(
    *,
    source: Any = None,
    input_base: str = "",
    input_version: str = "",
    input_patterns: dict = {},
    splits: dict = {},
    split_by: str = "",
    dataset_root: str = "",
    layout: str = "auto",
    columns: dict = {},
    image_roots: list = [],
    column_names: list = [],
    header: bool = False,
    vocabulary: list = [],
    group_by: str = "",
    stratify: bool = False,
    seed: int = 0,
    target_shard_bytes: int = 134217728,
    compression: str = "none",
    max_reject_fraction: float = 0.01,
    orientation: str = "apply",
    frames: str = "first",
    resize_shorter_side: int = 0,
    quality: int = 95,
    encoding: str = "file",
    verify: str = "structure",
    max_pixels: int = 89478485,
    sample_rate: int = 0,
) -> PipelineTask:
    """Turns images, in whatever layout they lie, into a sharded and verified dataset.

    Where a sentence names a default, an empty value, 0 or False means it. Whole numbers are below
    2^53, which Kubeflow holds exactly.

    Args:
        source: the inputs as an artifact of another step; or else
        input_base: where they are: a folder, a table or an archive, on a mounted volume or gs://.
        input_version: of what is at input_base; where it is given and equal, Kubeflow may take the
            step from its cache. Without one the step always runs.
        input_patterns: patterns by split, for inputs that lie by split.
        splits: shares by split, for inputs that are split by a hash.
        split_by: the column that is hashed; empty: the name of each file, or the id of each row.
        dataset_root: a folder on a volume that all pods share, or gs://, to keep the shards in
            instead of the artifact, so that no pod copies them.
        layout: `auto`, or the name of one: `folder` (`<split>/<class>/…`, `<class>/…`), `csv`,
            `tsv`, `jsonl`, `parquet`, `voc`, `segmentation`, `coco`, `tar`.
        columns: kinds by column of a table: `int`, `float`, `string`, `text`, `label`, `image`,
            `audio`, `split` or `ignore`. Default: by their names and all their values. Columns
            of kind `image` and `audio` name files, which go into the examples, each as a
            feature of the column's name.
        image_roots: folders beside `input_base` that a table's rows may point into.
        column_names: of a CSV or TSV without a header, or in place of its names.
        header: whether the first row of a CSV or TSV has the columns' names. Default: told by
            what stands in it, and in all files; a doubt is an error.
        vocabulary: the labels in the order of their ids: of the feature `label`, or by feature.
            Others are rejected. Default: all labels, sorted.
        group_by: the column whose equal values share a split, such as a patient.
        stratify: hashed splits keep the share of each class, to within one example.
        seed: of the hash that decides splits, order and shards. 64 bits, signed.
        target_shard_bytes: target size of a shard in bytes. At least 1.
        compression: `none`, or `gzip` (slower to read, and Datum cannot).
        max_reject_fraction: the run fails when more than this part of the inputs was rejected.
            From 0 to 1.
        orientation: `apply` turns photos as EXIF or XMP says, since TensorFlow does not look at
            them; `keep` leaves them.
        frames: of an animation, `first` keeps the first, `reject` none.
        resize_shorter_side: in pixels; larger images are made smaller, and encoded anew. At
            least 1. Default: all keep theirs.
        quality: of JPEGs that are encoded anew. From 1 to 100.
        encoding: `file`, or `raw`: `(side, side, 3) uint8`, of the side that
            `resize_shorter_side` says, cut from the middle, which no trainer needs to decode;
            smaller images are enlarged.
        verify: `structure` (marks, sums, tables and sizes), or `decode` (every pixel, by Pillow
            and by TensorFlow).
        max_pixels: of an image, all its frames together. From 1 to 178,956,970.
        sample_rate: in Hz, to which sounds are resampled. From 1 to 768,000. Default: each
            keeps its own.

    Returns:
        examples: the dataset.
    """

def schema_export(
    *, examples: Any, schema: Any = None, statistics: Any = None, tfds: bool = False
) -> PipelineTask:
    """Writes what a dataset holds: schema.pbtxt for TFX, two JSON files for Datum, a JSON Schema.

    Args:
        examples: a dataset.
        schema: a schema.pbtxt in a folder, that must agree with it.
        statistics: TFX's statistics of it, that must agree with it.
        tfds: write TFDS's two JSON files too, so that `tfds.builder_from_directory` opens the
            uri of `datum_dataset`.

    Returns:
        datum_schema: schema.pbtxt alone, as TFX's components take it.
        datum_dataset: all of the files, which datum.load opens.
    """

def shard_balancer(
    *,
    examples: Any,
    more_examples: Any = None,
    shards_by_split: dict = {},
    dataset_root: str = "",
    num_shards: int = 0,
    target_shard_bytes: int = 134217728,
    shard_multiple: int = 1,
    shuffle: bool = True,
    balance: str = "records",
    stratify_by: str = "",
    seed: int = 0,
    compression: str = "none",
    memory_bytes: int = 1073741824,
) -> PipelineTask:
    """Writes datasets anew, as one in shards of equal size and in random order.

    Where a sentence names a default, an empty value or 0 means it. Whole numbers are below 2^53,
    which Kubeflow holds exactly.

    Args:
        examples: a dataset: ours, Datum's, TFDS's or a stock ExampleGen's.
        more_examples: another, that becomes one with it.
        shards_by_split: numbers by split, in place of num_shards.
        dataset_root: a folder on a volume that all pods share, or gs://, to keep the shards in
            instead of the artifact, so that no pod copies them.
        num_shards: of every split, or by split: `{"train": 8, "eval": 2}`. Fewer where there
            are fewer records. Default: as many as come closest to `target_shard_bytes`.
        target_shard_bytes: target size of a shard in bytes; 100 to 200 MB is the usual advice.
            At least 1.
        shard_multiple: the number of shards is a multiple of this, such as the number of
            workers. At least 1.
        shuffle: a permutation of all records of a split: each is equally likely in every place.
            False keeps their order (with `stratify_by`: within each shard).
        balance: `records`: shards differ by one record at the most; `bytes`: by the bytes of
            the largest record at the most (before compression).
        stratify_by: a feature, such as `label`: each shard holds each value's share to within
            one record. Each example has one value of it, or none, which counts as a value.
        seed: of that permutation. 64 bits, signed.
        compression: `none`, or `gzip` (slower to read, and Datum cannot).
        memory_bytes: memory that a worker may use (below 64 MiB it takes some more than that);
            a split that is larger goes through temporary files beside the output. Planning by
            bytes or by class takes some 40 bytes a record of its own. At least 1 MiB.

    Returns:
        balanced_examples: the dataset.
    """

def text_example_gen(
    *,
    source: Any = None,
    input_base: str = "",
    input_version: str = "",
    input_patterns: dict = {},
    splits: dict = {},
    split_by: str = "",
    dataset_root: str = "",
    layout: str = "auto",
    columns: dict = {},
    image_roots: list = [],
    column_names: list = [],
    header: bool = False,
    vocabulary: list = [],
    group_by: str = "",
    stratify: bool = False,
    seed: int = 0,
    target_shard_bytes: int = 134217728,
    compression: str = "none",
    max_reject_fraction: float = 0.01,
    delimiter: str = "",
    encoding: str = "utf-8",
    lowercase: bool = False,
    normalize: str = "",
    min_chars: int = 0,
    max_chars: int = 0,
    deduplicate: bool = False,
) -> PipelineTask:
    """Turns texts and tables into a sharded and verified dataset.

    Where a sentence names a default, an empty value, 0 or False means it. Whole numbers are below
    2^53, which Kubeflow holds exactly.

    Args:
        source: the inputs as an artifact of another step; or else
        input_base: where they are: a folder, a table or an archive, on a mounted volume or gs://.
        input_version: of what is at input_base; where it is given and equal, Kubeflow may take the
            step from its cache. Without one the step always runs.
        input_patterns: patterns by split, for inputs that lie by split.
        splits: shares by split, for inputs that are split by a hash.
        split_by: the column that is hashed; empty: the name of each file, or the id of each row.
        dataset_root: a folder on a volume that all pods share, or gs://, to keep the shards in
            instead of the artifact, so that no pod copies them.
        layout: `auto`, or the name of one: `csv`, `tsv`, `jsonl`, `parquet`, `json` (objects by
            key, or a list), `lines` (an example a line), `folder` (an example a file).
        columns: kinds by column of a table: `int`, `float`, `string`, `text`, `label`, `image`,
            `audio`, `split` or `ignore`. Default: by their names and all their values. Columns
            of kind `image` and `audio` name files, which go into the examples, each as a
            feature of the column's name.
        image_roots: folders beside `input_base` that a table's rows may point into.
        column_names: of a CSV or TSV without a header, or in place of its names.
        header: whether the first row of a CSV or TSV has the columns' names. Default: told by
            what stands in it, and in all files; a doubt is an error.
        vocabulary: the labels in the order of their ids: of the feature `label`, or by feature.
            Others are rejected. Default: all labels, sorted.
        group_by: the column whose equal values share a split, such as a patient.
        stratify: hashed splits keep the share of each class, to within one example.
        seed: of the hash that decides splits, order and shards. 64 bits, signed.
        target_shard_bytes: target size of a shard in bytes. At least 1.
        compression: `none`, or `gzip` (slower to read, and Datum cannot).
        max_reject_fraction: the run fails when more than this part of the inputs was rejected.
            From 0 to 1.
        delimiter: of a table, one character. Default: a comma, or a tab for `tsv`.
        encoding: of the files, as Python names it.
        lowercase: make texts lower case.
        normalize: bring texts into a form of Unicode: `NFC`, `NFD`, `NFKC` or `NFKD`.
        min_chars: a text needs; shorter ones are left out, and counted as skipped. At least 0.
        max_chars: a text may have; longer ones are left out, and counted as skipped. At least
            1.
        deduplicate: leave out rows whose text came before, and count them as skipped.

    Returns:
        examples: the dataset.
    """

def train_input_check(
    *,
    examples: Any,
    split: str = "train",
    batch_size: int = 64,
    workers: int = 1,
    input_options: dict = {},
    seconds: float = 2.0,
    min_records_per_second: float = 0.0,
) -> PipelineTask:
    """Reads a dataset as a trainer will: every checksum, the plan of each worker, and the speed.

    Args:
        examples: a dataset.
        split: or slices, such as train[:80%].
        batch_size: global, in records.
        workers: that share each batch.
        input_options: further arguments of trainer_utils.input_fn, such as features, label and
            image_size; images of many sizes are read at 224 x 224 where none is given.
        seconds: that each stage is measured for.
        min_records_per_second: the step fails where the input is slower; 0: no such bound.

    Returns:
        metrics: records, steps, dropped and padded records of an epoch, records_per_second, and
            the least seconds of a training step that never waits for its input.
    """
