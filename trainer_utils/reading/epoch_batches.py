"""`EpochBatches`: an epoch of one worker, from records to batches.

reading = Remade(lambda: WorkerReading(order.strategy(worker), readers_of(sources, options)))
batches = EpochBatches(sources, features, options, reading)
dataset = batches.read(epoch, step)      # one element for each replica and step
"""

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt
import tensorflow as tf

from trainer_utils.dataset.selection import Source
from trainer_utils.format import Feature
from trainer_utils.format.file_ranges import cut
from trainer_utils.machine import usable_cores
from trainer_utils.reading.arrangement import Arrangement
from trainer_utils.reading.batching import callback_of, make_batches, repeat_batches
from trainer_utils.reading.damage import without_unreadable
from trainer_utils.reading.direct_reading import DirectReading, first_position
from trainer_utils.reading.labels import LabelEncoding
from trainer_utils.reading.ordered_records import ordered_records, rebatch_to_shares
from trainer_utils.reading.parsing import ExampleParser
from trainer_utils.reading.raw_ops import Element, flat_map, map_elements
from trainer_utils.reading.readers import WorkerReading, piece_reader
from trainer_utils.reading.records import columns_of, read_pieces
from trainer_utils.reading.remade import Remade

if TYPE_CHECKING:
    from trainer_utils.options import InputOptions

__all__ = ["EpochBatches"]

_PRIME = 2**31 - 1

Arrange: TypeAlias = Callable[[dict[str, tf.Tensor]], Element]
"""What a batch's dict of tensors is turned into."""


