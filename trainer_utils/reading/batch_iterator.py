"""Iterate over the batches of one worker; the adapters of all frameworks share it.

for batch in iterate(uri, "train", batch_size=256, features=["text", "label"]):
    batch["text"], batch["label"]        # (256,) object: bytes; (256,) int64
"""

import itertools
import logging
import operator
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from trainer_utils.core.errors import ConfigError, CorruptShardError
from trainer_utils.dataset.location import Inputs
from trainer_utils.dataset.selection import class_names_of, numbers_of_classes
from trainer_utils.format.slices import RecordPositions
from trainer_utils.options import InputOptions
from trainer_utils.order import InputState
from trainer_utils.reading.batches import Batches
from trainer_utils.reading.elements import Batch
from trainer_utils.reading.example_reader import open_examples
from trainer_utils.reading.features import is_audio
from trainer_utils.reading.filtering import (
    check_filter,
    filtered_sources,
    joined_conditions,
    unfiltered,
)
from trainer_utils.reading.input_spec import InputSpec
from trainer_utils.reading.loader_processes import refuse_repeated_reading
from trainer_utils.reading.opening import open_input
from trainer_utils.reading.packing import packed_sources
from trainer_utils.reading.record_names import find_position
from trainer_utils.reading.views import callback_of_map, features_of_selection
from trainer_utils.runtime.threads import prefetch_map

if TYPE_CHECKING:
    from typing_extensions import Self

SHOWN_OF_INPUT = (
    *("state", "stats", "input_start", "input_steps", "unreadable"),
    *("features", "class_names", "num_classes", "conversion", "num_records", "record"),
)
"""The attributes that the datasets of all frameworks have."""

_logger = logging.getLogger(__name__)
_STATE = "input_state"  # the key of the token in a state_dict


