"""Columns of Parquet files keep their types."""

import datetime
import io
import json
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest

from components.tables import parquet
from components.tables.pieces import Piece, TableOptions
from tests.components.tables.table_files import in_order, parquet_of
from trainer_utils.core.errors import InputError

DAY = datetime.datetime(2020, 1, 2, 3, 4, 5)
PARQUET_COLUMNS: dict[str, tuple[Any, list[Any]]] = {
    "bytes": (pa.array([1, None, 255], pa.uint8()), [[1], None, [255]]),
    "wide": (pa.array([2**63 - 1, 0, None], pa.uint64()), [[2**63 - 1], [0], None]),
    "booleans": (pa.array([True, None, False]), [[1], None, [0]]),
    "floats": (pa.array([0.5, None, 1], pa.float32()), [[0.5], None, [1.0]]),
    "doubles": (pa.array([0.1, None, 1e38]), [[np.float32(0.1)], None, [np.float32(1e38)]]),
    "dictionary": (pa.array(["a", "b", None]).dictionary_encode(), [[b"a"], [b"b"], None]),
    "binary": (pa.array([b"\xff\0", b"", None]), [[b"\xff\0"], [b""], None]),
    "fixed binary": (pa.array([b"ab", b"cd", None], pa.binary(2)), [[b"ab"], [b"cd"], None]),
    "days": (pa.array([DAY.date(), None, None]), [[b"2020-01-02"], None, None]),
    "times": (
        pa.array([DAY, None, DAY]),
        [[b"2020-01-02T03:04:05"], None, [b"2020-01-02T03:04:05"]],
    ),
    "lists": (pa.array([[1, 2], None, []], pa.list_(pa.int32())), [[1, 2], None, None]),
    "large lists": (
        pa.array([[0.5], None, []], pa.large_list(pa.float32())),
        [[0.5], None, None],
    ),
    "dictionary lists": (
        pa.array([["a"], None, ["b"]], pa.list_(pa.dictionary(pa.int32(), pa.string()))),
        [[b"a"], None, [b"b"]],
    ),
    "fixed lists": (
        pa.array([[1, 2], [3, 4], [5, 6]], pa.list_(pa.int64(), 2)),
        [[1, 2], [3, 4], [5, 6]],
    ),
    "text lists": (pa.array([["a"], ["b", "c"], None]), [[b"a"], [b"b", b"c"], None]),
    "digits": (pa.array(["1", "2", None]), [[b"1"], [b"2"], None]),
}


@pytest.mark.parametrize(
    "names", [["fixed lists"], sorted({*PARQUET_COLUMNS} - {"fixed lists"})], ids=len
)
def test_a_column_of_parquet_keeps_its_type(convert, names):
    columns = {name: PARQUET_COLUMNS[name] for name in names}
    data = parquet_of({name: array for name, (array, _) in columns.items()}, row_group_size=2)
    rows = in_order(convert({"t.parquet": data}).by_id())
    found = {name: [row.get(name) for row in rows.values()] for name in names}
    assert found == {name: expected for name, (_, expected) in columns.items()}


def test_null_in_a_list_raises_and_names_the_column(convert, subtests):
    for values in ([[1, None], [2]], [["a"], [None, "b"]]):
        for name, data in {
            "t.jsonl": "".join(json.dumps({"n": 1, "x": value}) + "\n" for value in values),
            "t.parquet": parquet_of({"n": [1, 2], "x": values}),
            "t.json": json.dumps({n: {"label": {"x": value}} for n, value in enumerate(values)}),
        }.items():
            with subtests.test(name=name):
                with pytest.raises(InputError, match="column 'x'"):
                    convert({name: data})


def read(data: bytes, ignored: str = "") -> dict[str, list[Any]]:
    piece = Piece(path="t", source="t.parquet", layout="parquet", split=None, start=0, stop=GROUPS)
    rows = parquet.read(io.BytesIO(data), piece, TableOptions(columns={ignored: "ignore"}))
    return {name: array.to_pylist() for name, array in rows.columns.items()}


GROUPS = 3


def test_inexact_time_raises_and_its_column_can_be_ignored(subtests):
    for times in (
        pa.array([-(2**50)] * 3, pa.timestamp("ms")),  # before year 1
        pa.array([2**50] * 3, pa.timestamp("ms")),  # after year 9999
        pa.array([1] * 3, pa.time64("ns")),  # one nanosecond
    ):
        with subtests.test(times=times):
            data = parquet_of({"k": [1, 2, 3], "x": times}, row_group_size=1, version="2.6")
            with pytest.raises(InputError, match=r"column 'x'.*'ignore'"):
                read(data)
            assert read(data, "x") == {"k": [1, 2, 3]}


def test_column_name_may_be_a_prefix_of_another():
    columns = {"x.y": [1, 2, 3], "x": ["a", "b", "c"]}
    assert read(parquet_of(columns, row_group_size=1)) == columns
