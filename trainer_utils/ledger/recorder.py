"""Keep the ledger of a run, and write it next to the run's checkpoints.

recorder = InputRecorder("checkpoints/", losses=True)
recorder.begin(train)                   # then count_steps and keep_losses for each batch, save
read_ledger("checkpoints/"), read_losses("checkpoints/")[1234]      # of all workers
"""

import dataclasses
import io
import os
import re
import sys
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from trainer_utils.core.errors import ConfigError, DatasetError, reading
from trainer_utils.dataset.selection import mean_bytes
from trainer_utils.ledger.input_ledger import (
    InputLedger,
    Segment,
    numbers_by_path,
    settings_of_order,
)
from trainer_utils.storage import (
    exists,
    is_folder,
    join,
    list_names,
    local_path,
    make_folder,
    read_bytes,
    read_text,
    write_atomically,
    write_text,
)

LEDGER_FILE = "input_ledger.json"
"""The file of the first worker; others have their number: `input_ledger-3.json`."""

_LOSS_FILES = re.compile(r"losses-(\d+)-(\d{6,})-(\d+)\.npz")  # worker, number, first step
_MAX_WAITING = 256  # steps with losses that may still be on the framework's device
_MAX_KEPT = 1 << 20  # rows kept before a file is written without a call of `save`
_LARGEST = float(np.finfo(np.float16).max)
_LEDGER_FILES = re.compile(r"input_ledger(-[1-9]\d*)?\.json")
Losses = npt.NDArray[np.float16]


