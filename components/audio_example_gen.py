"""AudioExampleGen: sounds, in folders or lists, to a dataset.

sounds = AudioExampleGen(input_base="clips/", sample_rate=16_000)
sounds.outputs["examples"]
"""

import os
from collections.abc import Mapping, Sequence

from tfx.dsl.components.base import executor_spec
from tfx.proto import example_gen_pb2, range_config_pb2

from components.example_gen.settings import AudioSettings
from components.tfx.component import Runtime, parameters_of
from components.tfx.example_gen import (
    TFX_PARAMETERS,
    ExampleGenExecutor,
    FilesExampleGen,
    FilesExampleGenSpec,
    FileTreeDriver,
)


class Executor(ExampleGenExecutor):
    """Executor of AudioExampleGen."""

    settings_class = AudioSettings


class _Driver(FileTreeDriver):
    settings_class = AudioSettings


class AudioExampleGenSpec(FilesExampleGenSpec):
    """The component's parameters."""

    PARAMETERS = {**TFX_PARAMETERS, **parameters_of(AudioSettings)}


class AudioExampleGen(FilesExampleGen):
    """Turns sounds in folders or lists into sharded TFRecords of `tf.train.Example`.

    Every example has `audio` (a WAV file of 16 bits: the file itself where it is one, else WAV,
    FLAC, OGG or MP3 decoded), `sample_rate` in Hz, `num_frames` (samples of each channel),
    `filename` (relative to `input_base`), and `label` of a class folder or the columns of a list.
    Labels that are texts become int64 ids, places in the sorted vocabulary `vocab/<feature>.txt`.
    Bad files are listed in `rejects.jsonl`.

    Outputs:
        examples: TFX's `Examples`, and a Datum dataset.
    """

    SPEC_CLASS = AudioExampleGenSpec
    EXECUTOR_SPEC = executor_spec.BeamExecutorSpec(Executor)
    DRIVER_CLASS = _Driver

    def __init__(
        self,
        input_base: str | os.PathLike[str] | Runtime,
        *,
        input_config: example_gen_pb2.Input | Runtime | None = None,
        output_config: example_gen_pb2.Output | Runtime | None = None,
        range_config: range_config_pb2.RangeConfig | Runtime | None = None,
        layout: str | Runtime = AudioSettings.layout,
        columns: Mapping[str, str] | Runtime | None = None,
        image_roots: Sequence[str] | Runtime | None = None,
        column_names: Sequence[str] | Runtime | None = None,
        header: bool | Runtime | None = None,
        vocabulary: Sequence[str] | Mapping[str, Sequence[str]] | Runtime | None = None,
        tensors: Mapping[str, str] | Runtime | None = None,
        group_by: str | Runtime | None = None,
        stratify: bool | Runtime = AudioSettings.stratify,
        seed: int | Runtime = AudioSettings.seed,
        num_shards: int | Mapping[str, int] | Runtime | None = None,
        target_shard_bytes: int | Runtime = AudioSettings.target_shard_bytes,
        shard_multiple: int | Runtime = AudioSettings.shard_multiple,
        compression: str | Runtime = AudioSettings.compression,
        max_reject_fraction: float | Runtime = AudioSettings.max_reject_fraction,
        feature_names: Mapping[str, str] | Runtime | None = None,
        base_dataset: str | Runtime | None = None,
        sample_rate: int | Runtime | None = None,
        channels: int | Runtime | None = None,
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
            sample_rate: rate in Hz that sounds are resampled to. From 1 to 768,000. Default: each
                keeps its own.
            channels: 1 mixes all channels into one, 2 duplicates a single one. Default: as they
                are.
        """
        super().__init__(AudioSettings, locals())
