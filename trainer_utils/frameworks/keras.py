"""Read a dataset for `model.fit` of Keras 3, with any backend.

    train = keras_dataset(uri, "train", batch_size=64, features="image", label="label")
    model.fit(train, epochs=3)

TensorFlow is imported only if it is Keras's backend.
"""

import functools
import itertools
import logging
import sys
import threading
import types
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from trainer_utils.core.errors import ConfigError
from trainer_utils.dataset.location import Inputs
from trainer_utils.frameworks.numpy import import_framework
from trainer_utils.frameworks.ranks import choose_rank
from trainer_utils.options import InputOptions, choose_options, shows_settings
from trainer_utils.reading.batch_iterator import SHOWN_OF_INPUT, BatchIterator
from trainer_utils.reading.input_description import describe_input
from trainer_utils.reading.input_metrics import observe_input, warn_if_starved

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from trainer_utils.options.keywords import InputSettings

_OLDEST = 3, 7  # earlier versions hide that a batch only builds a model
_logger = logging.getLogger(__name__)
_FRAMES_TO_FIT = 12  # on_epoch_begin, the adapter's, methods of EpochIterator
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
    **settings: "Unpack[InputSettings]",
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
        many steps of one `fit`, in any framework. `fit` takes the steps in their order, and its
        own `shuffle` has no effect. Without `state`, a first `fit` that starts at a later epoch, by
        `initial_epoch` or Keras's `BackupAndRestore`, starts at that epoch of the data.

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
    source = BatchIterator.open(artifact_uri, split, chosen, worker=rank, num_workers=world_size)
    dataset = _keras_class()(source)
    observe_input(dataset, source.spec, source.counters.stats)
    warn_if_starved(source.counters)
    return dataset


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

        def __init__(self, source: BatchIterator) -> None:
            # Keras's threads would not restart after the batch that builds a model.
            super().__init__(workers=1)
            self._source, start = source, source.input_start
            self._first = start.epoch * source.input_steps + start.step  # this pass's first step
            self._is_begun = source.options.state is not None  # the caller chose the first step
            self._next_made = -1  # the step that `_made` yields next
            self._made: Any = None
            self._lock = threading.Lock()  # a stopped run's thread may still ask for batches

        @property
        def input_pipeline(self) -> BatchIterator:
            """The batches by epoch and step."""
            return self._source

        def __getattr__(self, name: str) -> Any:
            if name in SHOWN_OF_INPUT:
                return getattr(self._source, name)
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

        def __dir__(self) -> list[str]:
            return sorted({*super().__dir__(), *SHOWN_OF_INPUT})

        def __repr__(self) -> str:
            source = self._source
            return describe_input(type(self).__name__, source.spec, source.conversion)

        def map(self, function: Callable[..., Any]) -> "KerasDataset":
            """Return a view whose batches pass a function: see `iterate(…).map`."""
            return self._view(self._source.map(function))

        def select(self, *names: str) -> "KerasDataset":
            """Return a view that reads some features only: see `iterate(…).select`."""
            return self._view(self._source.select(*names))

        def filter(self, *, where: str) -> "KerasDataset":
            """Return a view of the records that meet a condition: see `iterate(…).filter`."""
            return self._dataset_of(self._source.filter(where=where))

        def _view(self, source: BatchIterator) -> "KerasDataset":
            """Return a dataset of a view of this one's input that begins where this one does."""
            view = self._dataset_of(source)
            view._first, view._is_begun = self._first, self._is_begun
            return view

        def _dataset_of(self, source: BatchIterator) -> "KerasDataset":
            """Return a dataset of a view of this one's input, at its first step."""
            view = KerasDataset(source)
            view._origin = self  # which exports the metrics of its views
            return view

        def __len__(self) -> int:
            return int(self.input_steps)

        def __getitem__(self, index: int) -> Any:
            if not 0 <= index < self.input_steps:
                raise IndexError(index)
            waits = self._source.counters.waits
            waits.ask()
            element = self._element(self._first + index, is_first=not index)
            waits.take()
            return element

        def _element(self, number: int, *, is_first: bool) -> Any:
            """Return the batch of a step, counted over all passes."""
            source = self._source
            if not is_first and number != self._next_made:  # in another order
                return source.element(number)
            with self._lock:
                if number != self._next_made:
                    first = divmod(number, source.input_steps)
                    self._made = source.made_ahead(itertools.count(first[0]), first=first)
                self._next_made = -1  # in case this batch raises
                _, _, batch = next(self._made)
                self._next_made = number + 1
            return source.arranged(batch)

        def __iter__(self) -> Iterator[Any]:
            self._source.counters.waits.restart()
            yield from map(self.__getitem__, range(self.input_steps))
            self._end_pass()

        def on_epoch_begin(self) -> None:
            """Keep the order of the steps, and begin at the first epoch of `fit`."""
            self._source.counters.waits.restart()  # what came before is no training step
            frame = sys._getframe(1)
            adapter: Any = frame.f_locals.get("self")
            if getattr(adapter, "shuffle", False):  # the default of `fit`
                adapter.shuffle = False
            fit = _frame_of_fit(frame)
            if fit is None:
                return
            epoch, steps = fit.f_locals["epoch"], fit.f_locals["steps_per_epoch"]
            if epoch and self.input_steps and not self._is_begun:
                self._first = self.steps_before(int(epoch), steps)
                _logger.info(
                    "fit begins at its epoch %d, so the input begins at step %d", epoch, self._first
                )
            self._is_begun = True

        def steps_before(self, epoch: int, steps: int | None = None) -> int:
            """Return the number of steps that `fit` takes before one of its epochs.

            Args:
                epoch: the epoch, from 0; the number of epochs: all steps of `fit`.
                steps: `steps_per_epoch` of `fit`. None: `input_steps`.
            """
            steps = steps or max(self.input_steps, 1)
            passes, within = divmod(epoch, -(-self.input_steps // steps))
            return int(passes * self.input_steps + within * steps)

        def on_epoch_end(self) -> None:
            """End the pass, unless Keras only builds a model or has steps of the pass left."""
            if _is_end_of_pass():
                self._end_pass()

        def _end_pass(self) -> None:
            if self.input_steps:
                self._source.report_unreadable(self._first // self.input_steps)
            self._first += self.input_steps

    return KerasDataset


def _frame_of_fit(frame: types.FrameType | None) -> types.FrameType | None:
    """Return the frame of Keras's `fit` above a frame, or None.

    `evaluate` and `predict` have none. While `fit` only builds its model, its loop over epochs has
    not begun, and `BackupAndRestore` has not set the first one.
    """
    for _ in range(_FRAMES_TO_FIT):
        if frame is None:
            break
        if frame.f_code.co_name == "fit" and {"epoch", "steps_per_epoch"} <= set(frame.f_locals):
            return frame
        if frame.f_code.co_name in ("evaluate", "predict"):
            break
        frame = frame.f_back
    return None


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
