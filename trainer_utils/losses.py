"""The loss of every row of every step, kept beside a run's ledger: two bytes each.

    log = LossLog("run/", worker=0)
    log.add(1234, losses)               # of this worker's rows, (rows,) of any framework
    log.save()                          # run/losses-0-000007-1234.npz
    read_losses("run/")[1234]           # {0: array([...], float16)}, by worker

Each save writes a file of what came since the one before, whose name ends with its first step.
Where a run went on from an earlier step, a later file counts for all steps from its first one on.
"""

import io
import re
import sys
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from trainer_utils.format import ConfigError, DatasetError
from trainer_utils.storage import join, list_names, make_folder, read_bytes, write_atomically

_FILES = re.compile(r"losses-(\d+)-(\d{6,})-(\d+)\.npz")  # worker, number, first step
_MOST_WAITING = 256  # steps whose losses may still be the framework's, on its device
_MOST_KEPT = 1 << 20  # rows, before a file of them is written though nobody saves
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
        self._waiting: list[tuple[int, Any, tuple[int, int] | None]] = []
        self._steps: list[int] = []
        self._rows: list[Losses] = []
        self._number: int | None = None
        self._last_step = -1

    def add(self, step: int, losses: Any, *, rows: tuple[int, int] | None = None) -> None:
        """Keeps the losses of a step; those of it and later ones that are not saved yet go.

        Args:
            step: counted over the whole run, from 0.
            losses: of each row that this worker read, `(rows,)` of float, in the order of the
                batch; an array of any framework, or TensorFlow's PerReplica of such. It is looked
                at later, so that no step waits for a device.
            rows: how many there are, of which the losses are kept, and how many with those of
                weight 0 after them; None: as many as come.

        Raises:
            ConfigError: what was added here, or some steps before, is no loss a row.
        """
        if step <= self._last_step:
            before = sum(one < step for one in self._steps)
            self._steps, self._rows = self._steps[:before], self._rows[:before]
            self._waiting = [one for one in self._waiting if one[0] < step]
        self._last_step = step
        self._waiting.append((step, losses, rows))
        if len(self._waiting) >= _MOST_WAITING:
            self._take()
            if sum(map(len, self._rows)) >= _MOST_KEPT:
                self.save()

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
            taken = [number for worker, number, _ in _files(self._folder) if worker == self._worker]
            self._number = max(taken, default=-1) + 1
        path = _path(self._folder, self._worker, self._number, self._steps[0])
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
        waiting, self._waiting = self._waiting, []
        for step, losses, expected in waiting:
            replicas = getattr(losses, "values", losses)
            parts = replicas if isinstance(replicas, (tuple, list)) else [losses]
            try:
                rows = np.concatenate([np.atleast_1d(_as_array(part)) for part in parts])
            except (TypeError, ValueError) as error:
                raise ConfigError.of("losses", losses, allowed="a number a row") from error
            if rows.ndim != 1:
                raise ConfigError.of("losses", rows.shape, allowed="the shape (rows,)")
            least, most = expected or (len(rows), len(rows))
            if not least <= len(rows) <= most:
                rule = f"one for each of the {least} rows of step {step}"
                raise ConfigError.of("losses", rows.shape, allowed=rule)
            rows = rows[:least]
            finite = np.clip(rows, -_LARGEST, _LARGEST)
            self._steps.append(step)
            self._rows.append(np.where(np.isfinite(rows), finite, rows).astype(np.float16))


def _as_array(value: Any) -> npt.NDArray[np.float32]:
    value = value.detach().cpu().float() if hasattr(value, "detach") else value  # of PyTorch
    array: npt.NDArray[np.float32] = np.asarray(value).astype(np.float32)
    return array


def _path(folder: str, worker: int, number: int, first: int) -> str:
    return join(folder, f"losses-{worker}-{number:06d}-{first}.npz")


def _files(folder: str) -> list[tuple[int, int, int]]:
    """Workers, numbers and first steps of the files that are there."""
    matches = map(_FILES.fullmatch, list_names(folder, may_lack=True))
    return sorted((int(m[1]), int(m[2]), int(m[3])) for m in matches if m)


def read_losses(
    folder: str, *, start: int = 0, stop: int = sys.maxsize
) -> Mapping[int, Mapping[int, Losses]]:
    """What a run's workers kept of the steps `[start, stop)`: by step, by worker, a loss a row.

    Files of other steps are not read.

    Raises:
        DatasetError: there is nothing, or a file is damaged.
    """
    files = _files(folder)
    if not files:
        raise DatasetError(
            f"{folder!r}: expected the losses of a run, found none. They are kept by "
            "InputProgress(folder, losses=True), or InputRecorder(folder, losses=True).",
            path=folder,
        )
    found: dict[int, dict[int, Losses]] = {}
    ends: dict[int, int] = {}  # by worker: from where on a later file counts
    for worker, number, first in reversed(files):
        end = ends.get(worker, stop)
        if start < end and first < end:
            steps, rows = _read(_path(folder, worker, number, first))
            for step, losses in zip(steps, rows, strict=True):
                if start <= step < end:
                    found.setdefault(step, {})[worker] = losses
        ends[worker] = min(end, first)
    return dict(sorted(found.items()))


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
