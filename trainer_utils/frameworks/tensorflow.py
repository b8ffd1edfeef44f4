"""Read a dataset's batches as a `tf.data.Dataset`.

train = input_fn(uri, split="train[:90%]", batch_size=64, features="image", label="label")
model.fit(train, epochs=3)
"""

from typing import TYPE_CHECKING, Any

try:
    import tensorflow as tf
except ModuleNotFoundError as error:
    raise ImportError(
        "input_fn, distribute and load need TensorFlow: run pip install 'tfx-shards[tensorflow]'. "
        "trainer_utils.iterate, torch_dataset and jax_batches do without it."
    ) from error

from trainer_utils.core.errors import DatasetError, TfxShardsError
from trainer_utils.dataset import uri_of
from trainer_utils.dataset.location import Artifacts, Inputs, group_artifacts
from trainer_utils.dataset.selection import open_place
from trainer_utils.format import resolve_slices
from trainer_utils.frameworks.input_dataset import InputDataset, show_input
from trainer_utils.frameworks.tensor_input import TensorInput
from trainer_utils.options import InputOptions, choose_options, shows_settings
from trainer_utils.order import InputState
from trainer_utils.reading.batch_iterator import BatchIterator

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from trainer_utils.options.keywords import InputSettings


@shows_settings
def input_fn(
    artifact_uri: Inputs,
    split: str | None = None,
    *,
    options: InputOptions | None = None,
    input_context: tf.distribute.InputContext | None = None,
    **settings: "Unpack[InputSettings]",
) -> InputDataset:
    """Read a dataset as batches of tensors.

    Args:
        artifact_uri: a uri, a TFX artifact, a pattern of `fn_args.train_files`, or a list of these,
            read one after the other (mixed with `shuffle`). It may be local or in an object store,
            and written by tfx-shards, Datum, TFDS or a stock ExampleGen.
        split: a split or slices of splits: `train`, `train[:80%]`, `train[10%:]+eval`. None: the
            split that a pattern names, else `train`.
        options: all settings; see `InputOptions`.
        input_context: the context from `tf.distribute`; each input pipeline gets an equal part of
            every batch.
        settings: fields of `InputOptions`, which override `options`.

    Returns:
        A dataset of known cardinality, unless it starts within an epoch. Images are `(batch,
        height, width, channels) uint8`. Other features are `(batch, *shape)`: int64, float32 or
        string. Variable lengths are padded with zeros or empty strings. After it was read to its
        end, the next iteration reads the next epoch. It has `features`, `class_names` and
        `num_classes`. Its `state(step)` returns the token to resume from, and `resumed_at(token)`
        the same input from there.

    Raises:
        DatasetError: there is no dataset, it is incomplete, or it lacks the split or a feature.
        ConfigError: a setting is invalid, or the plan is impossible.
    """
    chosen = choose_options(options, settings, of=input_fn)
    shared = {} if input_context is None else {
        "worker": input_context.input_pipeline_id,
        "num_workers": input_context.num_input_pipelines,
        "num_replicas": input_context.num_replicas_in_sync,
    }  # fmt: skip
    source = BatchIterator.open(artifact_uri, split, chosen, callbacks=False, **shared)
    tensors = TensorInput(source, is_shared=input_context is not None)

    def reopened(**changes: Any) -> InputDataset:
        changed = chosen.replace(**changes)
        return input_fn(artifact_uri, split, options=changed, input_context=input_context)

    return InputDataset(tensors, reopened)


