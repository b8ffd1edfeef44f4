"""Find the records in the steps before a loss spike, from the ledger and losses of a run.

    found = find_suspects("run/", step=4000, window=200)
    found.suspects[0].record.name, found.suspects[0].score
    found.write("suspects.txt")                   # a file for `exclude=` and `balance --exclude`

The score of a row is a * (1 + r * a / w). Here a is the distance of its loss from the median of its
step, w the largest a of the step, and r the rise of the loss from this step to the next steps. The
unit of a is the deviation of rows in nearby steps; the unit of r is the deviation of such rises.
Among adjacent steps the one with the largest rise counts most. The loss of a step is the median of
its rows, which a bad or a hard row hardly changes. A NaN or infinite loss counts as the worst. A
step where most losses are not finite is the spike itself, and its rows are not listed.
"""

import dataclasses
import os
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from pipelines.tools.ledger import NamedRecord, RunLedger
from trainer_utils.core.errors import ConfigError
from trainer_utils.core.json_text import JsonObject
from trainer_utils.core.text_output import Part, TextReport, make_table, quantity
from trainer_utils.ledger.recorder import read_losses
from trainer_utils.storage import is_remote, path_of, write_text

_AROUND = 8  # steps on each side that a step is compared with
_WEIGHTS = (0.4, 0.3, 0.2, 0.1)  # weights of the steps before and after, the nearest first
_WORST = 1e6  # the deviations that a loss which is not finite counts as
_MAX_RISE = 100.0  # deviations
_NORMAL = 1.4826  # standard deviation of a normal distribution / its median absolute deviation

_Array = npt.NDArray[Any]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Suspect:
    """A record in a step before the spike, or a document of a pack in such a step."""

    record: NamedRecord
    step: int
    score: float
    loss: float | None  # the loss of its row; None if it is not finite
    median: float  # the median loss of the step
    rise: float  # the rise of the loss from this step to the next ones, in deviations


@dataclasses.dataclass(frozen=True, kw_only=True)
class Suspects(TextReport):
    """The records of the steps up to a spike, the most suspect first."""

    step: int
    window: int
    suspects: Sequence[Suspect]

    def to_json(self) -> JsonObject:
        """Return plain JSON types."""
        return dataclasses.asdict(self)

    def parts(self) -> list[Part]:
        """Return the parts that `print_parts` prints."""
        rows = [
            [
                *(suspect.record.name, suspect.record.place, suspect.step, f"{suspect.score:.1f}"),
                "-" if suspect.loss is None else f"{suspect.loss:.3g}",
                *(f"{suspect.median:.3g}", f"{suspect.rise:.1f}"),
            ]
            for suspect in self.suspects
        ]
        header = ["record", "place", "step", "score", "loss", "median", "rise"]
        before = quantity(self.window, "step")
        return [f"{before} up to {self.step:,}", "", make_table(header, rows)]

    def write(self, path: str | os.PathLike[str]) -> None:
        """Write the names of the records to a file, one per line.

        Args:
            path: path or address of the file.

        Raises:
            ConfigError: a record has no name, or its name has several lines.
        """
        for record in (each.record for each in self.suspects):
            if record.name == f"{record.split} {record.number}" or {*record.name} & {"\n", "\r"}:
                rule = "records with names of one line, by which exclude leaves them out"
                raise ConfigError.of("write", record.name, allowed=rule)
        path = path_of("path", path)
        folder = path.rpartition("/")[0] or ("" if is_remote(path) else ".")
        names = dict.fromkeys(suspect.record.name for suspect in self.suspects)
        write_text(path, "".join(f"{name}\n" for name in names), temporary_folder=folder)