class BatchIterator(Batches):
    """The batches of one worker, shared by the adapters of all frameworks.

    Args:
        spec: the contents of the batches.
        callbacks: as in `Batches`.

    Attributes:
        next_epoch: the epoch that the next iterator reads, from 0. It may be set, also after a
            state was loaded; the loaded epoch begins at the loaded step, any other at its first.
    """

    _origin: "BatchIterator | None" = None

    def __init__(self, spec: InputSpec, *, callbacks: bool = True) -> None:
        _check_examples(spec)
        super().__init__(spec, callbacks=callbacks)
        self._opened_in = os.getpid()
        self._next_epoch = self.input_start.epoch
        self._position = self._first_step(self._next_epoch)  # of the next batch, over all epochs

    @classmethod
    def open(
        cls, artifact_uri: Inputs, split: str | None, options: InputOptions, **arguments: Any
    ) -> "Self":
        """Open an input and start its conversion, if `convert_to` asks for one.

        See `input_fn` and `Batches.of` for arguments and errors.
        """
        opened = cls.of(*open_input(artifact_uri, split, options), **arguments)
        if opened.conversion is not None:
            opened.begin_epoch(opened.input_start.epoch)  # an earlier run may have finished it
            opened.conversion.start(opened.worker)
        return opened

    @property
    def next_epoch(self) -> int:
        """The epoch that the next iterator reads, from 0."""
        return self._next_epoch

    @next_epoch.setter
    def next_epoch(self, epoch: int) -> None:
        self._next_epoch = epoch
        self._position = self._first_step(epoch)

    def _first_step(self, epoch: int) -> int:
        """Return the first step of an epoch to read, counted over all epochs."""
        start = self.input_start
        return epoch * self.input_steps + (start.step if epoch == start.epoch else 0)

    def state_dict(self) -> dict[str, str]:
        """Return the position after the batch that an iterator yielded last.

        It is the same for all ranks, and can be loaded with another number of them.
        """
        return state_to_dict(self.state(self._position))

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Resume from a `state_dict()`: the next iterator begins after its batch.

        Raises:
            ConfigError: it is not one, or belongs to another dataset, split, batch size or seed.
        """
        options = self.options.replace(state=state_of_dict(state))
        spec = self.spec.with_options(options)
        examples = open_examples(spec)
        examples.unreadable.update(self.unreadable)
        self._use(spec, examples)
        self.next_epoch = self.input_start.epoch

    def resumed_at(self, state: InputState) -> "Self":
        """Return a view that begins at a token.

        Raises:
            ConfigError: it belongs to another dataset, split, batch size or seed.
        """
        view = self._view(state=state)
        view.next_epoch = view.input_start.epoch
        return view

    def map(self, function: Callable[..., Any]) -> "Self":
        """Return a view of this input whose batches pass a function.

        The view reads the same records at the same steps, so its tokens equal the input's. It
        shares the files and `stats()` of the input, and begins where its next iteration begins.

        Args:
            function: takes and returns a dict of the arrays of a batch, with the label; without a
                batch size, of an example. It is called where batches are made, after the callbacks
                of the options: in threads, or in the processes of `processes=`, which must be able
                to import it. A returned tuple, such as `(x, y)`, is passed to the trainer
                unchanged.

        Raises:
            ConfigError: it is not a function, or processes cannot import it.
        """
        return self._view(post_batching_callback=callback_of_map(self.spec, function))

    def select(self, *names: str) -> "Self":
        """Return a view of this input that reads some features only, as with `features=[…]`.

        Other features are neither parsed nor decoded. The label and the sample weights stay the
        same. The view reads the same records at the same steps, as that of `map`.

        Args:
            names: the names of features that this input reads.

        Raises:
            ConfigError: there is no such feature, or the input has callbacks, or is that of `map`.
        """
        return self._view(features=features_of_selection(self.spec, names))

    def filter(self, *, where: str) -> "Self":
        """Return a view of this input that reads only records that meet a condition.

        They are chosen before the order is planned, so batches, steps, shuffling and tokens are as
        if the dataset had no other records. One pass over the records finds them, which parses
        only the features of the condition; the result is kept in the cache folder. The view begins
        at the start of its first epoch. Its tokens are valid for inputs of the same condition.

        Args:
            where: the condition, as in the setting `where`: `"label == 'cat' and height > 100"`. It
                is of stored values: callbacks and `map` change nothing. A condition of the input
                holds as well.

        Raises:
            ConfigError: the condition is invalid, or no record meets it; or the input begins at a
                `state`.
        """
        check_filter(self.options, where)
        options = self.options.replace(where=joined_conditions(self.options.where, where))
        sources = filtered_sources([unfiltered(source) for source in self.sources], options)
        view = self._view_of(self.spec.with_options(options, packed_sources(sources, options)))
        view.next_epoch = view.input_start.epoch
        return view

    @property
    def num_records(self) -> int:
        """Number of records that `record` returns, over all ranks; with `pack`, packs."""
        return sum(source.num_records for source in self.sources)

    def record(self, number: int | str) -> Batch:
        """Return a record by its name, or by its number in the order of storage, not of training.

        It is decoded as in a batch, but has no dimension for the batch. It passes no callbacks and
        no `map`, and no random augmentation.

        Args:
            number: the number among `num_records`, from 0; negative ones count from the end. Or the
                `filename`, `id` or `record_id` of a record; the first one with it is returned.

        Raises:
            IndexError: there are fewer records.
            DatasetError: no record has the name.
            CorruptShardError: the record is damaged, also with `on_corrupt="skip"`.
        """
        if isinstance(number, str):
            number = find_position(number, self.sources, self.order.ranges, self.options)
        count = self.num_records
        if not -count <= operator.index(number) < count:
            raise IndexError(f"record {number}: expected a number from {-count} to {count - 1}")
        position = np.array([number % count], np.int64)
        example = self._examples.decode(None, position, None).batches[0]
        (name,) = RecordPositions(self.order.ranges).locate(position)
        if name in self.unreadable:  # another one replaces it in batches
            raise CorruptShardError(self.unreadable[name], path=name.path, record=name.number)
        return self.encoded(example)

    def __getitem__(self, index: object) -> NoReturn:
        """Refuse an index, which could mean a record or a step, and which a DataLoader uses."""
        raise TypeError(
            f"[{index!r}]: expected a loop over batches. record(number) returns a record. In place "
            "of a DataLoader of PyTorch, use trainer_utils.torch_loader."
        )

    def _view(self, **changes: Any) -> "Self":
        """Return an input with some settings changed that shares the open files of this one."""
        return self._view_of(self.spec.with_options(self.options.replace(**changes)))

    def _view_of(self, spec: InputSpec) -> "Self":
        """Return an input of another spec of the same datasets, which shares their open files."""
        view = type(self).__new__(type(self))
        vars(view).update(vars(self))
        view._origin = self._origin or self  # which exports the metrics of its views
        view._use(spec, self._examples.with_spec(spec))
        return view

    @property
    def class_names(self) -> Sequence[str] | None:
        """Names of the label's ids, in order, or None if the dataset has no names."""
        return class_names_of(self.sources, self.options.label or "label")

    @property
    def num_classes(self) -> int | None:
        """Number of the label's classes, or None if neither settings nor dataset define it."""
        numbers = numbers_of_classes(self.sources, self.options.label or "label")
        said = numbers.pop() if len(numbers) == 1 else None
        return self.options.labels.num_classes or said or None

    def end(self, step: int) -> None:
        """End the epoch of a step, counted over all epochs; the next one follows."""
        epoch = step // self.input_steps
        if self.options.repeat is False:
            self.next_epoch = max(self.next_epoch, epoch + 1)
        self.report_unreadable(epoch)

    @property
    def yields_mask(self) -> bool:
        """Whether each batch is (x, y, mask), with a mask of 0 in filler rows."""
        options = self.options
        is_pair = options.label is not None and options.labels.sample_weight is None
        return options.remainder == "pad" and is_pair

    def element(self, number: int) -> Any:
        """Return the trainer's batch for a step, counted over all epochs."""
        epoch, step = divmod(number, self.input_steps)
        return self.arranged(self.batch(epoch, step))

    def __len__(self) -> int:
        """Return the steps of an epoch, including any before `state`."""
        return self.input_steps

    @property
    def is_opened_here(self) -> bool:
        """Whether this process opened the input, rather than one that it was copied from."""
        return self._opened_in == os.getpid()

    def __iter__(self) -> Iterator[Any]:
        refuse_repeated_reading(opened_here=self.is_opened_here)
        repeat, first = self.options.repeat, self.next_epoch
        epochs: Iterable[int] = [first] if repeat is False else range(first, int(repeat))
        epochs = itertools.count(first) if repeat is True else epochs
        batches = self.made_ahead(epochs if self.input_steps else ())
        for epoch, step, batch in self.counters.waits.measure(batches):
            number = epoch * self.input_steps + step
            if step == self.input_steps - 1:  # now, as the caller may stop after the last
                self.end(number)
            self._position = number + 1
            yield self.arranged(batch)

    def made_ahead(
        self, epochs: Iterable[int], *, first: tuple[int, int] | None = None
    ) -> Iterator[tuple[int, int, Batch]]:
        """Yield epochs, steps and batches, which threads make ahead of the consumer.

        Args:
            epochs: the epochs to read.
            first: an epoch and the step in it to begin with, both from 0; None: `input_start`.
        """
        start = self.input_start
        begun_epoch, begun_step = (start.epoch, start.step) if first is None else first
        at_once = self.steps_per_call
        groups = (
            (epoch, range(begin, min(begin + at_once, self.input_steps)))
            for epoch in epochs
            for begin in range(begun_step * (epoch == begun_epoch), self.input_steps, at_once)
        )

        def make(group: tuple[int, range]) -> list[tuple[int, int, Batch]]:
            epoch, steps = group
            batches = zip(steps, self.batches(epoch, steps), strict=True)
            return [(epoch, step, batch) for step, batch in batches]

        ahead = max(self.options.prefetch, self.options.processes)
        most = max(1, ahead // at_once)
        groups_made = prefetch_map(make, groups, threads=self.max_concurrency, most=most)
        return itertools.chain.from_iterable(groups_made if ahead else map(make, groups))

    def report_empty(self, *, divided: int = 0) -> None:
        """Warn if some replicas get no row of the last batch: see `BatchLayout`."""
        layout = self.order.layout
        empty = layout.empty_replicas(divided=divided)
        if self.worker == 0 and self.options.batch_size is not None and empty:
            _logger.warning(
                "remainder=None: the last batch of %d records leaves %d of %d replicas without "
                "any. With 'balance' or 'pad' each has some.",
                *(layout.rest[-1], empty, divided or layout.num_replicas),
            )


def state_to_dict(state: InputState) -> dict[str, str]:
    """Return a token as a `state_dict()`, which `torch.save` and JSON can store."""
    return {_STATE: state.to_json()}


def state_of_dict(state: Mapping[str, Any]) -> InputState:
    """Return the token in a `state_dict()`; raise ConfigError without one."""
    if not isinstance(state, Mapping) or _STATE not in state:
        rule = f"a state_dict() of an input, which has a token at {_STATE!r}"
        raise ConfigError.of("state", state, allowed=rule)
    return InputState.from_json(state[_STATE])


def _check_examples(spec: InputSpec) -> None:
    """Raise a ConfigError if examples cannot be batched, before reading them."""
    options, layout = spec.options, spec.order.layout
    if options.batch_size is None or layout.rows_per_replica == 1:
        return
    # A callback may resize images; if it does not, the framework says what differs.
    is_resized = options.image_size is not None or spec.before is not None
    for name, feature in spec.features.items():
        if feature.has_pixels and feature.extra.get("sizes") == "mixed" and not is_resized:
            cure = "set it to (height, width), resize them in a pre_batching_callback"
            raise _mixed_values_error("image_size", f"size of {name!r}", cure)
        if not is_audio(feature):
            continue
        if options.audio_seconds is not None and feature.extra.get("sample_rate") is None:
            cure = "convert by AudioExampleGen(sample_rate=16_000)"
            raise _mixed_values_error("audio_seconds", f"sample rate of {name!r}", cure)
        if feature.extra.get("channels") is None:
            cure = "convert by AudioExampleGen(channels=1)"
            raise _mixed_values_error("audio_seconds", f"number of channels of {name!r}", cure)


def _mixed_values_error(setting: str, what: str, cure: str) -> ConfigError:
    return ConfigError(
        f"{setting}: expected one {what} in all records, to be batched, got several: {cure}, or "
        "read them one by one, with batch_size=None.",
        setting=setting,
    )
