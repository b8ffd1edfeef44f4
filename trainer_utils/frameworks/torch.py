"""Read a dataset as a map-style `Dataset` of PyTorch.

    dataset = torch_dataset(uri, "train", batch_size=256)  # the rank is torchrun's
    loader = DataLoader(dataset, batch_size=None, num_workers=4)

The index is the step, so that the processes of a DataLoader share the steps and batches keep their
order. PyTorch is imported when `torch_dataset` is called, and TensorFlow never.
"""

import dataclasses
import logging
import operator
import sys
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from trainer_utils.core.errors import ConfigError
from trainer_utils.dataset.location import Inputs
from trainer_utils.frameworks.numpy import import_framework
from trainer_utils.frameworks.other_samplers import (
    StepOrder,
    is_pass_of_sampler,
    refuse_batches,
    refuse_other_samplers,
    refuse_parts_of_steps,
    refuse_sharded_steps,
)
from trainer_utils.frameworks.ranks import choose_rank
from trainer_utils.frameworks.step_sampler import StepIndices
from trainer_utils.options import InputOptions, choose_options, shows_settings
from trainer_utils.order import InputState
from trainer_utils.reading.batch_iterator import SHOWN_OF_INPUT, BatchIterator
from trainer_utils.reading.elements import Batch
from trainer_utils.reading.input_description import describe_input
from trainer_utils.reading.input_metrics import observe_input
from trainer_utils.reading.input_stats import (
    COUNTERS,
    InputStats,
    StageCounters,
    WaitClock,
    stats_of,
)
from trainer_utils.reading.loader_processes import (
    refuse_repeated_first_step,
    refuse_repeated_reading,
)
from trainer_utils.reading.starvation import StarvationCheck
from trainer_utils.reading.substitute_reports import SubstituteReports
from trainer_utils.storage.shared_counters import SharedCounters

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from trainer_utils.options.keywords import InputSettings

_logger = logging.getLogger(__name__)
_SHOWN_HERE = (
    *SHOWN_OF_INPUT,
    "is_opened_here",
    "next_epoch",
    "options",
    "order",
    "sources",
    "worker",
)


@shows_settings
def torch_dataset(
    artifact_uri: Inputs,
    split: str | None = None,
    *,
    rank: int | None = None,
    world_size: int | None = None,
    worker: int | None = None,
    num_workers: int | None = None,
    channels_first: bool = False,
    options: InputOptions | None = None,
    **settings: "Unpack[InputSettings]",
) -> "TorchDataset":
    """Read a dataset as batches for PyTorch.

    Args:
        artifact_uri: the dataset, as in `iterate`.
        split: the split or slices to read, as in `iterate`.
        rank: the rank of this process, as in `iterate`. The processes of a DataLoader do not count.
        world_size: the number of processes, as in `iterate`.
        worker: the former name of `rank`.
        num_workers: the former name of `world_size`.
        channels_first: images are `(batch, channels, height, width)` instead of `(batch, height,
            width, channels)`. No copy: the memory format is `torch.channels_last`.
        options: all settings, as in `iterate`.
        settings: fields of `InputOptions`, as in `iterate`.

    Returns:
        A map-style dataset of batches, for `DataLoader(dataset, batch_size=None)` in their order.
        Batches equal `iterate`'s: arrays, which a DataLoader without `collate_fn` makes tensors of;
        bytes stay arrays of objects. It has one epoch, selected by `set_epoch(…)`, or all epochs of
        `repeat`. With `batch_size=None`, items are records, which a DataLoader may batch.
        `state(step)` is the token to resume from; torchdata's `StatefulDataLoader` resumes by
        itself.

    Raises:
        DatasetError: as in `iterate`.
        ConfigError: as in `iterate`; or PyTorch is not installed.
    """
    chosen = choose_options(options, settings, of=torch_dataset)
    import_framework("torch", shown="PyTorch", of="torch_dataset")
    if chosen.processes:
        rule = "0, since DataLoader(num_workers=…) sets the number of processes"
        raise ConfigError.of("processes", chosen.processes, allowed=rule)
    # A DataLoader's processes open the files again, since mappings cannot be sent.
    rank, world_size = choose_rank(
        rank=rank, world_size=world_size, worker=worker, num_workers=num_workers
    )
    source = BatchIterator.open(artifact_uri, split, chosen, worker=rank, num_workers=world_size)
    dataset = TorchDataset(source, channels_first=channels_first)
    observe_input(dataset, source.spec, dataset.stats)
    return dataset


