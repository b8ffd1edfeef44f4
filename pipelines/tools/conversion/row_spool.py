"""Rows from Python, however many, as one Parquet file for the ExampleGens.

    spool = RowSpool(Path("out/source"), columns={})
    spool.add({"image": pixels, "label": "cat"}, split="train")
    table = spool.finish()         # Table(path='out/source/rows.parquet', tensors={}, …)

What is held in memory is one batch of rows. Batches are kept beside the result, since what a column
is (ints, or floats after all) shows only at the end.
"""

import contextlib
import dataclasses
import filecmp
import os
import shutil
import uuid
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from components.tables.splits import SPLIT_COLUMNS
from trainer_utils.format import InputError
from trainer_utils.format.naming import check_feature_names
from trainer_utils.writing.feature_record import FeatureRecord
from trainer_utils.writing.values import Plain, Steps, Stored, stored_value

__all__ = ["RowSpool", "Table"]

_BATCH_ROWS, _BATCH_BYTES = 4096, 32 << 20
_IMAGE = "image"
_SPLIT = "split"
_TYPES = {"int": pa.int64(), "float": pa.float64(), "string": pa.binary()}


@dataclasses.dataclass(frozen=True)
class Table:
    """A Parquet file, and what it does not say by itself.

    Args:
        path: of the file.
        tensors: dtype and shape by column, of serialized tensors.
        columns: kinds by column, where there is a choice.
    """

    path: str
    tensors: Mapping[str, str]
    columns: Mapping[str, str]


