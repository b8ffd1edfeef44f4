"""The components themselves: `kfp.dsl.container_component`s that run `components.kubeflow.run`.

    task = image_example_gen(input_base="/data/photos", splits={"train": 9, "eval": 1})
    shard_balancer(examples=task.outputs["examples"], num_shards=8)

All but the paths of artifacts is read from the executor input, where the launcher has filled in
defaults; so each body just names its artifacts.
"""

from collections.abc import Callable
from typing import Any

from kfp import dsl
from kfp.dsl.container_component_class import ContainerComponent

from components.kubeflow.images import COMMAND, default_image

__all__ = [
    "image_example_gen",
    "schema_export",
    "shard_balancer",
    "text_example_gen",
    "train_input_check",
]

_INPUTS, _OUTPUTS = "inputs", "outputs"
_VERSION = "input_version"


class _Component(ContainerComponent):
    """A container component whose image is chosen where it is used.

    One that reads what Kubeflow does not know to have changed is taken from Kubeflow's cache
    only where `input_version` says that nothing has.
    """

    def __call__(self, *arguments: Any, **given: Any) -> Any:
        task = super().__call__(*arguments, **given)
        if hasattr(task, "set_container_image"):  # of kfp 2.8
            task.set_container_image(default_image())
        else:
            task.container_spec.image = default_image()
        if _VERSION in (self.component_spec.inputs or {}) and not given.get(_VERSION):
            task.set_caching_options(False)
        return task


def _component(function: Callable[..., Any]) -> _Component:
    made = dsl.container_component(function)
    return _Component(component_spec=made.component_spec, pipeline_func=made.pipeline_func)


def _step(name: str, inputs: dict[str, Any], outputs: dict[str, Any]) -> dsl.ContainerSpec:
    arguments = [name, "--executor-input", dsl.PIPELINE_TASK_EXECUTOR_INPUT_PLACEHOLDER]
    for side, artifacts in ((_INPUTS, inputs), (_OUTPUTS, outputs)):
        for artifact, channel in artifacts.items():
            arguments += ["--path", side, artifact, channel.path]
    return dsl.ContainerSpec(
        image=default_image(),
        command=list(COMMAND),
        args=arguments,
    )


@_component
def image_example_gen(
    examples: dsl.Output[dsl.Dataset],
    source: dsl.Input[dsl.Artifact] = None,
    input_base: str = "",
    input_version: str = "",
    input_patterns: dict = {},  # noqa: B006  kfp reads it and no more
    splits: dict = {},  # noqa: B006
    split_by: str = "",
    layout: str = "auto",
    columns: dict = {},  # noqa: B006
    image_roots: list = [],  # noqa: B006
    column_names: list = [],  # noqa: B006
    header: bool = False,
    vocabulary: list = [],  # noqa: B006
    group_by: str = "",
    stratify: bool = False,
    orientation: str = "apply",
    frames: str = "first",
    resize_shorter_side: int = 0,
    quality: int = 95,
    encoding: str = "file",
    verify: str = "structure",
    max_pixels: int = 0,
    sample_rate: int = 0,
    seed: int = 0,
    target_shard_bytes: int = 134217728,
    compression: str = "none",
    max_reject_fraction: float = 0.01,
    dataset_root: str = "",
):
    """Turns images, in whatever layout they lie, into a sharded and verified dataset.

    Where no other meaning is given, parameters mean what they mean to the TFX component
    ImageExampleGen, and an empty one or 0 its default.

    Args:
        source: the images as an artifact of another step; or else
        input_base: where they are: a folder or a list, on a mounted volume or gs://.
        input_version: of what is at input_base; where it is given and equal, Kubeflow may take the
            step from its cache. Without one the step always runs.
        input_patterns: patterns by split, for images that lie by split.
        splits: shares by split, for images that are split by a hash.
        split_by: the column that is hashed; empty: the name of each image.
        layout: auto, folder, csv, tsv, jsonl, parquet, voc, coco, segmentation or tar.
        columns: kinds by column of a list.
        image_roots: folders beside input_base that a list may point into.
        column_names: of a CSV or TSV without a header, or in place of its names.
        header: says that the first row of a CSV or TSV has the columns' names; else that is told.
        vocabulary: labels in the order of their ids.
        group_by: the column whose equal values share a split.
        stratify: whether hashed splits keep the share of each class.
        orientation: apply or keep.
        frames: first or reject.
        resize_shorter_side: in pixels.
        quality: of JPEGs that are encoded anew, from 1 to 100.
        encoding: file or raw.
        verify: structure or decode.
        max_pixels: of an image.
        sample_rate: in Hz, of sounds.
        seed: of the hash; below 2^53.
        target_shard_bytes: wished size of a shard in bytes.
        compression: none or gzip.
        max_reject_fraction: of the inputs that may be rejected, from 0 to 1.
        dataset_root: a folder on a volume that all pods share, or gs://, to keep the shards in
            instead of the artifact, so that no pod copies them.

    Returns:
        examples: the dataset.
    """
    return _step("image_example_gen", {"source": source}, {"examples": examples})


