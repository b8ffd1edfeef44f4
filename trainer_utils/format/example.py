"""Encode and decode one serialized `tf.train.Example`. `example_columns` decodes many at once.

    b"".join(encode_example({"image": data, "label": 3, "xmin": (0.1, 0.5)}))
    decode_example(record, {"label"})             # {'label': [3]}: an image is jumped over

Messages are built in parts, so an image is not copied. A protocol buffer object takes two copies
and 35 µs. Map entries are sorted by key, as in deterministic serialization.
Source: `tensorflow/core/example/{example,feature}.proto` and the protocol buffers' encoding guide.
"""

import functools
import struct
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, cast

from trainer_utils.core.errors import DatasetError

Buffer = bytes | memoryview
Bounds = tuple[int, int]
Scalar = bytes | int | float

_SHORT = [bytes([number]) for number in range(1 << 7)]  # varints

# Field number << 3 | 2: every field here is length-delimited.
_FIRST, _SECOND, _THIRD = b"\x0a", b"\x12", b"\x1a"
BYTES_LIST, FLOAT_LIST, INT64_LIST = _FIRST, _SECOND, _THIRD  # fields of Feature

_VARINT, _FIXED64, DELIMITED, _FIXED32 = 0, 1, 2, 5  # wire types
_FEATURES, _FEATURE_LISTS = 1, 2  # fields of SequenceExample; Example has only the first
_KEY, _VALUE = 1, 2  # fields of a map entry
_BYTES, _FLOATS, _INTEGERS = 1, 2, 3  # fields of Feature


def encode_example(features: Mapping[str, Scalar | Sequence[Scalar]]) -> list[bytes]:
    """Encode an example as parts that form the message when joined.

    Single bytes values become parts without a copy.

    Args:
        features: the values by name: bytes, signed 64-bit integers, floats (stored with 32 bits),
            or a list of one of these types. Empty lists are left out.
    """
    parts = [b""]
    for name in sorted(features):
        value = features[name]
        if isinstance(value, bytes):
            parts += (bytes_head(name, len(value)), value)
        elif isinstance(value, int):
            parts.append(_integer(name, value))
        elif isinstance(value, float):
            parts.append(_list(name, (value,)))
        elif value:
            parts.append(_list(name, value))
    if len(parts) > 1:
        parts[0] = _FIRST + varint(sum(map(len, parts)))
    return parts


def encode_sequence_example(
    context: Mapping[str, Scalar | Sequence[Scalar]],
    lists: Mapping[str, Sequence[Sequence[Scalar]]],
) -> list[bytes]:
    """Encode a `tf.train.SequenceExample` as parts that form the message when joined.

    Its first field is that of an example, so parsers of examples find the context.

    Args:
        context: the features of the whole sequence, as for `encode_example`.
        lists: the values of each step, by feature. Values of one feature have one type.
    """
    parts = encode_example(context)
    entries = b""
    for name in sorted(lists):
        steps = b"".join(_packed(_step(values)) for values in lists[name])
        entries += _packed(_packed(name.encode()) + _SECOND + varint(len(steps)) + steps)
    return [*parts, _SECOND + varint(len(entries)) + entries]


def _step(values: Sequence[Scalar]) -> bytes:
    """Encode a Feature. Without values it has no kind and is empty."""
    if not values:
        return b""
    kind, body = _values(values)
    return kind + varint(len(body)) + body


@functools.lru_cache(maxsize=4096)  # names and classes have few lengths, images many
def bytes_head(name: str, size: int) -> bytes:
    """Return the bytes of a feature's entry before its one value of `size` bytes."""
    head = _FIRST + varint(size)
    return entry_head(name, BYTES_LIST, len(head) + size) + head


@functools.lru_cache(maxsize=4096)  # the same sizes and class ids occur many times
def _integer(name: str, value: int) -> bytes:
    return _list(name, (value,))


def _list(name: str, values: Sequence[Scalar]) -> bytes:
    kind, body = _values(values)
    return entry_head(name, kind, len(body)) + body


def _values(values: Sequence[Scalar]) -> tuple[bytes, bytes]:
    """Return the field of the list for these values, and its encoded content."""
    if isinstance(values[0], bytes):
        kind = BYTES_LIST
        body = b"".join(map(_packed, cast(Sequence[bytes], values)))
    elif isinstance(values[0], float):
        kind = FLOAT_LIST
        body = _packed(struct.pack(f"<{len(values)}f", *cast(Sequence[float], values)))
    else:
        kind = INT64_LIST
        body = _packed(b"".join(varint(v % 2**64) for v in cast(Sequence[int], values)))
    return kind, body


def _packed(data: bytes) -> bytes:
    return _FIRST + varint(len(data)) + data


def entry_head(name: str, kind: bytes, size: int) -> bytes:
    """Return the bytes of a map entry before the `size` bytes of its feature's list."""
    head = kind + varint(size)
    head = _SECOND + varint(size + len(head)) + head
    head = _packed(name.encode()) + head
    return _FIRST + varint(size + len(head)) + head