class EpochBatches:
    """What becomes of the records of one worker.

    Args:
        sources: what is read.
        features: that are parsed, by name.
        options: of the input.
        reading: the worker's order, and what reads the records.

    Attributes:
        unreadable: why each record that was skipped could not be read, by path and number.
        lost_batches: the numbers, of all epochs, of batches that were left out since none of their
            records could be read.
    """

    def __init__(
        self,
        sources: Sequence[Source],
        features: Mapping[str, Feature],
        options: "InputOptions",
        reading: Remade[WorkerReading],
    ) -> None:
        self.parser = ExampleParser(features, options)
        self._options, self._reading = options, reading
        self._strategy, self._readers = reading.get()
        self._read_records = ordered_records(reading)
        self._split_names = [name for source in sources for name in source.split_names]
        self._arrange = Arrangement.of(options, features).arrange
        self._mixer = self.parser.mixer(options.label)
        self._encoding = LabelEncoding.of(options, features, sources)
        self.unreadable = self._readers.shards.unreadable
        self.lost_batches: set[int] = set()

    @property
    def elements_per_step(self) -> int:
        """One for each replica of the worker."""
        return self._strategy.layout.replicas_per_worker

    def read(self, epoch: tf.Tensor, step: tf.Tensor) -> tf.data.Dataset:
        """The batches of an epoch from a step on, before hooks on batches and prefetching."""
        return self.batch(self.rows(epoch, step), epoch, step, direct=self.direct)

    def rows(self, epoch: tf.Tensor, step: tf.Tensor) -> tf.data.Dataset:
        """What batches are made of: as of `serialized`, or, with `direct`, records' positions."""
        if self.direct is None:
            return self.serialized(epoch, step)
        return self._elements(self.direct.positions(epoch, step), step, first_position)

    @functools.cached_property
    def direct(self) -> DirectReading | None:
        """What reads records as they are decoded, where that serves."""
        return DirectReading.of(self.parser, self._options, self._reading)

    def serialized(self, epoch: tf.Tensor, step: tf.Tensor) -> tf.data.Dataset:
        """The records of each element: `(rows,) string`, with `pad` beside `(rows,) float32`."""
        layout = self._strategy.layout
        vectors = self._read_records(epoch, step)
        if self._skips_damage:
            vectors = vectors.concatenate(self._report_skipped(epoch))
        elements = self._elements(vectors, step, self._any_record)
        if self._skips_damage and self._spare is not None:
            elements = without_unreadable(
                elements,
                keeps_rows=self._options.keeps_rows,
                keeps_elements=layout.num_replicas > 1,
                spare=self._spare,
                first=epoch * layout.steps + step,
                report_lost=self.lost_batches.add,
            )
        return elements

    def _elements(
        self, vectors: tf.data.Dataset, step: tf.Tensor, filler: Callable[[], tf.data.Dataset]
    ) -> tf.data.Dataset:
        """Each batch's rows as one element for each replica; the last once all files are good."""
        layout = self._strategy.layout
        elements = rebatch_to_shares(
            vectors,
            layout=layout,
            padded=layout.share(self._strategy.worker).padded,
            is_static=self._options.keeps_rows,
            filler=filler if self._options.remainder == "pad" else None,
        )
        if not self._readers.sums:
            return elements
        last = (layout.steps - step) * self.elements_per_step - 1
        return self._checked_at_end(elements, last)

    def batch(
        self,
        elements: tf.data.Dataset,
        epoch: tf.Tensor | None,
        step: tf.Tensor | None = None,
        *,
        has_own_order: bool = True,
        direct: DirectReading | None = None,
    ) -> tf.data.Dataset:
        """Parses records and batches them.

        Args:
            elements: as of `serialized`.
            epoch: `() int64`, of what is random; None: nothing repeats.
            step: `() int64`, of the first element, where they are in this worker's order.
            has_own_order: whether elements are this worker's in its order; else anybody's.
            direct: what reads them, where they are only positions.
        """
        layout, options = self._strategy.layout, self._options
        own: dict[str, Any] = {"rows": options.batch_size or 1}
        if has_own_order:
            is_full = self._options.keeps_rows or not (
                self._skips_damage or self._has_short_elements
            )
            own = {"rows": layout.rows_per_replica, "are_full": is_full, "spare": self._spare}
        last = _unchanged if self._has_batch_hook else self._arrange
        batches = make_batches(
            elements,
            parser=self.parser,
            options=options,
            split_names=self._split_names,
            epoch_seed=None if epoch is None else _epoch_seed(options.seed, epoch),
            finish=self._encoded(_unchanged if self._mixer else last),
            direct=direct,
            **own,
        )
        return batches if self._mixer is None else self._mixed(batches, step, last)

    def _encoded(self, finish: Arrange) -> Arrange:
        """The same of batches whose labels are as the options say."""
        encoding = self._encoding
        return finish if encoding is None else lambda tensors: finish(encoding.encode(tensors))

    def _mixed(
        self, batches: tf.data.Dataset, step: tf.Tensor | None, finish: Arrange
    ) -> tf.data.Dataset:
        """Mixes the rows of full batches; where others' rows begin in the rest, depends on workers.

        Args:
            batches: dicts of tensors.
            step: of the first; None: they are in no order, and all are mixed.
            finish: what each is turned into.
        """
        mixer, layout = self._mixer, self._strategy.layout
        assert mixer is not None
        full = tf.int64.max if step is None else (layout.full_steps - step) * self.elements_per_step

        def change(number: tf.Tensor, tensors: dict[str, tf.Tensor]) -> Element:
            is_full = number < full
            mixed = tf.cond(
                is_full, lambda: mixer.mix(tensors), lambda: mixer.without_keys(tensors)
            )
            return finish({n: _shaped(value, tensors[n].shape) for n, value in mixed.items()})

        numbered = tf.data.Dataset.zip((tf.data.Dataset.range(tf.int64.max), batches))
        return map_elements(numbered, change, parallel=usable_cores())

    def finish(self, batches: tf.data.Dataset, skipped: tf.Tensor) -> tf.data.Dataset:
        """Batches as the trainer takes them, without the first ones: echoed, hooks, prefetched."""
        options = self._options
        if options.echoing > 1:
            batches = repeat_batches(batches, options.echoing, group=self.elements_per_step)
        if options.start_step or options.state is not None:
            batches = batches.skip(skipped)
        if self._has_batch_hook:
            name = "post_batching_callback"
            hook = callback_of(name, options.post_batching_callback, self._split_names)
            batches = batches.map(
                lambda tensors: self._arrange(tensors if hook is None else hook(tensors)),
                num_parallel_calls=usable_cores(),
                deterministic=True,
            )
        return batches.prefetch(options.prefetch)

    @property
    def _skips_damage(self) -> bool:
        return self._options.on_corrupt == "skip"

    @property
    def _has_short_elements(self) -> bool:
        """Whether others than the last element have fewer rows than a replica's, or it has none."""
        layout = self._strategy.layout
        return len(layout.rest) * self.elements_per_step > 1 or layout.empty_replicas > 0

    @property
    def _has_batch_hook(self) -> bool:
        """Whether something is done to batches before they are arranged for the trainer."""
        return self._options.post_batching_callback is not None

    @functools.cached_property
    def _spare(self) -> bytes | None:
        """A record to stand in where a whole element has none."""
        if not self._skips_damage and not self._strategy.layout.empty_replicas:
            return None
        return self._readers.shards.first_readable(self._strategy.ranges)

    def _any_record(self) -> tf.data.Dataset:
        """One record, whichever, to fill up batches with."""
        return read_pieces(
            columns_of(cut(self._strategy.ranges, 0, 1)), piece_reader(self._reading)
        )

    def _checked_at_end(self, elements: tf.data.Dataset, last: tf.Tensor) -> tf.data.Dataset:
        """The same, but the last one comes only where all files were those of the manifest.

        Whoever knows how many there are does not ask for more, and would not see what comes after.
        """
        reading = self._reading

        def finish() -> bool:
            reading.get().readers.sums.finish()
            return True

        def checked(index: tf.Tensor, element: Element) -> Element:
            is_good = tf.cond(
                tf.equal(index, last),
                lambda: tf.ensure_shape(tf.numpy_function(finish, [], tf.bool), ()),
                lambda: True,
            )
            with tf.control_dependencies([is_good]):
                return tf.nest.map_structure(tf.identity, element)

        numbers = tf.data.Dataset.range(tf.int64.max)
        return map_elements(tf.data.Dataset.zip((numbers, elements)), checked)

    def _report_skipped(self, epoch: tf.Tensor) -> tf.data.Dataset:
        """No vectors, which come last, and a line of the log on records that were skipped."""
        reading = self._reading

        def report(epoch: np.int64) -> npt.NDArray[np.object_]:
            strategy, readers = reading.get()
            readers.shards.warn_of_unreadable(epoch, strategy.layout.num_records)
            readers.sums.finish()  # fewer come than `_checked_at_end` waits for
            return np.array([], object)

        def no_vectors(epoch: tf.Tensor) -> tf.data.Dataset:
            nothing = tf.numpy_function(report, [epoch], tf.string)
            return tf.data.Dataset.from_tensor_slices(tf.reshape(nothing, [0, tf.size(nothing)]))

        return flat_map(tf.data.Dataset.from_tensors(epoch), no_vectors)


def _unchanged(tensors: dict[str, tf.Tensor]) -> dict[str, tf.Tensor]:
    return tensors


def _shaped(values: tf.Tensor | tf.RaggedTensor, shape: tf.TensorShape) -> Any:
    """With what is known of its shape; a ragged tensor's row splits say that of theirs."""
    return values if isinstance(values, tf.RaggedTensor) else tf.ensure_shape(values, shape)


def _epoch_seed(seed: int, epoch: tf.Tensor) -> tf.Tensor:
    """Of what is random in an epoch: the same for any number of workers, and after a restart."""
    return tf.cast(epoch, tf.int64) + tf.constant(seed % _PRIME * _PRIME, tf.int64)