def cu_seqlens(segment_ids: Any) -> tuple[Any, int]:
    """Return the boundaries of documents in a batch of packs, for variable-length attention.

    Args:
        segment_ids: `(batch, length)` tensor of a batch, on any device.

    Returns:
        `(segments + 1,) int32` tensor: the first token of each segment among all tokens of the
        batch, row after row, and the number of tokens. Then the length of the longest segment. The
        padding of a row is a separate segment, which `loss_mask` leaves out.
    """
    import torch  # type: ignore[import-not-found]

    opens = torch.ones_like(segment_ids, dtype=torch.bool)
    opens[:, 1:] = segment_ids[:, 1:] != segment_ids[:, :-1]
    begins = opens.flatten().nonzero().flatten()
    bounds = torch.cat([begins, begins.new_tensor([segment_ids.numel()])]).to(torch.int32)
    return bounds, int(bounds.diff().max()) if len(begins) else 0


class TorchDataset:
    """A map-style dataset of batches by step, by duck typing, which suffices for PyTorch."""

    _origin: "TorchDataset | None" = None
    _has_warned = False  # of an epoch that is read again

    def __init__(
        self,
        source: BatchIterator,
        *,
        channels_first: bool = False,
        origin: "TorchDataset | None" = None,
    ) -> None:
        import torch

        self._input = source
        if origin is not None:  # which exports the metrics of its views
            self._origin = origin._origin or origin
        self._has_channels_first = channels_first
        features = source.features if channels_first else {}
        self._channels_first = [name for name in features if features[name].has_pixels]
        # Shared, so that persistent processes of a loader see a new epoch.
        self._epoch = torch.tensor(source.input_start.epoch).share_memory_()
        self._groups = _StepGroups(source)
        self._shared: SharedCounters | _NoSharedCounters
        self._shared = _shared_counters() if origin is None else origin._shared
        self._order = StepOrder()
        self._begun: tuple[int, int] | None = None  # the last pass: its epoch, batches before it
        self._reporter: _Reporter | None = None
        if source.options.on_corrupt == "skip":
            shared = None if origin is None else origin._reporter
            self._reporter = _Reporter(source, None if shared is None else shared.reports)
            weakref.finalize(self, self._reporter.report, None)
        self.stats: TorchStats
        if origin is not None:
            self.stats = origin.stats
            return
        self.stats = TorchStats(source.counters, self._shared, self._reporter)
        source.counters.waits.check = starvation_check(self.stats, "DataLoader(num_workers=…)")

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_origin": None}

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        vars(self).update(state)
        self.stats.count_by(self._input.counters)  # which start at zero in a copy

    def __getattr__(self, name: str) -> Any:
        if name in _SHOWN_HERE:
            return getattr(self._input, name)
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *_SHOWN_HERE})

    def __repr__(self) -> str:
        return describe_input(type(self).__name__, self._input.spec, self._input.conversion)

    @property
    def unreadable(self) -> Mapping[Any, str]:
        """Error of each record that another one replaces, by path and number.

        This includes records read by the processes of a loader.
        """
        if self._reporter is not None:
            self._reporter.receive()
        unreadable: Mapping[Any, str] = self._input.unreadable
        return unreadable

    def __len__(self) -> int:
        """Return the number of remaining steps of the epoch, or of all epochs of `repeat`.

        Raises:
            ConfigError: a sampler asks that would divide, repeat or reorder the steps.
        """
        refuse_other_samplers()
        if is_pass_of_sampler():
            self._begin_pass()
        self._input.begin_epoch(int(self._epoch))
        if self._reporter is not None:  # a loader calls this as a pass begins
            self._reporter.report(int(self._epoch))
        return self._num_steps

    @property
    def _num_steps(self) -> int:
        repeat, steps = self._input.options.repeat, self._input.input_steps
        if repeat is True:
            return sys.maxsize if steps else 0
        epoch = int(self._epoch)
        return max((epoch + 1 if repeat is False else int(repeat)) * steps - self.first_step, 0)

    def __iter__(self) -> Iterator[Any]:
        refuse_repeated_reading(opened_here=self._input.is_opened_here)
        for index in range(len(self)):
            yield self._element(index)

    def __getitem__(self, index: int) -> Any:
        """Return the batch of a step, arranged for the trainer."""
        try:
            index = operator.index(index)
        except TypeError as error:
            raise TypeError(
                f"index of a torch_dataset: expected the number of a step, got {index!r:.80}. For "
                "several steps: [dataset[n] for n in range(2)]; for records: [dataset.record(n) "
                "for n in range(2)]"
            ) from error
        refuse_parts_of_steps(is_batch=self._input.options.batch_size is not None)
        if not index:
            refuse_repeated_first_step(opened_here=self._input.is_opened_here)
        return self._element(index)

    def _element(self, index: int) -> Any:
        """Return the element at an index, which is a step after `first_step`."""
        if not 0 <= index < self._num_steps:
            raise IndexError(
                f"step {index}: expected 0 to {self._num_steps - 1}, since the index of a "
                "torch_dataset is a step; record(number) returns a record"
            )
        step, options = self.first_step + index, self._input.options
        self._input.step_distance = _num_loader_processes()
        counters, is_loaders = self._input.counters, not self._shared.is_owner
        if is_loaders:
            counters.start_in_process()
        is_step = options.batch_size is not None or options.shuffle is not False
        if self._order.follow(index, distance=self._input.step_distance, is_step=is_step):
            counters.waits.restart()
        counters.waits.ask()
        batch = self._groups.batch(step)
        if self._reporter is not None:
            self._reporter.send()
            epoch, within = divmod(step, self._input.input_steps)
            if within == self._input.input_steps - 1:
                self._reporter.report(epoch)
        for name in self._channels_first:
            if name in batch:
                batch = {**batch, name: np.moveaxis(batch[name], -1, -3)}
        element = map_leaves(_with_bfloat16, self._input.arranged(batch))
        counters.waits.take(has_waited=not is_loaders)
        if is_loaders:
            self._shared.write(counters.values())
        return element

    def __getitems__(self, indices: Sequence[int]) -> Any:
        """Return records for a loader that collects them; refuse one that collects batches."""
        if not isinstance(indices, StepIndices):
            refuse_parts_of_steps(is_batch=self._input.options.batch_size is not None)
            if self._input.options.batch_size is not None:
                refuse_batches()
        return [self._element(index) for index in indices]

    @property
    def first_step(self) -> int:
        """Step at index 0, counted over all epochs."""
        epoch, start = int(self._epoch), self._input.input_start
        return epoch * self._input.input_steps + (start.step if epoch == start.epoch else 0)

    def set_epoch(self, epoch: int) -> None:
        """Start the next iterator with an epoch, from 0, like PyTorch's samplers."""
        refuse_sharded_steps()
        first = self._input.input_start.epoch
        if isinstance(epoch, bool) or not isinstance(epoch, int) or epoch < first:
            raise ConfigError.of(
                "epoch", epoch, allowed=f"an int of at least {first}, the epoch of `state`"
            )
        if self._reporter is not None:
            self._reporter.report(int(self._epoch))
        self._epoch.fill_(epoch)
        self._input.next_epoch = epoch
        self._begun = None

    def _begin_pass(self) -> None:
        """Warn once if the last pass of a DataLoader read the same epoch to its end."""
        epoch, batches = int(self._epoch), self.stats().batches
        options = self._input.options
        if options.shuffle is False or options.repeat is not False or self._has_warned:
            return
        last_epoch, batches_before = self._begun or (-1, 0)
        if last_epoch == epoch and batches - batches_before >= self._num_steps > 0:
            self._has_warned = True
            _logger.warning(
                "torch_dataset: epoch %d is read again, in the same order. Call "
                "dataset.set_epoch(…) before each pass, or read with torch_loader, which "
                "continues with the next epoch. For evaluation, pass shuffle=False.",
                epoch,
            )
        self._begun = epoch, batches

    def map(self, function: Callable[..., Any]) -> "TorchDataset":
        """Return a view whose batches pass a function of a dict of numpy arrays.

        It is called in the process that makes a batch, before the batch becomes tensors: images are
        `(batch, height, width, channels)` in it, also with `channels_first`. A loader that spawns
        its processes must be able to pickle it. Otherwise as `iterate(…).map`.
        """
        return self._view(self._input.map(function))

    def select(self, *names: str) -> "TorchDataset":
        """Return a view that reads some features only: see `iterate(…).select`."""
        return self._view(self._input.select(*names))

    def filter(self, *, where: str) -> "TorchDataset":
        """Return a view of the records that meet a condition: see `iterate(…).filter`."""
        source = self._input.filter(where=where)
        view = self._view(source)
        view.set_epoch(source.input_start.epoch)
        return view

    def resumed_at(self, state: InputState) -> "TorchDataset":
        """Return a view that begins at a token; raise ConfigError if it is of other data."""
        view = self._view(self._input.resumed_at(state))
        view._epoch.fill_(view.input_start.epoch)
        return view

    def _view(self, source: BatchIterator) -> "TorchDataset":
        """Return a dataset of the batches of a view of this one's input."""
        view = TorchDataset(source, channels_first=self._has_channels_first, origin=self)
        view._epoch.fill_(int(self._epoch))
        return view

    def state_dict(self) -> dict[str, Any]:
        """Return the epoch; the loader tracks the step."""
        return {"epoch": int(self._epoch)}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Resume in the epoch of a `state_dict()`."""
        self.set_epoch(state["epoch"])


class TorchStats:
    """The stats of a dataset, which does not refer to the dataset.

    The processes of a loader are included. They read ahead, so they do not measure the wait for
    data, which `TorchLoader` does. Their wait for the trainer is the time without work.

    Args:
        counters: the counters of this process.
        shared: the counters of a loader's processes.
        reporter: has the unreadable records of those processes; or None.

    Attributes:
        loader_waits: the clock of the loop over a `TorchLoader`, or None.
    """

    def __init__(
        self,
        counters: StageCounters,
        shared: "SharedCounters | _NoSharedCounters",
        reporter: "_Reporter | None",
    ) -> None:
        self._counters, self._shared, self._reporter = counters, shared, reporter
        self.loader_waits: WaitClock | None = None

    def count_by(self, counters: StageCounters) -> None:
        """Return the stats of these counters from now on."""
        self._counters = counters

    def measured_by(self, waits: WaitClock) -> None:
        """Take the waits from the clock of a loader, which measures the trainer's own."""
        self.loader_waits, self._counters.waits.check = waits, None
        waits.check = starvation_check(self, "num_workers=…")

    def __call__(self) -> InputStats:
        """Return the seconds of each stage, and the records and bytes read, since the start."""
        if self._reporter is not None:
            self._reporter.receive()
        values = self._counters.values()
        if self._shared.is_owner:
            values = [sum(pair) for pair in zip(values, self._shared.total(), strict=True)]
        stats = stats_of(values, substituted=len(self._counters.unreadable))
        if self.loader_waits is not None:
            stats = dataclasses.replace(stats, **self.loader_waits.as_fields())
        return stats


