"""The windowed shuffle: records in another order each epoch, within a bound of memory.

strategy = Windowed(ranges, layout=layout, worker=0, window_records=2560, seed=0)
strategy.reads(epoch, step)      # what to read from the window of that step on, lane by lane
strategy.places(epoch, window)   # where in a window's records each row of its steps is

Nothing depends on the number of workers but which rows are taken. Every lane of the layout (see
`trainer_utils.order.layout`) is read on its own: the parts of files in an order of the epoch's own,
beginning somewhere within the first. So many steps of all lanes make a window, in which the records
of each lane are permuted. Everything is a function of seed, epoch, lane and window, so that any
step of any epoch can be gone to without what comes before. The first windows are small, so that the
first batch comes soon.
"""

import bisect
import functools
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from trainer_utils.format import keyed_hash
from trainer_utils.format.file_ranges import FileRange, cut, cut_all
from trainer_utils.order.layout import BatchLayout
from trainer_utils.order.strategy import (
    Positions,
    ShuffleStrategy,
    as_one_file,
    random_numbers,
    random_permutation,
    signed_64,
)

__all__ = ["WindowPlaces", "WindowReads", "Windowed"]

# The first window is a part of the limit within these bounds; each next one is twice as large.
_FIRST_SHARE = 1 / 64
_FIRST_RECORDS = (64, 2048)
_WINDOWS_AT_ONCE = 3  # the one in use, the next one, and the one that is being read
_WINDOW_STRIDE = 0x369DEA0F31A53F85


class WindowReads(NamedTuple):
    """What to read: from which window on, each lane's parts of files, and each window's records.

    A window's records are its lanes' in turn, `block` of each at a time.
    """

    window: int
    lanes: list[list[FileRange]]
    sizes: Positions


class WindowPlaces(NamedTuple):
    """`rows`: places in a window's records, step after step, or positions; `ends`: each step's."""

    rows: Positions
    ends: Positions


