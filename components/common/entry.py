"""Inputs of an ExampleGen as a table, the reader of their bytes, and their fingerprint.

Each input is an entry, with the values and bytes of its example. The table has one row per example.
"""

import dataclasses
import itertools
import os
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from components.common.rejects import RejectedInputError
from trainer_utils import storage
from trainer_utils.format import InputError
from trainer_utils.format.planning import keyed_digests
from trainer_utils.storage.file_system import decode_path, encode_path

_MAX_BLOB_BYTES = 1 << 30  # 1 GiB: an Example is one protocol buffer, whose limit is 2 GiB
_CHUNK = 1 << 14  # entries that are Python objects at the same time
_TEXT = pa.large_binary()  # binary, since names may have bytes that are not UTF-8
_TYPES = {"int": pa.int64(), "float": pa.float64(), "string": _TEXT, "label": _TEXT}
_BLOB_FIELDS = {  # `path` is null if it equals the entry's name
    "path": _TEXT,
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
        parts = [schema.empty_table()]
        while some := list(itertools.islice(source, _CHUNK)):
            names, splits, files, values = zip(*some, strict=True)
            arrays = [_array(names, _TEXT), pa.array(splits, pa.string())]
            arrays += [_blob_array(names, each) for each in zip(*files, strict=True)]
            types = schema.types[len(arrays) :]
            arrays += map(_array, zip(*values, strict=True), types)
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
    ) -> "InputTable":
        """Create a table of `n` files, one input each; `paths` are `large_binary`."""
        columns = () if labels is None else (Column("label", "label"),)
        schema = _schema(columns, (blob,))
        known = {"size": sizes.combine_chunks()}
        fields = [
            known.get(name, pa.nulls(len(paths), kind)) for name, kind in _BLOB_FIELDS.items()
        ]
        files = pa.StructArray.from_arrays(fields, [*_BLOB_FIELDS])
        arrays = [paths, splits, files, *([] if labels is None else [labels])]
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
    fields = [("name", _TEXT), ("split", pa.string())]
    fields += [(f"blob:{blob.name}", pa.struct([*_BLOB_FIELDS.items()])) for blob in blobs]
    fields += [(f"value:{column.name}", _type_of(column)) for column in columns]
    return pa.schema(fields)


def _type_of(column: Column) -> pa.DataType:
    kind = _TYPES[column.kind]
    return pa.large_list(kind) if column.is_list else kind


def _blob_array(names: Sequence[str], blobs: Sequence[Blob]) -> pa.Array:
    paths, *others = zip(*blobs, strict=True)
    own = [None if path == name else path for path, name in zip(paths, names, strict=True)]
    arrays = map(_array, [own, *others], _BLOB_FIELDS.values())
    return pa.StructArray.from_arrays([*arrays], [*_BLOB_FIELDS])


def _array(values: Sequence[Any], kind: pa.DataType) -> pa.Array:
    """Convert Python values to an Arrow array. Strings become their bytes."""
    if kind == _TEXT:
        values = [None if value is None else encode_path(value) for value in values]
    elif pa.types.is_large_list(kind) and kind.value_type == _TEXT:
        values = [None if value is None else [*map(encode_path, value)] for value in values]
    return pa.array(values, kind)


def one_array(column: pa.ChunkedArray) -> pa.Array:
    """Return a table's column, which may be chunked, as one array."""
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


def bytes_of(array: pa.Array) -> list[bytes]:
    """Return a `large_binary` array without nulls as a list, 10 times as fast as `to_pylist`."""
    _, offsets, values = array.buffers()
    bounds = np.frombuffer(offsets, np.int64, len(array) + 1, 8 * array.offset).tolist()
    data = values.to_pybytes() if values is not None else b""
    return [data[start:stop] for start, stop in itertools.pairwise(bounds)]


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
            sizes += array_of(rows, name).field("size").to_numpy()
    return sizes


def entries_of(rows: pa.Table) -> Iterator[Entry]:
    """Yield the rows as Python objects, converted in chunks."""
    for batch in rows.to_batches(max_chunksize=_CHUNK):
        names = texts_of(batch.column(0))
        nothing = itertools.repeat((), len(names))
        blobs, values = [], []
        for field, array in zip(batch.schema, batch.columns, strict=True):
            if field.name.startswith("blob:"):
                paths, *others = (texts_of(array.field(name)) for name in _BLOB_FIELDS)
                own = (path or name for path, name in zip(paths, names, strict=True))
                blobs.append(map(Blob, own, *others))
            elif field.name.startswith("value:"):
                values.append(texts_of(array))
        yield from map(
            Entry,
            names,
            texts_of(batch.column(1)),
            zip(*blobs, strict=True) if blobs else nothing,
            zip(*values, strict=True) if values else nothing,
        )


def texts_of(array: pa.Array) -> list[Any]:
    """Return an array's values as Python objects: bytes become strings, and lists become tuples."""
    if array.null_count == len(array):
        return [None] * len(array)
    if not array.null_count and array.type == _TEXT:
        return [*map(decode_path, bytes_of(array))]
    if not array.null_count and (pa.types.is_integer(array.type) or array.type == pa.float64()):
        # Arrow's `to_numpy` imports pandas if it is installed, which takes half a second per
        # process. Its `to_pandas_dtype` fails without pandas.
        held = np.frombuffer(array.buffers()[1], str(array.type))
        numbers: list[Any] = held[array.offset : array.offset + len(array)].tolist()
        return numbers
    values: list[Any] = array.to_pylist()
    if array.type == _TEXT or pa.types.is_large_list(array.type):
        return [*map(_plain, values)]
    return values


