"""Parse many serialized `tf.train.Example` messages into numpy columns at once.

    parse_examples(data, begins, ends, ["label", "text"])["label"].values      # [3, 0, …]

Numpy walks all messages in parallel, in about 0.3 us per record and feature. Records with an
unusual encoding are decoded one by one. Source: see `example`.
"""

from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from trainer_utils.core.errors import DatasetError
from trainer_utils.format.example import decode_context, decode_feature_lists, read_fields
from trainer_utils.format.tensors import array_of
from trainer_utils.format.tfrecord import Buffer
from trainer_utils.format.varints import decode_varints

_FIRST, _SECOND = 0x0A, 0x12  # tags of fields 1 and 2 with a length
KINDS = {0x0A: "string", 0x12: "float", 0x1A: "int"}  # tags of the kinds of a Feature
_KINDS_OF_VALUES = {int: "int", float: "float"}  # all other values are views of bytes
_DTYPES: dict[str, Any] = {"int": np.int64, "float": np.float32}
_LONG_LIST_BYTES = 256  # in the mean; a copy of each list is faster than an index of bytes
_FEW = 8  # up to this many lists of strings, a loop is faster than numpy

Positions = npt.NDArray[np.int64]
Data = npt.NDArray[np.uint8]


class Column(NamedTuple):
    """The values of one feature in a group of examples.

    Attributes:
        kind: `int`, `float` or `string`; empty if no example has a value.
        counts: `(records,) int64`, the number of values in each example.
        values: all values, in order: int64, float32, or bytes in an array of objects.
    """

    kind: str
    counts: Positions
    values: npt.NDArray[Any]


class EncodedLists(NamedTuple):
    """The encoded numbers of one feature in a group of examples.

    Attributes:
        kind: `int`, base-128 integers, or `float`, four bytes each; empty if there are no values.
        begins: `(records,) int64`, the begin of each example's list in the buffer.
        ends: `(records,) int64`, its end; equal to `begins` without a value.
    """

    kind: str
    begins: Positions
    ends: Positions


class _Places(NamedTuple):
    """The places of the values of one feature in the records.

    Attributes:
        tags: `(records,) int64`, the tag of the kind; 0 if a record lacks the feature or its value.
        begins: `(records,) int64`, the begin of the list of values.
        ends: `(records,) int64`, its end; 0 if a record lacks the feature.
    """

    tags: Positions
    begins: Positions
    ends: Positions

    @classmethod
    def empty(cls, count: int) -> "_Places":
        """Return the places of a feature that no record has."""
        return cls(*np.zeros((3, count), np.int64))


class _UnusualError(Exception):
    """A message with an encoding that common writers do not produce."""


def parse_examples(
    buffer: Buffer,
    begins: Positions,
    ends: Positions,
    names: Collection[str] | None = None,
    *,
    views: Collection[str] = (),
    kinds: Mapping[str, str] | None = None,
    takes_others: bool = True,
) -> dict[str, Column]:
    """Parse features of the records in `buffer`. A feature that no record has gets an empty column.

    Args:
        buffer: the bytes that contain the records.
        begins: `(records,) int64`, the position of each record in the buffer.
        ends: `(records,) int64`, the position after each record.
        names: the features to parse. None: all features.
        views: features with values that are views of the buffer instead of copies.
        kinds: the expected kind of each feature. If records have two kinds, the error names the
            unexpected one.
        takes_others: whether records may have values of features that are not in `names`.

    Raises:
        DatasetError: a record is not a `tf.train.Example`, a feature has two kinds, or a record has
            a feature that is not allowed. Its `record` is the index of the record in this call.
    """
    data = np.frombuffer(buffer, np.uint8)
    wanted = None if names is None else {name.encode() for name in names}
    try:
        places_by_name = _walk(data, begins, ends, wanted if takes_others else None)
        if wanted is not None and not takes_others:
            _reject_others({name: places.tags for name, places in places_by_name.items()}, wanted)
        return {
            name: _column(
                data, buffer, len(begins), places_by_name.get(name.encode()), name in views
            )
            for name in (map(bytes.decode, places_by_name) if names is None else names)
        }
    except (_UnusualError, IndexError, UnicodeDecodeError):
        columns = _one_by_one(
            buffer, begins, ends, names if takes_others else None, expected=kinds or {}
        )
        if wanted is not None and not takes_others:
            counts = {name.encode(): column.counts for name, column in columns.items()}
            _reject_others(counts, wanted)
            nothing = Column("", np.zeros(len(begins), np.int64), np.zeros(0))
            columns = {name: columns.get(name, nothing) for name in names or ()}
        return columns


