"""`input_fn`: a dataset's examples as batches for a trainer.

train = input_fn(uri, split="train[:90%]", batch_size=64, features="image", label="label")
model.fit(train, epochs=3)
"""

import dataclasses
import functools
import inspect
import logging
from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from trainer_utils.dataset.opening import FileRange
from trainer_utils.dataset.selection import Source, digest_of, merged_features, open_sources
from trainer_utils.format import ConfigError, Feature
from trainer_utils.format.file_ranges import cut
from trainer_utils.machine import usable_cores
from trainer_utils.monitoring.waiting import watched
from trainer_utils.options import InputOptions, chosen_options
from trainer_utils.order.layout import Layout
from trainer_utils.order.mixing import mixed_ranges
from trainer_utils.order.state import InputState, first_state, state_at, steps_per_epoch
from trainer_utils.planning import SINGLES_AT_ONCE, layout_of
from trainer_utils.reading.audio import check_batches
from trainer_utils.reading.batching import Arrangement, batched, callback_of, echoed
from trainer_utils.reading.damage import without_unreadable
from trainer_utils.reading.data_service import served
from trainer_utils.reading.dataflow import flat_mapped, mapped
from trainer_utils.reading.dealing import deal
from trainer_utils.reading.epochs import EpochCounter, Position, epochs
from trainer_utils.reading.orders import Order, order_of, window_records_of
from trainer_utils.reading.parsing import ExampleParser
from trainer_utils.reading.pieces import columns_of
from trainer_utils.reading.readers import Readers, readers_of
from trainer_utils.reading.records import stream
from trainer_utils.reading.tuning import device_of, tf_options

__all__ = ["STATE_ATTRIBUTES", "input_fn"]

_logger = logging.getLogger(__name__)
_PRIME = 2**31 - 1
STATE_ATTRIBUTES = ("state", "input_start", "input_steps", "input_epoch", "unreadable")
"""What a dataset of `input_fn` has beside what a `tf.data.Dataset` has."""


def input_fn(
    artifact_uri: Any,
    split: str | None = None,
    *,
    options: InputOptions | None = None,
    input_context: tf.distribute.InputContext | None = None,
    **settings: Any,
) -> tf.data.Dataset:
    """Reads a dataset as batches of tensors.

    Args:
        artifact_uri: a uri, a TFX artifact, a pattern of `fn_args.train_files`, or a list of
            these, read one after the other (with `shuffle`: mixed). Local or `gs://`; written by
            us, by Datum or by a stock ExampleGen.
        split: a split or slices of splits: `train`, `train[:80%]`, `train[10%:]+eval`. None: the
            one that a pattern names, else `train`.
        options: all settings; see `InputOptions`.
        input_context: of `tf.distribute`; each input pipeline gets an equal part of every batch.
        settings: fields of `InputOptions`, which go before those of `options`.

    Returns:
        A dataset of known cardinality. Images are `(batch, height, width, channels) uint8`; other
        features are `(batch, *shape)`: int64, float32 or string. Variable lengths are padded with
        zeros or empty strings. Iterated over again, it is in its next epoch. Its `state(step)`
        gives the token to go on from.

    Raises:
        DatasetError: no dataset, not whole, or without that split or feature.
        ConfigError: a setting is not allowed, or the plan is impossible.
    """
    own = ("split", "options", "input_context")
    chosen = chosen_options(options, settings, of="input_fn", also=own)
    sources = open_sources(artifact_uri, split)
    make = _Input.of(sources, chosen, input_context).dataset
    # Our own functions are graphs as they stand; looking through them would take a second.
    return tf.autograph.experimental.do_not_convert(make)()


def _full_signature() -> inspect.Signature:
    """What help() and editors show: all settings by name."""
    own = inspect.signature(input_fn)
    settings = inspect.signature(InputOptions).parameters.values()
    return own.replace(parameters=[*list(own.parameters.values())[:-1], *settings])


