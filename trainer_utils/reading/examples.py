"""Serialized `tf.train.Example` messages to columns of numpy, all records of a step at once.

    columns = parse_examples(rows, ["label", "text"])
    columns["label"].counts, columns["label"].values      # [1, 1, …], [3, 0, …]

Every operation is one of numpy over all records: a message is walked for all of them in parallel,
some 0.3 us a record and feature. What is written in an unusual way goes the general way.

Source: `tensorflow/core/example/{example,feature}.proto` and the protocol buffers' encoding guide.
"""

from collections.abc import Collection, Iterator
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from trainer_utils.format import DatasetError
from trainer_utils.format.example_decoding import decode_example, decode_feature_lists
from trainer_utils.reading.record_reader import Rows

__all__ = ["Column", "parse_examples", "parse_feature_lists"]

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
        views: those whose bytes come as views of `rows`, not copied.

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
        is_copied = is_view or not isinstance(rows.data, bytes)
        payload: Any = memoryview(data.data) if is_copied else rows.data
        counts[index], values = _strings(data, payload, begins, ends)
        return Column(kind, counts, values if is_view else _bytes(values))
    if len(index):
        begins, ends = _message(data, begins, ends, _FIRST, is_last=True)  # packed
    counts[index], values = (_floats if kind == "float" else _integers)(data, begins, ends)
    return Column(kind, counts, values)


def _strings(
    data: Data, payload: Any, begins: Positions, ends: Positions
) -> tuple[Positions, npt.NDArray[Any]]:
    first, last = _message(data, begins, ends, _FIRST)
    counts = np.ones(len(begins), np.int64)
    if (last == ends).all():  # one each
        bounds = zip(first.tolist(), last.tolist(), strict=True)
        return counts, _objects([payload[begin:end] for begin, end in bounds])
    values = []
    for row, (begin, end, stop) in enumerate(
        zip(first.tolist(), last.tolist(), ends.tolist(), strict=True)
    ):
        values.append(payload[begin:end])
        while end < stop:
            start, position = _message(data, np.array([end]), np.array([stop]), _FIRST)
            end = int(position[0])
            values.append(payload[start[0] : end])
            counts[row] += 1
    return counts, _objects(values)


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
    counts = {name: np.zeros(len(rows), np.int64) for name in names}
    for row, record in enumerate(_records(rows)):
        try:
            example = decode_example(record, names)
        except DatasetError as error:
            raise _at(rows, row, error) from error
        for name, values in example.items():
            if not values:
                continue
            kind = _kind_of(values[0])
            _check_kind(rows, row, name, kinds, kind)
            counts[name][row] = len(values)
            found[name] += map(bytes, values) if kind == "string" else values  # type: ignore[arg-type]
    return {
        name: Column(kinds[name], counts[name], _array(values, kinds[name]))
        for name, values in found.items()
    }


def parse_feature_lists(rows: Rows, names: Collection[str]) -> dict[str, Column]:
    """Parses some feature lists of `tf.train.SequenceExample`; one that is not there has no steps.

    Returns:
        Columns whose counts are of steps, and whose values are lists of these, one for each record.

    Raises:
        DatasetError: as `parse_examples`.
    """
    found: dict[str, list[Any]] = {name: [] for name in names}
    kinds = dict.fromkeys(names, "")
    for row, record in enumerate(_records(rows)):
        try:
            lists = decode_feature_lists(record, names)
        except DatasetError as error:
            raise _at(rows, row, error) from error
        for name in names:
            steps = lists.get(name, [])
            for value in (step[0] for step in steps if step):
                _check_kind(rows, row, name, kinds, _kind_of(value))
            is_text = kinds[name] == "string"
            found[name].append([_plain(step) if is_text else step for step in steps])
    return {
        name: Column(kinds[name], np.array([*map(len, steps)], np.int64), _objects(steps))
        for name, steps in found.items()
    }


def _records(rows: Rows) -> Iterator[bytes]:
    for begin, end in zip(rows.begins.tolist(), rows.ends.tolist(), strict=True):
        yield bytes(rows.data[begin:end])


def _at(rows: Rows, row: int, error: DatasetError) -> DatasetError:
    path, record = rows.name(row)
    return DatasetError(f"{path!r}: {error} (record {record})", path=path, record=record)


def _kind_of(value: Any) -> str:
    return {int: "int", float: "float"}.get(type(value), "string")


def _check_kind(rows: Rows, row: int, name: str, kinds: dict[str, str], kind: str) -> None:
    """Refuses a feature of another kind than before."""
    if kinds[name] not in ("", kind):
        raise rows.error(
            row, expected=f"feature {name!r} of {kinds[name]} values in all examples", got=kind
        )
    kinds[name] = kind


def _plain(values: list[Any]) -> list[bytes]:
    return [bytes(value) for value in values]


def _array(values: list[Any], kind: str) -> npt.NDArray[Any]:
    dtypes: dict[str, Any] = {"int": np.int64, "float": np.float32}
    return np.array(values, dtypes[kind]) if kind in dtypes else _objects(values)


def _bytes(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Values as bytes of their own."""
    return values if values.size and type(values[0]) is bytes else _objects([*map(bytes, values)])
