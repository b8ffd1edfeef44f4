"""`iterate`: the batches of a dataset as arrays of numpy; and `Input`, which all frameworks read.

for batch in iterate(uri, "train", batch_size=256, features=["text", "label"]):
    batch["text"], batch["label"]        # (256,) object: bytes; (256,) int64
"""

import importlib
import itertools
import logging
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from trainer_utils.dataset.location import Inputs
from trainer_utils.dataset.selection import Source, class_names_of, numbers_of_classes
from trainer_utils.format import ConfigError
from trainer_utils.frameworks.ranks import choose_rank
from trainer_utils.machine import run_ahead
from trainer_utils.options import InputOptions, choose_options, shows_settings
from trainer_utils.planning import open_input
from trainer_utils.reading.batches import Batch, Batches
from trainer_utils.reading.features import is_audio

SHOWN_OF_INPUT = (
    *("state", "input_start", "input_steps", "unreadable"),
    *("features", "class_names", "num_classes"),
)
"""What the datasets of all frameworks tell."""

_logger = logging.getLogger(__name__)


@shows_settings
def iterate(
    artifact_uri: Inputs,
    split: str | None = None,
    *,
    rank: int | None = None,
    world_size: int | None = None,
    worker: int | None = None,
    num_workers: int | None = None,
    options: InputOptions | None = None,
    **settings: Any,
) -> "Input":
    """Reads a dataset as batches of arrays, those of `input_fn`.

    Args:
        artifact_uri, split, options, settings: as `input_fn` takes them. Callbacks take and return
            dicts of arrays.
        rank, world_size: which of the processes that train together this is, from 0, and their
            number; its batches are its share of the global ones. None: as `torch.distributed`,
            `jax.distributed` or torchrun's variables have them, else 0 and 1.
        worker, num_workers: the former names of these.

    Returns:
        What can be iterated over; after an epoch was read to its end, the next one. Images are
        `(batch, height, width, channels) uint8`; other features `(batch, *shape)`: int64, float32,
        or bytes in an array of objects. Its `state(step)` is the token to go on from, here or in
        any other framework, with any number of workers.

    Raises:
        DatasetError: no dataset, not whole, or without that split or feature; while iterating, as
            `CorruptShardError`, a record is damaged.
        ConfigError: a setting is not allowed, or the plan is impossible.
    """
    chosen = choose_options(options, settings, of=iterate)
    rank, world_size = choose_rank(
        rank=rank, world_size=world_size, worker=worker, num_workers=num_workers
    )
    return Input.open(artifact_uri, split, chosen, worker=rank, num_workers=world_size)


class Input(Batches):
    """The batches of what `input_fn` was asked for.

    Attributes:
        next_epoch: that the next iterator reads, from 0; it may be set.
    """

    def __init__(self, sources: Sequence[Source], options: InputOptions, **arguments: Any) -> None:
        super().__init__(sources, options, **arguments)
        self.next_epoch = self.input_start.epoch
        self._check_examples()

    @staticmethod
    def open(
        artifact_uri: Inputs, split: str | None, options: InputOptions, **arguments: Any
    ) -> "Input":
        """The input of what `input_fn` and `Batches` take; raises what they do."""
        return Input(*open_input(artifact_uri, split, options), **arguments)

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

    def end(self, step: int) -> None:
        """The last batch of an epoch was taken, by all steps of all epochs: the next one comes."""
        epoch = step // self.input_steps
        if self.options.repeat is False:
            self.next_epoch = max(self.next_epoch, epoch + 1)
        self.report_unreadable(epoch)

    @property
    def yields_mask(self) -> bool:
        """Whether the third part of each batch is 0 in rows that fill it up, and nothing else."""
        options = self.options
        is_pair = options.label is not None and options.labels.sample_weight is None
        return options.remainder == "pad" and is_pair

    def element(self, number: int) -> Any:
        """What the trainer gets in a step, by all steps of all epochs."""
        epoch, step = divmod(number, self.input_steps)
        return self.arranged(self.batch(epoch, step))

    def __len__(self) -> int:
        """Steps of an epoch, of which the first may have begun."""
        return self.input_steps

    def __iter__(self) -> Iterator[Any]:
        repeat, first = self.options.repeat, self.next_epoch
        epochs: Iterable[int] = [first] if repeat is False else range(first, int(repeat))
        epochs = itertools.count(first) if repeat is True else epochs
        for epoch, step, batch in self.made_ahead(epochs if self.input_steps else ()):
            if step == self.input_steps - 1:  # before the last, after which nobody may ask for more
                self.end(epoch * self.input_steps + step)
            yield self.arranged(batch)

    def made_ahead(self, epochs: Iterable[int]) -> Iterator[tuple[int, int, Batch]]:
        """Epochs, steps and their batches, made in threads ahead of whoever takes them."""
        at_once, begun = self.steps_at_once, self.input_start
        groups = (
            (epoch, range(first, min(first + at_once, self.input_steps)))
            for epoch in epochs
            for first in range(begun.step * (epoch == begun.epoch), self.input_steps, at_once)
        )

        def make(group: tuple[int, range]) -> list[tuple[int, int, Batch]]:
            epoch, steps = group
            made = zip(steps, self.batches(epoch, steps), strict=True)
            return [(epoch, step, batch) for step, batch in made]

        ahead = max(self.options.prefetch, self.options.processes)
        most = max(1, ahead // at_once)
        made = run_ahead(make, groups, threads=self.calls_at_once, most=most)
        return itertools.chain.from_iterable(made if ahead else map(make, groups))

    def report_empty(self, *, divided: int = 0) -> None:
        """Warns where some replicas get no row of the last batch: see `BatchLayout`."""
        layout = self.order.layout
        empty = layout.empty_replicas(divided=divided)
        if self.worker == 0 and self.options.batch_size is not None and empty:
            _logger.warning(
                "remainder=None: the last batch of %d records leaves %d of %d replicas without "
                "any. With 'balance' or 'pad' each has some.",
                *(layout.rest[-1], empty, divided or layout.num_replicas),
            )

    def _check_examples(self) -> None:
        """Refuses what no batch can hold, before it is read."""
        options, layout = self.options, self.order.layout
        if options.batch_size is None or layout.rows_per_replica == 1:
            return
        # A callback may resize images; if it does not, the framework says what differs.
        is_resized = options.image_size is not None or self.before is not None
        for name, feature in self.features.items():
            told, hears = feature.extra, is_audio(feature)
            if feature.has_pixels and told.get("sizes") == "mixed" and not is_resized:
                cure = "set it to (height, width), resize them in a pre_batching_callback"
                raise _differ("image_size", f"size of {name!r}", cure)
            if hears and options.audio_seconds is not None and told.get("sample_rate") is None:
                cure = "convert by AudioExampleGen(sample_rate=16_000)"
                raise _differ("audio_seconds", f"sample rate of {name!r}", cure)
            if hears and told.get("channels") is None:
                cure = "convert by AudioExampleGen(channels=1)"
                raise _differ("audio_seconds", f"number of channels of {name!r}", cure)


def import_framework(name: str, *, shown: str, of: str) -> Any:
    """A framework's module, or a ConfigError that says how to get it."""
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise ConfigError(
            f"{of}: expected {shown}, found none. Install it: pip install {name.partition('.')[0]}."
            " trainer_utils.iterate gives the same batches without it."
        ) from error


def _differ(setting: str, what: str, cure: str) -> ConfigError:
    return ConfigError(
        f"{setting}: expected one {what} in all records, to be batched, got several: {cure}, or "
        "read them one by one, with batch_size=None.",
        setting=setting,
    )
