"""Determine the rank of this process in a training by several.

rank, world_size = choose_rank(rank=None, world_size=None)     # torchrun's values, or 0 and 1
"""

import functools
import logging
import os
import sys
import warnings
from typing import Any

from trainer_utils.core.errors import ConfigError
from trainer_utils.core.settings import NumberRule, is_int
from trainer_utils.reading.loader_processes import refuse_detected_rank

_logger = logging.getLogger(__name__)
_VARIABLES = {  # of the rank and the number of processes, by the launcher that sets them
    "torchrun": ("RANK", "WORLD_SIZE"),  # Kubeflow's PyTorchJob also sets these
    "keras.distribution": ("KERAS_DISTRIBUTION_PROCESS_ID", "KERAS_DISTRIBUTION_NUM_PROCESSES"),
    "horovodrun": ("HOROVOD_RANK", "HOROVOD_SIZE"),
}
# The tasks of a step that srun started. SLURM_NTASKS is also set in the script of a job, which is
# one process: it would read a part of the records.
_SLURM = ("SLURM_PROCID", "SLURM_STEP_NUM_TASKS")


def choose_rank(
    *,
    rank: int | None,
    world_size: int | None,
    worker: int | None = None,
    num_workers: int | None = None,
) -> tuple[int, int]:
    """Return the rank of this process, from 0, and the number of processes.

    Args:
        rank: the rank passed by the user. Without it and `world_size`, both come from
            `torch.distributed` if it is initialized, else from `jax.distributed` if it is, else
            from the variables of torchrun, `keras.distribution`, horovodrun or Slurm's srun;
            otherwise they are 0 and 1.
        world_size: the number of processes passed by the user.
        worker: the former name of `rank`.
        num_workers: the former name of `world_size`.

    Raises:
        ConfigError: one is given without the other, or the rank is not below the world size; or
            neither is given in a process of a DataLoader that iterates over its dataset.
    """
    if worker is not None or num_workers is not None:
        if rank is not None or world_size is not None:
            rule = "None next to rank and world_size, which are the new names"
            raise ConfigError.of("worker", (worker, num_workers), allowed=rule)
        warnings.warn(
            "worker= and num_workers= are now rank= and world_size=: the number of processes that "
            "train together, not of a DataLoader's processes",
            FutureWarning,
            stacklevel=3,
        )
        rank, world_size = worker, num_workers
    if rank is None and world_size is None:
        return _detected_rank()
    if world_size is None:
        cure = "Give both, or neither to have them detected"
        rule = "the number of processes, next to rank"
        raise ConfigError.of("world_size", None, allowed=rule, advice=cure)
    NumberRule(1)("world_size", world_size)
    if rank is None and world_size > 1:
        cure = "Processes of a DataLoader do not count: they share what this process reads"
        rule = f"the number of this process, 0 to {world_size - 1}, next to world_size={world_size}"
        raise ConfigError.of("rank", None, allowed=rule, advice=cure)
    rank = 0 if rank is None else rank
    if not is_int(rank) or not 0 <= rank < world_size:
        raise ConfigError.of("rank", rank, allowed=f"0 to {world_size - 1}, below world_size")
    return int(rank), int(world_size)


def _detected_rank() -> tuple[int, int]:
    refuse_detected_rank()
    detected = _rank_of_torch() or _rank_of_jax() or _rank_of_variables()
    if detected is None:
        return 0, 1
    rank, world_size, source = detected
    report_rank(rank, world_size, source)
    return rank, world_size


@functools.lru_cache(maxsize=16)  # log each once
def report_rank(rank: int, world_size: int, source: str) -> None:
    """Log a detected rank, and how it was found; nothing if there is one process."""
    if world_size > 1:
        _logger.info("reading as rank %d of %d, by %s", rank, world_size, source)


def _rank_of_torch() -> tuple[int, int, str] | None:
    distributed: Any = sys.modules.get("torch.distributed")
    if distributed is None or not distributed.is_available() or not distributed.is_initialized():
        return None
    return distributed.get_rank(), distributed.get_world_size(), "torch.distributed"


def _rank_of_jax() -> tuple[int, int, str] | None:
    """Return the rank from `jax.distributed`; querying JAX earlier would start its devices."""
    jax: Any = sys.modules.get("jax")
    state: Any = getattr(sys.modules.get("jax._src.distributed"), "global_state", None)
    has_client = getattr(state, "client", None) is not None  # before JAX had is_initialized
    is_initialized = getattr(getattr(jax, "distributed", None), "is_initialized", None)
    if not (has_client if is_initialized is None else is_initialized()):
        return None
    return jax.process_index(), jax.process_count(), "jax.distributed"


def _rank_of_variables() -> tuple[int, int, str] | None:
    """Return rank, number of workers and their source from a launcher's variables, or None."""
    for launcher, names in _VARIABLES.items():
        values = [os.environ.get(name, "") for name in names]
        if not any(values):
            continue
        both = " and ".join(names)
        if not all(value.isascii() and value.isdigit() for value in values):
            rule = f"numbers in both of {both}, which {launcher} sets, or neither"
            cure = "Pass rank= and world_size="
            raise ConfigError.of("rank", values, allowed=rule, advice=cure)
        rank, world_size = map(int, values)
        if rank >= world_size:
            raise ConfigError.of(
                "rank", rank, allowed=f"a {names[0]} below {names[1]}, {values[1]}"
            )
        return rank, world_size, f"the variables {both}"
    step = [os.environ.get(name, "") for name in _SLURM]
    if all(value.isascii() and value.isdigit() for value in step) and int(step[1]) > 1:
        return int(step[0]), int(step[1]), f"Slurm's variables {' and '.join(_SLURM)}"
    return None
