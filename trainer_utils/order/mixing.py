"""Mix several datasets by weights: each row of a batch comes from the part whose turn it is.

Rows are numbered over all epochs of a run, and each part has its own order. Parts can therefore be
added, dropped or reweighted at any step without changing the records that other parts give.
"""

import dataclasses
import fractions
import functools
import heapq
import itertools
import math
import numbers
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from trainer_utils.core.decoding import decode
from trainer_utils.core.errors import ConfigError, did_you_mean
from trainer_utils.format.hashing import keyed_hash
from trainer_utils.order.batch_layout import BatchLayout
from trainer_utils.order.epoch_order import Order, Positions, wrapped_seed

_MAX_TURNS = 10_000  # rows in a period, after which the turns of the parts repeat

Shares: TypeAlias = Mapping[str, int]
Stage: TypeAlias = tuple[int, Shares]
"""The first row of a stage, and its shares: integers without a common factor."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class WeightSchedule:
    """The weights of each part over the steps of a run.

    Args:
        names: the names of the parts, in the order of their datasets. Past stages of a run may
            also name parts that have been dropped.
        stages: steps, counted over all epochs from 0, and the weights from that step on, in any
            unit. A part that a stage does not name has weight 0 in it.
        epoch_records: records in an epoch. None: as many as it takes until every record of each
            part with a weight in the first stage has come.
        older: for parts that are newer versions, the name, uri and split of the older one.
    """

    names: Sequence[str]
    stages: Sequence[tuple[int, Mapping[str, float]]]
    epoch_records: int | None = None
    older: Mapping[str, tuple[str, Any, str | None]] = dataclasses.field(default_factory=dict)

    def __post_init__(self) -> None:
        if len({*self.names}) < len(self.names):
            raise ConfigError.of("weights", [*self.names], allowed="parts of different names")
        steps = [step for step, _ in self.stages]
        if not steps or steps[0] or steps != sorted({*steps}):
            raise ConfigError.of("schedule", steps, allowed="steps in rising order, the first 0")
        last = self.stages[-1][1]
        for name in last:
            if last[name] and name not in self.names:
                rule = f"one of the parts {', '.join(self.names)}, or weight 0 in the end"
                meant = did_you_mean(name, self.names).strip()
                raise ConfigError.of("schedule", name, allowed=rule, advice=meant)
        _ = self.shares

    @functools.cached_property
    def shares(self) -> Sequence[Stage]:
        """The stages by their steps, with weights as integers."""
        return [(step, shares_of(weights)) for step, weights in self.stages]

    @classmethod
    def of(cls, weights: "Weights") -> "WeightSchedule":
        """Return the schedule of a setting: itself, or one weight for each dataset."""
        if isinstance(weights, WeightSchedule):
            return weights
        names = [str(number) for number in range(len(weights))]
        return cls(names=names, stages=[(0, dict(zip(names, map(float, weights), strict=True)))])

    @classmethod
    def from_dict(cls, value: Mapping[str, Any]) -> "WeightSchedule":
        """Parse the JSON form of `asdict`; raise ConfigError or DecodeError if it is invalid."""
        schedule: WeightSchedule = decode(cls, value)
        return schedule


Weights: TypeAlias = Sequence[float] | WeightSchedule


def shares_of(weights: Mapping[str, float]) -> Shares:
    """Return weights as integers, exactly if these add up to at most 10,000."""
    for name, weight in weights.items():
        is_number = isinstance(weight, numbers.Real) and not isinstance(weight, bool)
        if not is_number or not 0 <= float(weight) < math.inf:
            rule = f"finite numbers from 0 on, for {name!r} too"
            raise ConfigError.of("weights", weight, allowed=rule)
    exact = {n: fractions.Fraction(repr(float(w))) for n, w in weights.items() if w > 0}
    total = sum(exact.values())
    if not total or min(exact.values()) * _MAX_TURNS < total:
        rule = f"some above 0, each at least 1/{_MAX_TURNS:,} of their sum"
        raise ConfigError.of("weights", dict(weights), allowed=rule)
    unit = fractions.Fraction(math.lcm(*(weight.denominator for weight in exact.values())))
    unit /= math.gcd(*(int(weight * unit) for weight in exact.values()))
    unit = min(unit, _MAX_TURNS / total)
    counts = {name: max(1, round(weight * unit)) for name, weight in exact.items()}
    common = math.gcd(*counts.values())
    return {name: counts[name] // common for name in sorted(counts)}


@functools.lru_cache(maxsize=128)
def _turns(shares: tuple[int, ...]) -> npt.NDArray[np.int32]:
    """Return the part that gives each row of a period, `(sum of shares,) int32`.

    After any number of rows, each part is less than one record away from its exact share.
    Source: R. Tijdeman, "The chairman assignment problem" (1980): the j-th turn of each part has a
    first and a last row, and among the turns that may come, the most urgent one is next.
    """
    total, q = sum(shares), 2 * max(len(shares), 2) - 2
    jobs = sorted(
        (-(-(j * q + 1) * total // (q * share)) - 1, (j * q + q - 1) * total // (q * share), part)
        for part, share in enumerate(shares)
        for j in range(share)
    )
    waiting: list[tuple[int, int]] = []
    turns = np.empty(total, np.int32)
    begun = 0
    for row in range(total):
        while begun < total and jobs[begun][0] <= row:
            heapq.heappush(waiting, jobs[begun][1:])
            begun += 1
        turns[row] = heapq.heappop(waiting)[1]
    return turns


def part_seed(seed: int, name: str) -> int:
    """Return the seed of a part's order. It depends on the name alone, not on the other parts."""
    return keyed_hash(name.encode(), seed=wrapped_seed(seed), purpose="part") % (1 << 63)


