"""The values of serialized `tf.train.Example` messages, without TensorFlow.

    decode_example(record)                        # {'label': [3], 'image': [memoryview of b"…"]}
    decode_example(record, {"label"})             # {'label': [3]}: an image is jumped over

Source: `tensorflow/core/example/{example,feature}.proto` and the protocol buffers' encoding guide.
"""

import struct
from collections.abc import Collection, Iterator
from typing import Any

from trainer_utils.format.errors import DatasetError

__all__ = ["decode_example", "decode_feature_lists", "read_fields", "read_varint"]

_VARINT, _FIXED64, _DELIMITED, _FIXED32 = 0, 1, 2, 5  # wire types
_FEATURES, _ENTRY = 1, 1  # field numbers of Example and of Features
_FEATURE_LISTS = 2  # of SequenceExample, whose context is what an Example's features are
_KEY, _VALUE = 1, 2  # of a map's entry
_BYTES, _FLOATS, _INTEGERS = 1, 2, 3  # of Feature
_VALUES = 1  # of BytesList, FloatList and Int64List


Buffer = bytes | memoryview


def decode_example(
    record: Buffer, names: Collection[str] | None = None
) -> dict[str, list[int] | list[float] | list[memoryview]]:
    """The values of an example's features.

    Args:
        record: a serialized `tf.train.Example`; of a read-only view only those pages are touched
            that hold what is wanted.
        names: of the features that are wanted; None: all. The others are jumped over.

    Returns:
        By name: int64 values, float32 values, or views of bytes; an empty list for a feature
        without values.

    Raises:
        DatasetError: it is no such message; or all is wanted, and it has feature lists too.
    """
    wanted = None if names is None else {name.encode(): name for name in names}
    found: dict[str, Any] = {}
    try:
        for number, wire, start, stop in read_fields(record, 0, len(record)):
            if number == _FEATURES and wire == _DELIMITED:
                for entry, entry_wire, begin, end in read_fields(record, start, stop):
                    if entry == _ENTRY and entry_wire == _DELIMITED:
                        _decode_entry(record, begin, end, wanted, found)
            elif number == _FEATURE_LISTS and wire == _DELIMITED and wanted is None:
                raise DatasetError(
                    "record: expected a tf.train.Example, got a tf.train.SequenceExample, whose "
                    "feature lists are for `input_fn` alone. `inspect`, `report` and `verify` "
                    "take it too."
                )
    except DatasetError:
        raise
    except ValueError as error:
        raise DatasetError(f"record: expected a tf.train.Example, got another: {error}") from error
    return found


def decode_feature_lists(
    record: Buffer, names: Collection[str]
) -> dict[str, list[list[int] | list[float] | list[memoryview]]]:
    """The feature lists of a `tf.train.SequenceExample`: by name, the values of each step.

    Args:
        record: serialized.
        names: of the lists that are wanted.

    Raises:
        DatasetError: it is no such message.
    """
    wanted = {name.encode(): name for name in names}
    found: dict[str, list[Any]] = {}
    try:
        for number, wire, start, stop in read_fields(record, 0, len(record)):
            if number != _FEATURE_LISTS or wire != _DELIMITED:
                continue
            for entry, entry_wire, begin, end in read_fields(record, start, stop):
                if entry == _ENTRY and entry_wire == _DELIMITED:
                    key, bounds = _entry(record, begin, end)
                    if key in wanted:
                        found[wanted[key]] = [
                            _list_values(record, first, last)
                            for step, step_wire, first, last in read_fields(record, *bounds)
                            if step == _ENTRY and step_wire == _DELIMITED
                        ]
    except ValueError as error:
        raise DatasetError(
            f"record: expected a tf.train.SequenceExample, got another: {error}"
        ) from error
    return found


def _entry(record: Buffer, start: int, stop: int) -> tuple[bytes, tuple[int, int]]:
    """The key of a map's entry, and where its value is."""
    key, bounds = b"", (stop, stop)
    for number, wire, begin, end in read_fields(record, start, stop):
        if wire == _DELIMITED and number == _KEY:
            key = bytes(record[begin:end])
        elif wire == _DELIMITED and number == _VALUE:
            bounds = begin, end
    return key, bounds


def _decode_entry(
    record: Buffer, start: int, stop: int, wanted: dict[bytes, str] | None, found: dict[str, Any]
) -> None:
    """One feature by its name; the last of several fields counts, as in any protocol buffer."""
    key, values = b"", []
    for number, wire, begin, end in read_fields(record, start, stop):
        if wire != _DELIMITED:
            continue
        if number == _KEY:
            key = bytes(record[begin:end])
            if wanted is not None and key not in wanted:
                return
        elif number == _VALUE:
            values.append((begin, end))
    if wanted is None or key in wanted:
        found[key.decode()] = [v for bounds in values[-1:] for v in _list_values(record, *bounds)]


def _list_values(record: Buffer, start: int, stop: int) -> list[Any]:
    values: list[Any] = []
    for kind, wire, begin, end in read_fields(record, start, stop):
        read = _READERS.get(kind) if wire == _DELIMITED else None
        if read is not None:
            values = [
                value
                for number, value_wire, first, last in read_fields(record, begin, end)
                if number == _VALUES
                for value in read(record, value_wire, first, last)
            ]
    return values


def _read_bytes(record: Buffer, wire: int, start: int, stop: int) -> list[memoryview]:
    return [memoryview(record)[start:stop]] if wire == _DELIMITED else []


def _read_floats(record: Buffer, wire: int, start: int, stop: int) -> tuple[float, ...]:
    if wire not in (_DELIMITED, _FIXED32):
        return ()
    count, rest = divmod(stop - start, 4)
    if rest:
        raise ValueError(f"{stop - start} bytes of floats of 4 bytes")
    return struct.unpack_from(f"<{count}f", record, start)


def _read_integers(record: Buffer, wire: int, start: int, stop: int) -> Iterator[int]:
    while start < stop and wire in (_DELIMITED, _VARINT):  # packed, or a single one
        value, start = read_varint(record, start, stop)
        yield value - (1 << 64) if value >> 63 else value


_READERS = {_BYTES: _read_bytes, _FLOATS: _read_floats, _INTEGERS: _read_integers}


def read_fields(record: Buffer, start: int, stop: int) -> Iterator[tuple[int, int, int, int]]:
    """The fields of the message from `start` to `stop`: number, wire type, content's bounds."""
    while start < stop:
        # Most numbers are of one byte, and a call takes as long as all else here.
        if (tag := record[start]) < 0x80:
            start += 1
        else:
            tag, start = read_varint(record, start, stop)
        wire, end = tag & 7, start
        if wire == _DELIMITED:
            if start < stop and (length := record[start]) < 0x80:
                start += 1
            else:
                length, start = read_varint(record, start, stop)
            end = start + length
        elif wire == _VARINT:
            _, end = read_varint(record, start, stop)
        elif wire in (_FIXED64, _FIXED32):
            end = start + (8 if wire == _FIXED64 else 4)
        else:
            raise ValueError(f"a field of wire type {wire}")
        if end > stop:
            raise ValueError("a message that is cut short")
        yield tag >> 3, wire, start, end
        start = end


def read_varint(record: Buffer, place: int, stop: int) -> tuple[int, int]:
    """A number of 64 bits in base 128, and where it ends."""
    number = shift = 0
    while place < stop and shift < 64 + 6:
        group = record[place]
        place += 1
        number |= (group & 0x7F) << shift
        if group < 0x80:
            return number & 0xFFFF_FFFF_FFFF_FFFF, place
        shift += 7
    raise ValueError("a number without an end")
