"""Read a dataset as batches of numpy arrays.

for batch in iterate(uri, "train", batch_size=64): ...
"""

import importlib
from typing import TYPE_CHECKING, Any

from trainer_utils.core.errors import ConfigError
from trainer_utils.dataset.location import Inputs
from trainer_utils.frameworks.ranks import choose_rank
from trainer_utils.options import InputOptions, choose_options, shows_settings
from trainer_utils.reading.batch_iterator import BatchIterator
from trainer_utils.reading.input_metrics import observe_input, warn_if_starved

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from trainer_utils.options.keywords import InputSettings


@shows_settings
def iterate(
    artifact_uri: Inputs,
    split: str | None = None,
    *,
    rank: int | None = None,
    world_size: int | None = None,
    worker: int | None = None,
    num_workers: int | None = None,
    options: InputOptions | None = None,
    **settings: "Unpack[InputSettings]",
) -> "BatchIterator":
    """Read a dataset as batches of arrays, the same batches as `input_fn` yields.

    Args:
        artifact_uri: the dataset, as in `input_fn`.
        split: the split or slices to read, as in `input_fn`.
        rank: the rank of this process, from 0, among the processes that train together. Its batches
            are its share of the global ones. None: detected from `torch.distributed`,
            `jax.distributed`, or the variables of torchrun, `keras.distribution`, horovodrun or
            Slurm's srun, else 0.
        world_size: the number of processes that train together. None: detected likewise, else 1.
        worker: the former name of `rank`.
        num_workers: the former name of `world_size`.
        options: all settings; see `InputOptions`. Callbacks take and return dicts of arrays.
        settings: fields of `InputOptions`, which override `options`.

    Returns:
        An iterable over batches. After an epoch was read to its end, it yields the next one. Images
        are `(batch, height, width, channels) uint8`. Other features are `(batch, *shape)`: int64,
        float32, or bytes in an array of objects. Its `state(step)` is the token to resume from, in
        any framework, with any number of workers.

    Raises:
        DatasetError: there is no dataset, it is incomplete, or it lacks the split or a feature.
            While iterating, a CorruptShardError reports a damaged record.
        ConfigError: a setting is invalid, or the plan is impossible.
    """
    chosen = choose_options(options, settings, of=iterate)
    rank, world_size = choose_rank(
        rank=rank, world_size=world_size, worker=worker, num_workers=num_workers
    )
    batches = BatchIterator.open(artifact_uri, split, chosen, worker=rank, num_workers=world_size)
    observe_input(batches, batches.spec, batches.counters.stats)
    warn_if_starved(batches.counters)
    return batches


def import_framework(name: str, *, shown: str, of: str) -> Any:
    """Import a framework, or raise a ConfigError that explains how to install it.

    Args:
        name: the module to import.
        shown: the framework's name for people.
        of: the function that needs it.
    """
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise ConfigError(
            f"{of}: expected {shown}, found none. Install it: pip install {name.partition('.')[0]}."
            " trainer_utils.iterate gives the same batches without it."
        ) from error
