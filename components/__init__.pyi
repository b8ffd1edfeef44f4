# Made by `make settings` from the declarations of the settings.
from collections.abc import Mapping, Sequence
from os import PathLike

from tfx.dsl.components.base.base_beam_component import BaseBeamComponent
from tfx.dsl.components.base.base_component import BaseComponent
from tfx.orchestration.data_types import RuntimeParameter
from tfx.proto.example_gen_pb2 import CustomConfig, Input, Output
from tfx.proto.range_config_pb2 import RangeConfig
from tfx.types.channel import BaseChannel

__all__ = [
    "AudioExampleGen",
    "DatasetAudit",
    "DatasetReport",
    "ImageExampleGen",
    "SchemaExport",
    "ShardBalancer",
    "TextExampleGen",
]

class AudioExampleGen(BaseBeamComponent):
    """Turns sounds in folders or lists into sharded TFRecords of `tf.train.Example`.

    Every example has `audio` (a WAV file of 16 bits: the file itself where it is one, else WAV,
    FLAC, OGG or MP3 decoded), `sample_rate` in Hz, `num_frames` (samples of each channel),
    `filename` (relative to `input_base`), and `label` of a class folder or the columns of a list.
    Labels that are texts become int64 ids, places in the sorted vocabulary `vocab/<feature>.txt`.
    Bad files are listed in `rejects.jsonl`.

    Outputs:
        examples: TFX's `Examples`, and a Datum dataset.
    """
    def __init__(
        self,
        input_base: str | PathLike[str] | RuntimeParameter,
        *,
        input_config: Input | RuntimeParameter | None = None,
        output_config: Output | RuntimeParameter | None = None,
        range_config: RangeConfig | RuntimeParameter | None = None,
        custom_config: CustomConfig | RuntimeParameter | None = None,
        output_data_format: int | None = None,
        output_file_format: int | None = None,
        layout: str | RuntimeParameter = "auto",
        columns: Mapping[str, str] | RuntimeParameter | None = None,
        image_roots: Sequence[str] | RuntimeParameter | None = None,
        column_names: Sequence[str] | RuntimeParameter | None = None,
        header: bool | RuntimeParameter | None = None,
        vocabulary: Sequence[str] | Mapping[str, Sequence[str]] | RuntimeParameter | None = None,
        tensors: Mapping[str, str] | RuntimeParameter | None = None,
        group_by: str | RuntimeParameter | None = None,
        stratify: bool | RuntimeParameter = False,
        seed: int | RuntimeParameter = 0,
        target_shard_bytes: int | RuntimeParameter = 134217728,
        compression: str | RuntimeParameter = "none",
        max_reject_fraction: float | RuntimeParameter = 0.01,
        feature_names: Mapping[str, str] | RuntimeParameter | None = None,
        sample_rate: int | RuntimeParameter | None = None,
        channels: int | RuntimeParameter | None = None,
    ) -> None:
        """Makes the component.

        Args:
            input_base: a folder, a table of images, sounds or texts (CSV, TSV, JSON lines,
                Parquet) or an archive; a local path or one in a bucket.
            input_config: TFX's. With several splits, each pattern selects one split's files and
                the folders below the pattern's literal part are classes. Patterns may hold
                {SPAN}, {VERSION}, {YYYY}, {MM} and {DD}. Default: all files, one split.
            output_config: TFX's: hash splits with their shares, over each example's name (a file's,
                or a row's `id`) or, by `partition_feature_name`, over a column. Default: the splits
                that folders, files or rows name, else train and eval 2:1.
            range_config: TFX's: which span to take. Default: the latest.
            custom_config: TFX's: kept in the lineage, and read by nothing here.
            output_data_format: TFX's, of which FORMAT_TF_EXAMPLE is written.
            output_file_format: TFX's: FORMAT_TFRECORDS_GZIP is `compression="gzip"`. Default: as
                `compression` says.
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

        Raises:
            ConfigError: a setting is not allowed.
        """

