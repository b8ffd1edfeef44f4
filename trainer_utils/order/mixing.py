"""`weights=`: several datasets mixed, every row of a batch from the part whose turn it is.

The rows of a run are numbered through all of its epochs, and each part has an order of its own. So
parts may come, go and change their weights at any step without touching what others read.
"""

import dataclasses
import fractions
import functools
import heapq
import itertools
import math
import numbers
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from trainer_utils.format import ConfigError
from trainer_utils.format.errors import did_you_mean
from trainer_utils.format.json_text import JsonObject
from trainer_utils.format.planning import keyed_hash
from trainer_utils.order.layout import BatchLayout
from trainer_utils.order.shuffling import Order, Positions, step_at, wrapped_seed

_MOST_TURNS = 10_000  # in a period, after which the turns of the parts repeat

Shares: TypeAlias = Mapping[str, int]
Stage: TypeAlias = tuple[int, Shares]
"""The row of a run from which on parts have these shares, whole numbers without common factor."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class WeightSchedule:
    """How often records of each part come, by the steps of a run.

    Args:
        names: of the parts, in the order of their datasets. Others may be in stages that a run has
            behind it: of parts that are gone.
        stages: the steps, counted over all epochs, the first 0, from which on parts have these
            weights, in any unit; a part that is not named in one weighs nothing in it.
        epoch_records: of an epoch. None: as many as it takes until every record of each part that
            weighs something in the first stage has come.
        older: of parts that are newer versions, the name, uri and split of the older one.
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
        """The stages by their steps, their weights as whole numbers."""
        return [(step, shares_of(weights)) for step, weights in self.stages]

    @classmethod
    def of(cls, weights: "Weights") -> "WeightSchedule":
        """What a setting says: a schedule, or a weight a dataset, by numbers."""
        if isinstance(weights, WeightSchedule):
            return weights
        names = [str(number) for number in range(len(weights))]
        return cls(names=names, stages=[(0, dict(zip(names, map(float, weights), strict=True)))])

    @classmethod
    def from_dict(cls, value: Mapping[str, Any]) -> "WeightSchedule":
        """What `to_dict` gave; raises KeyError, TypeError or ValueError where it is none."""
        stages = [(int(step), dict(weights)) for step, weights in value["stages"]]
        older = {str(name): tuple(one) for name, one in value["older"].items()}
        return cls(**{**value, "stages": stages, "older": older})

    def to_dict(self) -> JsonObject:
        """The schedule as what JSON can hold."""
        return {
            "names": [*self.names],
            "stages": [[step, dict(weights)] for step, weights in self.stages],
            "epoch_records": self.epoch_records,
            "older": {name: [*older] for name, older in self.older.items()},
        }


Weights: TypeAlias = Sequence[float] | WeightSchedule


