"""`BatchLayout` against brute force over every small case."""

import contextlib
import itertools

import numpy as np
import pytest

from trainer_utils import ConfigError
from trainer_utils.order.layout import EQUAL, BatchLayout, Share

RECORDS = [0, 1, 2, 7, 8, 9, 16, 23, 24, 47, 100]
CASES = [
    (records, workers, batch_size)
    for records, workers, each in itertools.product(RECORDS, range(1, 9), [1, 2, 3, 8])
    for batch_size in [workers * each]
]


def layout_of(records: int, workers: int, batch_size: int, remainder: str | None) -> BatchLayout:
    return BatchLayout(
        num_records=records, batch_size=batch_size, num_workers=workers, remainder=remainder
    )


def shares(records: int, workers: int, batch_size: int, remainder: str | None) -> list[Share]:
    layout = layout_of(records, workers, batch_size, remainder)
    return [layout.share(worker) for worker in range(workers)]


def step_rows(layout: BatchLayout) -> list[list[int]]:
    """How many records each worker has of each batch."""
    return [
        [last - first for first, last in (layout.rows(worker, step=n) for n in range(layout.steps))]
        for worker in range(layout.num_workers)
    ]


def possible(remainder: str | None) -> list[BatchLayout]:
    layouts = []
    for case in CASES:
        with contextlib.suppress(ConfigError):
            layouts.append(layout_of(*case, remainder))
    assert len(layouts) > 200
    return layouts


@pytest.mark.parametrize("remainder", [None, "drop", "pad", "balance"])
def test_steps_and_their_sizes_are_those_of_one_worker(remainder):
    for layout in possible(remainder):
        one = layout_of(layout.num_records, 1, layout.batch_size, remainder)
        assert layout.steps == one.steps
        (expected,) = step_rows(one)
        assert [sum(rows) for rows in zip(*step_rows(layout), strict=True)] == expected


@pytest.mark.parametrize("remainder", [None, "drop", "pad", "balance"])
def test_rows_of_a_batch_are_shared_one_after_the_other_and_differ_by_one_at_most(remainder):
    for layout in possible(remainder):
        for step in range(layout.steps):
            bounds = [layout.rows(worker, step=step) for worker in range(layout.num_workers)]
            rows = [number for first, last in bounds for number in range(first, last)]
            assert rows == list(range(layout.size(step)))
            sizes = [last - first for first, last in bounds]
            assert max(sizes) - min(sizes) <= 1


@pytest.mark.parametrize("remainder", [None, "drop", "pad", "balance"])
def test_shares_are_ranges_that_cover_all_records(remainder):
    for layout in possible(remainder):
        got = [layout.share(worker) for worker in range(layout.num_workers)]
        read = [number for share in got for number in range(share.start, share.stop)]
        assert read == list(range(layout.num_records))
        for share, rows in zip(got, step_rows(layout), strict=True):
            assert share.used == sum(rows)
            assert share.used + share.dropped == share.stop - share.start
            if remainder == "pad":
                assert share.used + share.padded == layout.steps * layout.rows_per_worker


@pytest.mark.parametrize(
    ("remainder", "dropped", "padded"),
    [
        (None, lambda n, w, b: 0, lambda n, w, b: 0),
        ("drop", lambda n, w, b: n % b, lambda n, w, b: 0),
        ("pad", lambda n, w, b: 0, lambda n, w, b: -n % b),
        ("balance", lambda n, w, b: 0, lambda n, w, b: 0),
    ],
)
def test_the_rest_is_dropped_padded_or_balanced_and_nothing_else(remainder, dropped, padded):
    for case in CASES:
        try:
            got = shares(*case, remainder)
        except ConfigError:
            continue
        assert sum(share.dropped for share in got) == dropped(*case)
        assert sum(share.padded for share in got) == padded(*case)


def test_only_impossible_plans_are_refused():
    for records, workers, batch_size in CASES:
        for remainder in (None, "pad"):
            shares(records, workers, batch_size, remainder)
        if 0 < records < batch_size:
            with pytest.raises(ConfigError, match=r"batch_size: .*remainder='drop'"):
                shares(records, workers, batch_size, "drop")
        else:
            shares(records, workers, batch_size, "drop")
        if records and records < workers:
            with pytest.raises(ConfigError, match=r"remainder: .*'balance'"):
                shares(records, workers, batch_size, "balance")
        elif batch_size >= 2 * workers or records % batch_size == 0:
            shares(records, workers, batch_size, "balance")