class DatasetAudit(BaseComponent):
    """Finds copies, leakage between splits, conflicts of labels, shifts and odd images.

    Copies are records of the same content, pictures that were encoded anew, resized, cropped a
    little, made grey or mirrored, texts that differ in a few words, and sounds that were encoded
    anew, resampled, made louder or quieter, or cut a little.

    Outputs:
        anomalies: TFX's `ExampleAnomalies`: `Split-<name>/SchemaDiff.pb` for each split, an anomaly
            for each kind of finding, and `findings.json` with all of them and their records. Its
            property `blessed` says by split whether nothing was found, as ExampleValidator's does;
            `num_findings` how much was found, `is_blessed` is 1 where nothing was.
    """
    def __init__(
        self,
        examples: BaseChannel,
        *,
        against: BaseChannel | None = None,
        fail_on: Sequence[str] | RuntimeParameter | None = None,
        label: str | RuntimeParameter = "label",
        most: int | RuntimeParameter = 100,
    ) -> None:
        """Makes the component.

        Args:
            examples: an Examples channel.
            against: an earlier dataset, that this one is compared with.
            fail_on: kinds of findings that fail the run: `leakage`, `label_conflict`, `duplicates`,
                `near_duplicates`, `missing_class`, `label_shift`, `size_shift`, `brightness_shift`,
                `length_shift`, `vocabulary_shift`, `blank`, `dark`, `blurred`, `odd_aspect`,
                `odd_size`.
            label: the feature that has the class of a record.
            most: findings of each kind that are listed; all of them are counted. At least 0.

        Raises:
            ConfigError: a setting is not allowed.
        """

class DatasetReport(BaseComponent):
    """Writes one page of HTML that shows what is in an Examples artifact; it needs no network.

    Splits, shards and their balance, labels and how they shift between splits, pictures by class
    with their boxes and label maps, wave forms, texts, statistics of each feature, rejects,
    settings, lineage, and what will hurt a training. Kubeflow shows it as the artifact's page.

    Outputs:
        report: TFX's `File`: a folder with `report.html`.
    """
    def __init__(
        self,
        examples: BaseChannel,
        *,
        statistics: BaseChannel | None = None,
        schema: BaseChannel | None = None,
        sample_records: int | RuntimeParameter = 1000,
    ) -> None:
        """Makes the component.

        Args:
            examples: an Examples artifact: ours, Datum's, or a stock ExampleGen's.
            statistics: TFX's ExampleStatistics of them, which the page shows beside its own.
            schema: TFX's Schema of them; where the two disagree the page says so.
            sample_records: most records of each split that are read; counts are the manifest's. At
                least 1.

        Raises:
            ConfigError: a setting is not allowed.
        """

