"""Serialized `tf.train.Example` messages as parts to be joined, so that images are not copied.

    b"".join(encode_example({"image": data, "label": 3, "xmin": (0.1, 0.5)}))
    bytes_features(record)["filename"]      # [memoryview of b"cat/1.jpg"]

Building a protocol buffer object costs an image two copies and 35 µs, a third of its conversion.

Source: `tensorflow/core/example/{example,feature}.proto` and the protocol buffers' encoding guide.
The entries of the map stand sorted by key, as deterministic serialization has them.
"""

import functools
import struct
from collections.abc import Iterator, Mapping, Sequence
from typing import cast

from trainer_utils.format.errors import DatasetError

__all__ = [
    "bytes_features",
    "encode_example",
    "has_feature_lists",
    "message_fields",
    "read_varint",
]

Scalar = bytes | int | float

# Field number << 3 | 2: all that stands here is length-delimited.
_FIRST, _SECOND, _THIRD = b"\x0a", b"\x12", b"\x1a"
_VARINT, _FIXED64, _DELIMITED, _FIXED32 = 0, 1, 2, 5  # wire types
_BYTES_LIST, _FLOAT_LIST, _INT64_LIST = _FIRST, _SECOND, _THIRD  # of Feature


def encode_example(features: Mapping[str, Scalar | Sequence[Scalar]]) -> list[bytes]:
    """One example.

    Args:
        features: by name: bytes, integers of 64 bits, signed, or floats, which are kept with 32
            bits; or a list of one of these. One without values is left out.

    Returns:
        Parts that, joined, are the message; single bytes values are among them as given.
    """
    parts = [b""]
    for name in sorted(features):
        value = features[name]
        if isinstance(value, bytes):
            parts += _bytes(name, value)
        elif isinstance(value, int):
            parts.append(_integer(name, value))
        elif isinstance(value, float):
            parts.append(_list(name, (value,)))
        elif value:
            parts.append(_list(name, value))
    if len(parts) > 1:
        parts[0] = _FIRST + _varint(sum(map(len, parts)))
    return parts


def _bytes(name: str, value: bytes) -> tuple[bytes, bytes]:
    head = _FIRST + _varint(len(value))
    return _entry_head(name, _BYTES_LIST, len(head) + len(value)) + head, value


@functools.lru_cache(maxsize=4096)  # sizes and class ids come again and again
def _integer(name: str, value: int) -> bytes:
    return _list(name, (value,))


def _list(name: str, values: Sequence[Scalar]) -> bytes:
    if isinstance(values[0], bytes):
        kind = _BYTES_LIST
        body = b"".join(_FIRST + _varint(len(v)) + v for v in cast(Sequence[bytes], values))
    elif isinstance(values[0], float):
        kind = _FLOAT_LIST
        body = _packed(struct.pack(f"<{len(values)}f", *cast(Sequence[float], values)))
    else:
        kind = _INT64_LIST
        body = _packed(b"".join(_varint(v % 2**64) for v in cast(Sequence[int], values)))
    return _entry_head(name, kind, len(body)) + body


def _packed(data: bytes) -> bytes:
    return _FIRST + _varint(len(data)) + data


def _entry_head(name: str, kind: bytes, size: int) -> bytes:
    """What stands in a map entry before the `size` bytes of its feature's list."""
    head = kind + _varint(size)
    head = _SECOND + _varint(size + len(head)) + head
    key = name.encode()
    head = _FIRST + _varint(len(key)) + key + head
    return _FIRST + _varint(size + len(head)) + head


def _varint(number: int) -> bytes:
    """Base 128, least significant group first; all but the last group have their high bit set."""
    groups = bytearray()
    while number > 0x7F:
        groups.append(number & 0x7F | 0x80)
        number >>= 7
    groups.append(number)
    return bytes(groups)


def bytes_features(example: bytes) -> dict[str, list[memoryview]]:
    """The values of the features that hold bytes, as views; the other features without values.

    Args:
        example: a serialized `tf.train.Example`.

    Raises:
        DatasetError: it is none.
    """
    view = memoryview(example)
    found: dict[str, list[memoryview]] = {}
    try:
        for features in _parts(example, 1, 0, len(example)):
            for entry in _parts(example, 1, *features):
                keys = [example[slice(*key)] for key in _parts(example, 1, *entry)]
                lists = [
                    kind for f in _parts(example, 2, *entry) for kind in _parts(example, 1, *f)
                ]
                found[b"".join(keys[-1:]).decode()] = [
                    view[slice(*value)] for values in lists for value in _parts(example, 1, *values)
                ]
    except ValueError as error:
        raise DatasetError(f"record: expected a tf.train.Example, got another: {error}") from error
    return found


def has_feature_lists(record: bytes) -> bool:
    """Whether a record is a `tf.train.SequenceExample` with lists, which parsers of examples drop.

    Raises:
        ValueError: it is no protocol buffer.
    """
    return any(
        number == 2 and wire == _DELIMITED
        for number, wire, _, _ in message_fields(record, 0, len(record))
    )


def _parts(message: bytes, number: int, start: int, stop: int) -> Iterator[tuple[int, int]]:
    """Where the length-delimited fields of that number begin and end."""
    for found, wire, begin, end in message_fields(message, start, stop):
        if found == number and wire == _DELIMITED:
            yield begin, end


def message_fields(message: bytes, start: int, stop: int) -> Iterator[tuple[int, int, int, int]]:
    """The fields of a protocol buffer that lies in `message`, from `start` to `stop`.

    Yields:
        Number, wire type, and where the content begins and ends.

    Raises:
        ValueError: it is none.
    """
    while start < stop:
        tag, start = read_varint(message, start)
        wire = tag & 7
        if wire == _DELIMITED:
            length, start = read_varint(message, start)
            end = start + length
        elif wire == _VARINT:
            _, end = read_varint(message, start)
        elif wire in (_FIXED64, _FIXED32):
            end = start + (8 if wire == _FIXED64 else 4)
        else:
            raise ValueError(f"expected tf.train.Example, got a field of wire type {wire}")
        if end > stop:
            raise ValueError("expected tf.train.Example, got a message that is cut short")
        yield tag >> 3, wire, start, end
        start = end


def read_varint(message: bytes, place: int) -> tuple[int, int]:
    """A number, and where it ends.

    Raises:
        ValueError: there is none.
    """
    number = shift = 0
    while True:
        if place >= len(message) or shift > 63:
            raise ValueError("expected tf.train.Example, got no whole number")
        group = message[place]
        place += 1
        number |= (group & 0x7F) << shift
        if group < 0x80:
            return number, place
        shift += 7
