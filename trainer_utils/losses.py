"""The loss of every row of every step, kept beside a run's ledger: two bytes each.

    log = LossLog("run/", worker=0)
    log.add(1234, losses)               # of this worker's rows, (rows,) of any framework
    log.save()                          # run/losses-0-000007.npz
    read_losses("run/")[1234]           # {0: array([...], float16)}, by worker

Each save writes a file of what came since the one before. Where a run went on from an earlier
step, the later file's steps are the run's.
"""

import io
import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from trainer_utils.format import ConfigError, DatasetError
from trainer_utils.storage import join, list_names, make_folder, read_bytes, write_atomically

__all__ = ["LossLog", "read_losses"]

_FILES = re.compile(r"losses-(\d+)-(\d{6,})\.npz")
_MOST_WAITING = 256  # steps whose losses may still be the framework's, on its device
_LARGEST = float(np.finfo(np.float16).max)

Losses = npt.NDArray[np.float16]


class LossLog:
    """Keeps losses by step, on one worker.

    Args:
        folder: of the ledger, the same on all workers.
        worker: its number.
    """

    def __init__(self, folder: str, *, worker: int = 0) -> None:
        self._folder, self._worker = folder, worker
        self._waiting: list[tuple[int, Any]] = []
        self._steps: list[int] = []
        self._rows: list[Losses] = []
        self._number: int | None = None

    def add(self, step: int, losses: Any) -> None:
        """Keeps the losses of a step.

        Args:
            step: counted over the whole run, from 0.
            losses: of each row that this worker read, `(rows,)` of float, in the order of the
                batch; an array of any framework, or TensorFlow's PerReplica of such. It is looked
                at later, so that no step waits for a device.
        """
        self._waiting.append((step, losses))
        if len(self._waiting) >= _MOST_WAITING:
            self._take()

    def save(self) -> None:
        """Writes what came since the last time, if anything did.

        Raises:
            ConfigError: what was added is no loss a row.
        """
        self._take()
        if not self._steps:
            return
        make_folder(self._folder)
        if self._number is None:  # another process may have written before
            taken = [number for worker, number in _files(self._folder) if worker == self._worker]
            self._number = max(taken, default=-1) + 1
        path = join(self._folder, f"losses-{self._worker}-{self._number:06d}.npz")
        np.savez(
            kept := io.BytesIO(),
            steps=np.array(self._steps, np.int64),
            rows=np.array([len(one) for one in self._rows], np.int32),
            losses=np.concatenate(self._rows),
        )
        with write_atomically(path, temporary_folder=self._folder) as stream:
            stream.write(kept.getvalue())
        self._number += 1
        self._steps, self._rows = [], []

    def _take(self) -> None:
        for step, losses in self._waiting:
            replicas = getattr(losses, "values", losses)
            parts = replicas if isinstance(replicas, (tuple, list)) else [losses]
            try:
                rows = np.concatenate([np.atleast_1d(_as_array(part)) for part in parts])
            except (TypeError, ValueError) as error:
                raise ConfigError.of("losses", losses, allowed="a number a row") from error
            if rows.ndim != 1:
                raise ConfigError.of("losses", rows.shape, allowed="the shape (rows,)")
            finite = np.clip(rows, -_LARGEST, _LARGEST)
            self._steps.append(step)
            self._rows.append(np.where(np.isfinite(rows), finite, rows).astype(np.float16))
        self._waiting = []


def _as_array(value: Any) -> npt.NDArray[np.float32]:
    value = value.detach().cpu().float() if hasattr(value, "detach") else value  # of PyTorch
    array: npt.NDArray[np.float32] = np.asarray(value).astype(np.float32)
    return array


def _files(folder: str) -> list[tuple[int, int]]:
    """Workers and numbers of the files that are there."""
    matches = map(_FILES.fullmatch, list_names(folder, may_lack=True))
    return sorted((int(match[1]), int(match[2])) for match in matches if match)


def read_losses(folder: str) -> Mapping[int, Mapping[int, Losses]]:
    """What the workers of a run kept: by step, by worker, a loss a row.

    Raises:
        DatasetError: there is nothing, or a file is damaged.
    """
    found: dict[int, dict[int, Losses]] = {}  # by worker, by step
    for worker, number in _files(folder):
        path = join(folder, f"losses-{worker}-{number:06d}.npz")
        steps, rows = _read(path)
        own = found.setdefault(worker, {})
        for step in [step for step in own if step >= min(steps)]:  # trained anew since
            del own[step]
        own.update(zip(steps, rows, strict=True))
    if not found:
        raise DatasetError(
            f"{folder!r}: expected the losses of a run, found none. They are kept by "
            "InputProgress(folder, losses=True), or InputRecorder(folder, losses=True).",
            path=folder,
        )
    by_step: dict[int, dict[int, Losses]] = {}
    for worker, own in found.items():
        for step, losses in own.items():
            by_step.setdefault(step, {})[worker] = losses
    return dict(sorted(by_step.items()))


def _read(path: str) -> tuple[Sequence[int], Sequence[Losses]]:
    content = io.BytesIO(read_bytes(path))
    try:
        with np.load(content, allow_pickle=False) as kept:
            steps, rows, losses = (kept[name] for name in ("steps", "rows", "losses"))
        if len(steps) != len(rows) or rows.sum() != len(losses) or not len(steps):
            raise ValueError(f"{len(steps)} steps of {len(losses)} rows")
    except Exception as error:  # zipfile and numpy have many
        raise DatasetError(f"{path!r}: expected losses of a run, got {error}", path=path) from error
    return steps.tolist(), np.split(losses, np.cumsum(rows)[:-1])
