"""Inputs of an ExampleGen as a table, the reader of their bytes, and their fingerprint.

Each input is an entry, with the values and bytes of its example. The table has one row per example.
"""

import dataclasses
import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from components.inputs.arrow_columns import (
    BINARY,
    array_of,
    array_of_values,
    empty_table,
    string_array,
    to_python_values,
)
from trainer_utils.core.errors import InputError

_CHUNK = 1 << 14  # entries that are Python objects at the same time
_TYPES = {"int": pa.int64(), "float": pa.float64(), "string": BINARY, "label": BINARY}
_BLOB_FIELDS = {  # `path` is null if it equals the entry's name
    "path": BINARY,
    "size": pa.int64(),
    "offset": pa.int64(),
    "row": pa.int64(),
    "column": pa.string(),
}
Scalar = int | float | str
Value = Scalar | tuple[Scalar, ...] | None


@dataclasses.dataclass(frozen=True, slots=True)
class Column:
    """A feature with a value from each input."""

    name: str
    kind: str  # `int`, `float`, `string`, or `label`: strings that become ids of a vocabulary
    is_list: bool = False  # values are tuples; otherwise single values, or None if missing
    # Length of each list if all have the same by nature, as vectors do; otherwise None
    length: int | None = None


class Blob(NamedTuple):
    """Bytes that are read when their shard is written: a file, or part of a file."""

    path: str  # relative to the input base, with `/`; below another root the whole path or url
    size: int  # bytes; an estimate for a row
    offset: int | None = None  # first byte of a member of an archive
    row: int | None = None  # row number in a Parquet file
    column: str | None = None  # column of the Parquet file


class BlobColumn(NamedTuple):
    """A feature whose bytes come from files: its name and its kind.

    The kind is `image`, `label_map`, `audio`, or `bytes` for a file that is stored unchanged.
    """

    name: str
    kind: str


_IMAGE = (BlobColumn("image", "image"),)


class Entry(NamedTuple):
    """An input that should become an example."""

    # Unique name: the file's path relative to the input base, or `<archive or table>/<key or row>`.
    # Bytes that are not UTF-8 are surrogates
    name: str
    split: str | None  # the split that the input names, or None if a hash decides
    # blobs, values: one for each of the table's `blobs` and `columns`
    blobs: tuple[Blob, ...]
    values: tuple[Value, ...] = ()


@dataclasses.dataclass(frozen=True, slots=True)
class ExcludedInput:
    """An input that will not be read. Inputs skipped on purpose have no `code`."""

    name: str
    split: str | None
    code: str | None
    detail: str


def label_column(columns: Sequence[Column]) -> int | None:
    """Return the index of the column whose classes are counted and kept in proportion, if any."""
    for place, column in enumerate(columns):
        if column.kind == "label" or column.name in ("label", "labels"):
            return place
    return None


@dataclasses.dataclass(frozen=True)
class InputTable:
    """A table of all inputs."""

    # Inputs to read: `name`, `split` (null if a hash decides), a struct with the fields of `Blob`
    # for each of `blobs`, and a value for each of `columns`
    rows: pa.Table
    excluded: tuple[ExcludedInput, ...] = ()  # inputs rejected or skipped before reading
    # columns, blobs: the features of the inputs
    columns: tuple[Column, ...] = ()
    blobs: tuple[BlobColumn, ...] = _IMAGE
    # Checksums, by name, of the files that the layout read to find the inputs
    contents: Mapping[str, int] = dataclasses.field(default_factory=dict)
    # Labels in the order of their ids, by feature, if the layout defines them
    vocabularies: Mapping[str, tuple[str, ...]] = dataclasses.field(default_factory=dict)

    @classmethod
    def of(
        cls,
        entries: Iterable[Entry],
        excluded: Iterable[ExcludedInput] = (),
        columns: tuple[Column, ...] = (),
        blobs: tuple[BlobColumn, ...] = _IMAGE,
    ) -> "InputTable":
        """Create a table from entries, which are consumed in chunks, and then from `excluded`."""
        schema, source = _schema(columns, blobs), iter(entries)
        parts = [empty_table(schema)]
        while chunk := list(itertools.islice(source, _CHUNK)):
            names, splits, files, values = zip(*chunk, strict=True)
            arrays = [array_of_values(names, BINARY), string_array(splits)]
            arrays += [_blob_array(names, each) for each in zip(*files, strict=True)]
            types = schema.types[len(arrays) :]
            arrays += map(array_of_values, zip(*values, strict=True), types)
            parts.append(pa.Table.from_arrays(arrays, schema=schema))
        rows = pa.concat_tables(parts).combine_chunks()
        return cls(rows, tuple(excluded), columns, blobs)

    @classmethod
    def of_files(
        cls,
        paths: pa.Array,
        sizes: pa.Array,
        splits: pa.Array,
        excluded: Iterable[ExcludedInput],
        *,
        blob: BlobColumn,
        labels: pa.Array | None,
        features: Sequence[tuple[Column, Sequence[Any]]] = (),
    ) -> "InputTable":
        """Create a table of `n` files, one input each; `paths` are `large_binary`.

        Each of `features` is a column and its `n` values.
        """
        label = [] if labels is None else [Column("label", "label")]
        columns = (*label, *(column for column, _ in features))
        schema = _schema(columns, (blob,))
        known = {"size": sizes.combine_chunks()}
        fields = [
            known.get(name, pa.nulls(len(paths), kind)) for name, kind in _BLOB_FIELDS.items()
        ]
        files = pa.StructArray.from_arrays(fields, [*_BLOB_FIELDS])
        arrays = [paths, splits, files, *([] if labels is None else [labels])]
        types = schema.types[len(arrays) :]
        arrays += [
            array_of_values(values, kind) for (_, values), kind in zip(features, types, strict=True)
        ]
        return cls(pa.Table.from_arrays(arrays, schema=schema), tuple(excluded), columns, (blob,))

    def renamed(self, names: Mapping[str, str]) -> "InputTable":
        """Return the table with features renamed. `names` maps old names to new ones."""

        def new(column: str) -> str:
            kind, colon, name = column.partition(":")
            return f"{kind}:{names.get(name, name)}" if colon else column

        return dataclasses.replace(
            self,
            rows=self.rows.rename_columns([*map(new, self.rows.column_names)]),
            blobs=tuple(b._replace(name=names.get(b.name, b.name)) for b in self.blobs),
            columns=tuple(
                dataclasses.replace(c, name=names.get(c.name, c.name)) for c in self.columns
            ),
        )

    @property
    def found(self) -> int:
        """Number of inputs, including excluded ones."""
        return len(self.rows) + len(self.excluded)

    @property
    def entries(self) -> list[Entry]:
        """The rows as Python objects."""
        return [*entries_of(self.rows)]

    def values(self, place: int) -> pa.Array:
        """Return the values of the rows in the column at an index of `columns`."""
        return array_of(self.rows, f"value:{self.columns[place].name}")


