"""`InputRecorder`: keeps the ledger of a run as it goes, and writes it beside its checkpoints.

recorder = InputRecorder("checkpoints/")
recorder.begin(train)
for batch in train:
    recorder.count_steps()
recorder.save()                         # checkpoints/input_ledger.json, of the first worker
ledger = read_ledger("checkpoints/")    # of all workers
"""

import dataclasses
import posixpath
import re
from typing import Any

from trainer_utils.dataset.selection import mean_bytes
from trainer_utils.format import ConfigError, DatasetError
from trainer_utils.losses import LossLog
from trainer_utils.order.ledger import InputLedger, Segment, settings_of_order
from trainer_utils.storage import (
    exists,
    is_folder,
    join,
    list_names,
    make_folder,
    read_text,
    write_atomically,
)

LEDGER_FILE = "input_ledger.json"
"""Of the first worker; those of others have their number: `input_ledger-3.json`."""

_LEDGER_FILES = re.compile(r"input_ledger(-[1-9]\d*)?\.json")


class InputRecorder:
    """The ledger of a run, on one of its workers.

    Args:
        folder: local or of any scheme that `trainer_utils.storage` knows, the same on all workers;
            None: nothing is written.
        losses: whether `keep_losses` is called with the loss of each row of each step.

    Raises:
        ConfigError: losses are to be kept, and there is no folder.
    """

    def __init__(self, folder: str | None = None, *, losses: bool = False) -> None:
        if losses and folder is None:
            raise ConfigError.of("losses", losses, allowed="False without a folder")
        self._folder = folder
        self._keeps_losses = losses
        self._losses: LossLog | None = None
        self._before = InputLedger()
        self._segment: Segment | None = None
        self._batches: Any = None
        self._worker = 0

    @property
    def ledger(self) -> InputLedger:
        """All steps so far."""
        if self._segment is None:
            return self._before
        unreadable: dict[str, list[int]] = {}
        for path, number in sorted(self._batches.unreadable):
            unreadable.setdefault(path, []).append(number)
        return self._before.with_segment(dataclasses.replace(self._segment, unreadable=unreadable))

    def restore(self, ledger: InputLedger) -> None:
        """Goes on from what a checkpoint holds."""
        self._before, self._segment = ledger, None

    def begin(self, dataset: Any) -> int:
        """Begins a segment of steps, with the first that comes of a dataset.

        Args:
            dataset: of `input_fn`, `distribute`, `iterate`, `torch_dataset` or `jax_batches`.

        Returns:
            That step, as the dataset's `state` counts it.
        """
        batches = getattr(dataset, "input_pipeline", dataset)
        order, sources = batches.order, batches.sources
        epoch = int(dataset.input_epoch.read())  # moves where each iterator is an epoch
        begun = dataset.input_start.step if epoch == dataset.input_start.epoch else 0
        start: int = epoch * order.steps_per_epoch + begun
        self._before = self.ledger
        self._worker = batches.worker
        if self._folder is not None and exists(self._path):
            own = InputLedger.from_json(read_text(self._path), path=self._path)
            self._before = self._before.merged([own])
        self._batches = batches
        if self._keeps_losses and self._losses is None:
            assert self._folder is not None
            self._losses = LossLog(self._folder, worker=self._worker)
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
        """Takes note that so many batches were taken."""
        if self._segment is not None:
            steps = self._segment.steps + count
            self._segment = dataclasses.replace(self._segment, steps=steps)

    def keep_losses(self, losses: Any) -> None:
        """Keeps the losses of the step that was counted last: see `LossLog.add`.

        Raises:
            ConfigError: no step was counted, none are kept, or they were not one a row.
        """
        if self._losses is None or self._segment is None or not self._segment.steps:
            rule = "those of a step that was counted, with losses=True"
            raise ConfigError("losses: expected " + rule, setting="losses")
        order = self._batches.order
        within = (self._segment.start + self._segment.steps - 1) % order.steps_per_epoch
        start, stop = order.layout.rows(self._worker, step=within // order.options.echoing)
        rows = stop - start, max(stop - start, order.layout.rows_per_worker)
        self._losses.add(self._segment.stop_step - 1, losses, rows=rows)

    def save(self) -> None:
        """Writes the ledger and the losses, where there is a folder for them."""
        if self._folder is None:
            return
        if self._losses is not None:
            self._losses.save()
        make_folder(self._folder)
        with write_atomically(self._path, temporary_folder=self._folder) as stream:
            stream.write(self.ledger.to_json().encode())

    @property
    def _path(self) -> str:
        assert self._folder is not None
        stem, suffix = posixpath.splitext(LEDGER_FILE)
        return join(self._folder, f"{stem}-{self._worker}{suffix}" if self._worker else LEDGER_FILE)


def is_ledger_file(name: str) -> bool:
    """Whether a file's name is that of a worker's ledger."""
    return _LEDGER_FILES.fullmatch(name) is not None


def read_ledger(place: str) -> InputLedger:
    """What a run left.

    Args:
        place: the folder of its ledgers, of which those of all workers are taken together; or the
            file of one.

    Raises:
        DatasetError: there is none, or one is damaged.
    """
    paths = [place]
    if is_folder(place):
        names = sorted(name for name in list_names(place) if is_ledger_file(name))
        paths = [join(place, name) for name in sorted(names, key=lambda n: n != LEDGER_FILE)]
    if not paths or not exists(paths[0]):
        raise DatasetError(
            f"{place!r}: expected {LEDGER_FILE}, which InputProgress(folder) writes with each "
            "checkpoint, fit and InputBackup with each backup, found none. Name the folder that "
            "these had.",
            path=place,
        )
    first, *others = [InputLedger.from_json(read_text(path), path=path) for path in paths]
    return first.merged(others)
