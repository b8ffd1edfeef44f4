"""`Input`: what the inputs of all frameworks have in common.

source = Input(uri, "train", options, worker=0, num_workers=4)
source.input_steps, source.state(120), source.class_names
"""

import logging
from collections.abc import Mapping, Sequence

from trainer_utils.dataset.location import Inputs
from trainer_utils.dataset.selection import class_names_of, numbers_of_classes
from trainer_utils.format import ConfigError, Feature
from trainer_utils.options import InputOptions
from trainer_utils.order import InputOrder, InputState
from trainer_utils.planning import open_input
from trainer_utils.reading.audio import check_batches
from trainer_utils.reading.batches import Batches

_logger = logging.getLogger(__name__)


class Input:
    """The batches of one worker, and where it is in them.

    Args:
        artifact_uri, split, options: as `input_fn` takes them.
        worker, num_workers, num_replicas, callbacks: as `Batches` takes them.

    Attributes:
        batches: what makes them.
        options: all settings.
        sources: what is read.
        order: which record comes at which step.
        worker: which of the workers this is, from 0.
        input_start: the token of where it begins.
        input_steps: of an epoch.
        unreadable: why each record that was left out could not be read, by path and number.
        features: those that are read, by name.

    Raises:
        DatasetError: no dataset, not whole, or without that split or feature.
        ConfigError: a setting is not allowed, or the plan is impossible.
    """

    def __init__(
        self,
        artifact_uri: Inputs,
        split: str | None,
        options: InputOptions,
        *,
        worker: int = 0,
        num_workers: int = 1,
        num_replicas: int | None = None,
        callbacks: bool = True,
    ) -> None:
        sources, options = open_input(artifact_uri, split, options)
        self.batches = Batches(
            sources,
            options,
            worker=worker,
            num_workers=num_workers,
            num_replicas=num_replicas,
            callbacks=callbacks,
        )
        self.options, self.sources, self.worker = options, self.batches.sources, worker
        self.order: InputOrder = self.batches.order
        self.input_start: InputState = self.batches.start
        self.input_steps: int = self.batches.steps_per_epoch
        self.unreadable = self.batches.unreadable
        self.features: Mapping[str, Feature] = self.batches.features
        self._next_epoch = self.input_start.epoch
        self._check_examples()

    def state(self, step: int) -> InputState:
        """The token to go on from after so many steps of all epochs, by the trainer's count."""
        return self.batches.state(step)

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
        """Takes note that the last batch of an epoch was taken: an iterator reads the next one now.

        Args:
            step: of that batch, by all steps of all epochs.
        """
        epoch = step // self.input_steps
        if self.options.repeat is False:
            self._next_epoch = max(self._next_epoch, epoch + 1)
        self.batches.report_unreadable(epoch)

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

    def _check_examples(self) -> None:
        """Refuses what no batch can hold, before it is read."""
        options, layout = self.options, self.order.layout
        if options.batch_size is None or layout.rows_per_replica == 1:
            return
        check_batches(self.features, options.audio)
        if options.image_size is not None or self.batches.before is not None:
            return  # a callback may resize them; if it does not, the framework says what differs
        for name, feature in self.features.items():
            if feature.has_pixels and feature.extra.get("sizes") == "mixed":
                raise ConfigError(
                    f"image_size: expected (height, width), since the images of {name!r} differ "
                    "in size and cannot be batched as they are, got None. Or resize them in a "
                    "pre_batching_callback, or read them one by one, with batch_size=None.",
                    setting="image_size",
                )

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