def _schema(columns: Sequence[Column], blobs: Sequence[BlobColumn]) -> pa.Schema:
    fields = [("name", BINARY), ("split", pa.string())]
    fields += [(f"blob:{blob.name}", pa.struct([*_BLOB_FIELDS.items()])) for blob in blobs]
    fields += [(f"value:{column.name}", _type_of(column)) for column in columns]
    return pa.schema(fields)


def _type_of(column: Column) -> pa.DataType:
    kind = _TYPES[column.kind]
    return pa.large_list(kind) if column.is_list else kind


def _blob_array(names: Sequence[str], blobs: Sequence[Blob]) -> pa.Array:
    paths, *others = zip(*blobs, strict=True)
    blob_paths_or_none = [
        None if path == name else path for path, name in zip(paths, names, strict=True)
    ]
    arrays = map(array_of_values, [blob_paths_or_none, *others], _BLOB_FIELDS.values())
    return pa.StructArray.from_arrays([*arrays], [*_BLOB_FIELDS])


def entries_of(rows: pa.Table) -> Iterator[Entry]:
    """Yield the rows as Python objects, converted in chunks."""
    for batch in rows.to_batches(max_chunksize=_CHUNK):
        names = to_python_values(batch.column(0))
        nothing = itertools.repeat((), len(names))
        blobs, values = [], []
        for field, array in zip(batch.schema, batch.columns, strict=True):
            if field.name.startswith("blob:"):
                paths, *others = (to_python_values(array.field(name)) for name in _BLOB_FIELDS)
                blob_names = (path or name for path, name in zip(paths, names, strict=True))
                blobs.append(map(Blob, blob_names, *others))
            elif field.name.startswith("value:"):
                values.append(to_python_values(array))
        yield from map(
            Entry,
            names,
            to_python_values(batch.column(1)),
            zip(*blobs, strict=True) if blobs else nothing,
            zip(*values, strict=True) if values else nothing,
        )


def with_excluded(inputs: InputTable, excluded: Sequence[ExcludedInput]) -> InputTable:
    """Return the inputs with additional excluded ones."""
    return dataclasses.replace(inputs, excluded=(*inputs.excluded, *excluded))


def join_inputs(parts: Sequence[InputTable]) -> InputTable:
    """Concatenate tables. Rows of a table that lacks a column have nulls there."""
    if len(parts) == 1:
        return parts[0]
    columns: dict[str, Column] = {}
    is_alike = all(part.blobs == parts[0].blobs for part in parts)
    for column in (column for part in parts for column in part.columns):
        merged = columns.get(column.name, column)
        are_numbers = {merged.kind, column.kind} == {"int", "float"}
        is_alike &= merged.is_list == column.is_list and (merged.kind == column.kind or are_numbers)
        columns[column.name] = dataclasses.replace(
            merged,
            kind="float" if are_numbers else merged.kind,
            length=merged.length if merged.length == column.length else None,
        )
    if not is_alike:
        names = [
            ", ".join([*(b.name for b in p.blobs), *(f"{c.name} ({c.kind})" for c in p.columns)])
            for p in parts
        ]
        raise InputError(
            f"splits: expected the same features in all, got {' and '.join(dict.fromkeys(names))}"
        )
    schema = _schema([*columns.values()], parts[0].blobs)
    tables = [
        pa.Table.from_arrays(
            [
                pc.cast(array_of(part.rows, field.name), field.type)
                if field.name in part.rows.column_names
                else pa.nulls(len(part.rows), field.type)
                for field in schema
            ],
            schema=schema,
        )
        for part in parts
    ]
    return InputTable(
        pa.concat_tables(tables).combine_chunks(),
        tuple(left for part in parts for left in part.excluded),
        tuple(columns.values()),
        parts[0].blobs,
        vocabularies={name: v for part in parts for name, v in part.vocabularies.items()},
    )