@_component
def text_example_gen(
    examples: dsl.Output[dsl.Dataset],
    source: dsl.Input[dsl.Artifact] = None,
    input_base: str = "",
    input_version: str = "",
    input_patterns: dict = {},  # noqa: B006
    splits: dict = {},  # noqa: B006
    split_by: str = "",
    layout: str = "auto",
    columns: dict = {},  # noqa: B006
    image_roots: list = [],  # noqa: B006
    column_names: list = [],  # noqa: B006
    header: bool = False,
    delimiter: str = "",
    encoding: str = "utf-8",
    vocabulary: list = [],  # noqa: B006
    group_by: str = "",
    stratify: bool = False,
    lowercase: bool = False,
    normalize: str = "",
    min_chars: int = 0,
    max_chars: int = 0,
    deduplicate: bool = False,
    seed: int = 0,
    target_shard_bytes: int = 134217728,
    compression: str = "none",
    max_reject_fraction: float = 0.01,
    dataset_root: str = "",
):
    """Turns texts and tables into a sharded and verified dataset.

    Where no other meaning is given, parameters mean what they mean to the TFX component
    TextExampleGen, and an empty one or 0 its default.

    Args:
        source: the texts as an artifact of another step; or else
        input_base: where they are: a folder or a file, on a mounted volume or gs://.
        input_version: of what is at input_base; where it is given and equal, Kubeflow may take the
            step from its cache. Without one the step always runs.
        input_patterns: patterns by split, for texts that lie by split.
        splits: shares by split, for texts that are split by a hash.
        split_by: the column that is hashed; empty: the id of each row.
        layout: auto, csv, tsv, jsonl, parquet, json, lines or folder.
        columns: kinds by column.
        image_roots: folders beside input_base that rows may point into.
        column_names: of a CSV or TSV without a header, or in place of its names.
        header: says that the first row of a CSV or TSV has the columns' names; else that is told.
        delimiter: of a table, one character.
        encoding: of the files, as Python names it.
        vocabulary: labels in the order of their ids.
        group_by: the column whose equal values share a split.
        stratify: whether hashed splits keep the share of each class.
        lowercase: whether texts are made lower case.
        normalize: NFC, NFD, NFKC or NFKD.
        min_chars: a text needs.
        max_chars: a text may have.
        deduplicate: whether rows whose text came before are left out.
        seed: of the hash; below 2^53.
        target_shard_bytes: wished size of a shard in bytes.
        compression: none or gzip.
        max_reject_fraction: of the inputs that may be rejected, from 0 to 1.
        dataset_root: a folder on a volume that all pods share, or gs://, to keep the shards in
            instead of the artifact, so that no pod copies them.

    Returns:
        examples: the dataset.
    """
    return _step("text_example_gen", {"source": source}, {"examples": examples})


@_component
def shard_balancer(
    examples: dsl.Input[dsl.Dataset],
    balanced_examples: dsl.Output[dsl.Dataset],
    more_examples: dsl.Input[dsl.Dataset] = None,
    num_shards: int = 0,
    shards_by_split: dict = {},  # noqa: B006
    target_shard_bytes: int = 134217728,
    shard_multiple: int = 1,
    shuffle: bool = True,
    balance: str = "records",
    stratify_by: str = "",
    seed: int = 0,
    compression: str = "none",
    memory_bytes: int = 1073741824,
    dataset_root: str = "",
):
    """Writes datasets anew, as one in shards of equal size and in random order.

    Parameters mean what they mean to the TFX component ShardBalancer; an empty one or 0 its
    default.

    Args:
        examples: a dataset: ours, Datum's, TFDS's or a stock ExampleGen's.
        more_examples: another, that becomes one with it.
        num_shards: of every split.
        shards_by_split: numbers by split, in place of num_shards.
        target_shard_bytes: wished size of a shard in bytes, where no number is given.
        shard_multiple: the number of shards is a multiple of this.
        shuffle: whether records come in a random order.
        balance: records or bytes.
        stratify_by: a feature whose values each shard holds in equal shares.
        seed: of the order; below 2^53.
        compression: none or gzip.
        memory_bytes: that the step may use.
        dataset_root: a folder on a volume that all pods share, or gs://, to keep the shards in
            instead of the artifact, so that no pod copies them.

    Returns:
        balanced_examples: the dataset.
    """
    return _step(
        "shard_balancer",
        {"examples": examples, "more_examples": more_examples},
        {"balanced_examples": balanced_examples},
    )


@_component
def schema_export(
    examples: dsl.Input[dsl.Dataset],
    datum_schema: dsl.Output[dsl.Artifact],
    datum_dataset: dsl.Output[dsl.Dataset],
    schema: dsl.Input[dsl.Artifact] = None,
    statistics: dsl.Input[dsl.Artifact] = None,
    tfds: bool = False,
):
    """Writes what a dataset holds: schema.pbtxt for TFX, two JSON files for Datum, a JSON Schema.

    Args:
        examples: a dataset.
        schema: a schema.pbtxt in a folder, that must agree with it.
        statistics: TFX's statistics of it, that must agree with it.
        tfds: whether to write TFDS's two files too.

    Returns:
        datum_schema: schema.pbtxt alone, as TFX's components take it.
        datum_dataset: all of the files, which datum.load opens.
    """
    return _step(
        "schema_export",
        {"examples": examples, "schema": schema, "statistics": statistics},
        {"datum_schema": datum_schema, "datum_dataset": datum_dataset},
    )


@_component
def train_input_check(
    examples: dsl.Input[dsl.Dataset],
    metrics: dsl.Output[dsl.Metrics],
    split: str = "train",
    batch_size: int = 64,
    workers: int = 1,
    input_options: dict = {},  # noqa: B006
    seconds: float = 2.0,
    min_records_per_second: float = 0.0,
):
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
    return _step("train_input_check", {"examples": examples}, {"metrics": metrics})
