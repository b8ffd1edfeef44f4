"""`input_fn`: a dataset's examples as batches for a trainer.

train = input_fn(uri, split="train[:90%]", batch_size=64, features="image", label="label")
model.fit(train, epochs=3)
"""

import dataclasses
import itertools
from collections.abc import Iterable, Sequence
from typing import Any

import tensorflow as tf

from trainer_utils.audio import check_batches
from trainer_utils.dataset import Dataset, FileRange, open_dataset
from trainer_utils.decoding import DecodeOptions
from trainer_utils.format import ConfigError, DatasetError, Feature, resolve_slices
from trainer_utils.machine import usable_cores
from trainer_utils.merging import merged
from trainer_utils.parsing import ExampleParser
from trainer_utils.randomness import with_epoch_seed
from trainer_utils.waiting import watched

__all__ = ["input_fn"]

_SHUFFLE_BYTES = 256 << 20  # of serialized records held to be shuffled
_READ_BYTES = 1 << 20  # a file; larger reads are no faster on disk
_FILES_AT_ONCE = 16  # mixes shards well, and holds 16 MiB of read buffers
_RECORDS_A_TURN = 16  # from a file before the next one's turn: 1 costs a third of the speed of text


def input_fn(
    artifact_uri: Any,
    split: str = "train",
    *,
    batch_size: int | None = 64,
    features: str | Sequence[str] | None = None,
    label: str | None = None,
    shuffle: bool = True,
    seed: int = 0,
    repeat: bool | int = False,
    drop_remainder: bool = False,
    image_size: tuple[int, int] | None = None,
    prefetch: int = 2,
    input_context: tf.distribute.InputContext | None = None,
    **decoding: Any,
) -> tf.data.Dataset:
    """Reads a dataset as batches of tensors.

    Args:
        artifact_uri: a uri, a TFX artifact, a pattern of `fn_args.train_files`, or a list of
            these, read one after the other (with `shuffle`: mixed). Local or `gs://`; written by
            us, by Datum or by a stock ExampleGen.
        split: a split or slices of splits: `train`, `train[:80%]`, `train[10%:]+eval`.
        batch_size: of the GLOBAL batch: with an `input_context` each replica gets its share.
            None: single examples, not batched.
        features: None: a dict of all features; a name: that feature's tensor; a list of names: a
            dict of these. Features that are not asked for are not parsed.
        label: the feature that is yielded as the second of a pair, as Keras wants it.
        shuffle: shards and records in another order each epoch.
        seed: of all orders.
        repeat: True: without end; a number: so many epochs.
        drop_remainder: leave out a last batch that is not full, so that shapes are static.
        image_size: `(height, width)` in pixels to resize images to; needed for batches of images
            that differ in size.
        prefetch: batches made ahead of the trainer.
        input_context: of `tf.distribute`; each input pipeline gets an equal range of the records
            (the few left over by the division are left out).
        decoding: what images, sounds and sequences are to become, as `DecodeOptions` explains:
            `resize`, `channels`, `augment`, `flip`, `normalize`, `dct_scaling`, `crop_area`,
            `crop_aspect`, `audio_seconds`, `ragged`.

    Returns:
        A dataset of known cardinality. Images are `(batch, height, width, channels) uint8`; other
        features are `(batch, *shape)`: int64, float32 or string. Variable lengths are padded with
        zeros or empty strings.

    Raises:
        DatasetError: no dataset, not whole, or without that split or feature.
        ConfigError: a setting is not allowed.
    """
    _check_settings(features, label, seed=seed, repeat=repeat, prefetch=prefetch)
    uris = artifact_uri if isinstance(artifact_uri, (list, tuple)) else [artifact_uri]
    datasets = [open_dataset(uri) for uri in uris]
    if not datasets:
        raise ConfigError("artifact_uri: expected a uri or a list of them, got an empty list")
    options = DecodeOptions(image_size=image_size, **decoding)
    local_batch_size = _local_batch_size(batch_size, input_context)
    selected = _select(datasets, features, label)
    _check_image_sizes(selected, image_size, local_batch_size)
    if local_batch_size not in (None, 1):
        check_batches(selected, options.audio)
    ranges = [
        part
        for dataset in datasets
        for wanted in resolve_slices(split, dataset.records)
        for part in dataset.file_ranges(wanted)
    ]
    if input_context is not None:
        ranges = _share(ranges, input_context.input_pipeline_id, input_context.num_input_pipelines)
    parser = ExampleParser(selected, options)
    dataset = _read(ranges, shuffle=shuffle, seed=seed)
    if shuffle:
        dataset = dataset.shuffle(_shuffle_records(datasets, ranges), seed=seed)
    if parser.is_random:
        dataset = with_epoch_seed(dataset, seed)
    dataset = _batch(dataset, parser, local_batch_size, drop_remainder)
    if repeat is not False:
        dataset = dataset.repeat(None if repeat is True else repeat)
    shape = _Shape(features, label)
    dataset = watched(dataset.map(shape.arrange).prefetch(prefetch))
    return dataset.with_options(_options(is_sharded=input_context is not None))


