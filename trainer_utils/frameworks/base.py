"""`Input`: what the inputs of all frameworks have in common, batches and where an iterator is.

source = Input.open(uri, "train", options, worker=0, num_workers=4)
source.input_steps, source.state(120), source.class_names
"""

import functools
import logging
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from trainer_utils.dataset.location import Inputs
from trainer_utils.dataset.selection import Source, class_names_of, numbers_of_classes
from trainer_utils.format import ConfigError
from trainer_utils.options import InputOptions
from trainer_utils.planning import open_input
from trainer_utils.reading.audio import check_batches
from trainer_utils.reading.batches import Batch, Batches
from trainer_utils.reading.threads import run_ahead

SHOWN_OF_INPUT = (
    *("state", "input_start", "input_epoch", "input_steps"),
    *("unreadable", "features", "class_names", "num_classes"),
)
"""What the datasets of all frameworks tell."""

_logger = logging.getLogger(__name__)


class Input(Batches):
    """The batches of what `input_fn` was asked for, and which epoch an iterator reads next."""

    def __init__(self, sources: Sequence[Source], options: InputOptions, **arguments: Any) -> None:
        super().__init__(sources, options, **arguments)
        self._next_epoch = self.input_start.epoch
        self._check_examples()

    @staticmethod
    def open(
        artifact_uri: Inputs, split: str | None, options: InputOptions, **arguments: Any
    ) -> "Input":
        """The input of what `input_fn` and `Batches` take; raises what they do."""
        return Input(*open_input(artifact_uri, split, options), **arguments)

    def __reduce__(self) -> tuple[Any, ...]:
        again, arguments = super().__reduce__()
        return functools.partial(Input, **again.keywords), arguments

    @property
    def class_names(self) -> Sequence[str] | None:
        """What the ids of the label stand for, in their order; None where the dataset says none."""
        return class_names_of(self.sources, self.options.label or "label")

    @property
    def num_classes(self) -> int | None:
        """How many classes the label has; None where neither settings nor dataset say."""
        found = numbers_of_classes(self.sources, self.options.label or "label")
        said = found.pop() if len(found) == 1 else None
        return self.options.labels.num_classes or said or None

    def begin(self) -> tuple[int, range]:
        """The epoch that an iterator reads now, and its steps, of that epoch."""
        epoch, start = self._next_epoch, self.input_start
        return epoch, range(start.step if epoch == start.epoch else 0, self.input_steps)

    def end(self, step: int) -> None:
        """The last batch of an epoch was taken, by all steps of all epochs: the next one comes."""
        epoch = step // self.input_steps
        if self.options.repeat is False:
            self._next_epoch = max(self._next_epoch, epoch + 1)
        self.report_unreadable(epoch)

    def read(self) -> int:
        """The epoch that comes next."""
        return self._next_epoch

    def assign(self, epoch: int) -> None:
        """Has the next iterator read an epoch, counted from 0."""
        self._next_epoch = int(epoch)

    @property
    def input_epoch(self) -> "Input":
        """What tells and sets the epoch that comes next, by `read()` and `assign(…)`."""
        return self

    @property
    def yields_mask(self) -> bool:
        """Whether the third part of each batch is 0 in rows that fill it up, and nothing else."""
        options = self.options
        is_pair = options.label is not None and options.labels.sample_weight is None
        return options.remainder == "pad" and is_pair

    def __len__(self) -> int:
        """Steps of an epoch, of which the first may have begun."""
        return self.input_steps

    def __iter__(self) -> Iterator[Any]:
        repeat = self.options.repeat
        epoch, steps = self.begin()
        while self.input_steps and (isinstance(repeat, bool) or epoch < repeat):
            for step, batch in self.made_ahead(epoch, steps):
                if step == steps[-1]:  # before the last batch, after which nobody may ask for more
                    self.end(epoch * self.input_steps + step)
                yield self.arranged(batch)
            if repeat is False:
                return
            epoch, steps = epoch + 1, range(self.input_steps)

    def made_ahead(self, epoch: int, steps: Sequence[int]) -> Iterator[tuple[int, Batch]]:
        """Some rising steps and their batches, made in threads ahead of whoever takes them."""
        at_once = self.steps_at_once
        groups = [steps[first : first + at_once] for first in range(0, len(steps), at_once)]
        ahead = max(self.options.prefetch, self.options.processes)
        make = functools.partial(self.batches, epoch)
        made: Iterable[list[Batch]] = map(make, groups)
        if ahead:
            most = max(1, ahead // at_once)
            made = run_ahead(make, groups, threads=self.calls_at_once, most=most)
        for group, batches in zip(groups, made, strict=True):
            yield from zip(group, batches, strict=True)

    def report_empty(self, empty: int, num_replicas: int) -> None:
        """Warns where some replicas get no row of the last batch."""
        if self.worker == 0 and self.options.batch_size is not None and empty:
            _logger.warning(
                "remainder=None: the last batch of %d records leaves %d of %d replicas without "
                "any. With 'balance' or 'pad' each has some.",
                self.order.layout.rest[-1],
                empty,
                num_replicas,
            )

    def _check_examples(self) -> None:
        """Refuses what no batch can hold, before it is read."""
        options, layout = self.options, self.order.layout
        if options.batch_size is None or layout.rows_per_replica == 1:
            return
        check_batches(self.features, options.audio_seconds)
        if options.image_size is not None or self.before is not None:
            return  # a callback may resize them; if it does not, the framework says what differs
        for name, feature in self.features.items():
            if feature.has_pixels and feature.extra.get("sizes") == "mixed":
                raise ConfigError(
                    f"image_size: expected (height, width), since the images of {name!r} differ "
                    "in size and cannot be batched as they are, got None. Or resize them in a "
                    "pre_batching_callback, or read them one by one, with batch_size=None.",
                    setting="image_size",
                )
