"""What an ExampleGen found: each input, with the values and bytes that make its example, and all as
a table, one row an example; how their bytes are read; and their fingerprint.
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

_MAX_BLOB_BYTES = 1 << 30  # 1 GiB: an Example, being one protocol buffer, ends at 2 GiB
_CHUNK = 1 << 14  # entries that are Python objects at a time
_TEXT = pa.large_binary()  # since names may hold bytes that are not UTF-8
_TYPES = {"int": pa.int64(), "float": pa.float64(), "string": _TEXT, "label": _TEXT}
_BLOB_FIELDS = {  # `path` is null where it is the entry's name
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
    """A feature that the inputs give a value for."""

    name: str
    kind: str  # `int`, `float`, `string`, or `label`: strings that become ids of a vocabulary
    is_list: bool = False  # its values are tuples; else single values, or None where missing
    # Of a list, where all have that many values by nature, as a vector has; else None
    length: int | None = None


class Blob(NamedTuple):
    """Bytes that are read when their shard is written: a file, or a part of one."""

    path: str  # relative to the input base, with `/`; below another root the whole path or url
    size: int  # in bytes; of a row about so many
    offset: int | None = None  # of a member of an archive, where its bytes begin
    row: int | None = None  # of a Parquet file, the number of the row
    column: str | None = None  # and the name of its column


class BlobColumn(NamedTuple):
    """A feature whose bytes come from files: its name, and its kind.

    The kind is `image`, `label_map`, `audio`, or `bytes` for a file that is stored as it is.
    """

    name: str
    kind: str


_IMAGE = (BlobColumn("image", "image"),)


class Entry(NamedTuple):
    """One input that should become an example."""

    # What it is known by, unique: the file's path relative to the input base, or `<archive or
    # table>/<key or row>`. Bytes that are not UTF-8 are surrogates
    name: str
    split: str | None  # the split it names, or None where a hash decides
    # blobs, values: one for each of the table's `blobs` and `columns`
    blobs: tuple[Blob, ...]
    values: tuple[Value, ...] = ()


@dataclasses.dataclass(frozen=True, slots=True)
class ExcludedInput:
    """One input that will not be read; `code` is None where it is skipped on purpose."""

    name: str
    split: str | None
    code: str | None
    detail: str


def label_column(columns: Sequence[Column]) -> int | None:
    """The place of the column whose classes are counted and kept in proportion."""
    for place, column in enumerate(columns):
        if column.kind == "label" or column.name in ("label", "labels"):
            return place
    return None


@dataclasses.dataclass(frozen=True)
class InputTable:
    """All inputs."""

    # Those to read: `name`, `split` (null where a hash decides), for each of `blobs` a struct of
    # what `Blob` has, for each of `columns` a value
    rows: pa.Table
    excluded: tuple[ExcludedInput, ...] = ()  # those that are rejected or skipped before reading
    # columns, blobs: the features that the inputs give
    columns: tuple[Column, ...] = ()
    blobs: tuple[BlobColumn, ...] = _IMAGE
    # Checksums of what the layout read to find them, by name
    contents: Mapping[str, int] = dataclasses.field(default_factory=dict)
    # Labels in the order of their ids, by feature, where the layout says it
    vocabularies: Mapping[str, tuple[str, ...]] = dataclasses.field(default_factory=dict)

    @classmethod
    def of(
        cls,
        entries: Iterable[Entry],
        excluded: Iterable[ExcludedInput] = (),
        columns: tuple[Column, ...] = (),
        blobs: tuple[BlobColumn, ...] = _IMAGE,
    ) -> "InputTable":
        """The table of entries that may be made one by one; `excluded` is taken after them."""
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
        """The table of `n` files that are an input each; `paths` are `large_binary`."""
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
        """With other names for features, by those that they have."""

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
        """How many inputs there are."""
        return len(self.rows) + len(self.excluded)

    @property
    def entries(self) -> list[Entry]:
        """The rows as objects of Python."""
        return [*entries_of(self.rows)]

    def values(self, place: int) -> pa.Array:
        """What the rows have of one of `columns`."""
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
    """Python's values, and texts as their own bytes."""
    if kind == _TEXT:
        values = [None if value is None else encode_path(value) for value in values]
    elif pa.types.is_large_list(kind) and kind.value_type == _TEXT:
        values = [None if value is None else [*map(encode_path, value)] for value in values]
    return pa.array(values, kind)


def one_array(column: pa.ChunkedArray) -> pa.Array:
    """A column of a table, which may be in chunks, as one array."""
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


def bytes_of(array: pa.Array) -> list[bytes]:
    """The values of an array of `large_binary` without nulls; ten times as fast as `to_pylist`."""
    _, offsets, values = array.buffers()
    bounds = np.frombuffer(offsets, np.int64, len(array) + 1, 8 * array.offset).tolist()
    data = values.to_pybytes() if values is not None else b""
    return [data[start:stop] for start, stop in itertools.pairwise(bounds)]


def array_of(rows: pa.Table, name: str) -> pa.Array:
    """A column in one piece."""
    return one_array(rows.column(name))


