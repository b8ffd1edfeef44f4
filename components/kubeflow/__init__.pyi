# Made by `make settings` from the declarations of the settings.
from typing import Any

from kfp.dsl.pipeline_task import PipelineTask

from components.kubeflow.images import default_image, using_image

__all__ = [
    "audio_example_gen",
    "dataset_audit",
    "dataset_report",
    "default_image",
    "image_example_gen",
    "input_fingerprint",
    "latest_spans",
    "schema_export",
    "shard_balancer",
    "text_example_gen",
    "train_input_check",
    "train_job",
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
    tensors: dict = {},
    group_by: str = "",
    stratify: bool = False,
    seed: int = 0,
    target_shard_bytes: int = 134217728,
    compression: str = "none",
    max_reject_fraction: float = 0.01,
    feature_names: dict = {},
    sample_rate: int = 0,
    channels: int = 0,
) -> PipelineTask:
    """Turns sounds, in folders or tables, into a sharded and verified dataset.

    Where a sentence names a default, an empty value, 0 or False means it. Whole numbers are below
    2^53, which Kubeflow holds exactly.

    Args:
        source: the inputs as an artifact of another step; or else
        input_base: where they are: a folder, a table or an archive, on a volume or in a bucket.
        input_version: of what is at input_base, such as input_fingerprint gives; where it is
            given and equal, Kubeflow may take the step from its cache. Without one the step
            always runs.
        input_patterns: patterns by split, for inputs that lie by split.
        splits: shares by split, for inputs that are split by a hash.
        split_by: the column that is hashed; empty: the name of each file, or the id of each row.
        dataset_root: a folder on a volume that all pods share, or a bucket, to keep the shards in
            instead of the artifact, so that no pod copies them.
        layout: `auto`, or the name of one: `folder` (`<split>/<class>/…`, `<class>/…`), `csv`,
            `tsv`, `jsonl`, `parquet`.
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
        group_by: a column, such as a speaker's id: rows with equal values go to the same split;
            or `near_duplicates`: sounds of the same bytes do.
        stratify: splits made by a hash keep the share of each class, to within one example.
        seed: seed of the hash that decides splits, order and shards. 64 bits, signed.
        target_shard_bytes: target size of a shard in bytes. At least 1.
        compression: `none`, or `gzip` (slower to read, and Datum cannot read it).
        max_reject_fraction: the run fails if a larger share of the inputs is rejected. From 0
            to 1.
        feature_names: other names for features, by those that they have: `{'image':
            'image/encoded', 'label': 'image/class/label'}`. All other settings know them by the
            ones that they have.
        sample_rate: rate in Hz that sounds are resampled to. From 1 to 768,000. Default: each
            keeps its own.
        channels: 1 mixes all channels into one, 2 duplicates a single one. Default: as they
            are.

    Returns:
        examples: the dataset.
    """

def dataset_audit(
    *, examples: Any, against: Any = None, fail_on: list = [], label: str = "label", most: int = 100
) -> PipelineTask:
    """Finds copies, leakage between splits, conflicts of labels, shifts and odd images.

    Args:
        examples: a dataset.
        against: an earlier one, that it is compared with.
        fail_on: kinds of findings that fail the run: `leakage`, `label_conflict`, `duplicates`,
            `near_duplicates`, `missing_class`, `label_shift`, `size_shift`, `brightness_shift`,
            `length_shift`, `vocabulary_shift`, `blank`, `dark`, `blurred`, `odd_aspect`,
            `odd_size`.
        label: the feature that has the class of a record.
        most: findings of each kind that are listed; all of them are counted. At least 0.

    Returns:
        anomalies: findings.json, and TFX's anomalies of each split; num_findings in its metadata.
        num_findings: how much was found, for a `dsl.If`.
    """