@pytest.mark.parametrize(
    ("records", "workers", "batch_size", "rows"),
    [
        (17, 1, 8, [[8, 5, 4]]),  # not 8, 8 and 1
        (23, 2, 8, [[4, 4, 3], [4, 4, 4]]),
        (24, 2, 8, [[4, 4, 4], [4, 4, 4]]),
        (5, 2, 8, [[2], [3]]),
        (9, 2, 4, [[2, 1, 1], [2, 2, 1]]),
    ],
)
def test_balanced_batches_are_none_of_them_nearly_empty(records, workers, batch_size, rows):
    assert step_rows(layout_of(records, workers, batch_size, "balance")) == rows


def test_single_examples_are_shared_equally_and_fewer_than_workers_left_out():
    for records, workers, batch_size in CASES:
        got = shares(records, workers, batch_size, EQUAL)
        assert {share.used for share in got} == {records // workers}
        assert sum(share.dropped for share in got) == records % workers


@pytest.mark.parametrize("batch_size", [8, 24, 64, 256, 840])
def test_lanes_are_those_of_any_usual_number_of_workers(batch_size):
    layouts = [
        layout_of(1000, workers, batch_size, None)
        for workers in range(1, 9)
        if batch_size % workers == 0
    ]
    assert len({layout.num_lanes for layout in layouts}) == 1
    assert batch_size % layouts[0].num_lanes == 0
    for layout in layouts:
        lanes = [lane for worker in range(layout.num_workers) for lane in layout.lanes_of(worker)]
        assert lanes == list(range(layout.num_lanes))  # no worker reads those of another


@pytest.mark.parametrize("remainder", [None, "drop", "pad", "balance", EQUAL])
@pytest.mark.parametrize("num_lanes", [1, 4, 8])
def test_lanes_hold_what_they_give_to_all_batches_and_their_part_of_what_is_left_out(
    remainder, num_lanes
):
    for records in (8, 17, 100, 1001):
        layout = BatchLayout(
            num_records=records, batch_size=8, remainder=remainder, num_lanes=num_lanes
        )
        bounds = [layout.lane_bound(lane) for lane in range(num_lanes + 1)]
        assert (bounds[0], bounds[-1]) == (0, records)
        given = sum(
            layout.lane_rows(range(num_lanes), size=layout.size(n)) for n in range(layout.steps)
        )
        spare = np.diff(bounds) - given
        assert given.sum() == layout.begin(layout.steps) == records - layout.num_dropped
        assert set(spare) <= {layout.num_dropped // num_lanes, -(-layout.num_dropped // num_lanes)}


@pytest.mark.parametrize("num_lanes", [2, 3, 8])
@pytest.mark.parametrize("workers", [1, 2, 3, 4, 6, 12])
def test_a_workers_rows_lie_in_its_lanes_however_many_there_are(num_lanes, workers):
    layout = BatchLayout(num_records=1000, batch_size=24, num_workers=workers, num_lanes=num_lanes)
    for worker in range(workers):
        lanes = layout.lanes_of(worker)
        for step in (0, layout.steps - 1):
            size = layout.size(step)
            first, last = layout.rows(worker, step=step)
            before = layout.lane_rows(range(lanes.start), size=size).sum()
            assert before <= first
            assert last <= before + layout.lane_rows(lanes, size=size).sum()


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("batch_size", 7),
        ("batch_size", 0),
        ("remainder", "keep"),
        ("num_replicas", 3),
        ("num_lanes", 3),
    ],
)
def test_a_setting_that_is_not_allowed_is_named(setting, value):
    settings = {"num_records": 10, "batch_size": 8, "num_workers": 2, setting: value}
    name = {"num_replicas": "workers"}.get(setting, setting)
    with pytest.raises(ConfigError, match=rf"^{name}: expected "):
        BatchLayout(**settings)


@pytest.mark.parametrize(
    ("records", "replicas", "empty"), [(16, 3, 1), (17, 3, 0), (13, 4, 3), (17, 4, 1), (18, 4, 1)]
)
def test_what_tensorflow_divides_may_leave_replicas_without_a_row(records, replicas, empty):
    layout = BatchLayout(num_records=records, batch_size=12)
    assert layout.empty_divided(replicas) == empty


def test_balance_is_refused_where_tensorflow_would_leave_a_replica_without_a_row():
    layout = BatchLayout(num_records=17, batch_size=12, remainder="balance")  # 9 and 8
    layout.check_divided(3)
    with pytest.raises(ConfigError, match="cannot give each of 4 replicas"):
        layout.check_divided(4)  # 9 as 3, 3, 3 and 0


@pytest.mark.parametrize("records", [90, 99, 100])  # 9 as 3, 3, 3 and 0 in every full batch
def test_balance_is_refused_where_whole_batches_leave_a_replica_without_a_row(records):
    layout = BatchLayout(num_records=records, batch_size=9, remainder="balance")
    layout.check_divided(3)
    with pytest.raises(ConfigError, match="cannot give each of 4 replicas"):
        layout.check_divided(4)
