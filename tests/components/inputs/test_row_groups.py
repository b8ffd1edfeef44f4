"""Row groups of Parquet files are read once while they are held, within bounded memory."""

import concurrent.futures
import threading

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from components.inputs import blob_reader
from components.inputs.blob_reader import RowGroups

ROWS, GROUP = 40, 10


@pytest.fixture
def paths(tmp_path):
    found = []
    for number in range(3):
        values = pa.array([bytes([number, row]) * 500 for row in range(ROWS)], pa.binary())
        found.append(str(tmp_path / f"{number}.parquet"))
        pq.write_table(pa.table({"x": values}), found[-1], row_group_size=GROUP)
    return found


@pytest.fixture
def reads(monkeypatch):
    """Count the row groups that are read, and the reads at the same time."""
    counts = {"reads": 0, "now": 0, "most": 0}
    lock, whole = threading.Lock(), blob_reader._read_row_group

    def counted(*arguments):
        with lock:
            counts["reads"] += 1
            counts["now"] += 1
            counts["most"] = max(counts["most"], counts["now"])
        try:
            return whole(*arguments)
        finally:
            with lock:
                counts["now"] -= 1

    monkeypatch.setattr(blob_reader, "_read_row_group", counted)
    return counts


def test_threads_read_each_group_once(paths, reads):
    groups = RowGroups(1 << 20)
    wanted = [(number, row) for row in range(ROWS) for number in range(3)] * 3
    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        found = [*pool.map(lambda one: groups.value(paths[one[0]], None, "x", one[1]), wanted)]
    assert found == [bytes(one) * 500 for one in wanted]
    assert reads["reads"] == 3 * ROWS // GROUP


def test_groups_used_last_are_held(paths, reads):
    groups = RowGroups(25_000)  # two groups
    for row in (0, 10, 0, 20, 0, 30, 0, 5):
        groups.value(paths[0], None, "x", row)
    assert reads["reads"] == 4
    groups.value(paths[0], None, "x", 10)
    assert reads["reads"] == 5
    assert groups._bytes <= 25_000


def test_few_groups_are_read_at_the_same_time(tmp_path, reads):
    groups = RowGroups(1 << 20)
    paths = [str(tmp_path / f"many-{number}.parquet") for number in range(12)]
    for path in paths:
        pq.write_table(pa.table({"x": pa.array([b"x"] * 9)}), path)
    with concurrent.futures.ThreadPoolExecutor(12) as pool:
        list(pool.map(lambda path: groups.value(path, None, "x", 8), paths))
    assert reads["reads"] == 12
    assert reads["most"] <= blob_reader._GROUPS_AT_ONCE


def test_row_after_the_end_is_a_missing_file(paths):
    with pytest.raises(FileNotFoundError):
        RowGroups(1 << 20).value(paths[0], None, "x", ROWS)
