"""`Layout` against brute force over every small case."""

import itertools

import pytest

from trainer_utils import ConfigError
from trainer_utils.layout import Layout, Share

RECORDS = [0, 1, 2, 7, 8, 9, 16, 23, 24, 47, 100]
CASES = [
    (records, workers, batch_size)
    for records, workers, each in itertools.product(RECORDS, range(1, 9), [1, 2, 3, 8])
    for batch_size in [workers * each]
]


def element_rows(share: Share) -> list[int]:
    return [share.rows] * share.full + list(share.tail)


def shares(records: int, workers: int, batch_size: int, remainder: str | None) -> list[Share]:
    layout = Layout(
        num_records=records, batch_size=batch_size, num_workers=workers, remainder=remainder
    )
    return [layout.share(worker) for worker in range(workers)]


@pytest.mark.parametrize("remainder", [None, "drop", "pad", "balance"])
def test_every_worker_takes_the_same_number_of_steps(remainder):
    checked = 0
    for records, workers, batch_size in CASES:
        try:
            got = shares(records, workers, batch_size, remainder)
        except ConfigError:
            continue
        layout = Layout(
            num_records=records, batch_size=batch_size, num_workers=workers, remainder=remainder
        )
        assert {share.num_elements for share in got} == {layout.steps}
        checked += 1
    assert checked > 200


@pytest.mark.parametrize("remainder", [None, "drop", "pad", "balance"])
def test_shares_are_ranges_that_cover_all_records_and_differ_by_one_at_most(remainder):
    for records, workers, batch_size in CASES:
        try:
            got = shares(records, workers, batch_size, remainder)
        except ConfigError:
            continue
        read = [number for share in got for number in range(share.start, share.stop)]
        assert read == list(range(records))
        sizes = [share.stop - share.start for share in got]
        assert max(sizes) - min(sizes) <= 1
        for share in got:
            assert share.used + share.dropped == share.stop - share.start
            assert share.used + share.padded == sum(element_rows(share))


@pytest.mark.parametrize(
    ("remainder", "dropped", "padded"),
    [
        (None, lambda n, w, b: n % w, lambda n, w, b: 0),
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


def test_padding_and_dropping_keep_every_shape_static():
    for records, workers, batch_size in CASES:
        for remainder in ("pad", "drop"):
            try:
                got = shares(records, workers, batch_size, remainder)
            except ConfigError:
                continue
            rows = {rows for share in got for rows in element_rows(share)}
            assert rows <= {batch_size // workers}


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
    got = shares(records, workers, batch_size, "balance")
    assert [element_rows(share) for share in got] == rows


def test_replicas_of_a_worker_share_its_rows():
    layout = Layout(num_records=13, batch_size=8, num_workers=2, num_replicas=4, remainder="pad")
    assert [element_rows(layout.share(worker)) for worker in range(2)] == [[2] * 4] * 2
    balanced = Layout(
        num_records=13, batch_size=8, num_workers=2, num_replicas=4, remainder="balance"
    )
    # Two steps of two replicas each: 6 = 3 + 3 records for one worker, 7 = 4 + 3 for the other.
    assert [element_rows(balanced.share(worker)) for worker in range(2)] == [
        [1, 2, 1, 2],
        [2, 2, 1, 2],
    ]


@pytest.mark.parametrize("batch_size", [8, 24, 64, 256, 840])
def test_lanes_are_those_of_any_usual_number_of_workers(batch_size):
    layouts = [
        Layout(num_records=1000, batch_size=batch_size, num_workers=workers)
        for workers in range(1, 9)
        if batch_size % workers == 0
    ]
    assert len({layout.num_lanes for layout in layouts}) == 1
    assert batch_size % layouts[0].num_lanes == 0
    for layout in layouts:
        for worker in range(layout.num_workers):
            lanes = layout.lanes_of(worker)
            share = layout.share(worker)
            assert layout.lane_bounds(lanes[0])[0] == share.start
            assert layout.lane_bounds(lanes[-1])[1] == share.stop


@pytest.mark.parametrize("remainder", [None, "drop", "pad", "balance"])
def test_lanes_give_what_is_used_and_never_less_than_the_full_steps_need(remainder):
    for records, workers, batch_size in CASES:
        try:
            layout = Layout(
                num_records=records, batch_size=batch_size, num_workers=workers, remainder=remainder
            )
        except ConfigError:
            continue
        for worker in range(workers):
            takes = layout.lane_takes(worker)
            sizes = [
                stop - start for start, stop in map(layout.lane_bounds, layout.lanes_of(worker))
            ]
            assert sum(takes) == layout.share(worker).used
            assert all(take <= size for take, size in zip(takes, sizes, strict=True))
            assert min(takes) >= layout.full_steps * batch_size // layout.num_lanes


@pytest.mark.parametrize(
    ("setting", "value"),
    [("batch_size", 7), ("batch_size", 0), ("remainder", "keep"), ("num_replicas", 3)],
)
def test_a_setting_that_is_not_allowed_is_named(setting, value):
    settings = {"num_records": 10, "batch_size": 8, "num_workers": 2, setting: value}
    name = {"num_replicas": "workers"}.get(setting, setting)
    with pytest.raises(ConfigError, match=rf"^{name}: expected "):
        Layout(**settings)
