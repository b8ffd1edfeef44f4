"""Convert between Arrow arrays, Python values and numpy arrays without importing pandas.

Arrow imports pandas, if it is installed, as soon as it converts a Python object or a numpy array,
which takes 0.4 s of a process. Up to Arrow 10, methods of arrays and tables that call a compute
function, such as `array.take(…)` and `array.cast(…)`, do so too. The functions of `pyarrow.compute`
do not, provided that all their arguments are Arrow's. So modules that read files use these:

    string_array(["cat", None])       # pa.array(["cat", None])
    int_array(np.arange(3))           # pa.array(np.arange(3))
    bool_array(mask)                  # pa.array(mask)
    to_numpy(array)                   # array.to_numpy(zero_copy_only=False)
    pc.take(array, int_array(order))  # array.take(pa.array(order))
"""

import itertools
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from trainer_utils.storage.paths import decode_path

BINARY = pa.large_binary()  # binary, since names may have bytes that are not UTF-8
STRING = pa.string()
_MAX_OFFSET = 2**31 - 1  # of types without `large` in their names


def one_array(column: pa.ChunkedArray) -> pa.Array:
    """Return a table's column, which may be chunked, as one array."""
    if not column.num_chunks:  # `combine_chunks` would convert an empty list, with pandas
        return pa.nulls(0, column.type)
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


def int_array(values: npt.NDArray[np.integer[Any]]) -> pa.Array:
    """Return an Arrow array of 64-bit integers."""
    values = np.ascontiguousarray(values, np.int64)
    return pa.Array.from_buffers(pa.int64(), len(values), [None, pa.py_buffer(values)])


def bool_array(values: npt.NDArray[np.bool_]) -> pa.Array:
    """Return an Arrow array of booleans."""
    return pa.Array.from_buffers(pa.bool_(), len(values), [None, _bits(values)])


def bytes_array(values: Iterable[bytes | None], kind: pa.DataType = BINARY) -> pa.Array:
    """Return an Arrow array of bytes, or of UTF-8 strings, given as bytes.

    Args:
        values: the values; None is a null.
        kind: `binary`, `string`, `large_binary` or `large_string`.

    Raises:
        OverflowError: the values are too large for the 32-bit offsets of the type.
    """
    values, validity = _without_none(values, b"")
    return _variable_array(kind, b"".join(values), map(len, values), len(values), validity)


def string_array(values: Iterable[str | None]) -> pa.Array:
    """Return an Arrow array of strings; None is a null."""
    return _encoded_array(values, STRING, errors="strict")


def path_array(paths: Iterable[str | None]) -> pa.Array:
    """Return a `large_binary` array of paths, or other strings with any bytes as surrogates."""
    return _encoded_array(paths, BINARY, errors="surrogateescape")


def _encoded_array(values: Iterable[str | None], kind: pa.DataType, *, errors: str) -> pa.Array:
    values, validity = _without_none(values, "")
    text = "".join(values)
    if text.isascii():  # as a rule; encoding one value after the other takes twice the time
        return _variable_array(kind, text.encode(), map(len, values), len(values), validity)
    encoded = [value.encode("utf-8", errors) for value in values]
    return _variable_array(kind, b"".join(encoded), map(len, encoded), len(values), validity)


def _variable_array(
    kind: pa.DataType, data: bytes, lengths: Iterable[int], count: int, validity: pa.Buffer | None
) -> pa.Array:
    """Return an array of values of different lengths, given one after the other."""
    is_large = pa.types.is_large_binary(kind) or pa.types.is_large_string(kind)
    if not is_large and len(data) > _MAX_OFFSET:
        raise OverflowError(f"{len(data):,} bytes are too many for an array of the type {kind}")
    offsets = np.zeros(count + 1, np.int64 if is_large else np.int32)
    np.cumsum(np.fromiter(lengths, offsets.dtype, count), out=offsets[1:])
    buffers = [validity, pa.py_buffer(offsets), pa.py_buffer(data)]
    return pa.Array.from_buffers(kind, count, buffers)


def bytes_scalar(value: bytes) -> pa.Scalar:
    """Return a `large_binary` scalar."""
    return bytes_array([value])[0]


def string_scalar(value: str) -> pa.Scalar:
    """Return a string scalar."""
    return string_array([value])[0]


def int_scalar(value: int) -> pa.Scalar:
    """Return a 64-bit integer scalar."""
    return int_array(np.array([value]))[0]


def list_array(
    offsets: npt.NDArray[np.int64], values: pa.Array, is_missing: npt.NDArray[np.bool_]
) -> pa.Array:
    """Return a `large_list` array.

    Args:
        offsets: the start of each list in `values`, and the end of the last one, `(n + 1,)`.
        values: the values of all lists.
        is_missing: whether each list is null, `(n,)`.
    """
    validity = _bits(~is_missing) if is_missing.any() else None
    buffers = [validity, pa.py_buffer(np.ascontiguousarray(offsets, np.int64))]
    kind = pa.large_list(values.type)
    return pa.Array.from_buffers(kind, len(is_missing), buffers, children=[values])