def _plain(value: Any) -> Any:
    if isinstance(value, bytes):
        return decode_path(value)
    return tuple(map(_plain, value)) if isinstance(value, list) else value


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
        one = columns.get(column.name, column)
        are_numbers = {one.kind, column.kind} == {"int", "float"}
        is_alike &= one.is_list == column.is_list and (one.kind == column.kind or are_numbers)
        columns[column.name] = dataclasses.replace(
            one,
            kind="float" if are_numbers else one.kind,
            length=one.length if one.length == column.length else None,
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
                array_of(part.rows, field.name).cast(field.type)
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
        vocabularies={name: v for one in parts for name, v in one.vocabularies.items()},
    )


class BlobReader(threading.local):
    """A reader of blobs below a base or one of `image_roots`.

    Each thread keeps the last row group of each Parquet column, so read rows in order.

    Args:
        base: the folder that relative paths start from.
        image_roots: other folders that files may be in.
        follow_links: read files that links outside of these folders lead to.
    """

    def __init__(
        self, base: str, image_roots: Sequence[str] = (), *, follow_links: bool = False
    ) -> None:
        self.base, self._follow_links = base, follow_links
        roots = [root for root in (base, *image_roots) if not storage.is_remote(root)]
        self._roots = [(os.path.abspath(root), os.path.realpath(root)) for root in roots]
        # By column: path, first row, number of rows, and their values or the error of reading them
        self._groups: dict[str, tuple[str, int, int, Any]] = {}

    def read(self, blob: Blob) -> bytes:
        """Return a blob's bytes; raise RejectedInputError if it is too large or has changed."""
        if blob.size > _MAX_BLOB_BYTES:
            raise RejectedInputError(
                "TOO_LARGE", f"expected at most {_MAX_BLOB_BYTES} bytes, got {blob.size}"
            )
        path = storage.join(self.base, blob.path)
        try:
            return self._read(path, blob)
        except OSError as error:
            raise RejectedInputError(*storage.problem_of(error, path)) from error

    def _read(self, path: str, blob: Blob) -> bytes:
        if blob.row is not None:
            return self._read_row(path, blob.column or "", blob.row)
        root = self._root_of(path)
        if blob.offset is None:
            return storage.read_bytes_of_size(path, blob.size, root=root)
        with storage.open_for_reading(path, root=root) as stream:
            stream.seek(blob.offset)
            data = stream.read(blob.size)
        if len(data) != blob.size:
            detail = f"expected {blob.size} bytes at byte {blob.offset}, got {len(data)}"
            raise storage.FileRefusedError("CHANGED_FILE", detail)
        return data

    def _root_of(self, path: str) -> str | None:
        """Return the folder that a local file must be in."""
        if self._follow_links or storage.is_remote(path) or not self._roots:
            return None
        for spelling, real in self._roots[1:]:
            if path.startswith((spelling.rstrip("/") + "/", real.rstrip("/") + "/")):
                return real
        return self._roots[0][1]

    def _read_row(self, path: str, column: str, row: int) -> bytes:
        held, first, count, values = self._groups.get(column, ("", 0, 0, ()))
        if held != path or not first <= row < first + count:
            self._groups.pop(column, None)  # free the old group before reading the next
            first, count, values = _read_row_group(path, self._root_of(path), column, row)
            self._groups[column] = path, first, count, values
        if isinstance(values, OSError):  # cached: a damaged group is not read for each row
            raise values
        value = values[row - first].as_py()
        while isinstance(value, dict):  # unwrap the one field of a struct that was read
            (value,) = value.values()
        if value is None:
            raise RejectedInputError("EMPTY_FILE", f"no bytes in row {row}")
        return bytes(value)


def _read_row_group(path: str, root: str | None, column: str, row: int) -> tuple[int, int, Any]:
    """Return a row group's first row, number of rows, and a column's values or its `OSError`."""
    import pyarrow.parquet  # takes a third of a second, and is rarely needed

    with storage.open_for_reading(path, root=root) as stream:
        table = pyarrow.parquet.ParquetFile(stream)
        first = 0
        for number in range(table.num_row_groups):
            rows = table.metadata.row_group(number).num_rows
            if row < first + rows:
                try:
                    return first, rows, table.read_row_group(number, columns=[column]).column(0)
                except OSError as error:
                    if storage.is_host_error(error):
                        raise
                    return first, rows, error
            first += rows
    raise FileNotFoundError(path)


def sum_facts(facts: Iterable[tuple[tuple[object, ...], object]]) -> int:
    """Return the fingerprint of inputs. Fingerprints of parts add up to the whole's, modulo 2**128.

    The sum does not depend on the order of the inputs, nor on the worker that read each.

    Args:
        facts: the identity of each input, and its checksum, or None if it was not read.
    """
    # `repr` distinguishes the names "a" and "b" from the name "a, b". The sum of no inputs is 0.
    texts = (repr(fact).encode() for fact in facts)
    digests = keyed_digests(texts, seed=0, purpose="inputs")
    parts: list[int] = digests.view("<u4").sum(axis=0, dtype=np.uint64).tolist()
    return sum(part << 32 * place for place, part in enumerate(parts)) % 2**128


def sum_blobs(facts: Iterable[tuple[Blob, int | None]], roots: Sequence[str] = ()) -> int:
    """Return `sum_facts` of files and parts of files, each with its CRC-32C or None.

    Args:
        facts: blobs and their checksums.
        roots: folders outside of the input base. They are removed from the start of paths, so that
            the sum is independent of their location.
    """
    folders = [f"{root.rstrip('/')}/" for root in roots]

    def name(path: str) -> str:
        return path.removeprefix(next((f for f in folders if path.startswith(f)), ""))

    return sum_facts(((name(blob.path), *blob[1:]), crc) for blob, crc in facts)