def find_lists(
    buffer: Buffer, begins: Positions, ends: Positions, name: str
) -> EncodedLists | None:
    """Locate the numbers of a feature in the records in `buffer`, without decoding them.

    Args:
        buffer: the bytes that contain the records.
        begins: `(records,) int64`, the position of each record in the buffer.
        ends: `(records,) int64`, the position after each record.
        name: the feature.

    Returns:
        The lists, or None if `parse_examples` has to parse the records: they have strings, an
        unusual encoding, or damage.
    """
    data = np.frombuffer(buffer, np.uint8)
    try:
        places = _walk(data, begins, ends, {name.encode()}).get(name.encode())
        first, last = np.zeros((2, len(begins)), np.int64)
        if places is None or not places.tags.any():
            return EncodedLists("", first, last)
        kind, index, starts, stops = _full_lists(places)
        if kind == "string":
            return None
        if len(index):
            first[index], last[index] = _message(data, starts, stops, _FIRST, is_last=True)
    except (_UnusualError, IndexError):
        return None
    return EncodedLists(kind, first, last)


def _reject_others(values_by_name: Mapping[bytes, Positions], wanted: Collection[bytes]) -> None:
    """Raise a DatasetError if a record has a value of a feature that is not wanted.

    Args:
        values_by_name: for each feature, `(records,)` numbers; 0: the record has no value of it.
        wanted: the names of the allowed features.
    """
    for name in values_by_name.keys() - wanted:
        rows = np.flatnonzero(values_by_name[name])
        if len(rows):
            allowed = ", ".join(sorted(wanted_name.decode() for wanted_name in wanted))
            raise DatasetError(
                f"feature {name.decode(errors='replace')!r}: expected one of {allowed} as the "
                f"dataset says. {CHANGED_DATASET}",
                record=int(rows[0]),
            )


CHANGED_DATASET = "The dataset was changed: write it again."
"""Cure of an error of records that differ from their dataset's description."""


def parse_by_kind(
    buffer: Buffer, begins: Positions, ends: Positions
) -> dict[str, dict[str, Column]]:
    """Parse all features of records, also if a feature has several kinds.

    Returns:
        A column for each feature and kind. Records of other kinds have no value there.

    Raises:
        DatasetError: a record is not a `tf.train.Example`.
    """
    values_by_kind: dict[str, dict[str, dict[int, list[Any]]]] = {}
    for row, (begin, end) in enumerate(_bounds(begins, ends)):
        try:
            decoded = decode_context(bytes(buffer[begin:end]), None)
        except DatasetError as error:
            error.record = row
            raise
        for name, values in decoded.items():
            kind = _KINDS_OF_VALUES.get(type(values[0]), "string") if values else ""
            values_by_kind.setdefault(name, {}).setdefault(kind, {})[row] = _plain(values)
    columns: dict[str, dict[str, Column]] = {}
    for name, by_kind in values_by_kind.items():
        for kind, rows in by_kind.items():
            counts = np.zeros(len(begins), np.int64)
            counts[[*rows]] = [*map(len, rows.values())]
            flat = [value for values in rows.values() for value in values]
            dtype = _DTYPES.get(kind)
            array = np.array(flat, dtype) if dtype else array_of(flat, object)
            columns.setdefault(name, {})[kind] = Column(kind, counts, array)
    return columns


def _walk(
    data: Data, begins: Positions, ends: Positions, wanted: Collection[bytes] | None
) -> dict[bytes, _Places]:
    """Locate the wanted features of all records, by name."""
    places: dict[bytes, _Places] = {}
    index = np.flatnonzero(begins < ends)
    position, stop = _message(data, begins[index], ends[index], _FIRST, is_last=True)
    while True:
        more = position < stop
        if not more.all():
            index, position, stop = index[more], position[more], stop[more]
        if not len(index):
            return places
        entry, entry_end = _message(data, position, stop, _FIRST)
        key, key_end = _message(data, entry, entry_end, _FIRST)
        for name, same in _by_key(data, key, key_end):
            if wanted is None or name in wanted:
                if name not in places:
                    places[name] = _Places.empty(len(begins))
                _locate(data, index[same], key_end[same], entry_end[same], places[name])
        position = entry_end


def _by_key(data: Data, begins: Positions, ends: Positions) -> Iterator[tuple[bytes, Any]]:
    """Yield each key with the entries that have it. Mostly all entries have the same key."""
    rows: Any = slice(None)
    while len(begins):
        name = data[begins[0] : ends[0]].tobytes()
        same = ends - begins == len(name)
        if len(begins) > 1 and name:
            at = np.minimum(begins[:, np.newaxis] + np.arange(len(name)), len(data) - 1)
            same &= (data[at] == np.frombuffer(name, np.uint8)).all(axis=1)
        if same.all():
            yield name, rows
            return
        rows = np.arange(len(begins)) if isinstance(rows, slice) else rows
        yield name, rows[same]
        rows, begins, ends = rows[~same], begins[~same], ends[~same]


