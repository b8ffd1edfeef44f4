"""`input_fn`, `distribute`, `load`: a dataset's batches as a `tf.data.Dataset`.

train = input_fn(uri, split="train[:90%]", batch_size=64, features="image", label="label")
model.fit(train, epochs=3)
"""

from typing import Any

try:
    import tensorflow as tf
except ModuleNotFoundError as error:
    raise ImportError(
        "input_fn, distribute and load need TensorFlow: run pip install 'tfx-shards[tensorflow]'. "
        "trainer_utils.iterate, torch_dataset and jax_batches do without it."
    ) from error

from trainer_utils.dataset import open_dataset, uri_of
from trainer_utils.dataset.location import Artifacts, Inputs, group_artifacts
from trainer_utils.format import DatasetError, TfxShardsError, resolve_slices
from trainer_utils.frameworks.numpy import Input
from trainer_utils.frameworks.tensor_input import TensorInput
from trainer_utils.options import InputOptions, choose_options, shows_settings
from trainer_utils.order import InputState


@shows_settings
def input_fn(
    artifact_uri: Inputs,
    split: str | None = None,
    *,
    options: InputOptions | None = None,
    input_context: tf.distribute.InputContext | None = None,
    **settings: Any,
) -> tf.data.Dataset:
    """Reads a dataset as batches of tensors.

    Args:
        artifact_uri: a uri, a TFX artifact, a pattern of `fn_args.train_files`, or a list of
            these, read one after the other (with `shuffle`: mixed). Local or of an object store;
            written by us, by Datum, by TFDS or by a stock ExampleGen.
        split: a split or slices of splits: `train`, `train[:80%]`, `train[10%:]+eval`. None: the
            one that a pattern names, else `train`.
        options: all settings; see `InputOptions`.
        input_context: of `tf.distribute`; each input pipeline gets an equal part of every batch.
        settings: fields of `InputOptions`, which go before those of `options`.

    Returns:
        A dataset of known cardinality, but where it begins within an epoch. Images are
        `(batch, height, width, channels) uint8`; other features are `(batch, *shape)`: int64,
        float32 or string. Variable lengths are padded with zeros or empty strings. Iterated over
        again after it was read to the end, it is in its next epoch. It has `features`,
        `class_names` and `num_classes`; its `state(step)` gives the token to go on from, its
        `resumed_at(token)` the same input from there on.

    Raises:
        DatasetError: no dataset, not whole, or without that split or feature.
        ConfigError: a setting is not allowed, or the plan is impossible.
    """
    chosen = choose_options(options, settings, of=input_fn)
    shared = {} if input_context is None else {
        "worker": input_context.input_pipeline_id,
        "num_workers": input_context.num_input_pipelines,
        "num_replicas": input_context.num_replicas_in_sync,
    }  # fmt: skip
    source = Input.open(artifact_uri, split, chosen, callbacks=False, **shared)
    tensors = TensorInput(source, is_shared=input_context is not None)

    def resumed_at(state: InputState) -> tf.data.Dataset:
        resumed = chosen.replace(state=state)
        return input_fn(artifact_uri, split, options=resumed, input_context=input_context)

    return tensors.attach_to(tensors.dataset(), resumed_at)


@shows_settings
def distribute(
    strategy: tf.distribute.Strategy,
    artifact_uri: Inputs,
    split: str | None = None,
    *,
    options: InputOptions | None = None,
    **settings: Any,
) -> tf.distribute.DistributedDataset:
    """Reads a dataset for a strategy, each worker its own equal part of every batch.

    Args:
        strategy: `MirroredStrategy`, `MultiWorkerMirroredStrategy` or another.
        artifact_uri, split: as `input_fn` takes them.
        options, settings: as `input_fn` takes them; `batch_size` is the GLOBAL batch, a multiple
            of the replicas where there are several workers.

    Returns:
        A distributed dataset, to iterate over or to hand to Keras. On one worker its cardinality
        is known and its last batch is shared out among the replicas. On several workers all take
        the same number of steps. It has what the dataset of `input_fn` has.

    Raises:
        DatasetError, ConfigError: as `input_fn`.
    """
    chosen = choose_options(options, settings, of=distribute)
    made: list[tf.data.Dataset] = []

    def dataset_fn(context: tf.distribute.InputContext | None) -> tf.data.Dataset:
        made.append(input_fn(artifact_uri, split, options=chosen, input_context=context))
        return made[-1]

    if num_workers(strategy) == 1:  # its layout knows no replicas: TensorFlow divides
        distributed = strategy.experimental_distribute_dataset(dataset_fn(None))
        made[0].input_pipeline.report_empty(divided=strategy.num_replicas_in_sync)
    else:
        distributed = strategy.distribute_datasets_from_function(dataset_fn)

    def resumed_at(state: InputState) -> tf.distribute.DistributedDataset:
        return distribute(strategy, artifact_uri, split, options=chosen.replace(state=state))

    return made[0].tensor_input.attach_to(distributed, resumed_at)


def load(
    artifact_uri: Artifacts, *, options: InputOptions | None = None, **settings: Any
) -> dict[str, tf.data.Dataset]:
    """Reads every split of a dataset.

    Args:
        artifact_uri: as `input_fn` takes it. Of a list, the splits that all of them have.
        options: of all splits; see `InputOptions`. `pre_batching_callback` and
            `post_batching_callback` may differ by split.
        settings: fields of `InputOptions`, which go before those of `options`.

    Returns:
        What `input_fn` gives, by split, in the dataset's order.

    Raises:
        DatasetError: there is no dataset, it is not whole, or they have no split in common.
        ConfigError: a setting is not allowed.
    """
    chosen = choose_options(options, settings, of=load)
    artifacts = artifact_uri if isinstance(artifact_uri, (list, tuple)) else [artifact_uri]
    uris = list(dict.fromkeys(map(uri_of, artifacts)))
    places = group_artifacts(uris, apart=chosen.weights is not None)
    datasets = [open_dataset(place).records for place, _ in places]
    splits = [
        split for split in next(iter(datasets), {}) if all(split in records for records in datasets)
    ]
    if not splits:
        raise DatasetError(f"artifact_uri: expected datasets with a split in common, got {uris}")
    return _Splits({split: input_fn(uris, split, options=chosen) for split in splits})


class _Splits(dict[str, tf.data.Dataset]):
    """Datasets by split, which know the other usual spellings of a split's name."""

    def __missing__(self, name: str) -> tf.data.Dataset:
        try:
            (found,) = resolve_slices(str(name), dict.fromkeys(self, 0))
        except TfxShardsError as error:
            raise KeyError(str(error)) from None
        return self[found.split]


def num_workers(strategy: tf.distribute.Strategy) -> int:
    """The processes that train together under a strategy, of which this is one."""
    resolver = strategy.cluster_resolver
    if resolver is None or not resolver.cluster_spec():
        return 1
    jobs = resolver.cluster_spec().as_dict()
    return sum(len(tasks) for job, tasks in jobs.items() if job in ("chief", "worker")) or 1


def is_chief(strategy: tf.distribute.Strategy) -> bool:
    """Whether this worker writes what all of them have alike."""
    resolver = strategy.cluster_resolver
    if resolver is None or num_workers(strategy) == 1:
        return True
    has_chief = "chief" in resolver.cluster_spec().as_dict()
    return bool(resolver.task_type == "chief" if has_chief else resolver.task_id == 0)