def array_of_values(values: Sequence[Any], kind: pa.DataType) -> pa.Array:
    """Convert Python values to an Arrow array. Strings become their bytes; None is a null.

    Values that do not have exactly the type are left to Arrow, which converts or refuses them.
    """
    if kind == BINARY:
        return path_array(values)
    if pa.types.is_large_list(kind):
        lists, validity = _without_none(values, ())
        offsets = np.zeros(len(lists) + 1, np.int64)
        np.cumsum(np.fromiter(map(len, lists), np.int64, len(lists)), out=offsets[1:])
        items = array_of_values([*itertools.chain.from_iterable(lists)], kind.value_type)
        buffers = [validity, pa.py_buffer(offsets)]
        return pa.Array.from_buffers(kind, len(lists), buffers, children=[items])
    types = {*map(type, values)} - {type(None)}
    if not types:
        return pa.nulls(len(values), kind)
    if kind == STRING and types == {str}:
        return string_array(values)
    if (kind == pa.int64() and types == {int}) or (kind == pa.float64() and types == {float}):
        numbers, validity = _without_none(values, 0)
        try:
            data = np.fromiter(numbers, np.int64 if types == {int} else np.float64, len(numbers))
        except OverflowError:  # an integer of more than 64 bits
            return pa.array(values, kind)
        return pa.Array.from_buffers(kind, len(numbers), [validity, pa.py_buffer(data)])
    return pa.array(values, kind)


def _without_none(values: Iterable[Any], instead: Any) -> tuple[list[Any], pa.Buffer | None]:
    """Return values with another one instead of None, and a bitmap; no bitmap without any None."""
    values = [*values]
    if type(None) not in map(type, values):
        return values, None
    is_valid = np.fromiter((value is not None for value in values), np.bool_, len(values))
    return [instead if value is None else value for value in values], _bits(is_valid)


def _bits(values: npt.NDArray[np.bool_]) -> pa.Buffer:
    return pa.py_buffer(np.packbits(values, bitorder="little"))


def empty_table(schema: pa.Schema) -> pa.Table:
    """Return a table without rows."""
    return pa.Table.from_arrays([pa.nulls(0, kind) for kind in schema.types], schema=schema)


def to_numpy(array: pa.Array | pa.ChunkedArray, *, null: float | None = None) -> npt.NDArray[Any]:
    """Return integers, floats or booleans as a numpy array, which may be read-only.

    Args:
        array: the Arrow array.
        null: the value for nulls.

    Raises:
        ValueError: there are nulls, but no value for them.
        TypeError: the array has another type.
    """
    if isinstance(array, pa.ChunkedArray):
        array = one_array(array)
    kind = array.type
    is_bool, is_float = pa.types.is_boolean(kind), pa.types.is_floating(kind)
    if not (pa.types.is_integer(kind) or is_float or is_bool):
        raise TypeError(f"expected integers, floats or booleans, got {kind}")
    start, stop = array.offset, array.offset + len(array)
    data = array.buffers()[1] or b""  # None for some empty arrays
    if is_bool:
        values = np.unpackbits(np.frombuffer(data, np.uint8), count=stop, bitorder="little")
        values = values[start:].view(np.bool_)
    else:
        # `kind.to_pandas_dtype()` fails without pandas.
        dtype = f"float{kind.bit_width}" if is_float else str(kind)
        values = np.frombuffer(data, dtype, stop)[start:]
    if array.null_count:
        if null is None:
            raise ValueError(f"expected no nulls, got {array.null_count} of {len(array)} values")
        values = np.where(to_numpy(pc.is_valid(array)), values, values.dtype.type(null))
    return values


def bounds_and_bytes(array: pa.Array) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.uint8]]:
    """Return the bounds of the values of a `large_binary` array without nulls, and their bytes.

    Returns:
        The start of each value and the end of the last one, `(n + 1,)`, from 0; and the bytes.
    """
    _, offsets, values = array.buffers()
    bounds = np.frombuffer(offsets, np.int64, len(array) + 1, 8 * array.offset)
    data = np.frombuffer(b"" if values is None else values, np.uint8)
    return bounds - bounds[0], data[bounds[0] : bounds[-1]]


def bytes_of(array: pa.Array) -> list[bytes]:
    """Return a `large_binary` array without nulls as a list, 10 times as fast as `to_pylist`."""
    bounds, values = bounds_and_bytes(array)
    data = values.tobytes()
    return [data[start:stop] for start, stop in itertools.pairwise(bounds.tolist())]


def array_of(rows: pa.Table, name: str) -> pa.Array:
    """Return a column by name as one array."""
    return one_array(rows.column(name))


def blob_paths(rows: pa.Table, name: str) -> pa.Array:
    """Return the paths of the files in a blob column, `(n,) large_binary`."""
    return pc.coalesce(array_of(rows, name).field("path"), array_of(rows, "name"))


def sizes_of(rows: pa.Table) -> npt.NDArray[np.int64]:
    """Return the total bytes of each row's files, `(n,) int64`."""
    sizes = np.zeros(len(rows), np.int64)
    for name in rows.column_names:
        if name.startswith("blob:"):
            sizes += to_numpy(array_of(rows, name).field("size"))
    return sizes


def is_in_table(rows: pa.Table, name: str) -> bool:
    """Return whether some values of a blob column are cells of Parquet files."""
    numbers = array_of(rows, name).field("row")
    return bool(numbers.null_count < len(numbers))


def to_python_values(array: pa.Array) -> list[Any]:
    """Return an array's values as Python objects: bytes become strings, and lists become tuples."""
    if array.null_count == len(array):
        return [None] * len(array)
    if not array.null_count and array.type == BINARY:
        return [*map(decode_path, bytes_of(array))]
    if not array.null_count and (pa.types.is_integer(array.type) or array.type == pa.float64()):
        numbers: list[Any] = to_numpy(array).tolist()
        return numbers
    values: list[Any] = array.to_pylist()
    if array.type == BINARY or pa.types.is_large_list(array.type):
        return [*map(_plain, values)]
    return values


def _plain(value: Any) -> Any:
    if isinstance(value, bytes):
        return decode_path(value)
    return tuple(map(_plain, value)) if isinstance(value, list) else value
