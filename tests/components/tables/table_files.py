"""Build tables in several formats with the same content."""

import io
from typing import Any

import pyarrow as pa
import pyarrow.parquet


def parquet_of(columns: dict[str, Any], *, table: pa.Table | None = None, **options: Any) -> bytes:
    stream = io.BytesIO()
    table = pa.table(columns) if table is None else table
    pyarrow.parquet.write_table(table, stream, **options)
    return stream.getvalue()


def keyed(*entries: str) -> str:
    return "{" + ", ".join(entries) + "}"


def numbered(name: str, rows: dict[int, Any]) -> dict[str, Any]:
    return {f"{name}:{number}": row for number, row in rows.items()}


def in_order(rows: dict[str, Any]) -> dict[str, Any]:
    return dict(sorted(rows.items(), key=lambda item: int(item[0].rpartition(":")[2])))
