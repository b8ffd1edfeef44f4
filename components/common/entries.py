"""Entries as columns of Arrow: some hundred bytes each, in which a file is a kind of column.

entries = Entries.of(found, columns=(Column("label", "label"),), num_blobs=1)
entries[0]                               # Entry(name='cat/1.jpg', …)
entries.blobs[0].field(1)                # the sizes of all files
"""

import dataclasses
import itertools
import operator
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, cast, overload

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from components.common.entry import Blob, Column, Entry, Value
from components.common.file_table import PathColumn, decode_path, encode_path

__all__ = ["Entries", "values_of"]

_CHUNK = 1 << 14  # entries that are Python objects at a time
_TEXT = pa.large_binary()  # since names may hold bytes that are not UTF-8
_CODES = pa.dictionary(pa.int32(), _TEXT)
_TYPES = {"int": pa.int64(), "float": pa.float64(), "string": _TEXT, "label": _CODES}
_BLOB_TYPES = {
    "path": _TEXT,
    "size": pa.int64(),
    "offset": pa.int64(),
    "row": pa.int64(),
    "column": _CODES,
}


@dataclasses.dataclass(frozen=True, eq=False)
class Entries(Sequence[Entry]):
    """Entries in their order; what is taken out of it is made for that.

    A column, or a field of one, in which there is nothing at all is of Arrow's type `null`.

    Args:
        splits: `(n,)` dictionary of the splits that they name, null where a hash decides.
        blobs: for each of `Listing.blobs`, `(n,)` struct of what `Blob` has.
        values: for each of `Listing.columns`, `(n,)`: labels as a dictionary, lists as lists.
    """

    names: pa.Array
    splits: pa.Array
    blobs: tuple[pa.Array, ...]
    values: tuple[pa.Array, ...] = ()

    @classmethod
    def of(
        cls, entries: Iterable[Entry], *, columns: Sequence[Column], num_blobs: int
    ) -> "Entries":
        """The columns of entries, of which few are held at a time."""
        source = iter(entries)
        parts = [_empty(columns, num_blobs)]
        while some := list(itertools.islice(source, _CHUNK)):
            parts.append(_columns_of(some, columns))
        return _together(parts)

    @classmethod
    def join(
        cls,
        parts: Sequence["Entries"],
        places: Sequence[Sequence[int | None]],
        *,
        columns: Sequence[Column],
    ) -> "Entries":
        """Several as one.

        Args:
            places: of each, where it has the values of each column, or None.
        """
        widened = [
            dataclasses.replace(
                part,
                values=tuple(
                    pa.nulls(len(part)) if place is None else _cast(part.values[place], column)
                    for place, column in zip(own, columns, strict=True)
                ),
            )
            for part, own in zip(parts, places, strict=True)
        ]
        return _together(widened)

    def __len__(self) -> int:
        return len(self.names)

    @overload
    def __getitem__(self, place: int) -> Entry: ...
    @overload
    def __getitem__(self, place: slice) -> "Entries": ...
    def __getitem__(self, place: "int | slice") -> "Entry | Entries":
        if isinstance(place, slice):
            return self.take(np.arange(*place.indices(len(self))))
        (entry,) = self.take(np.array([range(len(self))[place]]))
        return entry

    def __iter__(self) -> Iterator[Entry]:
        for start in range(0, len(self), _CHUNK):
            yield from _entries_of(self._change(operator.methodcaller("slice", start, _CHUNK)))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Entries):
            return NotImplemented
        return len(self) == len(other) and all(map(operator.eq, self, other))

    def take(self, places: npt.NDArray[np.int64]) -> "Entries":
        """Those at some places, in the order of these."""
        wanted = pa.array(places, pa.int64())
        return self._change(lambda array: array.take(wanted))

    def total_bytes(self) -> npt.NDArray[np.int64]:
        """How long the files of each are together, `(n,)`."""
        sizes = np.zeros(len(self), np.int64)
        for blob in self.blobs:
            sizes += blob.field(1).to_numpy()
        return sizes

    def paths(self) -> PathColumn:
        """The names as their own bytes."""
        return PathColumn(self.names)

    def column(self, place: int) -> Iterator[Value]:
        """The values of one column."""
        for start in range(0, len(self), _CHUNK):
            yield from values_of(self.values[place].slice(start, _CHUNK))

    def coded_splits(self) -> tuple[npt.NDArray[np.int64], list[str]]:
        """For each, `(n,)`, its split's place among those that follow; -1 where it has none."""
        if pa.types.is_null(self.splits.type):
            return np.full(len(self), -1), []
        codes = self.splits.indices.fill_null(-1).to_numpy()
        used = np.unique(codes[codes >= 0])
        names = values_of(self.splits.dictionary.take(pa.array(used)))
        return np.where(codes < 0, -1, np.searchsorted(used, codes)), names

    def _change(self, change: Callable[[pa.Array], pa.Array]) -> "Entries":
        return Entries(
            change(self.names),
            change(self.splits),
            tuple(map(change, self.blobs)),
            tuple(map(change, self.values)),
        )


def _type_of(column: Column) -> pa.DataType:
    kind = _TYPES[column.kind]
    if not column.is_list:
        return kind
    return pa.large_list(_TEXT if column.kind == "label" else kind)