def blob_paths(rows: pa.Table, name: str) -> pa.Array:
    """Where the files of a blob column lie, `(n,) large_binary`."""
    return pc.coalesce(array_of(rows, name).field("path"), array_of(rows, "name"))


def sizes_of(rows: pa.Table) -> npt.NDArray[np.int64]:
    """How long the files of each row are together, `(n,)`."""
    sizes = np.zeros(len(rows), np.int64)
    for name in rows.column_names:
        if name.startswith("blob:"):
            sizes += array_of(rows, name).field("size").to_numpy()
    return sizes


def entries_of(rows: pa.Table) -> Iterator[Entry]:
    """The rows as objects of Python, some at a time."""
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
    """The values of an array as Python has them: bytes as texts, lists as tuples."""
    if array.null_count == len(array):
        return [None] * len(array)
    if not array.null_count and array.type == _TEXT:
        return [*map(decode_path, bytes_of(array))]
    if not array.null_count and (pa.types.is_integer(array.type) or array.type == pa.float64()):
        # Arrow's own `to_numpy` imports pandas where there is one, half a second in each process;
        # its `to_pandas_dtype` fails where there is none.
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
    """Inputs with more of them excluded."""
    return dataclasses.replace(inputs, excluded=(*inputs.excluded, *excluded))


def join_inputs(parts: Sequence[InputTable]) -> InputTable:
    """Several as one; a column that one of them lacks is missing there."""
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
    """Reads blobs below a base, or below `image_roots`.

    Each thread holds the last row group of each column of Parquet, so rows should come in their
    order.
    """

    def __init__(
        self, base: str, image_roots: Sequence[str] = (), *, follow_links: bool = False
    ) -> None:
        self.base, self._follow_links = base, follow_links
        roots = [root for root in (base, *image_roots) if not storage.is_remote(root)]
        self._roots = [(os.path.abspath(root), os.path.realpath(root)) for root in roots]
        # By column: path, first row, number of rows, and their values or why they cannot be read
        self._groups: dict[str, tuple[str, int, int, Any]] = {}

    def read(self, blob: Blob) -> bytes:
        """A blob's bytes; RejectedInputError where they are too large, or not as listed."""
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
        """The folder that a local file must lie in."""
        if self._follow_links or storage.is_remote(path) or not self._roots:
            return None
        for spelling, real in self._roots[1:]:
            if path.startswith((spelling.rstrip("/") + "/", real.rstrip("/") + "/")):
                return real
        return self._roots[0][1]

    def _read_row(self, path: str, column: str, row: int) -> bytes:
        held, first, count, values = self._groups.get(column, ("", 0, 0, ()))
        if held != path or not first <= row < first + count:
            self._groups.pop(column, None)  # before there are two of them
            first, count, values = _read_row_group(path, self._root_of(path), column, row)
            self._groups[column] = path, first, count, values
        if isinstance(values, OSError):  # a damaged group is not read once for each of its rows
            raise values
        value = values[row - first].as_py()
        while isinstance(value, dict):  # of a struct, the one field that was read
            (value,) = value.values()
        if value is None:
            raise RejectedInputError("EMPTY_FILE", f"no bytes in row {row}")
        return bytes(value)


def _read_row_group(path: str, root: str | None, column: str, row: int) -> tuple[int, int, Any]:
    """Return a row group's first row, number of rows, and a column's values or its `OSError`."""
    import pyarrow.parquet  # takes a third of a second, and few need it

    with storage.open_for_reading(path, root=root) as stream:
        table = pyarrow.parquet.ParquetFile(stream)
        first = 0
        for number in range(table.num_row_groups):
            rows = table.metadata.row_group(number).num_rows
            if row < first + rows:
                try:
                    return first, rows, table.read_row_group(number, columns=[column]).column(0)
                except OSError as error:
                    if storage.is_fault(error):
                        raise
                    return first, rows, error
            first += rows
    raise FileNotFoundError(path)


def sum_facts(facts: Iterable[tuple[tuple[object, ...], object]]) -> int:
    """The fingerprint of some inputs; those of parts add up to that of the whole, modulo 2**128.

    A sum in no order: it does not matter how the inputs were listed, or on which worker each was
    read.

    Args:
        facts: of each input its identity, and its checksum or None where it was not read.
    """
    # `repr` tells the names a and b from the name a, b; a sum, zero from none.
    texts = (repr(fact).encode() for fact in facts)
    digests = keyed_digests(texts, seed=0, purpose="inputs")
    parts: list[int] = digests.view("<u4").sum(axis=0, dtype=np.uint64).tolist()
    return sum(part << 32 * place for place, part in enumerate(parts)) % 2**128


def sum_blobs(facts: Iterable[tuple[Blob, int | None]], roots: Sequence[str] = ()) -> int:
    """`sum_facts` of files and parts of files, each with its CRC-32C or None.

    Args:
        roots: folders by which a path begins that is none of the input base: it is known by what
            follows, wherever the inputs lie.
    """
    folders = [f"{root.rstrip('/')}/" for root in roots]

    def name(path: str) -> str:
        return path.removeprefix(next((f for f in folders if path.startswith(f)), ""))

    return sum_facts(((name(blob.path), *blob[1:]), crc) for blob, crc in facts)