def dataset_report(
    *, examples: Any, statistics: Any = None, schema: Any = None, sample_records: int = 1000
) -> PipelineTask:
    """Writes one page that shows what is in a dataset, which Kubeflow shows beside the run.

    Args:
        examples: a dataset: ours, Datum's, TFDS's or a stock ExampleGen's.
        statistics: TFX's statistics of it, which the page shows beside its own.
        schema: a schema.pbtxt in a folder; where the two disagree the page says so.
        sample_records: most records of each split that are read; counts are the manifest's. At
            least 1.

    Returns:
        report: the page.
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
    tensors: dict = {},
    group_by: str = "",
    stratify: bool = False,
    seed: int = 0,
    target_shard_bytes: int = 134217728,
    compression: str = "none",
    max_reject_fraction: float = 0.01,
    feature_names: dict = {},
    orientation: str = "apply",
    frames: str = "first",
    resize_shorter_side: int = 0,
    quality: int = 95,
    encoding: str = "file",
    verify: str = "structure",
    max_pixels: int = 89478485,
    sample_rate: int = 0,
    image_dir: str = "",
    csv_path: str = "",
    annotation_dir: str = "",
    label_dir: str = "",
    image_set_dir: str = "",
    label_list: str = "",
) -> PipelineTask:
    """Turns images, in whatever layout they lie, into a sharded and verified dataset.

    Where a sentence names a default, an empty value, 0 or False means it. Whole numbers are below
    2^53, which Kubeflow holds exactly.

    Args:
        source: the inputs as an artifact of another step; or else
        input_base: where they are: a folder, a table or an archive, on a volume or in a bucket.
        input_version: of what is at input_base, such as input_fingerprint gives; where it is
            given and equal, Kubeflow may take the step from its cache. Without one the step
            always runs.
        input_patterns: patterns by split, for inputs that lie by split.
        splits: shares by split, for inputs that are split by a hash.
        split_by: the column that is hashed; empty: the name of each file, or the id of each row.
        dataset_root: a folder on a volume that all pods share, or a bucket, to keep the shards in
            instead of the artifact, so that no pod copies them.
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
            resized, cropped by up to a tenth, made grey or mirrored. Every image is decoded for
            that.
        stratify: splits made by a hash keep the share of each class, to within one example.
        seed: seed of the hash that decides splits, order and shards. 64 bits, signed.
        target_shard_bytes: target size of a shard in bytes. At least 1.
        compression: `none`, or `gzip` (slower to read, and Datum cannot read it).
        max_reject_fraction: the run fails if a larger share of the inputs is rejected. From 0
            to 1.
        feature_names: other names for features, by those that they have: `{'image':
            'image/encoded', 'label': 'image/class/label'}`. All other settings know them by the
            ones that they have.
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
            sizes), or `decode` (every pixel, by Pillow and by TensorFlow).
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

    Returns:
        examples: the dataset.
    """

def input_fingerprint(
    *,
    input_base: str,
    input_patterns: dict = {},
    image_roots: list = [],
    siblings: bool = True,
    contents: bool = False,
    dataset_root: str = "",
) -> PipelineTask:
    """Fingerprints raw inputs, so that what is made of them can be taken from Kubeflow's cache.

    It always runs, and reads no file unless it is asked to: a million take some 15 seconds.
    Its output is for the `input_version` of an ExampleGen.

    Args:
        input_base: where they are, as for the ExampleGen.
        input_patterns: as for the ExampleGen; spans are resolved, so that a new one is a change.
        image_roots: as for the ExampleGen.
        siblings: whether a file at input_base may name others beside it, as a list does; False for
            a table, so that the other files of its folder do not count.
        contents: whether files are read: then what counts is their bytes, and otherwise size and
            time, or what the store says of an object's version.
        dataset_root: that of the ExampleGen, and of shard_balancer behind it: where a dataset
            that was made of these inputs is gone from it, the fingerprint is another, and all
            is made again.

    Returns:
        fingerprint: a text, another one where an input is.
    """

def latest_spans(
    *,
    dataset_root: str,
    num_spans: int,
    examples: Any = None,
    first_span: int = 0,
    source: str = "",
) -> PipelineTask:
    """Gives the datasets of the last spans, a rolling window, to shard_balancer or a trainer.

    They are those that ExampleGens wrote below `dataset_root`, of `input_patterns` with {SPAN};
    of each span the newest. Nothing is copied.

    Args:
        dataset_root: of the ExampleGen.
        num_spans: how many numbers the window has; a span without a dataset leaves it smaller.
        examples: of the ExampleGen in the same run, which this step then waits for.
        first_span: no span before it is taken.
        source: a part of the ExampleGen's name and input_base, where several share the folder.

    Returns:
        datasets: their places; dataset_uris, spans and records in its metadata.
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
        datum_dataset: all of the files, which Datum opens.
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
    exclude: str = "",
    relabel: str = "",
    where: str = "",
    add: list = [],
    keep_shards: bool = False,
) -> PipelineTask:
    """Writes datasets anew, as one in shards of equal size and in random order.

    Where a sentence names a default, an empty value or 0 means it. Whole numbers are below 2^53,
    which Kubeflow holds exactly.

    Args:
        examples: a dataset: ours, Datum's, TFDS's or a stock ExampleGen's.
        more_examples: another, that becomes one with it.
        shards_by_split: numbers by split, in place of num_shards.
        dataset_root: a folder on a volume that all pods share, or a bucket, to keep the shards in
            instead of the artifact, so that no pod copies them.
        num_shards: shards of every split, or by split: `{"train": 8, "eval": 2}`. Fewer where
            there are fewer records. Default: the number that comes closest to
            `target_shard_bytes`.
        target_shard_bytes: target size of a shard in bytes; 100 to 200 MB is the usual advice.
            At least 1.
        shard_multiple: the number of shards is a multiple of this, such as the number of
            workers. At least 1.
        shuffle: a permutation of all records of a split: each is equally likely in every place.
            False keeps their order (with `stratify_by`: within each shard).
        balance: `records`: shards differ by at most one record; `bytes`: by at most the bytes
            of the largest record (before compression).
        stratify_by: a feature, such as `label`: each shard holds each value's share to within
            one record. Each example has one value of it, or none, which counts as a value.
        seed: seed of the permutation. 64 bits, signed.
        compression: `none`, or `gzip` (slower to read, and Datum cannot read it).
        memory_bytes: memory that a worker may use (below 64 MiB it takes some more than that);
            a split that is larger goes through temporary files beside the output. Planning by
            bytes or by class takes some 40 bytes a record of its own. At least 1 MiB.
        exclude: records to leave out: a list of names (`filename`, `id` or `record_id`), or the
            path of a file with one a line. Records of `add` stay, so that one can be replaced
            by another of its name. A million names take some 300 MB in each worker.
        relabel: new labels: values by name, or the path of a CSV that begins with `name,label`.
            Another feature's name in place of `label` changes that feature.
        where: a condition on features that a record must meet to stay, such as `label !=
            'unknown' and height >= 64`.
        add: further datasets, by their uris, whose records come after those of `examples`.
        keep_shards: True: shards stay as they are, as hard links or copies; only those with a
            changed record are written again, and nothing is balanced or shuffled.

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
    tensors: dict = {},
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
        input_base: where they are: a folder, a table or an archive, on a volume or in a bucket.
        input_version: of what is at input_base, such as input_fingerprint gives; where it is
            given and equal, Kubeflow may take the step from its cache. Without one the step
            always runs.
        input_patterns: patterns by split, for inputs that lie by split.
        splits: shares by split, for inputs that are split by a hash.
        split_by: the column that is hashed; empty: the name of each file, or the id of each row.
        dataset_root: a folder on a volume that all pods share, or a bucket, to keep the shards in
            instead of the artifact, so that no pod copies them.
        layout: `auto`, or the name of one: `csv`, `tsv`, `jsonl`, `parquet`, `json` (objects by
            key, or a list), `lines` (an example a line), `folder` (an example a file).
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
        group_by: a column, such as an author's id: rows with equal values go to the same split;
            or `near_duplicates`: rows whose texts are of the same words but few do.
        stratify: splits made by a hash keep the share of each class, to within one example.
        seed: seed of the hash that decides splits, order and shards. 64 bits, signed.
        target_shard_bytes: target size of a shard in bytes. At least 1.
        compression: `none`, or `gzip` (slower to read, and Datum cannot read it).
        max_reject_fraction: the run fails if a larger share of the inputs is rejected. From 0
            to 1.
        delimiter: delimiter of a table, one character. Default: a comma, or a tab for `tsv`.
        encoding: encoding of the files, as Python names it.
        lowercase: convert texts to lower case.
        normalize: normalise texts to a Unicode form: `NFC`, `NFD`, `NFKC` or `NFKD`.
        min_chars: least characters of a text; shorter ones are skipped, and counted. At least
            0.
        max_chars: most characters of a text; longer ones are skipped, and counted. At least 1.
        deduplicate: skip rows whose text came before, and count them.

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

def train_job(
    *,
    program: list,
    examples: Any = None,
    workers: int = 1,
    image: str = "",
    runtime: str = "tensorflow-distributed",
    environment: dict = {},
    cpu: str = "",
    memory: str = "",
    gpu: int = 0,
    gpu_type: str = "nvidia.com/gpu",
    name: str = "train",
    namespace: str = "",
    timeout_seconds: int = 0,
) -> PipelineTask:
    """Trains on many workers: a TrainJob of Kubeflow Trainer, from its creation to its deletion.

    It needs a training runtime, which `python -m components.kubeflow.training_runtime` prints.

    Args:
        program: the program and its arguments, which each worker runs: python, train.py. Kubernetes
            fills in $(DATASET_URI).
        examples: a dataset on a volume of the workers, or at gs:// or s3://; its uri is the
            variable DATASET_URI of each worker. One with a dataset_root is not copied.
        workers: how many, a pod each.
        image: of the workers, with trainer_utils and the program; empty: the runtime's.
        runtime: the ClusterTrainingRuntime.
        environment: further variables of each worker.
        cpu: of each worker, such as 8; empty: what the cluster gives.
        memory: of each worker, such as 32Gi; empty: what the cluster gives.
        gpu: how many each worker has.
        gpu_type: the resource's name.
        name: how the job's name begins.
        namespace: of the job; empty: this step's.
        timeout_seconds: after which the job is ended and the step fails; 0: never.

    Returns:
        metrics: the last value of each that worker 0 printed in a line of nothing but name=number.
        logs: worker-0.log and so on.
    """
