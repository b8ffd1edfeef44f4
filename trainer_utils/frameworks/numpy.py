"""`iterate`: the batches of a dataset as arrays of numpy.

for batch in iterate(uri, "train", batch_size=256, features=["text", "label"]):
    batch["text"], batch["label"]        # (256,) object: bytes; (256,) int64
"""

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
) -> Input:
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
    chosen = choose_options(options, settings, of=iterate)
    return Input.open(artifact_uri, split, chosen, worker=worker, num_workers=num_workers)