@dataclasses.dataclass(frozen=True)
class MixPart:
    """A dataset of a mixture.

    Args:
        records: the number of records read.
        digest: a digest of these records.
        record_bytes: the mean size of a record, which `shuffle=True` depends on.
        keys: returns `(records,) uint64`, keys that identify a record in another version.
        after: the name and part of the older version. Records that it gave in its last epoch are
            left out of the first epoch of this one.
    """

    records: int
    digest: str
    record_bytes: float | None = None
    keys: Callable[[], npt.NDArray[np.uint64]] | None = None
    after: "tuple[str, MixPart] | None" = None


class _PartOrder:
    """The records of one part, numbered over all epochs of the run.

    The first epoch of a newer version consists of the positions in `unread` only.
    """

    def __init__(
        self, part: MixPart, make: Callable[[int], Order], unread: Positions | None = None
    ) -> None:
        self._records, self._order, self._unread = part.records, make(part.records), unread
        self._skipped = 0 if unread is None else part.records - len(unread)
        self._first_order = self._order if unread is None else make(len(unread))

    def records(self, numbers: Positions) -> Positions:
        """Return the positions within the part of consecutive numbers."""
        epochs, places = np.divmod(numbers + self._skipped, self._records)
        positions = [numbers[:0]]
        for epoch in np.unique(epochs).tolist():
            part_places = places[epochs == epoch]
            if epoch or self._unread is None:
                positions.append(self._order.sequence(epoch, part_places))
            else:
                positions.append(
                    self._unread[self._first_order.sequence(0, part_places - self._skipped)]
                )
        return np.concatenate(positions)

    def epoch_begin(self, number: int) -> int:
        """Return the first number of the epoch that contains `number`."""
        return max(number - (number + self._skipped) % self._records, 0)


def _unread(keys: npt.NDArray[np.uint64], read: npt.NDArray[np.uint64]) -> Positions:
    """Return the positions of keys that were not read. Equal keys are counted one by one."""
    order = np.argsort(keys, kind="stable")
    ordered = keys[order]
    before = np.arange(len(keys)) - np.searchsorted(ordered, ordered)
    read = np.sort(read)
    times = np.searchsorted(read, ordered, "right") - np.searchsorted(read, ordered)
    positions: Positions = np.sort(order[before >= times])
    return positions


class _Turns:
    """The part that gives each row of a stage.

    Args:
        row: the first row of the stage.
        shares: the shares of its parts.
        begun: for each part, the number of records before that row.
    """

    def __init__(self, row: int, shares: Shares, begun: Mapping[str, int]) -> None:
        self.row, self._shares, self._begun = row, shares, begun
        self._turns = _turns(tuple(shares.values()))

    def rows(self, first: int, stop: int) -> dict[str, tuple[Positions, Positions]]:
        """Return, for each part, its rows among `first` to `stop` and its record numbers there."""
        if first >= stop:
            return {}
        turns = self._turns[(np.arange(first, stop) - self.row) % len(self._turns)]
        begun, by_part = self.begun_by(first), {}
        for index, name in enumerate(self._shares):
            (rows_of_part,) = np.nonzero(turns == index)
            if len(rows_of_part):
                by_part[name] = rows_of_part, begun[name] + np.arange(len(rows_of_part))
        return by_part

    def begun_by(self, row: int) -> dict[str, int]:
        """Return the records of each part before a row of this stage, or before the next stage."""
        periods, place = divmod(row - self.row, len(self._turns))
        counts = np.bincount(self._turns[:place], minlength=len(self._shares)).tolist()
        begun = dict(self._begun)
        for (name, share), count in zip(self._shares.items(), counts, strict=True):
            begun[name] = begun.get(name, 0) + periods * share + count
        return begun


