"""`BatchSource`: the batches of a dataset by epochs, whichever dataset it is."""

import itertools
from collections.abc import Iterator
from typing import Any

import tensorflow as tf

from trainer_utils.format import ConfigError, DatasetError


class BatchSource:
    """The batches of a dataset by epochs: passes over it, or so many steps each."""

    def __init__(
        self, dataset: Any, strategy: tf.distribute.Strategy, steps_per_epoch: int | None
    ) -> None:
        self._dataset = self._batches = dataset
        if not isinstance(dataset, tf.distribute.DistributedDataset):
            self._batches = strategy.experimental_distribute_dataset(dataset)
        self.element_spec = self._batches.element_spec
        cardinality = getattr(dataset, "cardinality", tf.data.UNKNOWN_CARDINALITY)
        passes = int(cardinality() if callable(cardinality) else cardinality)
        if steps_per_epoch is None and passes == tf.data.INFINITE_CARDINALITY:
            steps_per_epoch = getattr(dataset, "input_steps", None)
            if steps_per_epoch is None:
                rule = "a number for a dataset without end"
                raise ConfigError.of("steps_per_epoch", None, allowed=rule)
        self._steps_per_epoch = steps_per_epoch
        self.steps = steps_per_epoch or (passes if passes >= 0 else None)
        self.taken = 0
        self._iterator: Iterator[Any] | None = None

    def peek(self, name: str) -> Any:
        """The first batch, which `epoch` yields nevertheless."""
        batches = iter(self._batches)
        first = next(batches, None)
        if first is None:
            raise DatasetError(f"{name}: expected at least one batch, got none.")
        self._iterator = itertools.chain([first], batches)
        return first

    def epoch(self, first_step: int) -> Iterator[tuple[int, Any]]:
        """The batches of an epoch with their numbers, from that one on."""
        for step in itertools.count(first_step):
            if step == self._steps_per_epoch:
                return
            if self._iterator is None:
                self._iterator = iter(self._batches)
            batch = next(self._iterator, None)
            if batch is None:
                self._iterator = None
                if self._steps_per_epoch is None:
                    return
                self._iterator = iter(self._batches)
                batch = next(self._iterator, None)
                if batch is None:
                    return
            self.taken += 1
            yield step, batch

    def state(self) -> Any:
        """The token to go on from."""
        start, steps = self._dataset.input_start, self._dataset.input_steps
        return self._dataset.state(start.epoch * steps + start.step + self.taken)