def _locate(
    data: Data, records: Positions, begins: Positions, ends: Positions, places: _Places
) -> None:
    """Note where some records have the values of a feature.

    Args:
        data: the bytes of all records.
        records: the records that have the feature.
        begins: the position after its key in each of them.
        ends: the end of the entry.
        places: the places to change.
    """
    begins, ends = _message(data, begins, ends, _SECOND, is_last=True)
    if places.ends[records].any():
        raise _UnusualError  # of several values, the last one counts
    places.ends[records] = ends
    full = begins < ends
    records, begins, ends = records[full], begins[full], ends[full]
    places.tags[records] = data[begins]
    places.begins[records], places.ends[records] = _message(data, begins, ends, None, is_last=True)


def _message(
    data: Data, position: Positions, stop: Positions, tag: int | None, *, is_last: bool = False
) -> tuple[Positions, Positions]:
    """Return the bounds of the content of the field at each position."""
    if tag is not None and (data[position] != tag).any():
        raise _UnusualError
    length, begin = _varints(data, position + 1)
    end = begin + length
    if ((end != stop) if is_last else (end > stop) | (length < 0)).any():
        raise _UnusualError
    return begin, end


def _varints(data: Data, position: Positions) -> tuple[Positions, Positions]:
    """Return the base-128 number at each position, and the position after it."""
    group = data[position]
    number = (group & 0x7F).astype(np.int64)
    position = position + 1
    shift = 7
    more = group > 0x7F
    while more.any():
        if shift > 56:
            raise _UnusualError
        at = position[more]
        group = data[at]
        number[more] |= (group & 0x7F).astype(np.int64) << shift
        position[more] = at + 1
        shift += 7
        more[more] = group > 0x7F
    return number, position


def _column(
    data: Data, buffer: Buffer, records: int, places: _Places | None, is_view: bool
) -> Column:
    """Return the values of one feature, given its places; None if no record has it."""
    counts = np.zeros(records, np.int64)
    if places is None or not places.tags.any():
        return Column("", counts, np.zeros(0))
    kind, index, begins, ends = _full_lists(places)
    if kind == "string":
        counts[index], begins, ends = _strings(data, begins, ends)
        octets: Any = buffer if isinstance(buffer, bytes) and not is_view else memoryview(data.data)
        values = [octets[begin:end] for begin, end in _bounds(begins, ends)]
        is_bytes = is_view or octets is buffer
        return Column(kind, counts, array_of(values if is_bytes else [*map(bytes, values)], object))
    if len(index):
        begins, ends = _message(data, begins, ends, _FIRST, is_last=True)  # packed
    counts[index], numbers = (_floats if kind == "float" else _integers)(data, begins, ends)
    return Column(kind, counts, numbers)


def _full_lists(places: _Places) -> tuple[str, Positions, Positions, Positions]:
    """Return the kind of a feature's values, and the records that have some, with their bounds."""
    index = np.flatnonzero(places.tags)
    tags, begins, ends = (column[index] for column in places)
    kind = KINDS.get(int(tags[0]))
    if kind is None or (tags != tags[0]).any():
        raise _UnusualError
    full = begins < ends
    return kind, index[full], begins[full], ends[full]


def _strings(data: Data, position: Positions, stops: Positions) -> tuple[Positions, ...]:
    """Return the number of values in each list of bytes, and the bounds of all values.

    Each round finds the next value of every list that has one. A loop finishes the last few lists.
    """
    rows = np.arange(len(stops))
    rounds: list[Any] = []
    while len(rows) > (_FEW if rounds else 0):
        first, last = _message(data, position, stops, _FIRST)
        rounds.append((rows, first, last))
        more = last < stops
        rows, position, stops = rows[more], last[more], stops[more]
    rest: list[tuple[int, int, int]] = []
    try:
        for row, begin, end in zip(
            *(column.tolist() for column in (rows, position, stops)), strict=True
        ):
            for number, wire, start, stop in read_fields(memoryview(data.data), begin, end):
                if number << 3 | wire != _FIRST:
                    raise _UnusualError
                rest.append((row, start, stop))
    except ValueError as error:
        raise _UnusualError from error
    if rest:
        rounds.append(np.array(rest).T)
    if len(rounds) < 2:  # at most one value in each list
        rows, firsts, lasts = rounds[0] if rounds else (rows, position, stops)
        return np.ones_like(rows), firsts, lasts
    rows, firsts, lasts = (np.concatenate(part) for part in zip(*rounds, strict=True))
    order = np.argsort(rows, kind="stable")
    return np.bincount(rows), firsts[order], lasts[order]


def _floats(
    data: Data, begins: Positions, ends: Positions
) -> tuple[Positions, npt.NDArray[np.float32]]:
    if ((ends - begins) % 4).any():
        raise _UnusualError
    values = _joined(data, begins, ends).view("<f4").astype(np.float32, copy=True)
    return (ends - begins) // 4, values


