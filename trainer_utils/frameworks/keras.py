"""`keras_dataset`: the batches of a dataset for `model.fit` of Keras 3, whichever its backend.

    train = keras_dataset(uri, "train", batch_size=64, features="image", label="label")
    model.fit(train, epochs=3, shuffle=False)

TensorFlow is imported only where it is Keras's backend.
"""

import functools
import itertools
from typing import Any

from trainer_utils.dataset.location import Inputs
from trainer_utils.format import ConfigError
from trainer_utils.frameworks.numpy import SHOWN_OF_INPUT, Input, import_framework
from trainer_utils.machine import run_ahead
from trainer_utils.options import InputOptions, choose_options, shows_settings


@shows_settings
def keras_dataset(
    artifact_uri: Inputs,
    split: str | None = None,
    *,
    worker: int = 0,
    num_workers: int = 1,
    options: InputOptions | None = None,
    **settings: Any,
) -> Any:
    """Reads a dataset as a `keras.utils.PyDataset`.

    Args:
        artifact_uri, split, options, settings: as `iterate` takes them, but for `repeat`: `fit`
            says how many epochs there are.
        worker: which of the processes that train together this is, from 0.
        num_workers: how many of these there are.

    Returns:
        The batches that `iterate` yields, made in threads. Each of Keras's epochs has
        `input_steps` steps and begins where the one before ended, the first at `state`. Its
        `state(step)` is the token to go on from, here or in any other framework, where `fit` was
        given `shuffle=False`, so that it takes the steps in their order.

    Raises:
        DatasetError, ConfigError: as `iterate`; or Keras 3 is not installed.
    """
    chosen = choose_options(options, settings, of=keras_dataset)
    if chosen.repeat is not False:
        raise ConfigError.of("repeat", chosen.repeat, allowed="False: fit takes epochs=")
    if chosen.batch_size is None:
        raise ConfigError.of("batch_size", None, allowed="a number, since Keras takes batches")
    source = Input.open(artifact_uri, split, chosen, worker=worker, num_workers=num_workers)
    return _keras_class()(source)


@functools.cache
def _keras_class() -> Any:
    """The class of Keras's kind."""
    utils = import_framework("keras.utils", shown="Keras 3", of="keras_dataset")
    if not hasattr(utils, "PyDataset"):
        raise ConfigError(
            "keras_dataset: expected Keras 3, found an older one: pip install -U keras"
        )

    class KerasDataset(utils.PyDataset):  # type: ignore[misc, name-defined]
        """The batches of one worker by their step in Keras's epoch."""

        def __init__(self, source: Input) -> None:
            # Keras's own threads would not begin anew after the batch that it builds a model by.
            super().__init__(workers=1)
            self._taken = 0
            self._source, start = source, source.input_start
            self._coming = -1  # the step of those that are made ahead
            self._first = start.epoch * source.input_steps + start.step  # of Keras's epoch

        def __getattr__(self, name: str) -> Any:
            if name in SHOWN_OF_INPUT:
                return getattr(self._source, name)
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

        def __len__(self) -> int:
            return int(self.input_steps)

        def __getitem__(self, index: int) -> Any:
            self._taken += 1
            source, number = self._source, self._first + index
            if index and number != self._coming:  # in another order
                return source.element(number)
            if number != self._coming:
                self._made = run_ahead(
                    source.element,
                    itertools.count(number),
                    threads=source.calls_at_once,
                    most=max(source.options.prefetch, source.options.processes),
                )
            self._coming = -1  # where this one cannot be made
            found = next(self._made)
            self._coming = number + 1
            return found

        def on_epoch_end(self) -> None:
            """Keras calls it, also after one batch that it only builds a model by."""
            if self._taken >= self.input_steps:
                self._source.report_unreadable(self._first // self.input_steps)
                self._first += self.input_steps
            self._taken = 0

    return KerasDataset