@shows_settings
def distribute(
    strategy: tf.distribute.Strategy,
    artifact_uri: Inputs,
    split: str | None = None,
    *,
    options: InputOptions | None = None,
    **settings: "Unpack[InputSettings]",
) -> tf.distribute.DistributedDataset:
    """Read a dataset for a strategy, with an equal part of every batch for each worker.

    Args:
        strategy: `MirroredStrategy`, `MultiWorkerMirroredStrategy` or another.
        artifact_uri: the dataset, as in `input_fn`.
        split: the split or slices to read, as in `input_fn`.
        options: all settings, as in `input_fn`.
        settings: fields of `InputOptions`, as in `input_fn`; `batch_size` is the GLOBAL batch, a
            multiple of the replicas if there are several workers.

    Returns:
        A distributed dataset, to iterate over or to pass to Keras. On one worker its cardinality is
        known, and its last batch is divided among the replicas. On several workers all take the
        same number of steps. It has the attributes of the dataset of `input_fn`.

    Raises:
        DatasetError: as in `input_fn`.
        ConfigError: as in `input_fn`.
    """
    chosen = choose_options(options, settings, of=distribute)
    datasets: list[InputDataset] = []

    def dataset_fn(context: tf.distribute.InputContext | None) -> InputDataset:
        datasets.append(input_fn(artifact_uri, split, options=chosen, input_context=context))
        return datasets[-1]

    if num_workers(strategy) == 1:  # its layout has no replicas: TensorFlow divides
        distributed = strategy.experimental_distribute_dataset(dataset_fn(None))
        datasets[0].input_pipeline.report_empty(divided=strategy.num_replicas_in_sync)
    else:
        distributed = strategy.distribute_datasets_from_function(dataset_fn)

    def resumed_at(state: InputState) -> tf.distribute.DistributedDataset:
        return distribute(strategy, artifact_uri, split, options=chosen.replace(state=state))

    return show_input(distributed, datasets[0], resumed_at)


def load(
    artifact_uri: Artifacts,
    *,
    options: InputOptions | None = None,
    **settings: "Unpack[InputSettings]",
) -> dict[str, tf.data.Dataset]:
    """Read every split of a dataset.

    Args:
        artifact_uri: the dataset, as in `input_fn`. For a list, the splits common to all are read.
        options: the settings of all splits; see `InputOptions`. `pre_batching_callback` and
            `post_batching_callback` may differ by split.
        settings: fields of `InputOptions`, which override `options`.

    Returns:
        The datasets of `input_fn` by split, in the dataset's order.

    Raises:
        DatasetError: there is no dataset, it is incomplete, or there is no common split.
        ConfigError: a setting is invalid.
    """
    chosen = choose_options(options, settings, of=load)
    artifacts = artifact_uri if isinstance(artifact_uri, (list, tuple)) else [artifact_uri]
    uris = list(dict.fromkeys(map(uri_of, artifacts)))
    places = group_artifacts(uris, apart=chosen.weights is not None)
    datasets = [open_place(place, chosen.conversion).records for place, _ in places]
    splits = [
        split for split in next(iter(datasets), {}) if all(split in records for records in datasets)
    ]
    if not splits:
        raise DatasetError(f"artifact_uri: expected datasets with a split in common, got {uris}")
    return _Splits({split: input_fn(uris, split, options=chosen) for split in splits})


class _Splits(dict[str, tf.data.Dataset]):
    """Datasets by split, which also accept the other usual spellings of a split's name."""

    def __missing__(self, name: str) -> tf.data.Dataset:
        try:
            (split_range,) = resolve_slices(str(name), dict.fromkeys(self, 0))
        except TfxShardsError as error:
            raise KeyError(str(error)) from None
        return self[split_range.split]


def num_workers(strategy: tf.distribute.Strategy) -> int:
    """Return the number of processes that train together under a strategy."""
    resolver = strategy.cluster_resolver
    if resolver is None or not resolver.cluster_spec():
        return 1
    jobs = resolver.cluster_spec().as_dict()
    return sum(len(tasks) for job, tasks in jobs.items() if job in ("chief", "worker")) or 1


def is_chief(strategy: tf.distribute.Strategy) -> bool:
    """Return whether this worker writes the files that are the same on all workers."""
    resolver = strategy.cluster_resolver
    if resolver is None or num_workers(strategy) == 1:
        return True
    has_chief = "chief" in resolver.cluster_spec().as_dict()
    return bool(resolver.task_type == "chief" if has_chief else resolver.task_id == 0)
