"""Refuse to read a whole input in each of several processes of a PyTorch DataLoader.

    refuse_repeated_reading(opened_here=self._opened_in == os.getpid())

A DataLoader copies an `IterableDataset` to all of its processes. If it iterates over an input,
every record comes once per process, without an error.
"""

import sys
from typing import Any

from trainer_utils.core.errors import ConfigError


def refuse_repeated_reading(*, opened_here: bool) -> None:
    """Raise ConfigError if each of several processes of a DataLoader reads the whole input.

    Args:
        opened_here: this process opened the input, for a rank that the caller passed or that
            `choose_rank` has checked.
    """
    count = num_iterating_processes()
    if count > 1 and not opened_here:
        raise _repetition_error(
            count,
            "Pass DataLoader(num_workers=0) and let the input make batches in processes: "
            "trainer_utils.torch_loader(…, num_workers=…) in place of the DataLoader, or "
            "iterate(…, processes=…)",
        )


def refuse_repeated_first_step(*, opened_here: bool) -> None:
    """Raise ConfigError if this process, which is not a DataLoader's first, reads the first step.

    An `IterableDataset` may divide the steps of an input among the processes, by index. But then
    the first step is read by the first process.

    Args:
        opened_here: this process opened the input.
    """
    if (count := num_iterating_processes()) > 1 and not opened_here and _process_number() > 0:
        raise _repetition_error(
            count,
            "Let process n read the steps n, n + num_workers and so on, or read with "
            "trainer_utils.torch_loader(…, num_workers=…) in place of the DataLoader",
        )


def refuse_detected_rank() -> None:
    """Raise ConfigError if several processes of a DataLoader open an input without a rank."""
    count = num_iterating_processes()
    if count > 1:
        raise _repetition_error(
            count,
            "Pass DataLoader(num_workers=0), or read with trainer_utils.torch_loader(…, "
            "num_workers=…) in place of the DataLoader. If the processes read different data, "
            "pass rank=0, world_size=1",
        )


def num_iterating_processes() -> int:
    """Return how many processes of a DataLoader iterate over a dataset if this is one, or 0."""
    data: Any = sys.modules.get("torch.utils.data")
    info = None if data is None else data.get_worker_info()
    return info.num_workers if info and isinstance(info.dataset, data.IterableDataset) else 0


def _process_number() -> int:
    info = sys.modules["torch.utils.data"].get_worker_info()
    return int(info.id)


def _repetition_error(count: int, cure: str) -> ConfigError:
    return ConfigError(
        f"num_workers: each of the {count} processes of the DataLoader would read every record, "
        f"since its dataset is an IterableDataset: each record would come {count} times. {cure}.",
        setting="num_workers",
        value=count,
    )
