"""Read a dataset as batches of numpy arrays; `Input` is shared by all frameworks.

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
from trainer_utils.machine import prefetch_map
from trainer_utils.options import InputOptions, choose_options, shows_settings
from trainer_utils.planning import open_input
from trainer_utils.reading.batches import Batch, Batches
from trainer_utils.reading.features import is_audio

SHOWN_OF_INPUT = (
    *("state", "input_start", "input_steps", "unreadable"),
    *("features", "class_names", "num_classes"),
)
"""The attributes that the datasets of all frameworks have."""

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
    """Read a dataset as batches of arrays, the same batches as `input_fn` yields.

    Args:
        artifact_uri: the dataset, as in `input_fn`.
        split: the split or slices to read, as in `input_fn`.
        rank: the rank of this process, from 0, among the processes that train together. Its batches
            are its share of the global ones. None: detected from `torch.distributed`,
            `jax.distributed` or torchrun's variables, else 0.
        world_size: the number of processes that train together. None: detected likewise, else 1.
        worker: the former name of `rank`.
        num_workers: the former name of `world_size`.
        options: all settings; see `InputOptions`. Callbacks take and return dicts of arrays.
        settings: fields of `InputOptions`, which override `options`.

    Returns:
        An iterable over batches. After an epoch was read to its end, it yields the next one. Images
        are `(batch, height, width, channels) uint8`. Other features are `(batch, *shape)`: int64,
        float32, or bytes in an array of objects. Its `state(step)` is the token to resume from, in
        any framework, with any number of workers.

    Raises:
        DatasetError: there is no dataset, it is incomplete, or it lacks the split or a feature.
            While iterating, a CorruptShardError reports a damaged record.
        ConfigError: a setting is invalid, or the plan is impossible.
    """
    chosen = choose_options(options, settings, of=iterate)
    rank, world_size = choose_rank(
        rank=rank, world_size=world_size, worker=worker, num_workers=num_workers
    )
    return Input.open(artifact_uri, split, chosen, worker=rank, num_workers=world_size)


class Input(Batches):
    """The batches of one worker, shared by the adapters of all frameworks.

    Args:
        sources: the splits to read.
        options: the settings of the input.
        arguments: arguments of `Batches`.

    Attributes:
        next_epoch: the epoch that the next iterator reads, from 0. It may be set.
    """

    def __init__(self, sources: Sequence[Source], options: InputOptions, **arguments: Any) -> None:
        super().__init__(sources, options, **arguments)
        self.next_epoch = self.input_start.epoch
        self._check_examples()

    @staticmethod
    def open(
        artifact_uri: Inputs, split: str | None, options: InputOptions, **arguments: Any
    ) -> "Input":
        """Open an input; see `input_fn` and `Batches` for arguments and errors."""
        return Input(*open_input(artifact_uri, split, options), **arguments)

    @property
    def class_names(self) -> Sequence[str] | None:
        """Names of the label's ids, in order, or None if the dataset has no names."""
        return class_names_of(self.sources, self.options.label or "label")

    @property
    def num_classes(self) -> int | None:
        """Number of the label's classes, or None if neither settings nor dataset define it."""
        found = numbers_of_classes(self.sources, self.options.label or "label")
        said = found.pop() if len(found) == 1 else None
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

    def __iter__(self) -> Iterator[Any]:
        repeat, first = self.options.repeat, self.next_epoch
        epochs: Iterable[int] = [first] if repeat is False else range(first, int(repeat))
        epochs = itertools.count(first) if repeat is True else epochs
        for epoch, step, batch in self.made_ahead(epochs if self.input_steps else ()):
            if step == self.input_steps - 1:  # now, as the caller may stop after the last
                self.end(epoch * self.input_steps + step)
            yield self.arranged(batch)

    def made_ahead(self, epochs: Iterable[int]) -> Iterator[tuple[int, int, Batch]]:
        """Yield epochs, steps and batches, which threads make ahead of the consumer."""
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
        made = prefetch_map(make, groups, threads=self.calls_at_once, most=most)
        return itertools.chain.from_iterable(made if ahead else map(make, groups))

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

    def _check_examples(self) -> None:
        """Raise a ConfigError if examples cannot be batched, before reading them."""
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
    """Import a framework, or raise a ConfigError that explains how to install it.

    Args:
        name: the module to import.
        shown: the framework's name for people.
        of: the function that needs it.
    """
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
