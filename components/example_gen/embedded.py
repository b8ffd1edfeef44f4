"""Images and sounds that are in a Parquet file itself: found without being read.

find_embedded(file, stream)["image"].bytes_column      # 'image.bytes', as Hugging Face keeps one
"""

import dataclasses
from typing import BinaryIO

import pyarrow as pa
import pyarrow.parquet

__all__ = ["Embedded", "find_embedded"]

_HEADS, _HEAD_BYTES, _BUFFER_BYTES = 8, 512, 1 << 16
_BYTES_FIELD, _PATH_FIELD = "bytes", "path"  # of a struct, as Hugging Face keeps an image


@dataclasses.dataclass(frozen=True)
class Embedded:
    """Images that are in a Parquet file itself.

    Args:
        column: as people name it.
        bytes_column: the one with the bytes, a field of a struct after a dot.
        bytes_per_row: about how many.
        paths: where the rows say that they come from, None for those that do not.
        heads: how the first ones begin.
    """

    column: str
    bytes_column: str
    bytes_per_row: int
    paths: list[str | None]
    heads: tuple[bytes, ...] = ()


def find_embedded(file: pa.parquet.ParquetFile, stream: BinaryIO) -> dict[str, Embedded]:
    """The columns of bytes, or of structs with bytes, by name.

    Args:
        file: a `pyarrow.parquet.ParquetFile`.
    """
    return {
        field.name: _facts_of(file, field, stream)
        for field in file.schema_arrow
        if _holds_bytes(field.type)
    }


def _holds_bytes(kind: pa.DataType) -> bool:
    if pa.types.is_struct(kind):
        return any(f.name == _BYTES_FIELD and _holds_bytes(f.type) for f in kind)
    return bool(pa.types.is_binary(kind) or pa.types.is_large_binary(kind))


def _facts_of(file: pa.parquet.ParquetFile, field: pa.Field, stream: BinaryIO) -> Embedded:
    paths: list[str | None] = [None] * file.metadata.num_rows
    bytes_column = field.name
    if pa.types.is_struct(field.type):
        bytes_column = f"{field.name}.{_BYTES_FIELD}"
        if any(part.name == _PATH_FIELD for part in field.type):
            structs = file.read(columns=[f"{field.name}.{_PATH_FIELD}"]).column(0).to_pylist()
            paths = [struct and struct[_PATH_FIELD] for struct in structs]
    groups = [file.metadata.row_group(number) for number in range(file.metadata.num_row_groups)]
    size = sum(
        group.column(place).total_compressed_size
        for group in groups
        for place in range(group.num_columns)
        if group.column(place).path_in_schema == bytes_column
    )
    row_bytes = -(-size // max(1, len(paths)))
    return Embedded(field.name, bytes_column, row_bytes, paths, _heads(file, stream, bytes_column))


def _heads(file: pa.parquet.ParquetFile, stream: BinaryIO, column: str) -> tuple[bytes, ...]:
    """How the first values of a column begin, read without its row group."""
    buffered = pyarrow.parquet.ParquetFile(
        stream, metadata=file.metadata, buffer_size=_BUFFER_BYTES
    )
    for batch in buffered.iter_batches(batch_size=_HEADS, columns=[column]):
        values = batch.column(0)
        while pa.types.is_struct(values.type):
            values = values.field(0)
        return tuple(value.as_py()[:_HEAD_BYTES] for value in values if value.is_valid)
    return ()
