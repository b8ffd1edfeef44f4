"""The values of one serialized `tf.train.Example`, without TensorFlow. Of many: `example_columns`.

    decode_example(record)                        # {'label': [3], 'image': [memoryview of b"…"]}
    decode_example(record, {"label"})             # {'label': [3]}: an image is jumped over

Source: `tensorflow/core/example/{example,feature}.proto` and the protocol buffers' encoding guide.
"""

import struct
from collections.abc import Collection, Iterator
from typing import Any

from trainer_utils.format.errors import DatasetError

_VARINT, _FIXED64, DELIMITED, _FIXED32 = 0, 1, 2, 5  # wire types
_FEATURES, _FEATURE_LISTS = 1, 2  # of an example, and of a sequence example beside them
_KEY, _VALUE = 1, 2  # of a map's entry
_BYTES, _FLOATS, _INTEGERS = 1, 2, 3  # of Feature

Buffer = bytes | memoryview
Bounds = tuple[int, int]


def decode_example(
    record: Buffer, names: Collection[str] | None = None
) -> dict[str, list[int] | list[float] | list[memoryview]]:
    """The values of an example's features.

    Args:
        record: a serialized `tf.train.Example`.
        names: of the features that are wanted; None: all. The others are jumped over.

    Returns:
        By name: int64 values, float32 values, or views of bytes; an empty list for a feature
        without values.

    Raises:
        DatasetError: it is no such message; or all is wanted, and it has feature lists too.
    """
    found = decode_context(record, names)
    if names is None and any(_parts(record, 0, len(record), _FEATURE_LISTS)):
        raise DatasetError(
            "record: expected a tf.train.Example, got a tf.train.SequenceExample, whose feature "
            "lists are for `input_fn` alone. `inspect`, `report` and `verify` take it too."
        )
    return found


def decode_context(record: Buffer, names: Collection[str] | None = None) -> dict[str, Any]:
    """The same, of a `tf.train.SequenceExample` too: its context is what features are."""
    wanted = None if names is None else {name.encode() for name in names}
    try:
        return {
            key.decode(): _values(record, *bounds)
            for key, bounds in _entries(record, _FEATURES)
            if wanted is None or key in wanted
        }
    except ValueError as error:
        raise DatasetError(f"record: expected a tf.train.Example, got another: {error}") from error


def decode_feature_lists(
    record: Buffer, names: Collection[str] | None = None
) -> dict[str, list[Any]]:
    """The feature lists of a `tf.train.SequenceExample`: by name, the values of each step.

    Raises:
        DatasetError: it is no such message.
    """
    try:
        return {
            name: [_values(record, *step) for step in _parts(record, *bounds)]
            for key, bounds in _entries(record, _FEATURE_LISTS)
            if names is None or key.decode() in names
            for name in [key.decode()]
        }
    except ValueError as error:
        raise DatasetError(
            f"record: expected a tf.train.SequenceExample, got another: {error}"
        ) from error


def _parts(record: Buffer, start: int, stop: int, wanted: int = 1) -> Iterator[Bounds]:
    """Where the messages are that a message has in one of its fields."""
    for number, wire, begin, end in read_fields(record, start, stop):
        if number == wanted and wire == DELIMITED:
            yield begin, end


def _entries(record: Buffer, field: int) -> Iterator[tuple[bytes, Bounds]]:
    """The keys of a map in a field of a record, and where their values are."""
    for first, last in _parts(record, 0, len(record), field):
        for start, stop in _parts(record, first, last):
            key, bounds = b"", (stop, stop)
            for number, wire, begin, end in read_fields(record, start, stop):
                if wire == DELIMITED and number == _KEY:
                    key = bytes(record[begin:end])
                elif wire == DELIMITED and number == _VALUE:
                    bounds = begin, end
            yield key, bounds


def _values(record: Buffer, start: int, stop: int) -> list[Any]:
    """Those of a Feature; the last of several kinds counts, as in any protocol buffer."""
    values: list[Any] = []
    for kind, wire, begin, end in read_fields(record, start, stop):
        read = _READERS.get(kind) if wire == DELIMITED else None
        if read is not None:
            values = [
                value
                for number, value_wire, first, last in read_fields(record, begin, end)
                if number == 1
                for value in read(record, value_wire, first, last)
            ]
    return values


def _read_bytes(record: Buffer, wire: int, start: int, stop: int) -> list[memoryview]:
    return [memoryview(record)[start:stop]] if wire == DELIMITED else []


def _read_floats(record: Buffer, wire: int, start: int, stop: int) -> tuple[float, ...]:
    if wire not in (DELIMITED, _FIXED32):
        return ()
    count, rest = divmod(stop - start, 4)
    if rest:
        raise ValueError(f"{stop - start} bytes of floats of 4 bytes")
    return struct.unpack_from(f"<{count}f", record, start)


def _read_integers(record: Buffer, wire: int, start: int, stop: int) -> Iterator[int]:
    while start < stop and wire in (DELIMITED, _VARINT):  # packed, or a single one
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
        if wire == DELIMITED:
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
