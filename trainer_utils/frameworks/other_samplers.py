"""Refuse samplers that would divide, repeat or reorder the steps of a `torch_dataset`.

The dataset already reads the share of one rank, in the order of its `shuffle`. A sampler of
PyTorch, Lightning or Accelerate would take every n-th step of that share, or the steps in another
order, without an error.
"""

from typing import Any

from trainer_utils.core.errors import ConfigError
from trainer_utils.runtime.callers import frames_above, module_of, package_of

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
