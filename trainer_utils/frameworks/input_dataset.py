"""Add the position and the description of an input to datasets of TensorFlow.

dataset = InputDataset(tensors, reopened)
dataset.state(100), dataset.class_names, dataset.map(...)
"""

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import tensorflow as tf

from trainer_utils.core.errors import ConfigError
from trainer_utils.format import Feature
from trainer_utils.format.slices import RecordName
from trainer_utils.frameworks.tensor_input import TensorInput
from trainer_utils.order import InputState
from trainer_utils.reading.batch_iterator import SHOWN_OF_INPUT, BatchIterator
from trainer_utils.reading.elements import Batch
from trainer_utils.reading.filtering import check_filter, joined_conditions
from trainer_utils.reading.input_conversion import InputConversion
from trainer_utils.reading.input_description import describe_input
from trainer_utils.reading.input_stats import InputStats
from trainer_utils.reading.views import features_of_selection


class InputDataset(tf.data.Dataset):  # type: ignore[misc]
    """A dataset of `input_fn`: the batches of one input, with its position and description.

    It is a `tf.data.Dataset` with the elements and the options of the graph's dataset, so it works
    wherever a dataset does. Datasets derived from it lack these attributes, but keep the
    input alive.

    Args:
        tensors: the input's graph.
        reopened: returns the dataset of the same input with some settings changed.
    """

    def __init__(self, tensors: TensorInput, reopened: Callable[..., "InputDataset"]) -> None:
        self._tensors, self._reopened = tensors, reopened
        self._dataset = tensors.dataset()
        super().__init__(tf.data.experimental.to_variant(self._dataset))  # it calls `_inputs`

    def __repr__(self) -> str:
        source = self.input_pipeline
        return describe_input(type(self).__name__, source.spec, source.conversion)

    def _inputs(self) -> list[tf.data.Dataset]:
        """Return the dataset whose options this one has, for TensorFlow."""
        return [self._dataset]

    @property
    def element_spec(self) -> Any:
        """The type specification of an element."""
        return self._dataset.element_spec

    @property
    def input_pipeline(self) -> BatchIterator:
        """The batches of numpy that the dataset converts to tensors."""
        return self._tensors.source

    @property
    def input_start(self) -> InputState:
        """The token at the start of the input."""
        return self.input_pipeline.input_start

    @property
    def input_steps(self) -> int:
        """Number of steps of an epoch."""
        return self.input_pipeline.input_steps

    @property
    def unreadable(self) -> Mapping[RecordName, str]:
        """Error of each record that was left out, by path and number."""
        return self.input_pipeline.unreadable

    @property
    def features(self) -> Mapping[str, Feature]:
        """The features that are read, by name."""
        return self.input_pipeline.features

    @property
    def class_names(self) -> Sequence[str] | None:
        """Names of the label's ids, in order, or None if the dataset has no names."""
        return self.input_pipeline.class_names

    @property
    def num_classes(self) -> int | None:
        """Number of the label's classes, or None if neither settings nor dataset define it."""
        return self.input_pipeline.num_classes

    @property
    def conversion(self) -> InputConversion | None:
        """The conversion of raw inputs in the background, or None without `convert_to`."""
        return self.input_pipeline.conversion

    @property
    def num_records(self) -> int:
        """Number of records that `record` returns, over all workers."""
        return self.input_pipeline.num_records

    def record(self, number: int | str) -> Batch:
        """Return a record as numpy arrays by its name, or its number in the order of storage.

        See `iterate(…).record`.
        """
        return self.input_pipeline.record(number)

    def select(self, *names: str) -> "InputDataset":
        """Return a dataset that reads some features only: see `iterate(…).select`."""
        return self._reopened(features=features_of_selection(self.input_pipeline.spec, names))

    def filter(self, predicate: Any = None, name: str | None = None, *, where: Any = None) -> Any:
        """Return the records that meet a condition, or `tf.data`'s filter by a function.

        Args:
            predicate: a function of an element; see `tf.data.Dataset.filter`.
            name: a name for that operation.
            where: a condition on features, instead of a function: see `iterate(…).filter`. The
                result has the attributes of this dataset, such as `state`.

        Raises:
            ConfigError: both or neither of `predicate` and `where` were passed.
        """
        if (predicate is None) == (where is None):
            rule = "either a function of an element or a condition, where="
            raise ConfigError.of("filter", predicate, allowed=rule)
        if where is None:
            return super().filter(predicate, name=name)
        options = self.input_pipeline.options
        check_filter(options, where)
        return self._reopened(where=joined_conditions(options.where, where))

    def stats(self) -> InputStats:
        """Return the seconds of each stage, and the records and bytes read, since the start."""
        return self._tensors.stats()

    def state(self, step: int) -> InputState:
        """Return the token to resume from after `step` of the trainer's steps, over all epochs."""
        return self.input_pipeline.state(step)

    def resumed_at(self, state: InputState) -> "InputDataset":
        """Return the dataset of the same input from a token on."""
        return self._reopened(state=state)


def show_input(
    distributed: tf.distribute.DistributedDataset,
    dataset: InputDataset,
    resumed_at: Callable[[InputState], tf.distribute.DistributedDataset],
) -> tf.distribute.DistributedDataset:
    """Add the attributes and the `repr` of `InputDataset` to a distributed dataset, and return it.

    They are set on TensorFlow's object. A strategy creates it, and a wrapper of it would not work
    as an argument of a `tf.function`, which takes it as a composite tensor.

    Args:
        distributed: the dataset that a strategy made of `dataset`.
        dataset: the dataset of this worker.
        resumed_at: returns the distributed dataset from a token on.
    """
    if isinstance(distributed, InputDataset):  # the default strategy returns its argument
        return distributed
    kind: Any = type(distributed)
    distributed.__class__ = _described_class(kind)
    for name in ("input_pipeline", *SHOWN_OF_INPUT):
        setattr(distributed, name, getattr(dataset, name))
    distributed.input_dataset = dataset  # keeps the input alive
    distributed.resumed_at = resumed_at
    return distributed


@functools.cache
def _described_class(kind: Any) -> Any:
    """Return a subclass of a class of distributed datasets whose `repr` describes the input."""

    def describe(self: Any) -> str:
        source = self.input_pipeline
        return describe_input("DistributedDataset", source.spec, source.conversion)

    return type(kind)(kind.__name__, (kind,), {"__module__": kind.__module__, "__repr__": describe})
