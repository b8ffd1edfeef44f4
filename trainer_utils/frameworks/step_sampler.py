"""Let trainers choose the epoch of a `torch_loader`, and skip its first steps.

    loader.sampler.set_epoch(3)                       # as Lightning does before each epoch
    accelerate.skip_first_batches(loader, 500)        # as transformers.Trainer does to resume

Both were written for a `DataLoader`: Lightning reports the epoch to its `sampler`, and Accelerate
makes a new one of its `dataset`, `batch_sampler` and `collate_fn`.
"""

import functools
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from trainer_utils.runtime.callers import frames_above, package_of

if TYPE_CHECKING:
    from trainer_utils.frameworks.torch_loader import TorchLoader

_LIGHTNING = ("lightning", "pytorch_lightning")
_FRAMES_TO_LIGHTNING = 3  # set_epoch, Lightning's function, a method of its loop
_FRAMES_TO_TRAINER = 12  # from a batch sampler up to the loop over epochs of transformers.Trainer


class StepIndices(list[int]):
    """The index of one step, as a list, which a batch sampler yields."""


class OneStep:
    """A picklable `collate_fn` for a list of one step's elements."""

    def __init__(self, convert: Callable[[Any], Any]) -> None:
        self._convert = convert

    def __call__(self, elements: list[Any]) -> Any:
        """Return the converted element of a list of one."""
        (element,) = elements
        return self._convert(element)


class StepBatches:
    """A batch sampler of single steps, for a DataLoader that skips the first ones."""

    def __init__(self, loader: "TorchLoader") -> None:
        self._loader = loader

    def set_epoch(self, epoch: int) -> None:
        """Start the next pass with an epoch, from 0."""
        self._loader.set_epoch(epoch)

    def __len__(self) -> int:
        return len(self._loader)

    def __iter__(self) -> Iterator[StepIndices]:
        steps = self._loader.begin_skipping_pass(_epoch_of_transformers())
        return (StepIndices([step]) for step in steps)


@functools.cache
def step_sampler_class() -> Any:
    """Return a subclass of PyTorch's `SequentialSampler`, which Lightning's overfitting needs."""
    from torch.utils.data import SequentialSampler  # type: ignore[import-not-found]

    class StepSampler(SequentialSampler):  # type: ignore[misc]
        """The steps of a loader in their order, at the epoch that a trainer sets.

        A trainer that starts at its epoch 0 with a loader of a later `state=` counts from there.
        """

        def __init__(self, loader: "TorchLoader") -> None:
            super().__init__(loader)
            self._loader, self._offset = loader, -1

        def set_epoch(self, epoch: int) -> None:
            """Start the loader's next pass with an epoch, from 0."""
            if _overfits_batches():  # the same steps again and again
                return
            if self._offset < 0:
                self._offset = max(self._loader.epoch - epoch, 0)
            self._loader.set_epoch(epoch + self._offset)

    return StepSampler


def _overfits_batches() -> bool:
    """Return whether a loop of a Lightning Trainer with `overfit_batches` calls the caller."""
    for frame in frames_above(limit=_FRAMES_TO_LIGHTNING):
        if package_of(frame) in _LIGHTNING:
            trainer = getattr(frame.f_locals.get("self"), "trainer", None)
            if trainer is not None:
                return bool(getattr(trainer, "overfit_batches", 0))
    return False


def _epoch_of_transformers() -> int | None:
    """Return the epoch of the loop of a `transformers.Trainer` that calls the caller, or None.

    Some of its versions report it to loaders with `set_epoch` only, not to Accelerate's.
    """
    for frame in frames_above(limit=_FRAMES_TO_TRAINER):
        if package_of(frame) == "transformers":
            epoch = frame.f_locals.get("epoch")
            if isinstance(epoch, int):
                return epoch
    return None
