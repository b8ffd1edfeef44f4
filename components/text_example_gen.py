"""TextExampleGen: texts and tables to a dataset.

texts = TextExampleGen(input_base="reviews.csv")
texts.outputs["examples"]
"""

import os
from collections.abc import Mapping, Sequence

from tfx.dsl.components.base import executor_spec
from tfx.proto import example_gen_pb2, range_config_pb2

from components.example_gen.settings import TextSettings
from components.tfx.component import Runtime, parameters_of
from components.tfx.example_gen import (
    TFX_PARAMETERS,
    ExampleGenExecutor,
    FilesExampleGen,
    FilesExampleGenSpec,
    FileTreeDriver,
)


class Executor(ExampleGenExecutor):
    """Executor of TextExampleGen."""

    settings_class = TextSettings


class _Driver(FileTreeDriver):
    settings_class = TextSettings


class TextExampleGenSpec(FilesExampleGenSpec):
    """The component's parameters."""

    PARAMETERS = {**TFX_PARAMETERS, **parameters_of(TextSettings)}


class TextExampleGen(FilesExampleGen):
    """Turns texts and tables into sharded TFRecords of `tf.train.Example`.

    Every example has the columns of its row, typed by all rows, or `text` and `label` of a file
    in a class folder; and `id`, its source and its number there. Labels that are texts become
    int64 ids, places in the sorted vocabulary `vocab/<feature>.txt`. Bad rows are listed in
    `rejects.jsonl`.

    Outputs:
        examples: TFX's `Examples`, and a Datum dataset.
    """

    SPEC_CLASS = TextExampleGenSpec
    EXECUTOR_SPEC = executor_spec.BeamExecutorSpec(Executor)
    DRIVER_CLASS = _Driver

    def __init__(
        self,
        input_base: str | os.PathLike[str] | Runtime,
        *,
        input_config: example_gen_pb2.Input | Runtime | None = None,
        output_config: example_gen_pb2.Output | Runtime | None = None,
        range_config: range_config_pb2.RangeConfig | Runtime | None = None,
        layout: str | Runtime = TextSettings.layout,
        columns: Mapping[str, str] | Runtime | None = None,
        image_roots: Sequence[str] | Runtime | None = None,
        column_names: Sequence[str] | Runtime | None = None,
        header: bool | Runtime | None = None,
        vocabulary: Sequence[str] | Mapping[str, Sequence[str]] | Runtime | None = None,
        tensors: Mapping[str, str] | Runtime | None = None,
        group_by: str | Runtime | None = None,
        stratify: bool | Runtime = TextSettings.stratify,
        seed: int | Runtime = TextSettings.seed,
        num_shards: int | Mapping[str, int] | Runtime | None = None,
        target_shard_bytes: int | Runtime = TextSettings.target_shard_bytes,
        shard_multiple: int | Runtime = TextSettings.shard_multiple,
        compression: str | Runtime = TextSettings.compression,
        max_reject_fraction: float | Runtime = TextSettings.max_reject_fraction,
        delimiter: str | Runtime | None = None,
        encoding: str | Runtime = TextSettings.encoding,
        lowercase: bool | Runtime = TextSettings.lowercase,
        normalize: str | Runtime | None = None,
        min_chars: int | Runtime = TextSettings.min_chars,
        max_chars: int | Runtime | None = None,
        deduplicate: bool | Runtime = TextSettings.deduplicate,
        tokenizer: str | Runtime | None = None,
        keep_text: bool | Runtime = TextSettings.keep_text,
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
            num_shards: shards of every split, or by split, which Kubeflow's functions do not take.
                Fewer where there are fewer examples. Default: the number that comes closest to
                `target_shard_bytes`.
            target_shard_bytes: target size of a shard in bytes. At least 1.
            shard_multiple: the number of shards is a multiple of this, such as the number of
                workers. At least 1.
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
            tokenizer: makes the feature `tokens` of each text: the `.json` file of a tokenizer of
                `tokenizers`, the `.model` file of SentencePiece, or the name or `.tiktoken` file of
                an encoding of tiktoken. Nothing is downloaded.
            keep_text: False: the tokens take the place of the text.
        """
        super().__init__(TextSettings, locals())