class InputRecorder:
    """The ledger of a run on one worker.

    Args:
        folder: the folder to write to, of any scheme and the same on all workers. None: nothing is
            written.
        losses: whether `keep_losses` is called in each step.
    """

    def __init__(
        self, folder: str | os.PathLike[str] | None = None, *, losses: bool = False
    ) -> None:
        if losses and folder is None:
            raise ConfigError.of("losses", losses, allowed="False without a folder")
        self._folder = None if folder is None else local_path(folder)
        self._keeps_losses = losses
        self._losses: LossLog | None = None
        self._before = InputLedger()
        self._segment: Segment | None = None
        self._batches: Any = None
        self._worker = 0

    @property
    def ledger(self) -> InputLedger:
        """Ledger of all steps so far."""
        if self._segment is None:
            return self._before
        unreadable = numbers_by_path(self._batches.unreadable)
        return self._before.with_segment(dataclasses.replace(self._segment, unreadable=unreadable))

    def restore(self, ledger: InputLedger) -> None:
        """Resume from the ledger of a checkpoint."""
        self._before, self._segment = ledger, None

    def begin(self, dataset: Any) -> int:
        """Begin a segment of steps of a dataset; return the first, as its `state` counts it."""
        batches = getattr(dataset, "input_pipeline", dataset)
        order, sources = batches.order, batches.sources
        epoch = batches.next_epoch  # it advances if each iterator is an epoch
        begun = batches.input_start.step if epoch == batches.input_start.epoch else 0
        start: int = epoch * order.steps_per_epoch + begun
        self._before = self.ledger
        self._worker = batches.worker
        if self._folder is not None and exists(self._path):
            earlier = InputLedger.from_json(read_text(self._path), path=self._path)
            self._before = self._before.merged([earlier])
        self._batches = batches
        if self._keeps_losses and self._losses is None:
            self._losses = LossLog(str(self._folder), worker=self._worker)
        self._segment = Segment(
            first_step=self._before.steps if self._before.segments else start,
            steps=0,
            start=start,
            datasets=[(source.place, source.split) for source in sources],
            settings=settings_of_order(order.options),
            digest=order.digest,
            mean_record_bytes=mean_bytes(sources),
            num_workers=order.layout.num_workers,
            num_replicas=order.layout.num_replicas,
        )
        return start

    def count_steps(self, count: int = 1) -> None:
        """Count `count` batches as taken."""
        if self._segment is not None:
            steps = self._segment.steps + count
            self._segment = dataclasses.replace(self._segment, steps=steps)

    def keep_losses(self, losses: Any) -> None:
        """Keep the losses of the step that was counted last: see `LossLog.add`."""
        if self._losses is None or self._segment is None or not self._segment.steps:
            rule = "those of a step that was counted, with losses=True"
            raise ConfigError("losses: expected " + rule, setting="losses")
        order = self._batches.order
        within = (self._segment.start + self._segment.steps - 1) % order.steps_per_epoch
        start, stop = order.layout.rows(self._worker, step=within // order.options.echoing)
        rows = stop - start, max(stop - start, order.layout.rows_per_worker)
        self._losses.add(self._segment.stop_step - 1, losses, rows=rows)

    def save(self) -> None:
        """Write the ledger and the losses, if there is a folder for them."""
        if self._folder is None:
            return
        if self._losses is not None:
            self._losses.save()
        write_text(self._path, self.ledger.to_json(), temporary_folder=self._folder)

    @property
    def _path(self) -> str:
        name = f"input_ledger-{self._worker}.json" if self._worker else LEDGER_FILE
        return join(str(self._folder), name)


def read_ledger(place: str | os.PathLike[str]) -> InputLedger:
    """Read the ledger of a run: a folder with the ledgers of all workers, or one file.

    Raises:
        DatasetError: there is no ledger, or one is damaged.
    """
    place = local_path(place)
    paths = [place]
    if is_folder(place):
        names = filter(_LEDGER_FILES.fullmatch, list_names(place))
        paths = [join(place, n) for n in sorted(names, key=lambda n: (n != LEDGER_FILE, n))]
    if not paths or not exists(paths[0]):
        raise DatasetError(
            f"{place!r}: expected {LEDGER_FILE}, which InputProgress(folder) writes with each "
            "checkpoint, fit and InputBackup with each backup, found none. Name the folder that "
            "these had.",
            path=place,
        )
    first, *others = [InputLedger.from_json(read_text(path), path=path) for path in paths]
    return first.merged(others)


class LossLog:
    """A log of the losses of one worker's rows, two bytes each, next to its ledger.

    Each save writes a file of the steps since the previous one, `losses-WORKER-NUMBER-STEP.npz`,
    named after its first step. If a run resumed from an earlier step, a later file is valid from
    its first step on.

    Args:
        folder: the folder to write to.
        worker: the number of this worker.
    """

    def __init__(self, folder: str | os.PathLike[str], *, worker: int = 0) -> None:
        self._folder, self._worker = local_path(folder), worker
        self._waiting: list[tuple[int, Any, tuple[int, int] | None]] = []
        self._kept: dict[int, Losses] = {}
        self._number: int | None = None
        self._last_step = -1

    def add(self, step: int, losses: Any, *, rows: tuple[int, int] | None = None) -> None:
        """Keep the losses of a step; unsaved losses of it and of later steps are dropped.

        Args:
            step: the step, counted over the whole run, from 0.
            losses: the loss of each row that this worker read, `(rows,)`, of any framework, or
                TensorFlow's PerReplica of such. It is evaluated later, so that no step waits for
                it.
            rows: the number of rows to keep, and the number including filler rows of weight 0.
                None: all rows.
        """
        if step <= self._last_step:
            self._kept = {
                first_step: step_values
                for first_step, step_values in self._kept.items()
                if first_step < step
            }
            self._waiting = [entry for entry in self._waiting if entry[0] < step]
        self._last_step = step
        self._waiting.append((step, losses, rows))
        if len(self._waiting) >= _MAX_WAITING:
            self._take()
            if sum(map(len, self._kept.values())) >= _MAX_KEPT:
                self.save()

    def save(self) -> None:
        """Write the losses since the last save, if there are any.

        Raises:
            ConfigError: losses have an invalid type or shape.
        """
        self._take()
        if not self._kept:
            return
        make_folder(self._folder)
        if self._number is None:  # another process may have written files
            taken = [number for worker, number, _ in _files(self._folder) if worker == self._worker]
            self._number = max(taken, default=-1) + 1
        path = _path(self._folder, self._worker, self._number, min(self._kept))
        np.savez(
            kept := io.BytesIO(),
            steps=np.array([*self._kept], np.int64),
            rows=np.array([*map(len, self._kept.values())], np.int32),
            losses=np.concatenate([*self._kept.values()]),
        )
        with write_atomically(path, temporary_folder=self._folder) as stream:
            stream.write(kept.getvalue())
        self._number, self._kept = self._number + 1, {}

    def _take(self) -> None:
        """Copy the waiting losses from their device, and check their number."""
        waiting, self._waiting = self._waiting, []
        for step, losses, expected in waiting:
            parts = getattr(losses, "values", losses)
            parts = parts if isinstance(parts, (tuple, list)) else [losses]
            try:
                # PyTorch's may be on a device, or in bfloat16.
                outputs = [o.detach().cpu().float() if hasattr(o, "detach") else o for o in parts]
                arrays = [
                    np.atleast_1d(np.asarray(values).astype(np.float32)) for values in outputs
                ]
                rows = np.concatenate(arrays)
            except (TypeError, ValueError) as error:
                raise ConfigError.of("losses", losses, allowed="one number per row") from error
            least, most = expected or (len(rows), len(rows))
            if rows.ndim != 1 or not least <= len(rows) <= most:
                rule = f"the shape (rows,), one for each of the {least} rows of step {step}"
                raise ConfigError.of("losses", rows.shape, allowed=rule)
            rows = rows[:least]
            finite = np.clip(rows, -_LARGEST, _LARGEST)
            self._kept[step] = np.where(np.isfinite(rows), finite, rows).astype(np.float16)


def _path(folder: str, worker: int, number: int, first: int) -> str:
    return join(folder, f"losses-{worker}-{number:06d}-{first}.npz")


def _files(folder: str) -> list[tuple[int, int, int]]:
    """Return workers, numbers and first steps of the existing files."""
    matches = map(_LOSS_FILES.fullmatch, list_names(folder, may_lack=True))
    return sorted((int(m[1]), int(m[2]), int(m[3])) for m in matches if m)


def read_losses(
    folder: str | os.PathLike[str], *, start: int = 0, stop: int = sys.maxsize
) -> Mapping[int, Mapping[int, Losses]]:
    """Read the losses of steps `[start, stop)`: by step and worker, one per row.

    Args:
        folder: the folder that the run wrote to.
        start: the first step, counted over the whole run, from 0.
        stop: the step after the last one.

    Raises:
        DatasetError: there are no losses, or a file is damaged.
    """
    folder = local_path(folder)
    files = _files(folder)
    if not files:
        raise DatasetError(
            f"{folder!r}: expected the losses of a run, found none. They are kept by "
            "InputProgress(folder, losses=True), or InputRecorder(folder, losses=True).",
            path=folder,
        )
    losses_by_step: dict[int, dict[int, Losses]] = {}
    ends: dict[int, int] = {}  # by worker: the first step of a later file
    for worker, number, first in reversed(files):
        end = ends.get(worker, stop)
        if start < end and first < end:
            for step, losses in _read_losses(_path(folder, worker, number, first)):
                if start <= step < end:
                    losses_by_step.setdefault(step, {})[worker] = losses
        ends[worker] = min(end, first)
    return dict(sorted(losses_by_step.items()))


def _read_losses(path: str) -> Iterator[tuple[int, Losses]]:
    content = io.BytesIO(read_bytes(path))
    with reading(path, "losses of a run"), np.load(content, allow_pickle=False) as kept:
        steps, rows, losses = (kept[name] for name in ("steps", "rows", "losses"))
        if len(steps) != len(rows) or rows.sum() != len(losses) or not len(steps):
            raise ValueError(f"{len(steps)} steps of {len(losses)} rows")
    return zip(steps.tolist(), np.split(losses, np.cumsum(rows)[:-1]), strict=True)