class Mixture:
    """The order of several parts, mixed by the stages of a run.

    Args:
        layout: the layout of an epoch's batches.
        stages: the stages, the first at row 0.
        parts: the parts by name, in the order of positions.
        make_order: returns the order of one part, given its name, the part and the number of
            records, in batches of one.
    """

    def __init__(
        self,
        layout: BatchLayout,
        stages: Sequence[Stage],
        parts: Mapping[str, MixPart],
        make_order: Callable[[str, MixPart, int], Order],
    ) -> None:
        self._layout, self._make_order = layout, make_order
        starts = itertools.accumulate((part.records for part in parts.values()), initial=0)
        self._starts = dict(zip(parts, starts, strict=False))
        self._stages: list[_Turns] = []
        for row, shares in stages:
            begun = self._stages[-1].begun_by(row) if self._stages else {}
            self._stages.append(_Turns(row, shares, begun))
        self._orders = {name: self._order_of(name, part) for name, part in parts.items()}

    def batch(self, epoch: int, step: int, first: int, stop: int) -> Positions:
        """Return the records in rows `first` to `stop` (exclusive) of a global batch."""
        begin = epoch * self._layout.num_records + self._layout.begin(step)
        end = begin + self._layout.size(step)
        positions = np.empty(end - begin, np.int64)
        stops = [*(stage.row for stage in self._stages[1:]), max(end, self._stages[-1].row)]
        for stage, stop_row in zip(self._stages, stops, strict=True):
            start, stop_row = max(begin, stage.row), min(end, stop_row)
            for name, (rows, counts) in stage.rows(start, stop_row).items():
                if name not in self._orders:
                    rule = "a step at which no part is read that the recipe has no more"
                    raise ConfigError.of("step", name, allowed=rule)
                records_of_part = self._orders[name].records(counts) + self._starts[name]
                positions[rows + (start - begin)] = records_of_part
        return positions[first:stop]

    def _order_of(self, name: str, part: MixPart) -> _PartOrder:
        """Return the order of a part, without the records that its older version has given."""
        make = functools.partial(self._make_order, name, part)
        if part.after is None or part.keys is None:
            return _PartOrder(part, make)
        return _PartOrder(part, make, _unread(part.keys(), self._read_by(*part.after)))

    def _read_by(self, name: str, part: MixPart) -> npt.NDArray[np.uint64]:
        """Return the keys of the records that an older version gave in its last epoch."""
        assert part.keys is not None
        order, last = self._order_of(name, part), self._stages[-1]
        stop = last.begun_by(last.row).get(name, 0)
        begin = order.epoch_begin(stop)
        read = part.keys()[order.records(np.arange(begin, stop))]
        if begin == 0 and part.after is not None:
            read = np.concatenate([read, self._read_by(*part.after)])
        return read


def make_schedule(
    schedule: WeightSchedule, parts: Sequence[MixPart]
) -> tuple[Mapping[str, MixPart], int]:
    """Return the parts of a schedule by name, and the number of records in an epoch."""
    if len(parts) != len(schedule.names) or not all(part.records for part in parts):
        rule = f"one for each of {len(parts)} datasets with records in them"
        raise ConfigError.of("weights", [*schedule.names], allowed=rule)
    by_name = dict(zip(schedule.names, parts, strict=True))
    if schedule.epoch_records is not None:
        return by_name, schedule.epoch_records
    _, shares = schedule.shares[0]
    total = sum(shares.values())
    needed = [-(-by_name[n].records * total // shares[n]) for n in shares if n in by_name]
    if not needed:
        rule = "the records of an epoch, since of the first parts none is there any more"
        raise ConfigError.of("epoch_records", None, allowed=rule)
    return by_name, max(needed)