def varint(number: int) -> bytes:
    """Encode a non-negative number in base 128, least significant group first."""
    if number < 1 << 7:
        return _SHORT[number]
    groups = bytearray()
    while number > 0x7F:
        groups.append(number & 0x7F | 0x80)
        number >>= 7
    groups.append(number)
    return bytes(groups)


def decode_example(
    record: Buffer, names: Collection[str] | None = None
) -> dict[str, list[int] | list[float] | list[memoryview]]:
    """Decode the values of features by name: int64, float32, or views of bytes.

    Args:
        record: the serialized example.
        names: the features to decode. Others are skipped. None: all features.

    Raises:
        DatasetError: the record is not an example, or it has feature lists and `names=None`.
    """
    features = decode_context(record, names)
    if names is None and any(_parts(record, 0, len(record), _FEATURE_LISTS)):
        raise DatasetError(
            "record: expected a tf.train.Example, got a tf.train.SequenceExample, whose feature "
            "lists are for `input_fn` alone. `inspect`, `report` and `verify` take it too."
        )
    return features


def decode_context(record: Buffer, names: Collection[str] | None = None) -> dict[str, Any]:
    """Decode the features of an example, or the context features of a SequenceExample."""
    return _decode(record, _FEATURES, names, _read_values)


def decode_feature_lists(record: Buffer, names: Collection[str] | None = None) -> dict[str, Any]:
    """Decode the feature lists of a SequenceExample: by name, the values of each step."""
    return _decode(record, _FEATURE_LISTS, names, _read_steps)


def _decode(
    record: Buffer, field: int, names: Collection[str] | None, read: Callable[..., list[Any]]
) -> dict[str, Any]:
    """Decode the wanted entries of a map that is a field of the record."""
    wanted = None if names is None else {name.encode() for name in names}
    try:
        return {
            key.decode(): read(record, *bounds)
            for key, bounds in _entries(record, field)
            if wanted is None or key in wanted
        }
    except ValueError as error:
        kind = "Example" if field == _FEATURES else "SequenceExample"
        raise DatasetError(f"record: expected a tf.train.{kind}, got another: {error}") from error


def _parts(record: Buffer, start: int, stop: int, wanted: int = 1) -> Iterator[Bounds]:
    """Yield the bounds of the submessages in one field of a message."""
    for number, wire, begin, end in read_fields(record, start, stop):
        if number == wanted and wire == DELIMITED:
            yield begin, end


def _entries(record: Buffer, field: int) -> Iterator[tuple[bytes, Bounds]]:
    """Yield the keys of a map in a field of a record, and the bounds of their values."""
    for first, last in _parts(record, 0, len(record), field):
        for start, stop in _parts(record, first, last):
            key, bounds = b"", (stop, stop)
            for number, wire, begin, end in read_fields(record, start, stop):
                if wire == DELIMITED and number == _KEY:
                    key = bytes(record[begin:end])
                elif wire == DELIMITED and number == _VALUE:
                    bounds = begin, end
            yield key, bounds


def _read_steps(record: Buffer, start: int, stop: int) -> list[list[Any]]:
    return [_read_values(record, *step) for step in _parts(record, start, stop)]


def _read_values(record: Buffer, start: int, stop: int) -> list[Any]:
    """Decode the values of a Feature. The last of several kinds counts, as in protocol buffers."""
    values: list[Any] = []
    for kind, wire, begin, end in read_fields(record, start, stop):
        if wire == DELIMITED and kind in (_BYTES, _FLOATS, _INTEGERS):
            values = [
                value
                for number, value_wire, first, last in read_fields(record, begin, end)
                if number == 1
                for value in _read_list(kind, record, value_wire, first, last)
            ]
    return values


def _read_list(kind: int, record: Buffer, wire: int, start: int, stop: int) -> Sequence[Any]:
    """Decode the values of one kind from a packed field or a single value."""
    if kind == _BYTES and wire == DELIMITED:
        return [memoryview(record)[start:stop]]
    if kind == _FLOATS and wire in (DELIMITED, _FIXED32):
        count, rest = divmod(stop - start, 4)
        if rest:
            raise ValueError(f"{stop - start} bytes of floats of 4 bytes")
        return struct.unpack_from(f"<{count}f", record, start)
    values = []
    while kind == _INTEGERS and wire in (DELIMITED, _VARINT) and start < stop:
        value, start = read_varint(record, start, stop)
        values.append(value - (1 << 64) if value >> 63 else value)
    return values


def read_fields(record: Buffer, start: int, stop: int) -> Iterator[tuple[int, int, int, int]]:
    """Yield the fields of a message in `[start, stop)`: number, wire type, content bounds."""
    while start < stop:
        # Most varints have one byte, and a call would take as long as the rest of this loop.
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
    """Return the 64-bit base-128 number at `place`, and the position after it."""
    number = shift = 0
    while place < stop and shift < 64 + 6:
        group = record[place]
        place += 1
        number |= (group & 0x7F) << shift
        if group < 0x80:
            return number & 0xFFFF_FFFF_FFFF_FFFF, place
        shift += 7
    raise ValueError("a number without an end")