class ImageExampleGen(BaseBeamComponent):
    """Turns images, in whatever layout they lie, into sharded TFRecords of `tf.train.Example`.

    Every example has `image` (the file, byte for byte where TensorFlow reads it), `filename`
    (relative to `input_base`), `height`, `width` and `channels`, and the features that the layout
    gives: `label` of a class folder, the columns of a list, the boxes of an annotation. Labels
    that are texts become int64 ids, places in the sorted vocabulary `vocab/<feature>.txt`. Bad
    files are listed in `rejects.jsonl`.

    Outputs:
        examples: TFX's `Examples`, and a Datum dataset.
    """
    def __init__(
        self,
        input_base: str | PathLike[str] | RuntimeParameter,
        *,
        input_config: Input | RuntimeParameter | None = None,
        output_config: Output | RuntimeParameter | None = None,
        range_config: RangeConfig | RuntimeParameter | None = None,
        custom_config: CustomConfig | RuntimeParameter | None = None,
        output_data_format: int | None = None,
        output_file_format: int | None = None,
        layout: str | RuntimeParameter = "auto",
        columns: Mapping[str, str] | RuntimeParameter | None = None,
        image_roots: Sequence[str] | RuntimeParameter | None = None,
        column_names: Sequence[str] | RuntimeParameter | None = None,
        header: bool | RuntimeParameter | None = None,
        vocabulary: Sequence[str] | Mapping[str, Sequence[str]] | RuntimeParameter | None = None,
        tensors: Mapping[str, str] | RuntimeParameter | None = None,
        group_by: str | RuntimeParameter | None = None,
        stratify: bool | RuntimeParameter = False,
        seed: int | RuntimeParameter = 0,
        target_shard_bytes: int | RuntimeParameter = 134217728,
        compression: str | RuntimeParameter = "none",
        max_reject_fraction: float | RuntimeParameter = 0.01,
        feature_names: Mapping[str, str] | RuntimeParameter | None = None,
        orientation: str | RuntimeParameter = "apply",
        frames: str | RuntimeParameter = "first",
        resize_shorter_side: int | RuntimeParameter | None = None,
        quality: int | RuntimeParameter = 95,
        encoding: str | RuntimeParameter = "file",
        verify: str | RuntimeParameter = "structure",
        max_pixels: int | RuntimeParameter = 89478485,
        sample_rate: int | RuntimeParameter | None = None,
        image_dir: str | RuntimeParameter | None = None,
        csv_path: str | RuntimeParameter | None = None,
        annotation_dir: str | RuntimeParameter | None = None,
        label_dir: str | RuntimeParameter | None = None,
        image_set_dir: str | RuntimeParameter | None = None,
        label_list: str | RuntimeParameter | None = None,
    ) -> None:
        """Makes the component.

        Args:
            input_base: a folder, a table of images, sounds or texts (CSV, TSV, JSON lines,
                Parquet) or an archive; a local path or one in a bucket.
            input_config: TFX's. With several splits, each pattern selects one split's files and
                the folders below the pattern's literal part are classes. Patterns may hold
                {SPAN}, {VERSION}, {YYYY}, {MM} and {DD}. Default: all files, one split.
            output_config: TFX's: hash splits with their shares, over each example's name (a file's,
                or a row's `id`) or, by `partition_feature_name`, over a column. Default: the splits
                that folders, files or rows name, else train and eval 2:1.
            range_config: TFX's: which span to take. Default: the latest.
            custom_config: TFX's: kept in the lineage, and read by nothing here.
            output_data_format: TFX's, of which FORMAT_TF_EXAMPLE is written.
            output_file_format: TFX's: FORMAT_TFRECORDS_GZIP is `compression="gzip"`. Default: as
                `compression` says.
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

        Raises:
            ConfigError: a setting is not allowed.
        """

class SchemaExport(BaseComponent):
    """Writes what an Examples artifact holds: `schema.pbtxt` for TFX, two JSON files for Datum.

    TFX's components take a Schema whose folder holds one file and no other, Datum wants two in
    one folder: hence two outputs. Beside Datum's is `example.schema.json`, a JSON Schema of the
    parsed example. What Datum cannot express stands in the log and in the property
    `datum_limits`, with the cure.

    Outputs:
        datum_schema: TFX's `Schema`: `schema.pbtxt` alone.
        datum_dataset: TFX's `Dataset`: that and all else. Datum's `load` of its uri opens the
            shards of the examples.
    """
    def __init__(
        self,
        examples: BaseChannel,
        *,
        schema: BaseChannel | None = None,
        statistics: BaseChannel | None = None,
        tfds: bool | RuntimeParameter = False,
    ) -> None:
        """Makes the component.

        Args:
            examples: an Examples artifact: ours, Datum's, or a stock ExampleGen's.
            schema: TFX's Schema of them; where the two disagree the run fails and names the
                feature. Default: made from the examples.
            statistics: TFX's ExampleStatistics of them; where the two disagree the run fails and
                names the feature.
            tfds: write TFDS's two JSON files too, so that `tfds.builder_from_directory` opens the
                uri of `datum_dataset`.

        Raises:
            ConfigError: a setting is not allowed.
        """