def _num_loader_processes() -> int:
    """Return the number of processes of the loader that this process belongs to, or 1."""
    import torch.utils.data  # type: ignore[import-not-found]

    info = torch.utils.data.get_worker_info()
    return 1 if info is None else int(info.num_workers)


def starvation_check(stats: TorchStats, parallel: str) -> StarvationCheck:
    """Return a check that does not keep the stats, and their file, alive."""
    reference = weakref.ref(stats)

    def stats_if_alive() -> InputStats:
        alive = reference()
        return InputStats() if alive is None else alive()

    return StarvationCheck(stats_if_alive, parallel=parallel)


class _NoSharedCounters:
    """Counters of one process, where no file can be shared."""

    is_owner = True

    def write(self, row: Sequence[int]) -> None:
        """Do nothing."""

    def total(self) -> list[int]:
        """Return zeros."""
        return [0] * len(COUNTERS)


def _shared_counters() -> "SharedCounters | _NoSharedCounters":
    """Return counters to share with the processes of a loader, as far as files can be created."""
    try:
        return SharedCounters("stats", len(COUNTERS))
    except OSError as error:
        _logger.warning(
            "stats() of a torch_dataset lacks the work of a loader's processes, which report it in "
            "the temporary folder: %s. Set TMPDIR to a folder that can be written to.",
            error,
        )
        return _NoSharedCounters()


