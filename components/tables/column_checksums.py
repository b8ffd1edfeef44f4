"""Sums of the columns of a Parquet file, the same however its rows are grouped and compressed.

    column_checksums(table)       # [('text', 'lengths', 8_000, 0x1C29…), ('text', 'values', …), …]

Each column is one or more streams of bytes, which go on from one group of rows to the next: sums
of parts make that of the whole (`combine_crc32c`).
"""

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from components.tables.rows import one_array
from trainer_utils.format.crc32c import extend_crc32c

__all__ = ["column_checksums"]

_MISSING = -1  # in place of a length
_Stream = tuple[str, bytes]


def column_checksums(table: pa.Table) -> list[tuple[str, str, int, int]]:
    """Of each stream: its column, its name, how many bytes it has, and their CRC-32C."""
    return [
        (name, stream, len(data), extend_crc32c(0, data))
        for name, column in zip(table.column_names, table.columns, strict=True)
        for stream, data in _streams(one_array(column), "")
    ]


def _streams(array: pa.Array, within: str) -> Iterator[_Stream]:
    kind = array.type
    if pa.types.is_dictionary(kind):
        yield from _streams(array.dictionary_decode(), within)
    elif any(is_one(kind) for is_one in _TEXTS):
        array = array.cast(pa.large_binary())
        yield f"{within}lengths", _lengths(pc.binary_length(array))
        yield f"{within}values", _octets(array.drop_null())
    elif any(is_one(kind) for is_one in _LISTS):
        yield f"{within}lengths", _lengths(pc.list_value_length(array))
        yield from _streams(array.flatten(), f"{within}item.")
    elif pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind):
        yield f"{within}valid", array.is_valid().to_numpy(zero_copy_only=False).tobytes()
        yield f"{within}values", array.drop_null().to_numpy(zero_copy_only=False).tobytes()
    else:  # times, structs: rare, so that Python may write them down
        yield f"{within}values", "".join(f"{_value(scalar)!r}\n" for scalar in array).encode()


def _value(scalar: pa.Scalar) -> object:
    """Of a time that is none to Python the number by which Arrow holds it."""
    try:
        return scalar.as_py()
    except (OverflowError, ValueError):
        return scalar.cast(pa.int64()).as_py()


_TEXTS = (
    pa.types.is_string,
    pa.types.is_large_string,
    pa.types.is_binary,
    pa.types.is_large_binary,
)
_LISTS = (pa.types.is_list, pa.types.is_large_list)


def _lengths(lengths: pa.Array) -> bytes:
    filled = pc.fill_null(lengths.cast(pa.int64()), _MISSING)
    return bytes(filled.to_numpy(zero_copy_only=False).astype("<i8").tobytes())


def _octets(array: pa.Array) -> bytes:
    if not len(array):
        return b""
    offsets = np.frombuffer(array.buffers()[1], np.int64)[array.offset :]
    return bytes(array.buffers()[2][int(offsets[0]) : int(offsets[len(array)])].to_pybytes())
