"""`input_fn`: a dataset's examples as batches for a trainer.

train = input_fn(uri, split="train[:90%]", batch_size=64, features="image", label="label")
model.fit(train, epochs=3)
"""

import functools
import logging
from collections.abc import Mapping, Sequence
from typing import Any

import tensorflow as tf

from trainer_utils.dataset.location import Artifacts, Place
from trainer_utils.dataset.opening import open_dataset
from trainer_utils.dataset.selection import (
    Source,
    digest_of,
    merged_features,
    open_sources,
    source_of,
)
from trainer_utils.format import ConfigError, DatasetError, Feature
from trainer_utils.options import InputOptions, choose_options, shows_settings
from trainer_utils.order import InputState
from trainer_utils.planning import check_has_records, order_of
from trainer_utils.reading.audio import check_batches
from trainer_utils.reading.batching import callback_of
from trainer_utils.reading.data_service import read_by_data_service
from trainer_utils.reading.epoch_batches import EpochBatches
from trainer_utils.reading.epochs import EpochCounter, EpochSequence, EpochStart
from trainer_utils.reading.read_timer import add_read_timer
from trainer_utils.reading.readers import WorkerReading, readers_of
from trainer_utils.reading.remade import Remade, collect_remade, let_go_with
from trainer_utils.reading.tuning import device_of, tf_options

__all__ = ["InputPipeline", "input_fn"]

_logger = logging.getLogger(__name__)


