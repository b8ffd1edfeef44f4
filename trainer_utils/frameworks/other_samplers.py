"""Refuse samplers that would divide, repeat or reorder the steps of a `torch_dataset`.

The dataset already reads the share of one rank, in the order of its `shuffle`. A sampler of
PyTorch, Lightning or Accelerate would take every n-th step of that share, or the steps in another
order, without an error.
"""

import sys
import types
from typing import Any

from trainer_utils.core.errors import ConfigError

_TRAINERS = ("accelerate", "lightning", "pytorch_lightning", "torch", "torchdata")
_FRAMES = 12  # from a sampler's iteration up to Accelerate's loader
_LOADER = "or read it with trainer_utils.torch_loader, which every trainer leaves alone"
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
        "Remove shuffle=True from the DataLoader: torch_dataset shuffles records itself",
    ),
}


def refuse_other_samplers() -> None:
    """Raise ConfigError if a sampler that changes the steps calls the caller of this function.

    Samplers ask for the length of their dataset when they are created or iterated over.
    """
    frame: types.FrameType | None = sys._getframe(2)
    for _ in range(_FRAMES):
        if frame is None:
            return
        # Reading the locals of a frame keeps them alive, so skip the caller's own.
        if _package(frame.f_globals.get("__name__", "")) in _TRAINERS:
            caller: Any = frame.f_locals.get("self")
            for kind in type(caller).__mro__:
                if kind.__name__ in _CURES and _package(kind.__module__) in _TRAINERS:
                    harm, cure = _CURES[kind.__name__]
                    raise ConfigError(f"sampler: {type(caller).__name__} {harm}. {cure}.")
        frame = frame.f_back


def refuse_batches() -> None:
    """Raise ConfigError for a DataLoader that collects several steps into one batch."""
    raise ConfigError(
        "batch_size: each item of a torch_dataset is a whole batch, and the DataLoader collects "
        "several of them into one. Pass DataLoader(dataset, batch_size=None).",
        setting="batch_size",
    )


def _package(module: str) -> str:
    return module.partition(".")[0]
