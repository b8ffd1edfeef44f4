"""Refuse samplers that would divide, repeat or reorder the steps of a `torch_dataset`.

The dataset already reads the share of one rank, in the order of its `shuffle`. A sampler of
PyTorch, Lightning or Accelerate would take every n-th step of that share, or the steps in another
order, without an error.
"""

import logging
import os
from typing import Any

from trainer_utils.core.errors import ConfigError
from trainer_utils.runtime.callers import frames_above, module_of, package_of

_logger = logging.getLogger(__name__)
_TRAINERS = ("accelerate", "lightning", "pytorch_lightning", "torch", "torchdata")
_FRAMES = 12  # from a sampler's iteration up to Accelerate's loader
_FRAMES_TO_ACCELERATE = 3  # the dataset's set_epoch, the loader's, its __iter__
_FRAMES_TO_SAMPLER = 4  # from the dataset's length up to a sampler, through other datasets
_FRAMES_TO_FETCHER = 8  # from the dataset up to the DataLoader's fetcher, through other datasets
_LOADER = (
    "or read with trainer_utils.torch_loader in place of the DataLoader, which every trainer "
    "leaves alone (transformers.Trainer: return it from get_train_dataloader and "
    "get_eval_dataloader)"
)
_CURES = {
    "DistributedSampler": (
        "divides its steps among the ranks once more: each rank reads only a part of its records",
        "Remove the sampler (in Lightning: Trainer(use_distributed_sampler=False)), " + _LOADER,
    ),
    "DataLoaderDispatcher": (
        "sends the batches of rank 0 to all ranks, so that the records of the others are not read",
        "Do not pass the loader to Accelerator.prepare, " + _LOADER,
    ),
    "BatchSamplerShard": (
        "divides its steps among the ranks once more: each rank reads only a part of its records",
        "Do not pass the loader to Accelerator.prepare, " + _LOADER,
    ),
    "RandomSampler": (
        "reorders its steps, which cannot be resumed",
        "Remove shuffle=True from the DataLoader, since torch_dataset shuffles records itself, "
        + _LOADER,
    ),
}


def refuse_other_samplers() -> None:
    """Raise ConfigError if a sampler that changes the steps calls the caller of this function.

    Samplers ask for the length of their dataset when they are created or iterated over.
    """
    for frame in frames_above(limit=_FRAMES):
        if package_of(frame) in _TRAINERS:
            caller: Any = frame.f_locals.get("self")
            for kind in type(caller).__mro__:
                if kind.__name__ in _CURES and kind.__module__.partition(".")[0] in _TRAINERS:
                    raise _sampler_error(caller, kind.__name__)


def is_pass_of_sampler() -> bool:
    """Return whether a DataLoader's sampler, which begins a pass, calls the caller of this."""
    for frame in frames_above(limit=_FRAMES_TO_SAMPLER):
        if module_of(frame) == "torch.utils.data.sampler" and frame.f_code.co_name == "__iter__":
            return True
    return False


def refuse_sharded_steps() -> None:
    """Raise ConfigError if Accelerate's loader, which divides the steps, calls the caller.

    It does so before its first step, by `set_epoch`. Without a batch size its sampler would fail
    with a TypeError.
    """
    for frame in frames_above(limit=_FRAMES_TO_ACCELERATE):
        if package_of(frame) == "accelerate":
            sampler: Any = getattr(frame.f_locals.get("self"), "batch_sampler", None)
            if type(sampler).__name__ == "BatchSamplerShard" and sampler.num_processes > 1:
                raise _sampler_error(sampler, "BatchSamplerShard")


class StepOrder:
    """The order of the steps that a process was asked for, which a DataLoader must keep.

    A sampler of weights or of a subset asks for other steps than the next one. Its indices mean
    records to its author, and no method of the dataset sees the sampler.
    """

    def __init__(self) -> None:
        self._start()

    def _start(self) -> None:
        self._process = os.getpid()
        self._first = self._last = -1
        self._has_warned = False

    def follow(self, index: int, *, distance: int, is_step: bool) -> bool:
        """Return whether a new pass begins, or warn once if the order is not that of steps.

        Args:
            index: the index that the process was asked for.
            distance: the number of processes that share the steps.
            is_step: whether the records of an index differ from epoch to epoch.
        """
        if self._process != os.getpid():  # a forked process of a loader reads other steps
            self._start()
        is_next, self._last = index > self._last, index
        if self._first < 0:
            self._first = index
        if is_next:
            return False
        is_start = index < distance or index == self._first
        if not is_start and is_step and not self._has_warned and _asks_a_loader():
            self._has_warned = True
            _logger.warning(
                "torch_dataset: a sampler of the DataLoader repeats or reorders steps. An index is "
                "a step, whose records differ in each epoch, so the sampler's weights or subset "
                "do not choose records. Remove the sampler, since torch_dataset shuffles records "
                "itself. To choose records, pass where=…; to draw some more often, mix inputs by "
                "weights=…; or read records by number, with batch_size=None and shuffle=False."
            )
        return True


def _asks_a_loader() -> bool:
    """Return whether a DataLoader asks for the step that is being read."""
    modules = map(module_of, frames_above(limit=_FRAMES_TO_FETCHER))
    return "torch.utils.data._utils.fetch" in modules


def refuse_batches() -> None:
    """Raise ConfigError for a DataLoader that collects several steps into one batch."""
    raise ConfigError(
        "batch_size: each item of a torch_dataset is a whole batch, and the DataLoader collects "
        f"several of them into one. Pass DataLoader(dataset, batch_size=None), {_LOADER}.",
        setting="batch_size",
    )


def refuse_parts_of_steps(*, is_batch: bool) -> None:
    """Raise ConfigError for a `Subset` of steps, or a DataLoader that collects whole batches.

    The dataset's own methods cannot see the DataLoader if the dataset is inside another one.

    Args:
        is_batch: whether an item is a batch, rather than a record.
    """
    for frame in frames_above(limit=_FRAMES_TO_FETCHER):
        if not module_of(frame).startswith("torch.utils.data."):
            continue
        caller: Any = frame.f_locals.get("self")
        if type(caller).__name__ == "Subset":
            raise ConfigError(
                "Subset: the items of a torch_dataset are steps, whose records differ in each "
                "epoch, so a Subset, like one of random_split, would train on records that it "
                'leaves out in another epoch. Select records: split="train[:80%]" for one '
                'part, "train[80%:]" for the other.'
            )
        if getattr(caller, "auto_collation", False) and is_batch:
            refuse_batches()
        if hasattr(caller, "auto_collation"):
            return


def _sampler_error(sampler: Any, kind: str) -> ConfigError:
    harm, cure = _CURES[kind]
    return ConfigError(f"sampler: {type(sampler).__name__} {harm}. {cure}.")