def find_suspects(
    run: str | os.PathLike[str],
    *,
    step: int,
    window: int = 200,
    most: int = 20,
    datasets: Sequence[str | os.PathLike[str]] = (),
) -> Suspects:
    """Rank the records of the steps up to a spike.

    Args:
        run: the folder passed to `InputProgress(folder, losses=True)`.
        step: the step with the high loss, counted over the whole run, from 0.
        window: number of steps to examine, up to and including `step`.
        most: maximum number of records to return.
        datasets: the current addresses of the datasets, see `RunLedger`.

    Raises:
        ConfigError: no losses of these steps were recorded.
        DatasetError: the ledger is missing, or `RunLedger.at_step` raises it.
    """
    ledger = RunLedger(run, datasets=datasets)
    first = step - window + 1
    near = read_losses(run, start=first - _AROUND, stop=step + _AROUND + 1)
    if not any(first <= s <= step for s in near):
        raise ConfigError.of("spike", step, allowed="a step whose losses were kept, or some before")
    steps = np.array(sorted(near))
    rows = [np.concatenate(list(map(near[s].get, sorted(near[s])))) for s in steps.tolist()]
    medians = np.array([_median(row) for row in rows])
    counts = [len(row) for row in rows]
    place = np.repeat(np.arange(len(steps)), counts)
    values = np.concatenate(rows).astype(np.float64)
    above = values - medians[place]
    diverged = np.array([np.isfinite(row).mean() < 0.5 for row in rows])
    widths = [_NORMAL * _median(np.abs(row - m)) for row, m in zip(rows, medians, strict=True)]
    spreads = np.where(diverged, np.nan, widths)
    near_by = [slice(max(n - _AROUND, 0), n + _AROUND + 1) for n in range(len(steps))]
    units = np.array([_median(spreads[neighbours]) for neighbours in near_by])
    units = np.where(units > 0, units, _deviation(above))
    above /= units[place]
    medians[diverged] = medians.max() + 10 * units.max()
    rises = _rises(medians, units)
    above = np.where(np.isfinite(values), above, _WORST)
    worst = np.maximum.reduceat(above, np.cumsum(counts) - counts)[place]
    scores = above * (1 + rises[place] * above / np.maximum(worst, 1e-9))
    scores[(steps[place] < first) | (steps[place] > step) | diverged[place]] = -np.inf
    within = np.concatenate([np.arange(count) for count in counts])
    suspects: dict[tuple[str, int], Suspect] = {}
    for row in np.argsort(-scores, kind="stable").tolist():
        if len(suspects) >= most or not np.isfinite(scores[row]) or scores[row] <= 0:
            break
        at = place[row]
        for record in ledger.records_of_row(int(steps[at]), int(within[row]), near[int(steps[at])]):
            suspect = Suspect(
                record=record,
                step=int(steps[at]),
                score=float(scores[row]),
                loss=float(values[row]) if np.isfinite(values[row]) else None,
                median=float(medians[at]),
                rise=float(rises[at]),
            )
            suspects.setdefault((record.split, record.number), suspect)
    return Suspects(step=step, window=window, suspects=list(suspects.values())[:most])


def _rises(medians: _Array, units: _Array) -> _Array:
    """Return the rise of the loss after each step, `(steps,)`, in deviations.

    The rise is the weighted difference of the medians of the steps after it and those up to it.
    """
    most = len(_WEIGHTS)
    padded = np.pad(medians, most, mode="edge")
    edges = np.zeros(len(medians))
    for far, weight in enumerate(_WEIGHTS, 1):
        after, before = padded[most + far :], padded[most + 1 - far :]
        edges += weight * (after[: len(edges)] - before[: len(edges)]) / units
    edges = np.clip(edges / _deviation(edges - np.median(edges)), 0, _MAX_RISE)
    near = np.lib.stride_tricks.sliding_window_view(np.pad(edges, most - 1), 2 * most - 1)
    rises: _Array = edges * (edges / np.maximum(near.max(axis=1), 1e-9)) ** 2
    return rises


def _median(losses: _Array) -> float:
    finite = losses[np.isfinite(losses)].astype(np.float64)
    return float(np.median(finite)) if len(finite) else 0.0


def _deviation(differences: _Array) -> float:
    return max(_NORMAL * _median(np.abs(differences)), 1e-9)
