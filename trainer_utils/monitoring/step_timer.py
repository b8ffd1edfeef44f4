"""Measure how long a Keras trainer waits for its input.

    timer = StepTimer()
    model.fit(train, callbacks=[timer])     # warns once if waiting takes more than 5% of a step

It works with Keras 3 and with tf-keras, for datasets of `input_fn`, or of `add_read_timer`.
"""

import warnings
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import tensorflow as tf

from trainer_utils.core.errors import ConfigError
from trainer_utils.frameworks.read_timer import time_in_reads
from trainer_utils.monitoring.bench import BUSY, CURES
from trainer_utils.runtime.machine import cpu_seconds, usable_cores

if TYPE_CHECKING:
    _Callback = object
else:
    _Callback = tf.keras.callbacks.Callback  # Keras 3, or tf-keras if TF_USE_LEGACY_KERAS is set

_WARM_UP = 3  # steps that trace functions and fill buffers


class StepTimer(_Callback):
    """A callback that measures the share of time spent waiting for input, and warns.

    At the end of each epoch the share over all its steps is logged as `input_wait`.

    Args:
        threshold: the share, in [0, 1), above which to warn.
        every: the number of steps in one measurement.

    Attributes:
        shares: one share for every `every` steps, without the first 3 steps of the run.

    Raises:
        ConfigError: a setting is not allowed.
    """

    def __init__(self, *, threshold: float = 0.05, every: int = 50) -> None:
        super().__init__()
        if not 0 <= threshold < 1:
            raise ConfigError.of("threshold", threshold, allowed="a share in [0, 1)")
        if every < 1:
            raise ConfigError.of("every", every, allowed="a number of steps of at least 1")
        self.threshold = threshold
        self.every = every
        self.shares: list[float] = []
        self._supports_tf_logs = True  # for tf-keras: these hooks need no logs as numpy
        self._steps = 0
        self._has_warned = False
        # The first step of the current measurement, and the clocks before it.
        self._window: tuple[int, npt.NDArray[Any]] | None = None
        self._epoch: tuple[int, npt.NDArray[Any]] | None = None

    def on_epoch_begin(self, epoch: int, logs: dict[str, object] | None = None) -> None:
        """Discard the current measurement."""
        # Time between epochs, such as validation, does not belong to a step.
        self._window = self._epoch = None

    def on_train_batch_begin(self, batch: int, logs: dict[str, object] | None = None) -> None:
        """Start a measurement if none is running."""
        if self._steps >= _WARM_UP and self._window is None:
            self._window = self._steps, self._clocks()
            self._epoch = self._epoch or self._window

    def on_train_batch_end(self, batch: int, logs: dict[str, object] | None = None) -> None:
        """End the measurement after `every` steps, and warn once if the share is too high."""
        self._steps += 1
        if self._window is not None and self._steps - self._window[0] == self.every:
            self._close(*self._window)

    def on_epoch_end(self, epoch: int, logs: dict[str, object] | None = None) -> None:
        """Log the share of the epoch as `input_wait`."""
        if self._epoch is not None and logs is not None:
            logs["input_wait"] = _share(self._clocks() - self._epoch[1])
        if self._window is not None and self._steps > self._window[0]:
            self._close(*self._window)

    # tf-keras calls these methods even if this class derives from the Callback of Keras 3.
    def _implements_train_batch_hooks(self) -> bool:
        return True

    def _implements_test_batch_hooks(self) -> bool:
        return False

    def _implements_predict_batch_hooks(self) -> bool:
        return False

    def _clocks(self) -> npt.NDArray[Any]:
        """Return the seconds elapsed, used by cores and spent waiting, and the batches read."""
        waiting = time_in_reads()
        return np.array([perf_counter(), cpu_seconds(), waiting.seconds, waiting.batches])

    def _close(self, first_step: int, before: npt.NDArray[Any]) -> None:
        """End a window of steps; warn once if too much of its time was spent waiting for input."""
        spent, self._window = self._clocks() - before, None
        share, batches = _share(spent), spent[3]
        self.shares.append(share)
        if self._has_warned or (batches and share <= self.threshold):
            return
        self._has_warned = True
        busy = spent[1] / max(spent[0], 1e-9) / usable_cores()
        message = (
            f"{share:.0%} of the time of steps {first_step + 1} to {self._steps} was spent waiting "
            f"for input. The cores are {min(busy, 1):.0%} busy. "
            f"{CURES['processor' if busy >= BUSY else 'storage']}"
        )
        if not batches:
            message = (
                "cannot measure the time for input, since the dataset is not from input_fn. "
                "Train on trainer_utils.frameworks.read_timer.add_read_timer(dataset)."
            )
        warnings.warn(f"StepTimer: {message}", stacklevel=2)


def _share(spent: npt.NDArray[Any]) -> float:
    return min(float(spent[2]) / max(float(spent[0]), 1e-9), 1.0)
