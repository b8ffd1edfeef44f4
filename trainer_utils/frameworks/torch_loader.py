"""Load batches for PyTorch in processes, and resume after any step.

    loader = torch_loader(uri, "train", batch_size=256, label="label", num_workers=4)
    for images, labels in loader: ...
    torch.save(loader.state_dict(), "loader.pt")     # later: loader.load_state_dict(torch.load(…))

It is not a `DataLoader`, so Lightning and Accelerate do not put a sampler of their own into it.
Each rank reads its share of every batch.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from trainer_utils.core.errors import ConfigError, DatasetError
from trainer_utils.core.settings import NumberRule
from trainer_utils.dataset.location import Inputs
from trainer_utils.frameworks.step_sampler import OneStep, StepBatches, step_sampler_class
from trainer_utils.frameworks.torch import TorchDataset, map_leaves, torch_dataset
from trainer_utils.options import InputOptions, shows_settings
from trainer_utils.reading.batch_iterator import state_of_dict, state_to_dict
from trainer_utils.reading.input_stats import InputStats, WaitClock
from trainer_utils.reading.loader_processes import refuse_repeated_reading

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from trainer_utils.options.keywords import InputSettings

_SHOWN_BYTES = 40  # of a string in an error
_SHOWN = (
    *("class_names", "features", "input_steps", "num_classes", "num_records", "order", "record"),
    *("state", "unreadable"),
)


@shows_settings
def torch_loader(
    artifact_uri: Inputs,
    split: str | None = None,
    *,
    num_workers: int = 0,
    pin_memory: bool = False,
    device: Any = None,
    channels_first: bool = False,
    decode_strings: bool = False,
    transform: Callable[[Any], Any] | None = None,
    rank: int | None = None,
    world_size: int | None = None,
    options: InputOptions | None = None,
    **settings: "Unpack[InputSettings]",
) -> "TorchLoader":
    """Load a dataset as batches of tensors, in processes, for one rank of a training.

    Args:
        artifact_uri: the dataset, as in `iterate`.
        split: the split or slices to read, as in `iterate`.
        num_workers: the number of processes that make batches, as in a `DataLoader`. 0: this one.
        pin_memory: copy batches to pinned memory, for faster transfers to a GPU.
        device: the device to move tensors to, such as `"cuda"`. None: they stay on the CPU.
        channels_first: images are `(batch, channels, height, width)` instead of `(batch, height,
            width, channels)`. No copy: the memory format is `torch.channels_last`.
        decode_strings: features of bytes are lists of `str`, decoded as UTF-8, instead of arrays of
            `bytes`.
        transform: a function of a batch of tensors, called in the process that made it, such as a
            transform of torchvision's `v2`. It must be picklable with `num_workers`.
        rank: the rank of this process, as in `iterate`.
        world_size: the number of processes that train together, as in `iterate`.
        options: all settings, as in `iterate`.
        settings: fields of `InputOptions`, as in `iterate`.

    Returns:
        An iterable over one epoch, of `len()` steps, or the remaining ones after a loaded state.
        The next iteration reads the next epoch, if the last one was read to its end. `state_dict()`
        works after any step, and with any number of ranks and processes when it is loaded.

    Raises:
        DatasetError: as in `iterate`.
        ConfigError: as in `iterate`; or PyTorch is not installed.
    """
    NumberRule(0)("num_workers", num_workers)
    dataset = torch_dataset(
        artifact_uri,
        split,
        rank=rank,
        world_size=world_size,
        channels_first=channels_first,
        options=options,
        **settings,
    )
    convert = _Converter(decode_strings, transform)
    loading = {"num_workers": num_workers, "pin_memory": pin_memory}
    return TorchLoader(dataset, convert, loading, device)


class TorchLoader:
    """The batches of one rank; see `torch_loader`."""

    def __init__(
        self,
        dataset: TorchDataset,
        convert: "_Converter",
        loading: Mapping[str, Any],
        device: Any,
        *,
        waits: WaitClock | None = None,
    ) -> None:
        self._convert, self._loading, self._device = convert, loading, device
        self._waits = waits or WaitClock()
        dataset.stats.measured_by(self._waits)
        self._use(dataset)

    def _use(self, dataset: TorchDataset) -> None:
        """Read from a dataset, at its first step."""
        self.dataset = dataset
        self._loader: Any = None  # kept, with its processes, for later epochs
        self._position: int = dataset.first_step  # of the next batch, over all epochs
        self._sampler: Any = None
        self._has_set_epoch = False  # since the last pass
        self._skips = False  # another loader reads this pass

    def __getattr__(self, name: str) -> Any:
        if name in _SHOWN:
            return getattr(self.dataset, name)
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *_SHOWN})

    def __repr__(self) -> str:
        return f"TorchLoader({self.dataset!r}, num_workers={self._loading['num_workers']})"

    @property
    def epoch(self) -> int:
        """The epoch of the next step, from 0."""
        steps = self.dataset.input_steps
        return int(self._position // steps) if steps else int(self.dataset.input_start.epoch)

    def __len__(self) -> int:
        """Return the steps of a whole epoch, or of all epochs of `repeat`.

        After `load_state_dict` the next iteration has fewer steps, as with torchdata's
        `StatefulDataLoader`. Lightning counts the steps before a checkpoint, so it needs them all.
        """
        repeat, steps = self.dataset.options.repeat, self.dataset.input_steps
        if repeat is True:
            return len(self.dataset)
        return int(steps) * (1 if repeat is False else int(repeat))

    def __iter__(self) -> Iterator[Any]:
        refuse_repeated_reading(opened_here=self.dataset.is_opened_here)
        self._has_set_epoch = self._skips = False
        self._select_epoch()
        first = self._position = self.dataset.first_step
        for taken, batch in enumerate(self._waits.measure(self._batches()), 1):
            self._position = first + taken
            yield self._moved(batch)

    def __getitem__(self, index: Any) -> Any:
        """Refuse to be the dataset of a DataLoader."""
        raise ConfigError(
            "torch_loader: expected a loop over its batches, got an index, as from a DataLoader "
            "or a trainer's train_dataset. It takes the place of the DataLoader: loop over it, "
            "pass it to Lightning's fit, or return it from get_train_dataloader of "
            "transformers.Trainer. For a DataLoader of your own: DataLoader(torch_dataset(…), "
            "batch_size=None)."
        )

    @property
    def sampler(self) -> Any:
        """The steps in their order; Lightning reports its epochs to this sampler."""
        if self._sampler is None:
            self._sampler = step_sampler_class()(self)
        return self._sampler

    @property
    def batch_sampler(self) -> StepBatches:
        """The steps as lists of one index; Accelerate skips the first lists."""
        return StepBatches(self)

    @property
    def collate_fn(self) -> OneStep:
        """A function from a list of one step's arrays to its tensors."""
        return OneStep(self._convert)

    @property
    def num_workers(self) -> int:
        """The number of processes that make batches."""
        return int(self._loading["num_workers"])

    @property
    def pin_memory(self) -> bool:
        """Whether batches are copied to pinned memory."""
        return bool(self._loading["pin_memory"])

    @property
    def prefetch_factor(self) -> None:
        """PyTorch's default; Accelerate's own is refused by a DataLoader without processes."""

    def begin_skipping_pass(self, epoch: int | None) -> range:
        """Return the steps of a pass that another loader reads without the first ones.

        Args:
            epoch: the epoch that the trainer reports; None: that of `set_epoch`.

        Raises:
            ConfigError: the epoch is unknown, or the loader itself begins after some steps, or has
                a device, which the other loader does not know.
        """
        cure = (
            "Or do without it: restore loader.state_dict(), or call "
            "accelerator.register_for_checkpointing(loader), and skip nothing"
        )
        if epoch is not None:
            self.set_epoch(epoch)
        elif not self._has_set_epoch:
            raise ConfigError(
                f"skip_first_batches: the epoch is unknown. Call loader.set_epoch(…) before it. "
                f"{cure}."
            )
        first = self.dataset.first_step % max(self.dataset.input_steps, 1)
        if first:
            raise ConfigError(
                f"skip_first_batches: the loader's own state already begins at step {first}, so "
                "further steps would be lost. Skip nothing, with transformers.Trainer by "
                "TrainingArguments(ignore_data_skip=True)."
            )
        if self._device is not None:
            raise ConfigError(
                "skip_first_batches: it would not move batches to the loader's device. Leave out "
                f"device=, and move them in the training loop. {cure}."
            )
        self._has_set_epoch, self._skips = False, True
        self._position = (self.dataset.first_step // self.dataset.input_steps + 1) * (
            self.dataset.input_steps
        )
        return range(len(self))

    def stats(self) -> InputStats:
        """Return the seconds of each stage, and the records and bytes read, since the start.

        The processes are included. Their stages are summed; the waits are the trainer's.
        """
        stats: InputStats = self.dataset.stats()
        return stats

    def map(self, function: Callable[..., Any]) -> "TorchLoader":
        """Return a view whose batches pass a function of a dict of numpy arrays.

        It is called before the batch becomes tensors, which `transform=` takes. Otherwise as
        `torch_dataset(…).map`.
        """
        return self._view(self.dataset.map(function))

    def select(self, *names: str) -> "TorchLoader":
        """Return a view that loads some features only: see `iterate(…).select`."""
        return self._view(self.dataset.select(*names))

    def filter(self, *, where: str) -> "TorchLoader":
        """Return a view of the records that meet a condition: see `iterate(…).filter`."""
        return self._loader_of(self.dataset.filter(where=where))

    def _view(self, dataset: TorchDataset) -> "TorchLoader":
        """Return a loader of a view of this one's dataset, at the same position."""
        loader = self._loader_of(dataset)
        loader._position = self._position
        return loader

    def _loader_of(self, dataset: TorchDataset) -> "TorchLoader":
        """Return a loader of another dataset of the same files, at its first step."""
        return TorchLoader(dataset, self._convert, self._loading, self._device, waits=self._waits)

    def _select_epoch(self) -> None:
        """Have the dataset at the epoch of the next step, unless it has all epochs of `repeat`."""
        if self.dataset.options.repeat is False:
            self.dataset.set_epoch(self.epoch)

    def _batches(self) -> Iterator[Any]:
        from torch.utils.data import DataLoader  # type: ignore[import-not-found]

        if self._loader is None:
            self._loader = DataLoader(
                self.dataset,
                batch_size=None,
                collate_fn=self._convert,
                persistent_workers=self._loading["num_workers"] > 0,
                **self._loading,
            )
        return iter(self._loader)

    def _moved(self, batch: Any) -> Any:
        if self._device is None:
            return batch
        import torch  # type: ignore[import-not-found]

        def move(value: Any) -> Any:
            is_tensor = isinstance(value, torch.Tensor)
            return value.to(self._device, non_blocking=True) if is_tensor else value

        return map_leaves(move, batch)

    def set_epoch(self, epoch: int) -> None:
        """Start the next iteration with an epoch, from 0, like PyTorch's samplers.

        A loaded state in the middle of that epoch stays; any other epoch starts at its first step.
        """
        NumberRule(0)("epoch", epoch)
        self._skips = False
        if epoch < self.dataset.input_start.epoch:  # before the loaded state
            state = self.dataset.state(epoch * self.dataset.input_steps)
            self._use(self.dataset.resumed_at(state))
        self.dataset.set_epoch(epoch)
        self._position = self.dataset.first_step
        self._has_set_epoch = True

    def state_dict(self) -> dict[str, Any]:
        """Return the position after the last batch that was yielded, as JSON-compatible values.

        Raises:
            ConfigError: a loader of `skip_first_batches` reads this pass, at an unknown position.
        """
        if self._skips:
            raise ConfigError(
                "state_dict: the position is unknown while the loader of skip_first_batches reads. "
                "Restore the loader by load_state_dict(…), and skip nothing."
            )
        return state_to_dict(self.dataset.state(self._position))

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Resume from a `state_dict()`.

        Raises:
            ConfigError: it is not one, or belongs to another dataset, split, batch size or seed.
        """
        self._use(self.dataset.resumed_at(state_of_dict(state)))


class _Converter:
    """A picklable function from a batch of arrays to a batch of tensors."""

    def __init__(self, decode_strings: bool, transform: Callable[[Any], Any] | None) -> None:
        self._decode_strings, self._transform = decode_strings, transform

    def __call__(self, batch: Any) -> Any:
        from torch.utils.data import default_convert

        batch = map_leaves(default_convert, batch)  # of itself, it makes lists of tuples
        if self._decode_strings:
            batch = map_leaves(_decoded, batch)
        return batch if self._transform is None else self._transform(batch)


def _decoded(value: Any) -> Any:
    """Return bytes as a `str`, an array of bytes as nested lists of them, and others unchanged."""
    if isinstance(value, np.ndarray) and value.dtype == object:
        return [_decoded(item) for item in value]
    if not isinstance(value, bytes):
        return value
    try:
        return value.decode()
    except UnicodeDecodeError as error:
        raise DatasetError(
            f"decode_strings: expected UTF-8, got {value[:_SHOWN_BYTES]!r} ({error.reason} at byte "
            f"{error.start}). Leave such a feature out, features=[…], or read bytes, "
            "decode_strings=False."
        ) from error
