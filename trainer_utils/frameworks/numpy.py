"""`iterate`: the batches of a dataset as arrays of numpy.

for batch in iterate(uri, "train", batch_size=256, features=["text", "label"]):
    batch["text"], batch["label"]        # (256,) object: bytes; (256,) int64
"""

from collections.abc import Iterator
from typing import Any

from trainer_utils.dataset.location import Inputs
from trainer_utils.frameworks.base import Input
from trainer_utils.options import InputOptions, choose_options, shows_settings


@shows_settings
def iterate(
    artifact_uri: Inputs,
    split: str | None = None,
    *,
    worker: int = 0,
    num_workers: int = 1,
    options: InputOptions | None = None,
    **settings: Any,
) -> "NumpyInput":
    """Reads a dataset as batches of arrays, those of `input_fn`.

    Args:
        artifact_uri, split, options, settings: as `input_fn` takes them. Callbacks take and return
            dicts of arrays.
        worker: which of the workers this is, from 0; its batches are its share of the global ones.
        num_workers: how many there are.

    Returns:
        What can be iterated over; after an epoch was read to its end, the next one. Images are
        `(batch, height, width, channels) uint8`; other features `(batch, *shape)`: int64, float32,
        or bytes in an array of objects. Its `state(step)` is the token to go on from, here or in
        any other framework, with any number of workers.

    Raises:
        DatasetError: no dataset, not whole, or without that split or feature; while iterating, as
            `CorruptShardError`, a record is damaged.
        ConfigError: a setting is not allowed, or the plan is impossible.
    """
    own = ("split", "worker", "num_workers", "options")
    chosen = choose_options(options, settings, of="iterate", arguments=own)
    return NumpyInput(artifact_uri, split, chosen, worker=worker, num_workers=num_workers)


class NumpyInput(Input):
    """The batches of one worker as arrays: see `iterate`."""

    def __len__(self) -> int:
        """Steps of an epoch, of which the first may have begun."""
        return self.input_steps

    def __iter__(self) -> Iterator[Any]:
        repeat = self.options.repeat
        epoch, steps = self.begin()
        while self.input_steps and (isinstance(repeat, bool) or epoch < repeat):
            for step, batch in self.made_ahead(epoch, steps):
                if step == steps[-1]:  # before the last batch, after which nobody may ask for more
                    self.end(epoch * self.input_steps + step)
                yield self.arranged(batch)
            if repeat is False:
                return
            epoch, steps = epoch + 1, range(self.input_steps)