class _StepGroups:
    """A maker of batches for several steps together, which is faster for small records.

    A loader's process reads every n-th step. After two steps at the same distance, the next ones at
    that distance are made as well, and kept until they are needed.
    """

    def __init__(self, source: BatchIterator) -> None:
        self._input, self._most = source, source.steps_per_call
        self._made: dict[int, Batch] = {}  # by step, counted over all epochs
        self._last, self._distance = -1, 0

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self._input,)

    def batch(self, step: int) -> Batch:
        """Return the batch of a step, counted over all epochs."""
        distance, self._last = step - self._last, step
        is_regular, self._distance = 0 < distance == self._distance, distance
        batch = self._made.pop(step, None)
        if batch is not None:
            return batch
        epoch, first = divmod(step, self._input.input_steps)
        steps = range(first, self._input.input_steps, max(distance, 1))[: self._most]
        if len(steps) < 2 or not is_regular:
            return self._input.batch(epoch, first)
        try:
            batches = self._input.batches(epoch, steps)
        except Exception:  # maybe for a later step's record; it is raised at that step
            return self._input.batch(epoch, first)
        begin = step - first
        self._made = {begin + step: batch for step, batch in zip(steps, batches, strict=True)}
        return self._made.pop(step)


class _Reporter:
    """A reporter of unreadable records from a loader's processes to the main process."""

    def __init__(self, source: BatchIterator, reports: SubstituteReports | None = None) -> None:
        self._input, self.reports = source, reports or SubstituteReports()
        self._num_reported = len(source.unreadable)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self._input, self.reports)

    def send(self) -> None:
        """Report the records that this process could not read, if it is a loader's."""
        self.reports.send(self._input.unreadable)

    def receive(self) -> None:
        """Add the records that other processes reported to the input's unreadable ones."""
        self._input.unreadable.update(self.reports.receive())

    def report(self, epoch: int | None) -> None:
        """Warn of newly found unreadable records, in the main process only."""
        if self.reports.is_owner:
            self.receive()
            if len(self._input.unreadable) > self._num_reported:
                self._num_reported = len(self._input.unreadable)
                self._input.report_unreadable(self._input.next_epoch if epoch is None else epoch)


def map_leaves(function: Callable[[Any], Any], values: Any) -> Any:
    """Apply a function to each value of an element, and keep its dicts and tuples."""
    if isinstance(values, dict):
        return {name: map_leaves(function, value) for name, value in values.items()}
    if isinstance(values, tuple):
        mapped = [map_leaves(function, value) for value in values]
        return type(values)(*mapped) if hasattr(values, "_fields") else tuple(mapped)
    return function(values)


def _with_bfloat16(value: Any) -> Any:
    """Convert an array of bfloat16 to a tensor, since PyTorch rejects it from NumPy."""
    import torch

    if isinstance(value, np.ndarray) and value.dtype.name == "bfloat16":
        return torch.from_numpy(value.view(np.int16)).view(torch.bfloat16)
    return value
