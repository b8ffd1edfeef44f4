"""Serialized `tf.train.Example` messages to columns of numpy, all records of a step at once.

    columns = parse_examples(rows, ["label", "text"])
    columns["label"].counts, columns["label"].values      # [1, 1, …], [3, 0, …]

Every operation is one of numpy over all records: a message is walked for all of them in parallel,
some 0.3 us a record and feature. What is written in an unusual way goes the general way.

Source: `tensorflow/core/example/{example,feature}.proto` and the protocol buffers' encoding guide.
"""

from collections.abc import Collection
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from trainer_utils.arrays.records import Rows
from trainer_utils.format import DatasetError
from trainer_utils.format.example_decoding import decode_example

__all__ = ["Column", "parse_examples"]

_FIRST, _SECOND = 0x0A, 0x12  # tags of fields 1 and 2 with a length
KINDS = {0x0A: "string", 0x12: "float", 0x1A: "int"}  # tags of the kinds of a Feature

Positions = npt.NDArray[np.int64]
Data = npt.NDArray[np.uint8]


class Column(NamedTuple):
    """One feature of some examples.

    Attributes:
        kind: `int`, `float` or `string`; empty where no example has a value.
        counts: `(records,) int64`, how many values each example has.
        values: all of them, in order: int64, float32, or bytes in an array of objects.
    """

    kind: str
    counts: Positions
    values: npt.NDArray[Any]


class _UnusualError(Exception):
    """It is written in another way than all writers do."""


def parse_examples(
    rows: Rows, names: Collection[str], *, views: Collection[str] = ()
) -> dict[str, Column]:
    """Parses some features of all records; one that none of them has has no values.

    Args:
        rows: the records.
        names: of the features.
        views: those whose bytes come as views of `rows`, not copied, where records have one each.

    Raises:
        DatasetError: a record is no `tf.train.Example`, or a feature has two kinds; it has the
            path and the record's number.
    """
    data = np.frombuffer(rows.data, np.uint8)
    try:
        found = _walk(data, rows.begins, rows.ends, {name.encode(): name for name in names})
        return {n: _column(data, rows, found.get(n), is_view=n in views) for n in names}
    except (_UnusualError, IndexError):
        return _in_general(rows, names)


class _Places:
    """Where a feature's list of values lies in each record: kinds are 0 where it has none."""

    def __init__(self, records: int) -> None:
        self.kinds = np.zeros(records, np.uint8)
        self.begins = np.zeros(records, np.int64)
        self.ends = np.zeros(records, np.int64)


def _walk(
    data: Data, begins: Positions, ends: Positions, wanted: dict[bytes, str]
) -> dict[str, _Places]:
    """Where the values of the features lie."""
    places = {name: _Places(len(begins)) for name in wanted.values()}
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
        _take_keys(data, (index, key, key_end, entry_end), wanted, places)
        position = entry_end


def _take_keys(
    data: Data,
    entries: tuple[Positions, Positions, Positions, Positions],
    wanted: dict[bytes, str],
    places: dict[str, _Places],
) -> None:
    """Takes the values of entries, those of one key after those of another."""
    index, key, key_end, stop = entries
    while len(index):
        name = data[key[0] : key_end[0]].tobytes()
        same = key_end - key == len(name)
        if len(index) > 1 and name:
            at = np.minimum(key[:, np.newaxis] + np.arange(len(name)), len(data) - 1)
            same &= (data[at] == np.frombuffer(name, np.uint8)).all(axis=1)
        if name in wanted:
            _take(data, (index[same], key_end[same], stop[same]), places[wanted[name]])
        if same.all():
            return
        index, key, key_end, stop = index[~same], key[~same], key_end[~same], stop[~same]


def _take(data: Data, entries: tuple[Positions, ...], places: _Places) -> None:
    """The kind and the values of one feature, of the records of `index`."""
    index, position, stop = entries
    position, end = _message(data, position, stop, _SECOND, is_last=True)
    if places.ends[index].any():
        raise _UnusualError  # the last of several counts
    places.ends[index] = end
    full = position < end
    index, position, end = index[full], position[full], end[full]
    kinds = data[position]
    begin, last = _message(data, position, end, None, is_last=True)
    places.kinds[index], places.begins[index], places.ends[index] = kinds, begin, last


def _message(
    data: Data, position: Positions, stop: Positions, tag: int | None, *, is_last: bool = False
) -> tuple[Positions, Positions]:
    """Where the content of the field at each position begins and ends."""
    if tag is not None and (data[position] != tag).any():
        raise _UnusualError
    length, begin = _varints(data, position + 1)
    end = begin + length
    if ((end != stop) if is_last else (end > stop) | (length < 0)).any():
        raise _UnusualError
    return begin, end


def _varints(data: Data, position: Positions) -> tuple[Positions, Positions]:
    """Numbers in base 128, one at each position, and where they end."""
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


