"""Which records the windows of a shuffle hold, and which row of which step each becomes.

windows = Windows(ranges, layout=layout, worker=0, window_records=2560, seed=0)
windows.reads(epoch, step)       # what to read from the window of that step on, lane by lane
windows.places(epoch, window)    # where in a window's records each row of its steps is

Nothing is read here, and nothing depends on the number of workers but which rows are taken.
Every lane of the layout (see `trainer_utils.order.layout`) is read on its own: the parts of files
in an order of the epoch's own, beginning somewhere within the first. So many steps of all lanes
make a window, in which the records of each lane are permuted. Everything is a function of seed,
epoch, lane and window, so that any step of any epoch can be gone to without what comes before. The
first windows are small, so that the first batch comes soon.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from trainer_utils.dataset.opening import FileRange
from trainer_utils.format import keyed_hash
from trainer_utils.format.file_ranges import cut, cut_all
from trainer_utils.order.layout import Layout
from trainer_utils.order.random_numbers import permuted, random_numbers, signed_64

__all__ = ["Numbers", "Places", "Reads", "Windows"]

# The first window is a part of the limit within these bounds; each next one is twice as large.
_FIRST_SHARE = 1 / 64
_FIRST_RECORDS = (64, 2048)
_WINDOWS_AT_ONCE = 3  # the one in use, the next one, and the one that is being read
_WINDOW_STRIDE = 0x369DEA0F31A53F85

Numbers = npt.NDArray[np.int64]


class Reads(NamedTuple):
    """What to read: from which window on, each lane's parts of files, and each window's records.

    A window's records are its lanes' in turn, `block` of each at a time.
    """

    window: int
    lanes: list[list[FileRange]]
    sizes: Numbers


class Places(NamedTuple):
    """`rows`: places in a window's records, step after step; `ends`: where each step's end."""

    rows: Numbers
    ends: Numbers


class Windows:
    """The windows of one worker.

    Args:
        ranges: of all workers.
        layout: of an epoch.
        worker: which one this is.
        window_records: how many to hold at a time, by all workers together.
        seed: of all orders.
    """

    def __init__(
        self,
        ranges: Sequence[FileRange],
        *,
        layout: Layout,
        worker: int,
        window_records: int,
        seed: int,
    ) -> None:
        self.lanes = layout.lanes_of(worker)
        self.block = layout.batch_size // layout.num_lanes
        """Records that a lane gives to a full batch."""
        self.starts = _window_starts(layout, window_records)
        """The first step of each window, and the one after the last; `(windows + 1,) int64`."""
        self._layout = layout
        self._worker = worker
        self._seed = seed
        bounds = range(self.lanes.start, self.lanes.stop + 1)
        self._parts = cut_all(ranges, [layout.lane_bound(lane) for lane in bounds])

    def reads(self, epoch: int, step: int) -> Reads:
        """What is read in an epoch, from the window on that a step is in."""
        window = int(np.searchsorted(self.starts[:-1], step, side="right")) - 1
        first = self._taken(int(self.starts[window])).tolist()
        last = self._taken(self._layout.steps).tolist()
        lanes = [
            cut(_reordered(own, _seed(self._seed, epoch, lane)), start, stop)
            for own, lane, start, stop in zip(self._parts, self.lanes, first, last, strict=True)
        ]
        totals = np.minimum(self.starts[window:], self._layout.full_steps)
        totals *= len(self.lanes) * self.block
        totals[-1] = sum(last)
        return Reads(window, lanes, np.diff(totals))

    def places(self, epoch: int, window: int) -> Places:
        """Where each row of the steps of a window is from; in a step, rows are permuted too.

        Each lane's records are permuted within that lane, whoever reads it, and dealt to the
        steps. The place in a batch then tells nothing of the place in the files.
        """
        layout = self._layout
        start, stop = self.starts[window : window + 2].tolist()
        full = max(min(stop, layout.full_steps) - start, 0)
        counts = self._taken(stop) - self._taken(start)
        seeds = [_seed(self._seed, epoch, lane) for lane in self.lanes]
        mixed = [
            own[permuted(len(own), seed + window * _WINDOW_STRIDE)]
            for own, seed in zip(_in_turn(counts, self.block), seeds, strict=True)
        ]
        steps = [self._full_steps(mixed, full, permuted(layout.rows_per_worker, seeds[0] - 1))]
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
            steps.append(own[permuted(len(own), seeds[0] - 2 - step)])
            ends = np.append(ends, (ends[-1] if len(ends) else 0) + len(own))
        return Places(np.concatenate(steps), ends)

    def _full_steps(self, mixed: Sequence[Numbers], full: int, of_batch: Numbers) -> Numbers:
        """The rows of a window's full steps."""
        if not full:
            return np.zeros(0, np.int64)
        by_lane = np.stack([own[: full * self.block] for own in mixed])
        by_step = by_lane.reshape(len(mixed), full, self.block).transpose(1, 0, 2)
        own: Numbers = by_step.reshape(full, -1)[:, self._own_rows(0)]
        return own[:, of_batch].reshape(-1)

    def _own_rows(self, step: int) -> slice:
        """This worker's rows, of those that its lanes give to a step."""
        first, last = self._layout.rows(self._worker, step=step)
        of_lanes = self.lanes.start * self._layout.size(step) // self._layout.num_lanes
        return slice(first - of_lanes, last - of_lanes)

    def _taken(self, step: int) -> Numbers:
        """How many records each lane gives to the steps before one."""
        full = min(step, self._layout.full_steps)
        taken = np.full(len(self.lanes), full * self.block, np.int64)
        for later in range(full, step):
            taken += self._layout.lane_rows(self.lanes, size=self._layout.size(later))
        return taken


def _in_turn(counts: Numbers, block: int) -> list[Numbers]:
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


def _window_starts(layout: Layout, window_records: int) -> Numbers:
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


def _reordered(ranges: Sequence[FileRange], seed: int) -> list[FileRange]:
    """A lane's parts in a random order, the first from somewhere in it on; its head comes last."""
    parts = [ranges[index] for index in permuted(len(ranges), seed).tolist()]
    if not parts:
        return parts
    total = sum(part.take for part in parts)
    begin = int(random_numbers(seed - 1, 1)[0]) % parts[0].take
    return [*cut(parts, begin, total), *cut(parts, 0, begin)]