def _cast(array: pa.Array, column: Column) -> pa.Array:
    """An array as a column of several listings has it: of ints and floats, floats."""
    kind = _type_of(column)
    return array if array.type in (kind, pa.null()) else array.cast(kind, safe=False)


def _empty(columns: Sequence[Column], num_blobs: int) -> Entries:
    fields = [pa.array([], _TEXT), pa.array([], pa.int64()), *[pa.nulls(0)] * 3]
    blob = pa.StructArray.from_arrays(fields, [*_BLOB_TYPES])
    return Entries(fields[0], pa.nulls(0), (blob,) * num_blobs, (pa.nulls(0),) * len(columns))


def _columns_of(entries: Sequence[Entry], columns: Sequence[Column]) -> Entries:
    names, splits, blobs, values = zip(*entries, strict=True)
    own_names = _array(names, _TEXT)
    types = map(_type_of, columns)
    return Entries(
        own_names,
        _array(splits, _CODES),
        tuple(_blobs(some, names, own_names) for some in zip(*blobs, strict=True)),
        tuple(map(_array, zip(*values, strict=True), types)),
    )


def _blobs(blobs: Sequence[Blob], names: Sequence[str], own_names: pa.Array) -> pa.Array:
    paths, *others = zip(*blobs, strict=True)
    fields = [own_names if paths == names else _array(paths, _TEXT)]
    fields += map(_array, others, [*_BLOB_TYPES.values()][1:])
    return pa.StructArray.from_arrays(fields, [*_BLOB_TYPES])


def _array(values: Sequence[Any], kind: pa.DataType) -> pa.Array:
    """Python's values, and texts as their own bytes."""
    if all(value is None for value in values):
        return pa.nulls(len(values))
    if kind == _CODES:
        return _array(values, _TEXT).dictionary_encode()
    if kind == _TEXT:
        values = [None if value is None else encode_path(value) for value in values]
    elif pa.types.is_large_list(kind) and kind.value_type == _TEXT:
        values = [None if value is None else [*map(encode_path, value)] for value in values]
    return pa.array(values, kind)


def _together(parts: list[Entries]) -> Entries:
    """Several of the same columns as one; `parts` is emptied, and with it their memory."""
    num_blobs = len(parts[0].blobs)
    are_names = [all(_is_named_so(part, n) for part in parts) for n in range(num_blobs)]
    columns = [
        [part.names for part in parts],
        [part.splits for part in parts],
        *([part.values[n] for part in parts] for n in range(len(parts[0].values))),
    ]
    fields = [
        [[part.blobs[n].field(number) for part in parts] for number in range(len(_BLOB_TYPES))]
        for n in range(num_blobs)
    ]
    parts.clear()
    names, splits, *values = map(_concat, columns)
    blobs = []
    for arrays, is_named_so in zip(fields, are_names, strict=True):
        if is_named_so:
            arrays[0].clear()
        paths = names if is_named_so else _concat(arrays[0])
        blobs.append(pa.StructArray.from_arrays([paths, *map(_concat, arrays[1:])], [*_BLOB_TYPES]))
    return Entries(names, splits, tuple(blobs), tuple(values))


def _is_named_so(part: Entries, number: int) -> bool:
    """Whether the paths of a blob are the names, in the same memory."""
    paths = part.blobs[number].field("path")
    buffers = [array.buffers()[2] for array in (paths, part.names)]
    return len(part) == 0 or (
        all(b is not None for b in buffers)
        and (buffers[0].address == buffers[1].address and paths.offset == part.names.offset)
    )


def _concat(arrays: list[pa.Array]) -> pa.Array:
    """Arrays of one type, or of none, as one; the list is emptied."""
    kind = next((array.type for array in arrays if not pa.types.is_null(array.type)), pa.null())
    whole = pa.concat_arrays(
        [array if array.type == kind else pa.nulls(len(array), kind) for array in arrays]
    )
    arrays.clear()
    return whole


def _entries_of(entries: Entries) -> Iterator[Entry]:
    nothing = itertools.repeat((), len(entries))
    blobs = [
        map(Blob, *(values_of(column.field(number)) for number in range(len(_BLOB_TYPES))))
        for column in entries.blobs
    ]
    values = [values_of(array) for array in entries.values]
    return map(
        Entry,
        values_of(entries.names),
        values_of(entries.splits),
        zip(*blobs, strict=True) if blobs else nothing,
        zip(*values, strict=True) if values else nothing,
    )


def values_of(array: pa.Array) -> list[Any]:
    """The values of one of `Entries`' columns as Python has them: texts, lists as tuples."""
    kind = array.type
    if array.null_count == len(array):
        return [None] * len(array)
    if pa.types.is_dictionary(kind):
        codes = array.indices.fill_null(-1).to_numpy()
        used, places = np.unique(codes, return_inverse=True)
        words = values_of(array.dictionary.take(pa.array(np.maximum(used, 0))))
        known = [word if code >= 0 else None for word, code in zip(words, used, strict=True)]
        return [known[place] for place in places.tolist()]
    if not array.null_count and kind == _TEXT:
        return [*PathColumn(array).texts()]
    if not array.null_count and pa.types.is_primitive(kind):
        return cast(list[Any], array.to_numpy().tolist())
    return [_value(value) for value in array.to_pylist()]


def _value(value: Any) -> Any:
    if isinstance(value, bytes):
        return decode_path(value)
    return tuple(map(_value, value)) if isinstance(value, list) else value