def shares_of(weights: Mapping[str, float]) -> Shares:
    """Weights as whole numbers: exactly, where they add up to 10,000 at most."""
    for name, weight in weights.items():
        is_number = isinstance(weight, numbers.Real) and not isinstance(weight, bool)
        if not is_number or not 0 <= float(weight) < math.inf:
            rule = f"finite numbers from 0 on, for {name!r} too"
            raise ConfigError.of("weights", weight, allowed=rule)
    exact = {n: fractions.Fraction(repr(float(w))) for n, w in weights.items() if w > 0}
    total = sum(exact.values())
    if not total or min(exact.values()) * _MOST_TURNS < total:
        rule = f"some above 0, each at least 1/{_MOST_TURNS:,} of their sum"
        raise ConfigError.of("weights", dict(weights), allowed=rule)
    unit = fractions.Fraction(math.lcm(*(weight.denominator for weight in exact.values())))
    unit /= math.gcd(*(int(weight * unit) for weight in exact.values()))
    unit = min(unit, _MOST_TURNS / total)
    counts = {name: max(1, round(weight * unit)) for name, weight in exact.items()}
    common = math.gcd(*counts.values())
    return {name: counts[name] // common for name in sorted(counts)}


@functools.lru_cache(maxsize=128)
def _turns(shares: tuple[int, ...]) -> npt.NDArray[np.int32]:
    """`(sum of shares,) int32`: whose turn each row of a period is.

    After any number of rows each part has had its exact share but for less than one record.
    Source: R. Tijdeman, "The chairman assignment problem" (1980): each part's j-th turn has a first
    and a last row; of those that may come, the one that must come soonest does.
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
    """The seed of a part's own order, by its name, so that parts that come and go change none."""
    return keyed_hash(name.encode(), seed=wrapped_seed(seed), purpose="part") % (1 << 63)


@dataclasses.dataclass(frozen=True)
class MixPart:
    """A dataset of a mixture.

    Args:
        records: how many are read of it.
        digest: of which these are.
        record_bytes: the mean size of one, from which follows how `shuffle=True` shuffles them.
        keys: makes `(records,) uint64`, by which the same record is known in another version.
        after: the part that was an older version of it, by name: what that one gave in its last
            epoch does not come in the first epoch of this one.
    """

    records: int
    digest: str
    record_bytes: float | None = None
    keys: Callable[[], npt.NDArray[np.uint64]] | None = None
    after: "tuple[str, MixPart] | None" = None


class _PartOrder:
    """The records of one part by their numbers in the run, through all of its epochs."""

    def __init__(
        self, part: MixPart, make: Callable[[int], Order], unread: Positions | None
    ) -> None:
        self._part, self._order, self._unread = part, make(part.records), unread
        self._first_order = self._order if unread is None else make(max(len(unread), 1))
        self._first = part.records if unread is None else len(unread)

    def records(self, numbers: Positions) -> Positions:
        """The positions, within the part, of neighbouring numbers."""
        is_first = numbers < self._first
        epochs, places = np.divmod(numbers - self._first, self._part.records)
        epochs, places = np.where(is_first, -1, epochs), np.where(is_first, numbers, places)
        found = [numbers[:0]]
        for epoch in np.unique(epochs).tolist():
            own = places[epochs == epoch]
            if epoch >= 0:
                found.append(self._order.sequence(epoch + 1, own))
            else:
                chosen = self._first_order.sequence(0, own)
                found.append(chosen if self._unread is None else self._unread[chosen])
        return np.concatenate(found)

    def numbers_of(self, position: int, numbers: range) -> list[int]:
        """Which of some numbers are a record, in rising order."""
        found, first, each = [], self._first, self._part.records
        chosen = position
        if self._unread is not None:
            chosen = int(np.searchsorted(self._unread, position))
        if self._unread is None or position in self._unread[chosen : chosen + 1]:
            found += self._first_order.steps_of(0, chosen)
        begin = max((numbers[0] - first) // each, 0)
        for epoch in range(begin, max((numbers[-1] - first) // each, -1) + 1):
            found += [first + epoch * each + n for n in self._order.steps_of(epoch + 1, position)]
        return [number for number in found if number in numbers]

    def epoch_begin(self, number: int) -> int:
        """The number with which the epoch of a number begins."""
        return number - (number - self._first) % self._part.records if number >= self._first else 0


def _unread(keys: npt.NDArray[np.uint64], read: npt.NDArray[np.uint64]) -> Positions:
    """The positions of the keys that were not read; of equal ones as many as are left."""
    order = np.argsort(keys, kind="stable")
    ordered = keys[order]
    before = np.arange(len(keys)) - np.searchsorted(ordered, ordered)
    read = np.sort(read)
    times = np.searchsorted(read, ordered, "right") - np.searchsorted(read, ordered)
    positions: Positions = np.sort(order[before >= times])
    return positions


class _Turns:
    """Whose turn each row of one stage is, counted from its first."""

    def __init__(self, row: int, shares: Shares, begun: Mapping[str, int]) -> None:
        self.row, self.begun, self.shares, self.names = row, begun, shares, [*shares]
        self._turns = _turns(tuple(shares.values()))
        self._rows = {n: np.flatnonzero(self._turns == i) for i, n in enumerate(self.names)}
        self._number = np.empty_like(self._turns)
        for rows in self._rows.values():
            self._number[rows] = np.arange(len(rows))

    def numbers(self, first: int, stop: int) -> dict[str, tuple[Positions, Positions]]:
        """Of some rows of the run, by part: which these are from `first` on, and how many-eth."""
        periods, rows = np.divmod(np.arange(first, stop) - self.row, len(self._turns))
        turns, found = self._turns[rows], {}
        for index, name in enumerate(self.names):
            (own,) = np.nonzero(turns == index)
            begun = self.begun.get(name, 0)
            found[name] = own, begun + periods[own] * self.shares[name] + self._number[rows[own]]
        return found

    def count(self, name: str, row: int) -> int:
        """How many records of a part have come before a row of this stage or the one after it."""
        begun = self.begun.get(name, 0)
        if name not in self._rows:
            return begun
        periods, rows = divmod(row - self.row, len(self._turns))
        return begun + periods * self.shares[name] + int(np.searchsorted(self._rows[name], rows))

    def row_of(self, name: str, number: int) -> int:
        """The row at which a part's so-many-eth record comes, if the stage lasts so long."""
        periods, turn = divmod(number - self.begun.get(name, 0), self.shares[name])
        return self.row + periods * len(self._turns) + int(self._rows[name][turn])


class Mixture(Order):
    """The order of several parts, mixed by stages of the run, the first at row 0.

    `parts` are in the order of positions; `make_order` gives that of a part by itself, of so many
    records in batches of one, by its name.
    """

    def __init__(
        self,
        layout: BatchLayout,
        stages: Sequence[Stage],
        parts: Mapping[str, MixPart],
        make_order: Callable[[str, MixPart, BatchLayout], Order],
    ) -> None:
        self._layout, self._make_order = layout, make_order
        starts = itertools.accumulate((part.records for part in parts.values()), initial=0)
        self._starts = dict(zip(parts, starts, strict=False))
        self._stages: list[_Turns] = []
        begun: dict[str, int] = {}
        for row, shares in stages:
            if self._stages:
                last = self._stages[-1]
                begun |= {name: last.count(name, row) for name in last.names}
            self._stages.append(_Turns(row, shares, dict(begun)))
        self._orders = {name: self._order_of(name, part) for name, part in parts.items()}

    def batch(self, epoch: int, step: int, first: int, stop: int) -> Positions:
        """As of `Order`."""
        begin = epoch * self._layout.num_records + self._layout.begin(step)
        end = begin + self._layout.size(step)
        positions = np.empty(end - begin, np.int64)
        for stage, start, until in self._parts_of(begin, end):
            for name, (rows, counts) in stage.numbers(start, until).items():
                if name not in self._orders and len(rows):
                    rule = "a step at which no part is read that the recipe has no more"
                    raise ConfigError.of("step", name, allowed=rule)
                if len(rows):
                    own = self._orders[name].records(counts) + self._starts[name]
                    positions[rows + (start - begin)] = own
        return positions[first:stop]

    def steps_of(self, epoch: int, position: int) -> list[int]:
        """As of `Order`."""
        name = [*self._starts][bisect_right([*self._starts.values()], position) - 1]
        begin = epoch * self._layout.num_records
        found: set[int] = set()
        for stage, start, until in self._parts_of(begin, begin + self._layout.num_records):
            numbers = range(stage.count(name, start), stage.count(name, until))
            if numbers:
                own = self._orders[name].numbers_of(position - self._starts[name], numbers)
                rows = [stage.row_of(name, number) - begin for number in own]
                found.update(step for row in rows for step in step_at(self._layout, row))
        return sorted(found)

    def _parts_of(self, begin: int, end: int) -> list[tuple[_Turns, int, int]]:
        """The stages that some rows are of, and which of the rows."""
        stops = [stage.row for stage in self._stages[1:]] + [max(end, self._stages[-1].row)]
        parts = [
            (stage, max(begin, stage.row), min(end, stop))
            for stage, stop in zip(self._stages, stops, strict=True)
        ]
        return [part for part in parts if part[1] < part[2]]

    def _order_of(self, name: str, part: MixPart) -> _PartOrder:
        """The order of a part; of a newer version without what the older one gave."""

        def make(records: int) -> Order:
            return self._make_order(name, part, BatchLayout(num_records=records, batch_size=1))

        if part.after is None or part.keys is None:
            return _PartOrder(part, make, None)
        return _PartOrder(part, make, _unread(part.keys(), self._read_by(*part.after)))

    def _read_by(self, name: str, part: MixPart) -> npt.NDArray[np.uint64]:
        """The keys of what an older version had given of its epoch when it went."""
        assert part.keys is not None
        order, last = self._order_of(name, part), self._stages[-1]
        stop = last.count(name, last.row)
        begin = order.epoch_begin(stop)
        read = part.keys()[order.records(np.arange(begin, stop))]
        if begin == 0 and part.after is not None:
            read = np.concatenate([read, self._read_by(*part.after)])
        return read


def make_schedule(
    schedule: WeightSchedule, parts: Sequence[MixPart]
) -> tuple[Mapping[str, MixPart], int]:
    """The parts of a schedule by name, and the records of an epoch."""
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
