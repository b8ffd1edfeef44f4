"""Read a dataset as a map-style `Dataset` of PyTorch.

    dataset = torch_dataset(uri, "train", batch_size=256)  # the rank is torchrun's
    loader = DataLoader(dataset, batch_size=None, num_workers=4)

The index is the step, so that the processes of a DataLoader share the steps and batches keep their
order. PyTorch is imported when `torch_dataset` is called, and TensorFlow never.
"""

import sys
import weakref
from collections.abc import Mapping
from typing import Any

import numpy as np

from trainer_utils.dataset.location import Inputs
from trainer_utils.format import ConfigError
from trainer_utils.frameworks.numpy import SHOWN_OF_INPUT, Input, import_framework
from trainer_utils.frameworks.ranks import choose_rank
from trainer_utils.options import InputOptions, choose_options, shows_settings
from trainer_utils.reading.batches import Batch
from trainer_utils.reading.substitute_reports import SubstituteReports


@shows_settings
def torch_dataset(
    artifact_uri: Inputs,
    split: str | None = None,
    *,
    rank: int | None = None,
    world_size: int | None = None,
    worker: int | None = None,
    num_workers: int | None = None,
    options: InputOptions | None = None,
    **settings: Any,
) -> "TorchDataset":
    """Read a dataset as batches for PyTorch.

    Args:
        artifact_uri: the dataset, as in `iterate`.
        split: the split or slices to read, as in `iterate`.
        rank: the rank of this process, as in `iterate`. The processes of a DataLoader do not count.
        world_size: the number of processes, as in `iterate`.
        worker: the former name of `rank`.
        num_workers: the former name of `world_size`.
        options: all settings, as in `iterate`.
        settings: fields of `InputOptions`, as in `iterate`.

    Returns:
        A map-style dataset of batches, for `DataLoader(dataset, batch_size=None)` in their order.
        Batches equal `iterate`'s, as tensors; bytes stay arrays of objects. It has one epoch,
        selected by `set_epoch(…)`, or all epochs of `repeat`. `state(step)` is the token to resume
        from; torchdata's `StatefulDataLoader` resumes by itself.

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
    return TorchDataset(
        Input.open(artifact_uri, split, chosen, worker=rank, num_workers=world_size)
    )


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
    found = torch.cat([begins, begins.new_tensor([segment_ids.numel()])]).to(torch.int32)
    return found, int(found.diff().max()) if len(begins) else 0


class TorchDataset:
    """A map-style dataset of batches by step, by duck typing, which suffices for PyTorch."""

    def __init__(self, source: Input) -> None:
        import torch

        self._input = source
        # Shared, so that persistent processes of a loader see a new epoch.
        self._epoch = torch.tensor(source.input_start.epoch).share_memory_()
        self._groups = _StepGroups(source)
        self._reporter: _Reporter | None = None
        if source.options.on_corrupt == "skip":
            self._reporter = _Reporter(source)
            weakref.finalize(self, self._reporter.report, None)

    def __getattr__(self, name: str) -> Any:
        if name in (*SHOWN_OF_INPUT, "next_epoch", "order", "sources", "worker"):
            return getattr(self._input, name)
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

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
        """Return the number of remaining steps of the epoch, or of all epochs of `repeat`."""
        if self._reporter is not None:  # a loader calls this as a pass begins
            self._reporter.report(int(self._epoch))
        return self._num_steps

    @property
    def _num_steps(self) -> int:
        repeat, steps = self._input.options.repeat, self._input.input_steps
        if repeat is True:
            return sys.maxsize if steps else 0
        epoch = int(self._epoch)
        return max((epoch + 1 if repeat is False else int(repeat)) * steps - self._first, 0)

    def __getitem__(self, index: int) -> Any:
        if not 0 <= index < self._num_steps:
            raise IndexError(index)
        step = self._first + index
        batch = self._groups.batch(step)
        if self._reporter is not None:
            self._reporter.send()
            epoch, within = divmod(step, self._input.input_steps)
            if within == self._input.input_steps - 1:
                self._reporter.report(epoch)
        return _with_bfloat16(self._input.arranged(batch))

    @property
    def _first(self) -> int:
        """Step at index 0, counted over all epochs."""
        epoch, start = int(self._epoch), self._input.input_start
        return epoch * self._input.input_steps + (start.step if epoch == start.epoch else 0)

    def set_epoch(self, epoch: int) -> None:
        """Start the next iterator with an epoch, from 0, like PyTorch's samplers."""
        first = self._input.input_start.epoch
        if isinstance(epoch, bool) or not isinstance(epoch, int) or epoch < first:
            raise ConfigError.of(
                "epoch", epoch, allowed=f"an int of at least {first}, the epoch of `state`"
            )
        if self._reporter is not None:
            self._reporter.report(int(self._epoch))
        self._epoch.fill_(epoch)
        self._input.next_epoch = epoch

    def state_dict(self) -> dict[str, Any]:
        """Return the epoch; the loader tracks the step."""
        return {"epoch": int(self._epoch)}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Resume in the epoch of a `state_dict()`."""
        self.set_epoch(state["epoch"])


class _StepGroups:
    """A maker of batches for several steps together, which is faster for small records.

    A loader's process reads every n-th step. After two steps at the same distance, the next ones at
    that distance are made as well, and kept until they are needed.
    """

    def __init__(self, source: Input) -> None:
        self._input, self._most = source, source.steps_at_once
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
            made = self._input.batches(epoch, steps)
        except Exception:  # maybe for a later step's record; it is raised at that step
            return self._input.batch(epoch, first)
        begin = step - first
        self._made = {begin + one: batch for one, batch in zip(steps, made, strict=True)}
        return self._made.pop(step)


class _Reporter:
    """A reporter of unreadable records from a loader's processes to the main process."""

    def __init__(self, source: Input) -> None:
        self._input, self._reports = source, SubstituteReports()
        self._num_reported = 0

    def __reduce__(self) -> tuple[Any, ...]:
        return _reporter_elsewhere, (self._input, self._reports)

    def send(self) -> None:
        """Report the records that this process could not read, if it is a loader's."""
        self._reports.send(self._input.unreadable)

    def receive(self) -> None:
        """Add the records that other processes reported to the input's unreadable ones."""
        self._input.unreadable.update(self._reports.receive())

    def report(self, epoch: int | None) -> None:
        """Warn of newly found unreadable records, in the main process only."""
        if self._reports.is_owner:
            self.receive()
            if len(self._input.unreadable) > self._num_reported:
                self._num_reported = len(self._input.unreadable)
                self._input.report_unreadable(self._input.next_epoch if epoch is None else epoch)


def _reporter_elsewhere(source: Input, reports: SubstituteReports) -> _Reporter:
    """Rebuild the reporter in a spawned process."""
    reporter = _Reporter.__new__(_Reporter)
    reporter._input, reporter._reports, reporter._num_reported = source, reports, 0
    return reporter


def _with_bfloat16(values: Any) -> Any:
    """Convert an element's bfloat16 arrays to tensors, since PyTorch rejects them from NumPy."""
    import torch

    if isinstance(values, dict):
        return {name: _with_bfloat16(value) for name, value in values.items()}
    if type(values) is tuple:
        return tuple(map(_with_bfloat16, values))
    if isinstance(values, np.ndarray) and values.dtype.name == "bfloat16":
        return torch.from_numpy(values.view(np.int16)).view(torch.bfloat16)
    return values
