"""Read a dataset for `model.fit` of Keras 3, with any backend.

    train = keras_dataset(uri, "train", batch_size=64, features="image", label="label")
    model.fit(train, epochs=3, shuffle=False)

TensorFlow is imported only if it is Keras's backend.
"""

import functools
import itertools
import sys
import threading
import types
from collections.abc import Iterator
from typing import Any

from trainer_utils.dataset.location import Inputs
from trainer_utils.format import ConfigError
from trainer_utils.frameworks.numpy import SHOWN_OF_INPUT, Input, import_framework
from trainer_utils.frameworks.ranks import choose_rank
from trainer_utils.machine import prefetch_map
from trainer_utils.options import InputOptions, choose_options, shows_settings

_OLDEST = 3, 7  # earlier versions hide that a batch only builds a model
_FRAMES_TO_KERAS = 4  # on_epoch_end, the adapter's, a method of EpochIterator


@shows_settings
def keras_dataset(
    artifact_uri: Inputs,
    split: str | None = None,
    *,
    rank: int | None = None,
    world_size: int | None = None,
    worker: int | None = None,
    num_workers: int | None = None,
    options: InputOptions | None = None,
    **settings: Any,
) -> Any:
    """Read a dataset as a `keras.utils.PyDataset`.

    Args:
        artifact_uri: the dataset, as in `iterate`.
        split: the split or slices to read, as in `iterate`.
        rank: the rank of this process, as in `iterate`.
        world_size: the number of processes, as in `iterate`.
        worker: the former name of `rank`.
        num_workers: the former name of `world_size`.
        options: all settings, as in `iterate`.
        settings: fields of `InputOptions`, as in `iterate`, except `repeat`: `fit` takes the number
            of epochs.

    Returns:
        The batches that `iterate` yields, made in threads. A pass over the dataset has
        `input_steps` steps and starts where the previous pass ended, the first at `state`. With
        `steps_per_epoch`, a pass spans several of Keras's epochs; a `fit` or `evaluate` that begins
        after an unfinished pass repeats it. `state(step)` is the token to resume from after that
        many steps of one `fit`, in any framework. Pass `shuffle=False` to `fit`, so that it takes
        the steps in their order.

    Raises:
        DatasetError: as in `iterate`.
        ConfigError: as in `iterate`; or Keras 3 is not installed.
    """
    chosen = choose_options(options, settings, of=keras_dataset)
    if chosen.repeat is not False:
        raise ConfigError.of("repeat", chosen.repeat, allowed="False: fit takes epochs=")
    if chosen.batch_size is None:
        raise ConfigError.of("batch_size", None, allowed="a number, since Keras expects batches")
    rank, world_size = choose_rank(
        rank=rank, world_size=world_size, worker=worker, num_workers=num_workers
    )
    source = Input.open(artifact_uri, split, chosen, worker=rank, num_workers=world_size)
    return _keras_class()(source)


@functools.cache
def _keras_class() -> Any:
    """Return the subclass of Keras's `PyDataset`."""
    keras = import_framework("keras", shown="Keras 3", of="keras_dataset")
    if tuple(map(int, keras.__version__.split(".")[:2])) < _OLDEST:
        rule = f"Keras {_OLDEST[0]}.{_OLDEST[1]} or newer, found {keras.__version__}"
        raise ConfigError(f"keras_dataset: expected {rule}: pip install -U keras")
    utils = import_framework("keras.utils", shown="Keras 3", of="keras_dataset")

    class KerasDataset(utils.PyDataset):  # type: ignore[misc, name-defined]
        """The batches of one worker, by their step in a pass over the dataset.

        A pass is `input_steps` steps. It ends when Keras has trained on all of them, which may
        take several of its epochs (`steps_per_epoch`). Batches that Keras takes to build a model,
        or ahead of training, end nothing.
        """

        def __init__(self, source: Input) -> None:
            # Keras's threads would not restart after the batch that builds a model.
            super().__init__(workers=1)
            self._source, start = source, source.input_start
            self._first = start.epoch * source.input_steps + start.step  # this pass's first step
            self._next_made = -1  # the step that `_made` yields next
            self._made: Any = None
            self._lock = threading.Lock()  # a stopped run's thread may still ask for batches

        def __getattr__(self, name: str) -> Any:
            if name in SHOWN_OF_INPUT:
                return getattr(self._source, name)
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

        def __len__(self) -> int:
            return int(self.input_steps)

        def __getitem__(self, index: int) -> Any:
            if not 0 <= index < self.input_steps:
                raise IndexError(index)
            source, number = self._source, self._first + index
            if index and number != self._next_made:  # in another order
                return source.element(number)
            with self._lock:
                if number != self._next_made:
                    self._made = prefetch_map(
                        source.element,
                        itertools.count(number),
                        threads=source.calls_at_once,
                        most=max(source.options.prefetch, source.options.processes),
                    )
                self._next_made = -1  # in case this batch raises
                batch = next(self._made)
                self._next_made = number + 1
            return batch

        def __iter__(self) -> Iterator[Any]:
            yield from map(self.__getitem__, range(self.input_steps))
            self._end_pass()

        def on_epoch_end(self) -> None:
            """End the pass, unless Keras only builds a model or has steps of the pass left."""
            if _is_end_of_pass():
                self._end_pass()

        def _end_pass(self) -> None:
            if self.input_steps:
                self._source.report_unreadable(self._first // self.input_steps)
            self._first += self.input_steps

    return KerasDataset


def _is_end_of_pass() -> bool:
    """Return whether the caller of `on_epoch_end` has trained on each step of a pass.

    Keras's `EpochIterator` calls it at the end of each of its epochs. It also calls it from
    `reset`, after it took batches to build the model or to learn their shapes. The calls look the
    same to a dataset: with one step in an epoch, Keras takes that step before either. Only the
    iterator can tell: its count of steps is 0 after the last step of a pass. Any other caller ends
    the pass.
    """
    frame: types.FrameType | None = sys._getframe(1)
    for _ in range(_FRAMES_TO_KERAS):
        if frame is None:
            break
        caller: Any = frame.f_locals.get("self")
        if hasattr(caller, "data_adapter"):
            return frame.f_code.co_name != "reset" and not caller._steps_seen
        frame = frame.f_back
    return True