class Windowed(ShuffleStrategy):
    """Shuffles within windows.

    Args:
        ranges, layout, worker: as of `ShuffleStrategy`.
        window_records: how many to hold at a time, by all workers together, so that the order is
            the same for any number of them.
        seed: of all orders.
        keeps_pairs: rows 0 and 1, 2 and 3, … of a full batch stay side by side; each worker has
            an even number of them. Without it, neighbours depend on the number of workers.
    """

    def __init__(
        self,
        ranges: Sequence[FileRange],
        *,
        layout: BatchLayout,
        worker: int,
        window_records: int,
        seed: int,
        keeps_pairs: bool = False,
    ) -> None:
        super().__init__(ranges, layout=layout, worker=worker)
        self._rows_together = 2 if keeps_pairs else 1
        self.lanes = layout.lanes_of(worker)
        self.block = layout.batch_size // layout.num_lanes
        """Records that a lane gives to a full batch."""
        self.starts = _window_starts(layout, window_records)
        """The first step of each window, and the one after the last; `(windows + 1,) int64`."""
        self._seed = seed
        self._of_lanes = self._cut_to_lanes(ranges)
        # Rows by epoch and window. It is replaced, never changed: iterators share it.
        self._kept: dict[tuple[int, int], WindowPlaces] = {}
        self._lanes_asked: dict[int, list[FileRange]] = {}

    def positions(self, epoch: int, step: int) -> Positions:
        """As of `ShuffleStrategy`; at the cost of a window's places."""
        window = self.window_of(step)
        rows, ends = self._rows_of_window(epoch, window)
        index = step - int(self.starts[window])
        return rows[ends[index - 1] if index else 0 : ends[index]]

    def read_ahead(self, epoch: int, step: int, *, first: int = 0) -> Positions:
        """As of `ShuffleStrategy`: of the next window as much as this step is of its own.

        So a disk is asked for all of it one after the other while the window before it is used up.
        In the first window, which nobody asked for before, the step's own rows come too.
        """
        window = self.window_of(step)
        start, stop = self.starts[window : window + 2].tolist()
        is_last = window == len(self.starts) - 2
        following = (epoch + 1, 0) if is_last else (epoch, window + 1)
        rows = np.sort(self._rows_of_window(*following).rows)
        is_asked_for, start = first < start, max(first, start)
        begin, end = (len(rows) * (n - start) // (stop - start) for n in (step, step + 1))
        if is_asked_for:
            return rows[begin:end]
        return np.concatenate([self.positions(epoch, step), rows[begin:end]])

    def step_of(self, epoch: int, position: int) -> int | None:
        """As of `ShuffleStrategy`; at the cost of one lane's records in a window."""
        layout = self.layout
        lane = _last(range(layout.num_lanes), lambda n: layout.lane_bound(n) <= position)
        place = self._place_in_lane(epoch, lane, position)
        windows = range(len(self.starts) - 1)
        window = _last(windows, lambda n: self._taken_of(lane, int(self.starts[n])) <= place)
        start, stop = self.starts[window : window + 2].tolist()
        first, last = self._taken_of(lane, start), self._taken_of(lane, stop)
        if place >= last:
            return None
        seed = _seed(self._seed, epoch, lane) + window * _WINDOW_STRIDE
        numbers = random_numbers(seed, last - first)  # which are all different
        rank = int((numbers < numbers[place - first]).sum())
        return _last(range(start, stop), lambda n: self._taken_of(lane, n) - first <= rank)

    def _place_in_lane(self, epoch: int, lane: int, position: int) -> int:
        """How many records of a lane an epoch reads before one of them."""
        if lane not in self._lanes_asked:
            bounds = [self.layout.lane_bound(lane), self.layout.lane_bound(lane + 1)]
            (self._lanes_asked[lane],) = cut_all(as_one_file(self.ranges), bounds)
        own, before = self._lanes_asked[lane], 0
        for part in _shuffle_ranges(own, _seed(self._seed, epoch, lane)):
            if part.skip <= position < part.skip + part.take:
                return before + position - part.skip
            before += part.take
        raise AssertionError(f"position {position}: not in lane {lane}")

    def _taken_of(self, lane: int, step: int) -> int:
        """How many records one lane gives to the steps before one."""
        layout = self.layout
        full = min(step, layout.full_steps)
        of_rest = (
            layout.lane_rows(range(lane, lane + 1), size=layout.size(partial))
            for partial in range(full, step)
        )
        return full * self.block + sum(int(rows[0]) for rows in of_rest)

    def _rows_of_window(self, epoch: int, window: int) -> WindowPlaces:
        """The positions of all rows of a window, and where each step's end; two are kept."""
        kept = self._kept
        if (epoch, window) in kept:
            return kept[epoch, window]
        lanes = self._reads_of_lanes(self._positions_of_lanes, epoch, window)
        counts = self._taken(int(self.starts[window + 1])) - self._taken(int(self.starts[window]))
        held = np.empty(counts.sum(), np.int64)
        places = _in_turn(counts, self.block)
        for own, ranges, count in zip(places, lanes, counts.tolist(), strict=True):
            parts = [np.arange(part.skip, part.skip + part.take) for part in cut(ranges, 0, count)]
            held[own] = np.concatenate([np.zeros(0, np.int64), *parts])
        rows, ends = self.places(epoch, window)
        found = WindowPlaces(held[rows], ends)
        self._kept = dict([*kept.items()][-1:]) | {(epoch, window): found}
        return found

    @functools.cached_property
    def _positions_of_lanes(self) -> list[list[FileRange]]:
        return self._cut_to_lanes(as_one_file(self.ranges))

    def window_of(self, step: int) -> int:
        """The window that a step is in."""
        return int(np.searchsorted(self.starts[:-1], step, side="right")) - 1

    def reads(self, epoch: int, step: int) -> WindowReads:
        """What is read in an epoch, from the window on that a step is in."""
        window = self.window_of(step)
        totals = np.minimum(self.starts[window:], self.layout.full_steps)
        totals *= len(self.lanes) * self.block
        totals[-1] = self._taken(self.layout.steps).sum()
        lanes = self._reads_of_lanes(self._of_lanes, epoch, window)
        return WindowReads(window, lanes, np.diff(totals))

    def _cut_to_lanes(self, ranges: Sequence[FileRange]) -> list[list[FileRange]]:
        bounds = range(self.lanes.start, self.lanes.stop + 1)
        return cut_all(ranges, [self.layout.lane_bound(lane) for lane in bounds])

    def _reads_of_lanes(
        self, lanes: list[list[FileRange]], epoch: int, window: int
    ) -> list[list[FileRange]]:
        """Each lane's parts of files in the order of an epoch, from a window on."""
        first = self._taken(int(self.starts[window])).tolist()
        last = self._taken(self.layout.steps).tolist()
        return [
            cut(_shuffle_ranges(own, _seed(self._seed, epoch, lane)), start, stop)
            for own, lane, start, stop in zip(lanes, self.lanes, first, last, strict=True)
        ]

    def places(self, epoch: int, window: int) -> WindowPlaces:
        """Where each row of the steps of a window is from; in a step, rows are permuted too.

        Each lane's records are permuted within that lane, whoever reads it, and assigned to the
        steps. The place in a batch then tells nothing of the place in the files.
        """
        layout = self.layout
        start, stop = self.starts[window : window + 2].tolist()
        full = max(min(stop, layout.full_steps) - start, 0)
        counts = self._taken(stop) - self._taken(start)
        seeds = [_seed(self._seed, epoch, lane) for lane in self.lanes]
        mixed = [
            own[random_permutation(len(own), seed + window * _WINDOW_STRIDE)]
            for own, seed in zip(_in_turn(counts, self.block), seeds, strict=True)
        ]
        together = self._rows_together
        of_batch = random_permutation(layout.rows_per_worker // together, seeds[0] - 1)
        of_batch = (of_batch[:, np.newaxis] * together + np.arange(together)).reshape(-1)
        steps = [self._full_steps(mixed, full, of_batch)]
        ends = (np.arange(full) + 1) * layout.rows_per_worker
        begins = np.full(len(self.lanes), full * self.block)
        for step in range(start + full, stop):
            each = layout.lane_rows(self.lanes, size=layout.size(step))
            rows = [
                own[begin : begin + rows]
                for own, begin, rows in zip(mixed, begins, each, strict=True)
            ]
            begins += each
            own = np.concatenate(rows)[self._own_rows(step)]
            steps.append(own[random_permutation(len(own), seeds[0] - 2 - step)])
            ends = np.append(ends, (ends[-1] if len(ends) else 0) + len(own))
        return WindowPlaces(np.concatenate(steps), ends)

    def _full_steps(self, mixed: Sequence[Positions], full: int, of_batch: Positions) -> Positions:
        """The rows of a window's full steps."""
        if not full:
            return np.zeros(0, np.int64)
        by_lane = np.stack([own[: full * self.block] for own in mixed])
        by_step = by_lane.reshape(len(mixed), full, self.block).transpose(1, 0, 2)
        own: Positions = by_step.reshape(full, -1)[:, self._own_rows(0)]
        return own[:, of_batch].reshape(-1)

    def _own_rows(self, step: int) -> slice:
        """This worker's rows, of those that its lanes give to a step."""
        first, last = self.layout.rows(self.worker, step=step)
        of_lanes = self.lanes.start * self.layout.size(step) // self.layout.num_lanes
        return slice(first - of_lanes, last - of_lanes)

    def _taken(self, step: int) -> Positions:
        """How many records each lane gives to the steps before one."""
        full = min(step, self.layout.full_steps)
        taken = np.full(len(self.lanes), full * self.block, np.int64)
        for partial in range(full, step):
            taken += self.layout.lane_rows(self.lanes, size=self.layout.size(partial))
        return taken


def _last(numbers: range, holds: Callable[[int], bool]) -> int:
    """The last of some numbers that something holds of, which it does up to there."""
    return numbers[bisect.bisect_left(numbers, True, key=lambda n: not holds(n)) - 1]


def _in_turn(counts: Positions, block: int) -> list[Positions]:
    """The places of each lane's records where lanes are read in turn, a block of each at a time.

    Args:
        counts: `(lanes,)`, the records of each.
        block: records of a lane at a time, of its last ones fewer.
    """
    rounds = int(counts.min()) // block if len(counts) else 0
    regular = np.arange(rounds * len(counts) * block).reshape(rounds, len(counts), block)
    by_lane = list(regular.transpose(1, 0, 2).reshape(len(counts), -1))
    left = counts - rounds * block
    lane = np.repeat(np.arange(len(counts)), left)
    within = np.arange(len(lane)) - np.repeat(np.cumsum(left) - left, left)
    places = np.empty(len(lane), np.int64)
    places[np.lexsort((within, lane, within // block))] = np.arange(len(lane)) + regular.size
    rest = np.split(places, np.cumsum(left)[:-1])
    return [np.concatenate(parts) for parts in zip(by_lane, rest, strict=True)]


def _window_starts(layout: BatchLayout, window_records: int) -> Positions:
    """The first step of each window, and the one after the last.

    The first windows double up to a third of the records to hold. Steps whose batch is not full are
    never apart from one another, since lanes give unequal numbers of records to them.
    """
    full, steps = layout.full_steps, layout.steps
    most = max(window_records // _WINDOWS_AT_ONCE // layout.batch_size, 1)
    first = int(np.clip(window_records * _FIRST_SHARE, *_FIRST_RECORDS))
    starts, size = [0], min(-(-first // layout.batch_size), most)
    while size < most and starts[-1] < full:
        starts.append(starts[-1] + size)
        size = min(2 * size, most)
    found = np.append(starts, np.arange(starts[-1] + size, full, size))
    found = found[found < full] if full else found[:1]
    if steps > full and full and steps - found[-1] > most:
        found = np.append(found, full)
    return np.append(found, steps)


def _seed(seed: int, epoch: int, lane: int) -> int:
    """A number for each seed, epoch and lane that has nothing to do with that for another."""
    identity = epoch.to_bytes(8, "little", signed=True) + lane.to_bytes(8, "little")
    return keyed_hash(identity, seed=signed_64(seed), purpose="lane")


def _shuffle_ranges(ranges: Sequence[FileRange], seed: int) -> list[FileRange]:
    """A lane's parts in a random order, the first from somewhere in it on; its head comes last."""
    parts = [ranges[index] for index in random_permutation(len(ranges), seed).tolist()]
    if not parts:
        return parts
    total = sum(part.take for part in parts)
    begin = int(random_numbers(seed - 1, 1)[0]) % parts[0].take
    return [*cut(parts, begin, total), *cut(parts, 0, begin)]