vars(input_fn)["__signature__"] = _full_signature()


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Input:
    """What one input pipeline reads, and how."""

    sources: Sequence[Source]
    options: InputOptions
    layout: Layout
    worker: int
    is_shared: bool
    features: dict[str, Feature]
    ranges: Sequence[FileRange]
    order: Order
    window_records: int
    readers: Readers
    lost: set[int] = dataclasses.field(default_factory=set)
    """Batches, of all epochs, that were left out since none of their records could be read."""

    @classmethod
    def of(
        cls,
        sources: Sequence[Source],
        options: InputOptions,
        context: tf.distribute.InputContext | None,
    ) -> "_Input":
        ranges = mixed_ranges(sources, options.weights)
        workers = context.num_input_pipelines if context else 1
        layout = layout_of(
            sum(part.take for part in ranges),
            options,
            workers=workers,
            replicas=context.num_replicas_in_sync if context else 1,
        )
        also = (options.label, options.sample_weight)
        features = merged_features(sources, options.features, also)
        _check_image_sizes(features, options, layout.rows_per_replica)
        if options.batch_size is not None and layout.rows_per_replica > 1:
            check_batches(features, options.audio)
        worker = context.input_pipeline_id if context else 0
        readers = readers_of(sources, options)
        window = window_records_of(sources, options)
        if worker == 0 and options.batch_size is not None and layout.empty_replicas:
            _logger.warning(
                "remainder=None: the last batch of %d records leaves %d of %d replicas without "
                "any. With 'balance' or 'pad' each has some.",
                layout.rest[-1],
                layout.empty_replicas,
                layout.num_replicas,
            )
        return cls(
            sources=sources,
            options=options,
            layout=layout,
            worker=worker,
            is_shared=context is not None,
            features=features,
            ranges=ranges,
            order=order_of(ranges, options, layout, worker, readers.read, readers.shards, window),
            window_records=window,
            readers=readers,
        )

    @property
    def skips(self) -> bool:
        """Whether damaged records are left out."""
        return self.options.on_corrupt == "skip"

    @property
    def split_names(self) -> list[str]:
        """Of all splits that are read."""
        return [name for source in self.sources for name in source.split_names]

    @property
    def replicas(self) -> int:
        """Elements that a step takes of this pipeline."""
        return self.layout.replicas_per_worker

    def dataset(self) -> tf.data.Dataset:
        """The dataset, with `state` to ask for tokens."""
        options, layout, digest = self.options, self.layout, digest_of(self.sources)
        start = first_state(options, layout, digest)
        if options.data_service is not None:
            return self._served()
        # Steps that one batch of records makes; without a batch size, examples read at once.
        unit = options.echoing * (1 if options.batch_size else SINGLES_AT_ONCE)
        counter = EpochCounter(start.epoch)
        dataset = epochs(
            self._epoch,
            self._finished,
            counter=counter,
            start=Position(epoch=start.epoch, step=start.step // unit),
            elements=steps_per_epoch(options, layout) * self.replicas,
            passed=start.step * self.replicas,
            ahead=start.step % unit * self.replicas,
            repeat=options.repeat,
            is_exact=not self.skips,
        )
        dataset = watched(dataset).with_options(tf_options(is_shared=self.is_shared))
        if (device := device_of(options.device)) is not None:
            dataset = dataset.apply(tf.data.experimental.prefetch_to_device(device))
        dataset.state = functools.partial(self._state, digest)
        dataset.input_start, dataset.input_epoch = start, counter
        dataset.input_steps = steps_per_epoch(options, layout)
        dataset.unreadable = self.readers.shards.unreadable
        return dataset

    def _state(self, digest: str, step: int) -> InputState:
        """The token after so many steps of all epochs, by the count of who took the batches."""
        for lost in sorted(self.lost if self.options.batch_size is not None else ()):
            if lost * self.options.echoing <= step:
                step += self.options.echoing
        return state_at(step, self.options, self.layout, digest)

    def _epoch(self, epoch: tf.Tensor, step: tf.Tensor) -> tf.data.Dataset:
        """The batches of an epoch from a step on."""
        layout, options = self.layout, self.options
        is_static = options.drop_remainder or options.remainder in ("drop", "pad")
        vectors = self.order(epoch, step)
        if self.skips:
            vectors = vectors.concatenate(self._told(epoch))
        elements = deal(
            vectors,
            layout=layout,
            padded=layout.share(self.worker).padded,
            is_static=is_static,
            filler=self._filler if options.remainder == "pad" else None,
        )
        if self.readers.sums:
            elements = self._compared(elements, last=(layout.steps - step) * self.replicas - 1)
        spare = self._spare
        if self.skips and spare is not None:
            elements = without_unreadable(
                elements,
                keeps_rows=is_static,
                keeps_elements=layout.num_replicas > 1,
                spare=spare,
                first=epoch * layout.steps + step,
                lose=self.lost.add,
            )
        are_full = is_static or not (self.skips or self.has_short_elements)
        return batched(
            elements,
            parser=ExampleParser(self.features, options),
            epoch_seed=_epoch_seed(options.seed, epoch),
            options=options,
            split_names=self.split_names,
            rows=layout.rows_per_replica,
            are_full=are_full,
            spare=spare,
            finish=_unchanged if self.is_finished_later else self.arrangement.arrange,
        )

    @property
    def has_short_elements(self) -> bool:
        """Whether others than the last element have fewer rows than a replica's, or it has none."""
        return len(self.layout.rest) * self.replicas > 1 or self.layout.empty_replicas > 0

    @functools.cached_property
    def _spare(self) -> bytes | None:
        """A record to stand in where a whole element has none."""
        if not self.skips and not self.layout.empty_replicas:
            return None
        return self.readers.shards.first_readable(self.ranges)

    @property
    def arrangement(self) -> Arrangement:
        """What one element looks like."""
        return Arrangement.of(self.options)

    @property
    def is_finished_later(self) -> bool:
        """Whether something is done to batches before they are arranged for the trainer."""
        return self.options.post_batching_callback is not None

    def _served(self) -> tf.data.Dataset:
        """The batches that a tf.data service makes."""
        if self.layout.num_workers > 1:
            raise ConfigError(
                "data_service: expected None for several input pipelines, which would wait for one "
                f"another, got {self.options.data_service!r}"
            )

        def batch(vectors: tf.data.Dataset) -> tf.data.Dataset:
            return batched(
                vectors,
                parser=ExampleParser(self.features, self.options),
                options=self.options,
                split_names=self.split_names,
                rows=self.options.batch_size or 1,
                finish=_unchanged if self.is_finished_later else self.arrangement.arrange,
            )

        batches = served(self.ranges, batch, self.options, window_records=self.window_records)
        finished = self._finished(batches, tf.constant(0, tf.int64))
        return finished.with_options(tf_options(is_shared=self.is_shared))

    def _filler(self) -> tf.data.Dataset:
        """One record, whichever, to fill up batches with."""
        return stream(columns_of(cut(self.ranges, 0, 1)), self.readers.read)

    def _compared(self, elements: tf.data.Dataset, *, last: tf.Tensor) -> tf.data.Dataset:
        """The same, but the last one comes only where all files were those of the manifest.

        Whoever knows how many there are does not ask for more, and would not see what comes after.
        """

        def finish() -> bool:
            self.readers.sums.finish()
            return True

        def compared(index: tf.Tensor, element: Any) -> Any:
            is_good = tf.cond(
                tf.equal(index, last),
                lambda: tf.ensure_shape(tf.numpy_function(finish, [], tf.bool), ()),
                lambda: True,
            )
            with tf.control_dependencies([is_good]):
                return tf.nest.map_structure(tf.identity, element)

        numbers = tf.data.Dataset.range(tf.int64.max)
        return mapped(tf.data.Dataset.zip((numbers, elements)), compared)

    def _told(self, epoch: tf.Tensor) -> tf.data.Dataset:
        """No vectors, which come last, and a word on those that were skipped."""
        records = self.layout.num_records

        def tell(number: Any) -> Any:
            self.readers.shards.tell(number, records)
            self.readers.sums.finish()  # fewer come than `_compared` waits for
            return np.array([], object)

        def no_vectors(number: tf.Tensor) -> tf.data.Dataset:
            told = tf.numpy_function(tell, [number], tf.string)
            return tf.data.Dataset.from_tensor_slices(tf.reshape(told, [0, tf.size(told)]))

        return flat_mapped(tf.data.Dataset.from_tensors(epoch), no_vectors)

    def _finished(self, batches: tf.data.Dataset, ahead: tf.Tensor) -> tf.data.Dataset:
        options = self.options
        if options.echoing > 1:
            batches = echoed(batches, options.echoing, group=self.replicas)
        if self.options.start_step or self.options.state is not None:
            batches = batches.skip(ahead)
        parallel: dict[str, Any] = {"num_parallel_calls": usable_cores(), "deterministic": True}
        if self.is_finished_later:
            after = (
                callback_of(
                    "post_batching_callback", options.post_batching_callback, self.split_names
                )
                or _unchanged
            )
            arrange = self.arrangement.arrange
            batches = batches.map(lambda tensors: arrange(after(tensors)), **parallel)
        return batches.prefetch(options.prefetch)


def _unchanged(tensors: dict[str, tf.Tensor]) -> dict[str, tf.Tensor]:
    return tensors


def _check_image_sizes(features: dict[str, Feature], options: InputOptions, rows: int) -> None:
    if options.image_size is not None or options.batch_size is None or rows == 1:
        return
    for name, feature in features.items():
        if feature.is_image and feature.extra.get("sizes") == "mixed":
            raise ConfigError(
                f"image_size: expected (height, width), since the images of {name!r} differ "
                "in size and cannot be batched as they are, got None. "
                "Or read them one by one, with batch_size=None."
            )


def _epoch_seed(seed: int, epoch: tf.Tensor) -> tf.Tensor:
    """Of what is random in an epoch: the same for any number of workers, and after a restart."""
    return tf.cast(epoch, tf.int64) + tf.constant(seed % _PRIME * _PRIME, tf.int64)