class ShardBalancer(BaseBeamComponent):
    """Writes Examples artifacts anew, as one dataset in shards of equal size and in random order.

    Every record is moved byte for byte, in its frame; every checksum is checked on the way, and
    the new shards are read back. What goes in comes out, by count and by an order-free checksum.
    Records may be left out, relabelled, or kept by a condition, and further datasets added; all
    that is counted. `components.shard_balancer.plan` says what would be done.

    Outputs:
        balanced_examples: TFX's `Examples`, and a Datum dataset.
    """
    def __init__(
        self,
        examples: BaseChannel | Sequence[BaseChannel],
        *,
        num_shards: int | Mapping[str, int] | RuntimeParameter | None = None,
        target_shard_bytes: int | RuntimeParameter = 134217728,
        shard_multiple: int | RuntimeParameter = 1,
        shuffle: bool | RuntimeParameter = True,
        balance: str | RuntimeParameter = "records",
        stratify_by: str | RuntimeParameter | None = None,
        seed: int | RuntimeParameter = 0,
        compression: str | RuntimeParameter = "none",
        memory_bytes: int | RuntimeParameter = 1073741824,
        exclude: str | Sequence[str] | RuntimeParameter | None = None,
        relabel: str | Mapping[str, str | int | float] | RuntimeParameter | None = None,
        where: str | RuntimeParameter | None = None,
        add: Sequence[str] | RuntimeParameter | None = None,
        keep_shards: bool | RuntimeParameter = False,
    ) -> None:
        """Makes the component.

        Args:
            examples: one or several Examples artifacts, or a list of channels of them: ours,
                Datum's, TFDS's, a stock ExampleGen's, or ones that ImportExampleGen brought in. A
                split gets what all of them have of it. Those of a Transform keep the vocabularies
                of its own input, for features of ids that it passes on, and take the ones that it
                makes itself under a feature's name (`vocab_filename="label"`).
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

        Raises:
            ConfigError: a setting is not allowed.
        """

class TextExampleGen(BaseBeamComponent):
    """Turns texts and tables into sharded TFRecords of `tf.train.Example`.

    Every example has the columns of its row, typed by all rows, or `text` and `label` of a file
    in a class folder; and `id`, its source and its number there. Labels that are texts become
    int64 ids, places in the sorted vocabulary `vocab/<feature>.txt`. Bad rows are listed in
    `rejects.jsonl`.

    Outputs:
        examples: TFX's `Examples`, and a Datum dataset.
    """
    def __init__(
        self,
        input_base: str | PathLike[str] | RuntimeParameter,
        *,
        input_config: Input | RuntimeParameter | None = None,
        output_config: Output | RuntimeParameter | None = None,
        range_config: RangeConfig | RuntimeParameter | None = None,
        custom_config: CustomConfig | RuntimeParameter | None = None,
        output_data_format: int | None = None,
        output_file_format: int | None = None,
        layout: str | RuntimeParameter = "auto",
        columns: Mapping[str, str] | RuntimeParameter | None = None,
        image_roots: Sequence[str] | RuntimeParameter | None = None,
        column_names: Sequence[str] | RuntimeParameter | None = None,
        header: bool | RuntimeParameter | None = None,
        vocabulary: Sequence[str] | Mapping[str, Sequence[str]] | RuntimeParameter | None = None,
        tensors: Mapping[str, str] | RuntimeParameter | None = None,
        group_by: str | RuntimeParameter | None = None,
        stratify: bool | RuntimeParameter = False,
        seed: int | RuntimeParameter = 0,
        target_shard_bytes: int | RuntimeParameter = 134217728,
        compression: str | RuntimeParameter = "none",
        max_reject_fraction: float | RuntimeParameter = 0.01,
        delimiter: str | RuntimeParameter | None = None,
        encoding: str | RuntimeParameter = "utf-8",
        lowercase: bool | RuntimeParameter = False,
        normalize: str | RuntimeParameter | None = None,
        min_chars: int | RuntimeParameter = 0,
        max_chars: int | RuntimeParameter | None = None,
        deduplicate: bool | RuntimeParameter = False,
    ) -> None:
        """Makes the component.

        Args:
            input_base: a folder, a table of images, sounds or texts (CSV, TSV, JSON lines,
                Parquet) or an archive; a local path or one in a bucket.
            input_config: TFX's. With several splits, each pattern selects one split's files and
                the folders below the pattern's literal part are classes. Patterns may hold
                {SPAN}, {VERSION}, {YYYY}, {MM} and {DD}. Default: all files, one split.
            output_config: TFX's: hash splits with their shares, over each example's name (a file's,
                or a row's `id`) or, by `partition_feature_name`, over a column. Default: the splits
                that folders, files or rows name, else train and eval 2:1.
            range_config: TFX's: which span to take. Default: the latest.
            custom_config: TFX's: kept in the lineage, and read by nothing here.
            output_data_format: TFX's, of which FORMAT_TF_EXAMPLE is written.
            output_file_format: TFX's: FORMAT_TFRECORDS_GZIP is `compression="gzip"`. Default: as
                `compression` says.
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

        Raises:
            ConfigError: a setting is not allowed.
        """