def _check_settings(features: Any, label: Any, *, seed: Any, repeat: Any, prefetch: Any) -> None:
    are_names = isinstance(features, (str, list, tuple)) and bool(features or label)
    rules = {
        "features": (features is None or are_names, "a name or names of features, or None"),
        "seed": (_is_int(seed), "an int"),
        "repeat": (
            isinstance(repeat, bool) or (_is_int(repeat) and repeat > 0),
            "a bool or a number of epochs of at least 1",
        ),
        "prefetch": (_is_int(prefetch) and prefetch >= -1, "an int of at least 0, or AUTOTUNE"),
    }
    given = {"features": features, "seed": seed, "repeat": repeat, "prefetch": prefetch}
    for name, (is_allowed, rule) in rules.items():
        if not is_allowed:
            raise ConfigError(f"{name}: expected {rule}, got {given[name]!r}")


def _is_int(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


@dataclasses.dataclass(frozen=True)
class _Shape:
    """What one element looks like."""

    features: str | Sequence[str] | None
    label: str | None

    def arrange(self, tensors: dict[str, tf.Tensor]) -> Any:
        rest = {name: value for name, value in tensors.items() if name != self.label}
        inputs: Any = rest
        if isinstance(self.features, str):
            inputs = tensors[self.features]
        elif self.features is not None:
            inputs = {name: tensors[name] for name in self.features}
        return inputs if self.label is None else (inputs, tensors[self.label])


def _local_batch_size(
    batch_size: int | None, context: tf.distribute.InputContext | None
) -> int | None:
    if batch_size is None:
        return None
    if not _is_int(batch_size) or batch_size < 1:
        raise ConfigError(f"batch_size: expected an int of at least 1, got {batch_size!r}")
    if context is None:
        return batch_size
    replicas = int(context.num_replicas_in_sync)
    if batch_size % replicas:
        raise ConfigError(
            f"batch_size: expected a multiple of the {replicas} replicas, got {batch_size}"
        )
    return batch_size // replicas


def _select(
    datasets: Sequence[Dataset], features: str | Sequence[str] | None, label: str | None
) -> dict[str, Feature]:
    """The features to parse. All datasets must have them alike."""
    first = datasets[0]
    if features is None:
        names = list(first.features)
    else:
        names = [features] if isinstance(features, str) else list(features)
    if label is not None and label not in names:
        names.append(label)
    for dataset in datasets:
        for name in names:
            if name not in dataset.features:
                raise DatasetError(
                    f"feature {name!r}: expected one of {', '.join(dataset.features)} "
                    f"({dataset.uri})"
                )
            mine, others = first.features[name], dataset.features[name]
            if _likeness(mine) != _likeness(others):
                raise DatasetError(
                    f"feature {name!r}: expected the same in all datasets, got {mine} "
                    f"({first.uri}) and {others} ({dataset.uri})"
                )
    return {name: merged([dataset.features[name] for dataset in datasets]) for name in names}


def _likeness(feature: Feature) -> tuple[Any, ...]:
    """What must be the same for examples of two datasets to be batched together."""
    shape = feature.shape if feature.dense and not feature.is_image else len(feature.shape)
    stored = feature.extra.get("encoding"), feature.extra.get("image_shape")
    return feature.type, feature.dense, shape, stored


def _check_image_sizes(
    features: dict[str, Feature], image_size: tuple[int, int] | None, batch_size: int | None
) -> None:
    if image_size is None and batch_size is not None and batch_size > 1:
        for name, feature in features.items():
            if feature.is_image and feature.extra.get("sizes") == "mixed":
                raise ConfigError(
                    f"image_size: expected (height, width), since the images of {name!r} differ "
                    "in size and cannot be batched as they are, got None. "
                    "Or read them one by one, with batch_size=None."
                )


def _share(ranges: Sequence[FileRange], index: int, count: int) -> list[FileRange]:
    """The `index`-th of `count` equal ranges of records; the rest of the division is left out."""
    share = sum(part.take for part in ranges) // count
    start, stop = index * share, (index + 1) * share
    mine = []
    first = 0
    for part in ranges:
        begin, end = max(start, first), min(stop, first + part.take)
        if begin < end:
            to_end = part.to_end and end == first + part.take
            mine.append(FileRange(part.path, part.skip + begin - first, end - begin, to_end))
        first += part.take
    return mine


def _read(ranges: Sequence[FileRange], *, shuffle: bool, seed: int) -> tf.data.Dataset:
    """Serialized records of all ranges; in file order, or in turns among shuffled files."""
    files = tf.data.Dataset.from_tensor_slices(
        {
            "path": tf.constant([part.path for part in ranges], tf.string),
            "compression": tf.constant(
                ["GZIP" if part.path.endswith(".gz") else "" for part in ranges], tf.string
            ),
            "skip": tf.constant([part.skip for part in ranges], tf.int64),
            "take": tf.constant([part.take for part in ranges], tf.int64),
            # -1: all, so that a file with more records than it should have is found.
            "limit": tf.constant([-1 if part.to_end else part.take for part in ranges], tf.int64),
        }
    )

    def read_file(part: dict[str, tf.Tensor]) -> tf.data.Dataset:
        records = tf.data.TFRecordDataset(part["path"], part["compression"], _READ_BYTES)
        records = records.skip(part["skip"]).take(part["limit"])
        return records.apply(tf.data.experimental.assert_cardinality(part["take"]))

    if shuffle and len(ranges) > 1:
        files = files.shuffle(len(ranges), seed=seed)
        records = files.interleave(
            read_file,
            cycle_length=min(len(ranges), _FILES_AT_ONCE),
            block_length=_RECORDS_A_TURN,
            num_parallel_calls=min(len(ranges), usable_cores()),
            deterministic=True,
        )
    else:
        records = files.flat_map(read_file)
    # Lets Keras know the steps.
    return records.apply(tf.data.experimental.assert_cardinality(sum(part.take for part in ranges)))


def _shuffle_records(datasets: Iterable[Dataset], ranges: Sequence[FileRange]) -> int:
    """How many records to hold for shuffling: as many as fit the bytes, of those there are."""
    shards = list(
        itertools.chain.from_iterable(
            group for dataset in datasets for group in dataset.shards.values()
        )
    )
    records = sum(shard.records for shard in shards)
    mean_bytes = sum(shard.bytes for shard in shards) / max(records, 1)
    wanted = sum(part.take for part in ranges)
    return max(1, min(wanted, int(_SHUFFLE_BYTES / max(mean_bytes, 1))))


def _batch(
    dataset: tf.data.Dataset,
    parser: ExampleParser,
    batch_size: int | None,
    drop_remainder: bool,
) -> tf.data.Dataset:
    cores = usable_cores()
    if batch_size is not None and parser.is_vectorised:
        batches = dataset.batch(batch_size, drop_remainder=drop_remainder)
        return batches.map(parser.batch, num_parallel_calls=cores, deterministic=True)
    # Two more than cores: a slow image must not hold up the order.
    examples = dataset.map(parser.example, num_parallel_calls=cores + 2, deterministic=True)
    if batch_size is None:
        return examples
    if parser.has_variable_length:
        if batch_size > 1:  # padding is for lists: images must be of one size
            examples = examples.map(parser.with_image_shapes)
        if parser.options.ragged:
            return examples.ragged_batch(batch_size, drop_remainder=drop_remainder)
        return examples.padded_batch(batch_size, drop_remainder=drop_remainder)
    return examples.batch(batch_size, drop_remainder=drop_remainder)


def _options(*, is_sharded: bool) -> tf.data.Options:
    options = tf.data.Options()
    # Threads of our own, as many as there are cores; ops that split up an image's pixels among
    # them cost more than they gain, since there are images enough.
    options.threading.private_threadpool_size = usable_cores()
    options.threading.max_intra_op_parallelism = 1
    # tf.data's autotuner thread holds up the end of an iterator for as much as a second.
    options.autotune.enabled = False
    options.deterministic = True
    policy = tf.data.experimental.AutoShardPolicy
    options.experimental_distribute.auto_shard_policy = policy.OFF if is_sharded else policy.DATA
    return options
