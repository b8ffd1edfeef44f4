"""Arrow arrays from Python values and numpy arrays, and back, compared with `pa.array`."""

import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from components.inputs.arrow_columns import (
    BINARY,
    array_of_values,
    bool_array,
    bytes_array,
    bytes_scalar,
    empty_table,
    int_array,
    int_scalar,
    list_array,
    one_array,
    path_array,
    string_array,
    string_scalar,
    to_numpy,
)

REPOSITORY = Path(__file__).parents[3]
# A part of an array starts within a byte of its bitmaps.
PARTS = [slice(None), slice(3, None), slice(2, 13), slice(0, 0)]


def check(array, expected):
    array.validate(full=True)
    assert array.type == expected.type
    assert array.equals(expected)
    assert array.null_count == expected.null_count


@pytest.mark.parametrize("values", [[], ["a"], ["", "é", None, "日本", None], [None] * 9])
def test_strings_and_bytes_equal_arrow(values):
    check(string_array(values), pa.array(values, pa.string()))
    encoded = [None if value is None else value.encode() for value in values]
    for kind in (pa.binary(), pa.large_binary(), pa.string(), pa.large_string()):
        check(bytes_array(encoded, kind), pa.array(encoded, kind))


def test_strings_that_are_not_unicode_are_refused():
    with pytest.raises(UnicodeEncodeError):
        string_array(["\udc80"])


def test_paths_have_any_bytes():
    paths = ["a", "é", None, "\udcff"]
    check(path_array(paths), pa.array([b"a", "é".encode(), None, b"\xff"], BINARY))


def test_too_many_bytes_for_32_bit_offsets_are_refused(monkeypatch):
    monkeypatch.setattr("components.inputs.arrow_columns._MAX_OFFSET", 3)
    check(bytes_array([b"abc"], pa.binary()), pa.array([b"abc"], pa.binary()))
    check(bytes_array([b"abcd"]), pa.array([b"abcd"], BINARY))
    with pytest.raises(OverflowError, match="4 bytes are too many"):
        bytes_array([b"abcd"], pa.binary())


@pytest.mark.parametrize("count", [0, 1, 7, 8, 9, 64])
def test_numbers_and_booleans_equal_arrow(count):
    numbers = np.arange(count) * 3 - 5
    check(int_array(numbers), pa.array(numbers))
    check(
        int_array(numbers.astype(np.uint16)[::-1]),
        pa.array(numbers.astype(np.uint16)[::-1]).cast("int64"),
    )
    check(bool_array(numbers % 2 == 0), pa.array(numbers % 2 == 0))


def test_scalars_equal_arrow():
    assert bytes_scalar(b"a\xff").equals(pa.scalar(b"a\xff", BINARY))
    assert string_scalar("é").equals(pa.scalar("é"))
    assert int_scalar(-7).equals(pa.scalar(-7))


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        ([1, None, -(2**63), 2**63 - 1], pa.int64()),
        ([None, None], pa.int64()),
        ([], pa.int64()),
        ([1.5, None, float("inf")], pa.float64()),
        ([1, 2.5], pa.float64()),
        ([np.int32(3), np.int64(4)], pa.int64()),
        (["a", None], pa.string()),
        ([(1, 2), None, (), (3,)], pa.large_list(pa.int64())),
        ([(1, None)], pa.large_list(pa.int64())),
        ([None, ()], pa.large_list(pa.float64())),
        ([], pa.large_list(pa.float64())),
    ],
)
def test_python_values_equal_arrow(values, kind):
    check(array_of_values(values, kind), pa.array(values, kind))


def test_strings_become_bytes():
    values = ["a", None, "\udcff"]
    check(array_of_values(values, BINARY), pa.array([b"a", None, b"\xff"], BINARY))
    kind = pa.large_list(BINARY)
    check(array_of_values([("a",), None], kind), pa.array([[b"a"], None], kind))


@pytest.mark.parametrize("values", [[2**70], [-(2**63) - 1], ["1"], [1, "2"], [(1,)]])
def test_values_that_are_no_integers_are_refused_as_by_arrow(values):
    with pytest.raises((pa.ArrowException, OverflowError, TypeError)) as by_arrow:
        pa.array(values, pa.int64())
    with pytest.raises(by_arrow.type):
        array_of_values(values, pa.int64())


def test_lists_equal_arrow():
    lists = list_array(
        np.array([0, 2, 2, 3]), pa.array(["a", "b", "c"]), np.array([False, True, False])
    )
    check(lists, pa.array([["a", "b"], None, ["c"]], pa.large_list(pa.string())))


@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize(
    "kind", ["bool", "int8", "uint16", "int64", "uint64", "float16", "float32", "float64"]
)
def test_numpy_values_equal_arrow(kind, part):
    values = (np.arange(20) * 7 % 5).astype(kind)
    array = pa.array(values)[part]
    numbers = to_numpy(array)
    assert numbers.dtype == values.dtype
    assert numbers.tolist() == array.to_pylist() == to_numpy(pa.chunked_array([array])).tolist()


@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize("kind", [pa.bool_(), pa.int32(), pa.float64()])
def test_nulls_become_the_given_value(kind, part):
    array = pa.array([None if n % 3 == 1 else n % 2 for n in range(20)]).cast(kind)[part]
    expected = [1 if value is None else value for value in array.to_pylist()]
    assert to_numpy(array, null=1).tolist() == expected
    assert to_numpy(array, null=1).dtype == kind.to_pandas_dtype()


def test_nulls_without_a_value_are_refused():
    with pytest.raises(ValueError, match="1 of 2 values"):
        to_numpy(pa.array([1, None]))


@pytest.mark.parametrize("kind", [pa.decimal128(5), pa.string(), pa.timestamp("ns"), pa.null()])
def test_other_types_are_refused(kind):
    with pytest.raises(TypeError, match=re.escape(str(kind))):
        to_numpy(pa.nulls(2, kind), null=0)


def test_column_without_chunks_is_an_empty_array():
    check(one_array(pa.chunked_array([], pa.string())), pa.array([], pa.string()))


def test_empty_table_equals_arrow():
    schema = pa.schema([("a", pa.struct([("b", pa.int64())])), ("c", pa.large_list(pa.bool_()))])
    assert empty_table(schema).equals(schema.empty_table())


USED = """
import sys
import numpy as np, pyarrow as pa, pyarrow.compute as pc
from components.inputs.arrow_columns import *
from components.inputs.arrow_columns import array_of_values
texts = array_of_values(["a", None], BINARY)
assert to_numpy(pc.equal(texts, bytes_scalar(b"a")), null=False).tolist() == [True, False]
numbers = array_of_values([1, None, 2], pa.int64())
assert to_numpy(pc.add(numbers, int_scalar(1)), null=0).tolist() == [2, 0, 3]
table = pa.table({"a": pc.take(string_array(["x", "y"]), int_array(np.array([1])))})
assert pc.filter(table, bool_array(np.array([True]))).to_pylist() == [{"a": "y"}]
assert to_python_values(array_of_values([(1,), None], pa.large_list(pa.int64()))) == [(1,), None]
assert not len(one_array(empty_table(table.schema).column("a")))
assert "pandas" not in sys.modules
"""


def test_no_helper_imports_pandas():
    pytest.importorskip("pandas")
    subprocess.run([sys.executable, "-c", USED], cwd=REPOSITORY, check=True, timeout=120)