def _integers(
    data: Data, begins: Positions, ends: Positions
) -> tuple[Positions, npt.NDArray[np.int64]]:
    """Return the number of values of each list, and all values; raise if a varint is malformed."""
    lengths = ends - begins
    if (lengths == 1).all():
        short = data[begins]
        if (short > 0x7F).any():
            raise _UnusualError
        return np.ones(len(begins), np.int64), short.astype(np.int64)
    groups = _joined(data, begins, ends)
    stops = np.flatnonzero(groups < 0x80)
    after = np.cumsum(lengths)
    totals = np.searchsorted(stops, after)  # values that end before the end of each list
    # The last byte of each list ends a value; the places before `after` are the last bytes.
    if (totals == 0).any() or (stops[totals - 1] != after - 1).any():
        raise _UnusualError
    try:
        return np.diff(totals, prepend=0), decode_varints(groups, stops)
    except ValueError as error:
        raise _UnusualError from error


def _joined(data: Data, begins: Positions, ends: Positions) -> Data:
    """Return the bytes between each begin and its end, concatenated."""
    if len(begins) == 1:
        return data[begins[0] : ends[0]]
    if int((ends - begins).sum()) > _LONG_LIST_BYTES * len(begins):
        return np.concatenate([data[begin:end] for begin, end in _bounds(begins, ends)])
    return data[_all_places(begins, ends)]


def _all_places(begins: Positions, ends: Positions) -> Positions:
    """Return all positions between each begin and its end, concatenated."""
    lengths = ends - begins
    shifts = begins - (np.cumsum(lengths) - lengths)
    places: Positions = np.arange(lengths.sum()) + np.repeat(shifts, lengths)
    return places


def _bounds(begins: Positions, ends: Positions) -> Iterator[tuple[int, int]]:
    return zip(begins.tolist(), ends.tolist(), strict=True)


def parse_feature_lists(
    buffer: Buffer, begins: Positions, ends: Positions, names: Collection[str] | None = None
) -> dict[str, Column]:
    """Parse feature lists of `tf.train.SequenceExample`. A missing one has no steps.

    In the columns, `counts` are numbers of steps, and `values` has a list of steps for each record.
    It raises the same errors as `parse_examples`.
    """
    if names is None:
        try:  # check whether the records have any feature list
            index = np.flatnonzero(begins < ends)
            data = np.frombuffer(buffer, np.uint8)
            _message(data, begins[index], ends[index], _FIRST, is_last=True)
            return {}
        except (_UnusualError, IndexError):
            pass
    return _one_by_one(buffer, begins, ends, names, are_lists=True)


def _one_by_one(
    buffer: Buffer,
    begins: Positions,
    ends: Positions,
    names: Collection[str] | None,
    *,
    are_lists: bool = False,
    expected: Mapping[str, str] | None = None,
) -> dict[str, Column]:
    """Decode records one by one, for encodings that numpy cannot walk."""
    kinds = dict.fromkeys(names or (), "") | {
        name: kind for name, kind in (expected or {}).items() if names is None or name in names
    }
    rows_by_name: dict[str, list[list[Any]]] = {name: [[]] * len(begins) for name in kinds}
    decode: Callable[..., dict[str, list[Any]]]
    decode = decode_feature_lists if are_lists else decode_context
    for row, (begin, end) in enumerate(_bounds(begins, ends)):
        try:
            decoded = decode(bytes(buffer[begin:end]), names)
        except DatasetError as error:
            error.record = row
            raise
        for name, values in decoded.items():
            steps = values if are_lists else [values]
            for value in (step[0] for step in steps if step):
                kind = _KINDS_OF_VALUES.get(type(value), "string")
                if kinds.setdefault(name, "") not in ("", kind):
                    said = f"expected {kinds[name]} in all examples, got {kind}"
                    raise DatasetError(f"feature {name!r}: {said}", record=row)
                kinds[name] = kind
            rows_by_name.setdefault(name, [[]] * len(begins))[row] = [*map(_plain, steps)]
    columns = {}
    for name, rows in rows_by_name.items():
        kind = kinds.get(name, "")
        if are_lists:
            counts, array = [*map(len, rows)], array_of(rows, object)
        else:
            counts = [sum(map(len, steps)) for steps in rows]
            values = [value for steps in rows for step in steps for value in step]
            dtype = _DTYPES.get(kind)
            array = np.array(values, dtype) if dtype else array_of(values, object)
        columns[name] = Column(kind, np.array(counts, np.int64), array)
    return columns


def _plain(values: list[Any]) -> list[Any]:
    return [*map(bytes, values)] if values and isinstance(values[0], memoryview) else values