def _column(data: Data, rows: Rows, places: _Places | None, *, is_view: bool) -> Column:
    counts = np.zeros(len(rows.begins), np.int64)
    if places is None or not places.kinds.any():
        return Column("", counts, np.zeros(0))
    index = np.flatnonzero(places.kinds)
    kinds = places.kinds[index]
    kind = KINDS.get(int(kinds[0]))
    if kind is None or (kinds != kinds[0]).any():
        raise _UnusualError
    begins, ends = places.begins[index], places.ends[index]
    full = begins < ends
    index, begins, ends = index[full], begins[full], ends[full]
    if kind == "string":
        payload = memoryview(rows.data) if is_view else rows.data
        counts[index], values = _strings(data, payload, begins, ends)
        return Column(kind, counts, values)
    if len(index):
        begins, ends = _message(data, begins, ends, _FIRST, is_last=True)  # packed
    counts[index], values = (_floats if kind == "float" else _integers)(data, begins, ends)
    return Column(kind, counts, values)


def _strings(
    data: Data, payload: bytes | memoryview, begins: Positions, ends: Positions
) -> tuple[Positions, npt.NDArray[Any]]:
    first, last = _message(data, begins, ends, _FIRST)
    if (last == ends).all():  # one each
        bounds = zip(first.tolist(), last.tolist(), strict=True)
        values = [payload[begin:end] for begin, end in bounds]
        return np.ones(len(begins), np.int64), _objects(values)
    counts, values = [], []
    for begin, end in zip(begins.tolist(), ends.tolist(), strict=True):
        before, position = len(values), np.array([begin])
        while position[0] < end:
            start, position = _message(data, position, np.array([end]), _FIRST)
            values.append(payload[start[0] : position[0]])
        counts.append(len(values) - before)
    return np.array(counts, np.int64), _objects(values)


def _floats(
    data: Data, begins: Positions, ends: Positions
) -> tuple[Positions, npt.NDArray[np.float32]]:
    if ((ends - begins) % 4).any():
        raise _UnusualError
    values = data[_all_places(begins, ends)].view("<f4").astype(np.float32, copy=False)
    return (ends - begins) // 4, values


def _integers(
    data: Data, begins: Positions, ends: Positions
) -> tuple[Positions, npt.NDArray[np.int64]]:
    lengths = ends - begins
    if (lengths == 1).all():
        short = data[begins]
        if (short > 0x7F).any():
            raise _UnusualError
        return np.ones(len(begins), np.int64), short.astype(np.int64)
    groups = data[_all_places(begins, ends)]
    is_last = groups < 0x80
    if not is_last[np.cumsum(lengths) - 1].all():
        raise _UnusualError
    stops = np.flatnonzero(is_last)
    starts = np.concatenate([np.zeros(1, np.int64), stops + 1])[:-1]
    place = np.arange(len(groups)) - np.repeat(starts, stops - starts + 1)
    if place.max(initial=0) > 9:
        raise _UnusualError
    parts = (groups & 0x7F).astype(np.uint64) << (7 * place).astype(np.uint64)
    values: Positions = np.add.reduceat(parts, starts).view(np.int64)
    totals = np.concatenate([np.zeros(1, np.int64), np.cumsum(is_last)])
    after = np.cumsum(lengths)
    return totals[after] - totals[after - lengths], values


def _all_places(begins: Positions, ends: Positions) -> Positions:
    """All places between each begin and its end, one after the other."""
    lengths = ends - begins
    shifts = begins - (np.cumsum(lengths) - lengths)
    places: Positions = np.arange(lengths.sum()) + np.repeat(shifts, lengths)
    return places


def _objects(values: list[Any]) -> npt.NDArray[Any]:
    array = np.empty(len(values), object)
    array[:] = values
    return array


def _in_general(rows: Rows, names: Collection[str]) -> dict[str, Column]:
    """One record after the other."""
    found: dict[str, list[Any]] = {name: [] for name in names}
    kinds = dict.fromkeys(names, "")
    counts = {name: np.zeros(len(rows.begins), np.int64) for name in names}
    bounds = zip(rows.begins.tolist(), rows.ends.tolist(), strict=True)
    for number, (begin, end) in enumerate(bounds):
        path, record = rows.names[number]
        try:
            example = decode_example(rows.data[begin:end], names)
        except DatasetError as error:
            raise DatasetError(
                f"{path!r}: {error} (record {record})", path=path, record=record
            ) from error
        for name, values in example.items():
            if not values:
                continue
            counts[name][number] = len(values)
            first = values[0]
            kind = {int: "int", float: "float"}.get(type(first), "string")
            if kinds.setdefault(name, kind) not in ("", kind):
                raise DatasetError(
                    f"feature {name!r}: expected {kinds[name]} in all examples, got {kind} "
                    f"({path}, record {record})",
                    path=path,
                    record=record,
                )
            kinds[name] = kind
            found[name] += map(bytes, values) if kind == "string" else values  # type: ignore[arg-type]
    dtypes = {"int": np.int64, "float": np.float32}
    return {
        name: Column(
            kinds[name],
            counts[name],
            np.array(values, dtypes[kinds[name]]) if kinds[name] in dtypes else _objects(values),
        )
        for name, values in found.items()
    }