@shows_settings
def input_fn(
    artifact_uri: Artifacts,
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
        A dataset of known cardinality, but with `on_corrupt="skip"`, with a `device`, and where it
        begins later than at step 0. Images are `(batch, height, width, channels) uint8`; other
        features are `(batch, *shape)`: int64, float32 or string. Variable lengths are padded with
        zeros or empty strings. Iterated over again, it is in its next epoch. Its `state(step)`
        gives the token to go on from, its `resumed_at(token)` the same input from there on.

    Raises:
        DatasetError: no dataset, not whole, or without that split or feature.
        ConfigError: a setting is not allowed, or the plan is impossible.
    """
    own = ("split", "options", "input_context")
    chosen = choose_options(options, settings, of="input_fn", arguments=own)
    sources = open_sources(artifact_uri, split, apart=chosen.weights is not None)
    dataset = InputPipeline(sources, chosen, input_context).dataset
    if chosen.data_service is None:
        dataset.resumed_at = lambda state: input_fn(
            artifact_uri,
            split,
            options=chosen.replace(state=state, start_step=0),
            input_context=input_context,
        )
    return dataset


class InputPipeline:
    """What one worker reads, how, and where it is.

    Args:
        sources: what is read.
        options: all settings.
        context: of `tf.distribute`; None: this is the only worker.

    Attributes:
        sources: what is read.
        worker: which one this is, from 0.
        order: which record comes at which step.
        start: the token of where the input begins.
        epoch_counter: the number of the epoch that the next iterator reads; None with a data
            service, which has no order to go on in.
        dataset: the batches.

    Raises:
        DatasetError, ConfigError: as `input_fn`.
    """

    def __init__(
        self,
        sources: Sequence[Source],
        options: InputOptions,
        context: tf.distribute.InputContext | None = None,
    ) -> None:
        self.sources = sources
        self._options = options
        self._is_shared = context is not None
        workers = context.num_input_pipelines if context else 1
        replicas = context.num_replicas_in_sync if context else 1
        self.order = order_of(sources, options, num_workers=workers, num_replicas=replicas)
        self.start = self.order.start
        layout = self.order.layout
        required = (options.label, options.sample_weight)
        features = merged_features(sources, options.features, required)
        self._split_names = [name for source in sources for name in source.split_names]
        self._check_image_sizes(features, layout.rows_per_replica)
        if options.batch_size is not None and layout.rows_per_replica > 1:
            check_batches(features, options.audio)
        self.worker = context.input_pipeline_id if context else 0
        if self.worker == 0 or options.repeat is True:
            check_has_records(sources, options)
        self._report_empty(layout.empty_replicas, layout.num_replicas)
        self.epoch_counter: EpochCounter | None = None
        # Our own functions are graphs as they stand; looking through them would take a second.
        build = self._read if options.data_service is None else self._read_by_data_service
        with collect_remade() as made:
            reading = Remade(
                functools.partial(
                    _read_again,
                    [(_place_of(source), source.split) for source in sources],
                    options.replace(pre_batching_callback=None, post_batching_callback=None),
                    workers=workers,
                    replicas=replicas,
                    worker=self.worker,
                    digest=digest_of(sources),
                ),
                WorkerReading(self.order.strategy(self.worker), readers_of(sources, options)),
            )
            self.batches = EpochBatches(sources, features, options, reading)
            self.dataset = tf.autograph.experimental.do_not_convert(build)()
        let_go_with(self, made)
        self.attach_to(self.dataset)

    @property
    def yields_mask(self) -> bool:
        """Whether the third part of each batch is 0 in rows that fill it up, and nothing else."""
        options = self._options
        is_pair = options.label is not None and options.sample_weight is None
        return options.remainder == "pad" and is_pair

    def state(self, step: int) -> InputState:
        """The token to go on from after so many steps of all epochs, by the trainer's count."""
        options = self._options
        for lost in sorted(self.batches.lost_batches if options.batch_size is not None else ()):
            if lost * options.echoing <= step:
                step += options.echoing
        return self.order.state(step)

    def attach_to(self, dataset: Any) -> None:
        """Gives a dataset what `input_fn` promises beside a `tf.data.Dataset`.

        That is `state(step)`, `input_start`, `input_epoch` and `input_steps` of its order, and
        `unreadable`: why each record that was skipped could not be read. The batches of a data
        service come in no order, and have none of these.
        """
        if self._options.data_service is not None:
            return
        dataset.input_pipeline = self
        dataset.state = self.state
        dataset.input_start, dataset.input_epoch = self.start, self.epoch_counter
        dataset.input_steps = self.order.steps_per_epoch
        dataset.unreadable = self.batches.unreadable

    def _read(self) -> tf.data.Dataset:
        order, options = self.order, self._options
        elements = self.batches.elements_per_step
        read_step, skipped_steps = divmod(self.start.step, order.batches_per_read)
        sequence = EpochSequence(
            self.batches.read,
            self.batches.finish,
            start=EpochStart(
                epoch=self.start.epoch,
                step=read_step,
                consumed_elements=self.start.step * elements,
                skipped_elements=skipped_steps * elements,
            ),
            elements=order.steps_per_epoch * elements,
            is_exact=options.on_corrupt != "skip",
        )
        self.epoch_counter = sequence.counter
        dataset = add_read_timer(sequence.dataset(options.repeat)).with_options(
            tf_options(is_shared=self._is_shared)
        )
        if (device := device_of(options.device)) is not None:
            dataset = dataset.apply(tf.data.experimental.prefetch_to_device(device))
        return dataset

    def _read_by_data_service(self) -> tf.data.Dataset:
        options = self._options
        if self.order.layout.num_workers > 1:
            raise ConfigError.of(
                "data_service",
                options.data_service,
                allowed="None for several input pipelines, which would wait for one another",
            )
        batches = read_by_data_service(
            self.order.ranges,
            functools.partial(self.batches.batch, epoch=None, has_own_order=False),
            options,
            window_records=self.order.window_records,
        )
        finished = self.batches.finish(batches, tf.constant(0, tf.int64))
        return finished.with_options(tf_options(is_shared=self._is_shared))

    def check_replicas(self, num_replicas: int) -> None:
        """Refuses or reports batches that TensorFlow cannot divide among a worker's replicas.

        Raises:
            ConfigError: `remainder="balance"` would leave one of them without a record.
        """
        self.order.layout.check_divided(num_replicas)
        self._report_empty(self.order.layout.empty_divided(num_replicas), num_replicas)

    def _report_empty(self, empty: int, num_replicas: int) -> None:
        if self.worker == 0 and self._options.batch_size is not None and empty:
            _logger.warning(
                "remainder=None: the last batch of %d records leaves %d of %d replicas without "
                "any. With 'balance' or 'pad' each has some.",
                self.order.layout.rest[-1],
                empty,
                num_replicas,
            )

    def _check_image_sizes(self, features: Mapping[str, Feature], rows: int) -> None:
        options = self._options
        if options.image_size is not None or options.batch_size is None or rows == 1:
            return
        hook = options.pre_batching_callback
        if callback_of("pre_batching_callback", hook, self._split_names) is not None:
            return  # it may resize them; if it does not, TensorFlow says which shapes differ
        for name, feature in features.items():
            if feature.has_pixels and feature.extra.get("sizes") == "mixed":
                raise ConfigError(
                    f"image_size: expected (height, width), since the images of {name!r} differ "
                    "in size and cannot be batched as they are, got None. Or resize them in a "
                    "pre_batching_callback, or read them one by one, with batch_size=None.",
                    setting="image_size",
                )


def _place_of(source: Source) -> Place:
    place = source.place
    return place if isinstance(place, str) else tuple(place)


def _read_again(
    read: Sequence[tuple[Place, str]],
    options: InputOptions,
    *,
    workers: int,
    replicas: int,
    worker: int,
    digest: str,
) -> WorkerReading:
    """What a worker reads by, of places and slices, after it was let go.

    Raises:
        DatasetError: another dataset is there now.
    """
    sources = [source_of(open_dataset(place), split) for place, split in read]
    if digest_of(sources) != digest:
        raise DatasetError.at(
            ", ".join(str(place) for place, _ in read),
            expected="the dataset that the input was made for",
            got="another",
            advice="It was written anew: call input_fn again.",
        )
    order = order_of(sources, options, num_workers=workers, num_replicas=replicas)
    return WorkerReading(order.strategy(worker), readers_of(sources, options))
