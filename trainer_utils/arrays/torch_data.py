"""`torch_dataset`: the batches of `input_fn` as a PyTorch `IterableDataset`.

    dataset = torch_dataset(uri, "train", batch_size=256, num_workers=world_size, worker=rank)
    loader = DataLoader(dataset, batch_size=None, num_workers=4)

The processes of a DataLoader take turns, a step each, so that batches come in the order of the
plan however many there are. PyTorch is imported when this is called, and TensorFlow never.
"""

import dataclasses
import functools
import json
from collections.abc import Iterator, Mapping
from typing import Any

from trainer_utils.arrays.batches import NumpyBatches
from trainer_utils.dataset.location import Artifacts
from trainer_utils.format import ConfigError
from trainer_utils.options import InputOptions, choose_options, shows_settings
from trainer_utils.order import InputState

__all__ = ["torch_dataset"]


@shows_settings
def torch_dataset(
    artifact_uri: Artifacts,
    split: str | None = None,
    *,
    worker: int = 0,
    num_workers: int = 1,
    options: InputOptions | None = None,
    **settings: Any,
) -> Any:
    """Reads a dataset as batches for PyTorch.

    Args:
        artifact_uri, split, options, settings: as `iterate` takes them.
        worker: the rank of this process among those that train together, from 0.
        num_workers: how many of these there are. The processes of a DataLoader do not count here.

    Returns:
        An `IterableDataset` of whole batches, for `DataLoader(dataset, batch_size=None)`: what
        `iterate` yields. `state(step)` is the token to go on from; `state_dict()` and
        `load_state_dict(…)` hold it as torchdata's `StatefulDataLoader` wants it, and take tokens
        of `input_fn` too. A plain DataLoader begins each time at the epoch of `set_epoch(…)`.

    Raises:
        DatasetError, ConfigError: as `iterate`; or PyTorch is not installed.
    """
    own = ("split", "worker", "num_workers", "options")
    chosen = choose_options(options, settings, of="torch_dataset", arguments=own)
    return _torch_class()(artifact_uri, split, chosen, worker=worker, num_workers=num_workers)


class StepStripes:
    """The steps of one process, and where it is: what a torch dataset is but for its base class.

    Args:
        artifact_uri, split, options, worker, num_workers: as of `torch_dataset`.
    """

    def __init__(
        self,
        artifact_uri: Artifacts,
        split: str | None,
        options: InputOptions,
        *,
        worker: int,
        num_workers: int,
    ) -> None:
        self._arguments = (artifact_uri, split, options, worker, num_workers)
        self._open()
        start = self._batches.input_start
        self._begin = start.epoch * self._steps + start.step  # of all epochs
        self._next: int | None = None  # of this process, once it has begun
        self._is_own = False  # whether the state that was loaded is of one process of a loader

    def _open(self) -> None:
        uri, split, options, worker, num_workers = self._arguments
        self._batches = NumpyBatches(uri, split, options, worker=worker, num_workers=num_workers)
        self._steps = max(self._batches.input_steps, 1)
        self._repeat = options.repeat

    def __getstate__(self) -> dict[str, Any]:
        """A DataLoader's processes open the files anew: mappings are not for sending."""
        return {name: value for name, value in vars(self).items() if name != "_batches"}

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        vars(self).update(state)
        self._open()

    def __len__(self) -> int:
        """Steps of an epoch."""
        return self._batches.input_steps

    def __iter__(self) -> Iterator[Any]:
        place, turns = self._turn()
        step = self._begin if self._is_own else self._begin + place
        self._is_own = False
        stop = self._stop(step)
        while self._batches.input_steps and (stop is None or step < stop):
            epoch, first = divmod(step, self._steps)
            last = self._steps if stop is None else min(self._steps, stop - epoch * self._steps)
            own = range(first, last, turns)
            for within, batch in self._batches.steps(epoch, own):
                self._next = epoch * self._steps + within + turns
                yield batch
            step = epoch * self._steps + first + len(own) * turns
            self._next = step
        # The next iterator reads on from there: the next epoch, where one was read to its end.
        self._begin, self._next = (step if stop is None else stop), None

    def _stop(self, step: int) -> int | None:
        """The step, of all epochs, before which an iterator ends."""
        if self._repeat is True:
            return None
        if self._repeat is False:
            return (self._begin // self._steps + 1) * self._steps
        return self._repeat * self._steps

    @staticmethod
    def _turn() -> tuple[int, int]:
        """Which of how many processes of a DataLoader this is."""
        from torch.utils.data import get_worker_info  # type: ignore[import-not-found]

        info = get_worker_info()
        return (0, 1) if info is None else (info.id, info.num_workers)

    def set_epoch(self, epoch: int) -> None:
        """Begins the next iterator with an epoch, from 0, as PyTorch's samplers do."""
        if isinstance(epoch, bool) or not isinstance(epoch, int) or epoch < 0:
            raise ConfigError.of("epoch", epoch, allowed="an int of at least 0")
        self._begin, self._next = epoch * self._steps, None

    def state(self, step: int) -> InputState:
        """The token to go on from after so many steps of all epochs, here or in `input_fn`."""
        return self._batches.state(step)

    def state_dict(self) -> dict[str, Any]:
        """Where this process is: the token of its next step, and its turn in a DataLoader."""
        token = self.state(self._begin if self._next is None else self._next)
        turn = list(self._turn()) if self._next is not None else None
        return {"token": dataclasses.asdict(token), "turn": turn}

    def load_state_dict(self, state: Mapping[str, Any] | InputState | str) -> None:
        """Goes on where a `state_dict()` or a token of `state(step)` says.

        Raises:
            ConfigError: it is of another dataset or order, or of another number of processes.
        """
        turn = None
        token: Any = state
        if isinstance(state, Mapping) and "token" in state:
            token, turn = state["token"], state.get("turn")
        if turn is not None and tuple(turn) != self._turn():
            raise ConfigError.of(
                "state",
                tuple(turn),
                allowed=f"one of process and processes {self._turn()} of a DataLoader, as here",
                advice="Give the token of state(step), which goes for any number of them",
            )
        if isinstance(token, Mapping):
            token = json.dumps(dict(token))
        uri, split, options, worker, num_workers = self._arguments
        checked = options.replace(state=token, start_step=0)
        start = NumpyBatches(
            uri, split, checked, worker=worker, num_workers=num_workers
        ).input_start
        self._begin, self._next = start.epoch * self._steps + start.step, None
        self._is_own = turn is not None


@functools.cache
def _torch_class() -> type[StepStripes]:
    """The same as a class of PyTorch's, which its DataLoader looks for."""
    try:
        from torch.utils.data import IterableDataset
    except ImportError as error:
        raise ConfigError(
            "torch_dataset: expected PyTorch, found none. Install it: pip install torch. "
            "trainer_utils.iterate gives the same batches without it."
        ) from error
    bases = (StepStripes, IterableDataset)
    made = type("TorchDataset", bases, {"__module__": __name__, "__qualname__": "TorchDataset"})
    globals()["TorchDataset"] = made  # by which it is pickled
    return made


def __getattr__(name: str) -> Any:
    if name == "TorchDataset":
        return _torch_class()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