class RowSpool:
    """Takes rows.

    Args:
        folder: for the result, and for what is kept until then.
        columns: kinds by column, as the user says.
    """

    def __init__(self, folder: Path, *, columns: Mapping[str, str]) -> None:
        self._images = {name for name, kind in columns.items() if kind == _IMAGE}
        if _IMAGE not in columns:
            self._images.add(_IMAGE)
        self._record = FeatureRecord(may_widen=True)
        self._lists: set[str] = set()
        self._folder = folder
        self._working = folder / f".{uuid.uuid4().hex}"
        self._working.mkdir(parents=True)
        self._rows: list[tuple[str | None, Mapping[str, Any]]] = []
        self._bytes = 0
        self._batches = 0
        self._has_splits = False
        self._is_text: dict[str, bool] = {}
        self.found = 0

    def add(self, row: Mapping[str, Any], *, split: str | None = None) -> None:
        """Appends a row.

        Raises:
            InputError: a value cannot be stored, or is of another type than those before; the
                message names feature and record.
        """
        try:
            stored = self._stored(row)
            if split is not None and (twice := SPLIT_COLUMNS & {n.lower() for n in row}):
                raise InputError(
                    f"feature {min(twice)!r}: expected none beside the split {split!r}"
                )
            values, _ = self._record.take(stored)
        except InputError as error:
            place = f"record {self.found}" if split is None else f"{split}, record {self.found}"
            text = str(error).removesuffix(".")
            raise InputError(f"source: {text} ({place}).", record=self.found) from error
        self.found += 1
        self._has_splits |= split is not None
        self._rows.append((split, values))
        for value in values.values():
            self._bytes += len(value) if isinstance(value, bytes) else 9 * len(value)
        if len(self._rows) >= _BATCH_ROWS or self._bytes >= _BATCH_BYTES:
            self._flush()

    def _stored(self, row: Mapping[str, Any]) -> dict[str, Stored]:
        if not isinstance(row, Mapping) or not all(isinstance(name, str) for name in row):
            raise InputError(
                "expected dicts of values by feature, or pairs of a key and such a dict, "
                f"got {type(row).__name__}"
            )
        check_feature_names(row)
        stored = {}
        for name, value in row.items():
            is_image = name in self._images and not isinstance(value, str)
            try:
                stored[name] = stored_value(value, is_image=is_image)
            except InputError as error:
                raise InputError(f"feature {name!r}: {error}") from error
            if isinstance(stored[name], Steps):
                raise InputError(
                    f"feature {name!r}: expected a value, a flat list or an array, got a list of "
                    "lists. Make an array of it, np.array(…), or write SequenceExamples: "
                    "trainer_utils.DatasetWriter"
                )
            one = stored[name]
            if isinstance(one, Plain) and one.is_list:
                self._lists.add(name)
        return stored

    def _flush(self) -> None:
        """Writes a batch as it is: each column of the type that its values have here."""
        names = dict.fromkeys(name for _, values in self._rows for name in values)
        arrays: dict[str, pa.Array] = {"": pa.array([s for s, _ in self._rows], pa.string())}
        for name in names:
            cells = [values.get(name) for _, values in self._rows]
            arrays[name] = self._array(name, cells)
        batch = pa.RecordBatch.from_arrays([*arrays.values()], [*arrays])
        path = self._working / f"{self._batches:08d}.arrow"
        with pa.OSFile(str(path), "wb") as stream, pa.ipc.new_file(stream, batch.schema) as writer:
            writer.write_batch(batch)
        self._batches += 1
        self._rows.clear()
        self._bytes = 0

    def _array(self, name: str, cells: list[Any]) -> pa.Array:
        """Lists of values, one a row; whether all are texts is kept in mind."""
        kind = self._record.kinds[name]
        is_plain = kind in _TYPES
        lists = [[cell] if isinstance(cell, bytes) else cell for cell in cells]
        if kind == "float":
            lists = [None if cell is None else [float(v) for v in cell] for cell in lists]
        array = pa.array(lists, pa.list_(_TYPES[kind] if is_plain else pa.binary()))
        if kind == "string" and self._is_text.get(name, True):
            self._is_text[name] = name not in self._record.images and _is_utf8(array)
        return array

    def finish(self) -> Table:
        """Writes the file; one that is there and equal is left as it is, so that caches hold.

        Raises:
            InputError: there was no row, or none had a value.
        """
        try:
            if self._rows:
                self._flush()
            schema = self._schema()
            if not self.found or not len(schema):
                raise InputError("source: expected rows with values, got none")
            fresh, path = self._working / "rows.parquet", self._folder / "rows.parquet"
            with pq.ParquetWriter(fresh, schema, compression="zstd") as writer:
                for batch in self._read_batches(schema):
                    writer.write_batch(batch)
            if not path.is_file() or not filecmp.cmp(fresh, path, shallow=False):
                os.replace(fresh, path)
        finally:
            self.discard()
        return Table(
            path=str(path),
            tensors={name: str(spec) for name, spec in self._record.tensors.items()},
            columns=self._column_kinds(),
        )

    def discard(self) -> None:
        """Removes what is kept until the end."""
        shutil.rmtree(self._working, ignore_errors=True)
        with contextlib.suppress(OSError):  # with a table in it, it stays
            self._folder.rmdir()

    def _schema(self) -> pa.Schema:
        fields = []
        for name, kind in self._record.kinds.items():
            of_values = _TYPES.get(kind, pa.binary())
            if kind == "string" and self._is_text.get(name, False):
                of_values = pa.string()
            fields.append((name, pa.list_(of_values) if name in self._lists else of_values))
        if self._has_splits:
            fields.append((_SPLIT, pa.string()))
        return pa.schema(fields)

    def _read_batches(self, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        for number in range(self._batches):
            path = str(self._working / f"{number:08d}.arrow")
            with pa.memory_map(path) as source, pa.ipc.open_file(source) as reader:
                batch = reader.get_batch(0)
                arrays = [self._final(batch, field) for field in schema]
                yield pa.RecordBatch.from_arrays(arrays, schema=schema)

    def _final(self, batch: pa.RecordBatch, field: pa.Field) -> pa.Array:
        if self._has_splits and field.name == _SPLIT:
            return batch.column(0)
        if field.name not in batch.schema.names:
            return pa.nulls(len(batch), field.type)
        array = batch.column(field.name)
        if pa.types.is_list(field.type):
            return array.cast(field.type)
        return pc.list_element(array, 0).cast(field.type)

    def _column_kinds(self) -> dict[str, str]:
        """Images beside the first, and bytes that are neither an image, a tensor nor a text."""
        images = [name for name in self._record.kinds if name in self._record.images]
        kinds = dict.fromkeys(images, _IMAGE) if len(images) > 1 else {}
        for name, kind in self._record.kinds.items():
            is_bytes = kind == "string" and not self._is_text.get(name, True)
            if is_bytes and name not in images and name not in self._images:
                kinds[name] = "string"
        return kinds


def _is_utf8(array: pa.Array) -> bool:
    try:
        array.flatten().cast(pa.string())
    except pa.ArrowInvalid:
        return False
    return True
