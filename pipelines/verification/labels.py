"""The integers of some features of serialized `tf.train.Example` messages, without TensorFlow.

    integers_of(record, {b"label"})        # {b'label': [3]}

Only what leads to these features is looked at: an image beside them is jumped over.

Source: `tensorflow/core/example/{example,feature}.proto` and the protocol buffers' encoding guide.
"""

from collections.abc import Collection, Iterator

__all__ = ["integers_of"]

_VARINT, _FIXED64, _LENGTH, _FIXED32 = 0, 1, 2, 5  # wire types
_FEATURES, _ENTRY = 1, 1  # field numbers of Example and of Features
_KEY, _VALUE = 1, 2  # of a map's entry
_INT64_LIST, _INTEGERS = 3, 1  # of Feature and of Int64List


def integers_of(record: bytes, names: Collection[bytes]) -> dict[bytes, list[int]]:
    """The values of the features of integers among `names`.

    Raises:
        ValueError: the record is no message of that kind.
    """
    found: dict[bytes, list[int]] = {}
    for features, start, stop in _parts(record, 0, len(record)):
        if features != _FEATURES:
            continue
        for entry, entry_start, entry_stop in _parts(record, start, stop):
            if entry != _ENTRY:
                continue
            key, value = b"", (0, 0)
            for field, begin, end in _parts(record, entry_start, entry_stop):
                if field == _KEY:
                    key = record[begin:end]
                    if key not in names:
                        break
                elif field == _VALUE:
                    value = begin, end
            if key in names:
                found[key] = _integers(record, *value)
    return found


def _integers(record: bytes, start: int, stop: int) -> list[int]:
    values: list[int] = []
    for kind, begin, end in _parts(record, start, stop):
        if kind == _INT64_LIST:
            for field, inner, inner_end in _parts(record, begin, end):
                if field != _INTEGERS:
                    continue
                while inner < inner_end:  # packed, or a single one
                    value, inner = _varint(record, inner)
                    values.append(value - (1 << 64) if value >> 63 else value)
    return values


def _parts(data: bytes, start: int, stop: int) -> Iterator[tuple[int, int, int]]:
    """The fields of a message: number, and where the content begins and ends."""
    while start < stop:
        tag, start = _varint(data, start)
        wire = tag & 7
        if wire == _LENGTH:
            length, start = _varint(data, start)
            end = start + length
        elif wire == _VARINT:
            _, end = _varint(data, start)
        elif wire in (_FIXED64, _FIXED32):
            end = start + (8 if wire == _FIXED64 else 4)
        else:
            raise ValueError(f"expected tf.train.Example, got a field of wire type {wire}")
        if end > stop:
            raise ValueError("expected tf.train.Example, got a message that is cut short")
        yield tag >> 3, start, end
        start = end


def _varint(data: bytes, place: int) -> tuple[int, int]:
    """A number, and where it ends."""
    value = shift = 0
    while True:
        if place >= len(data) or shift > 63:
            raise ValueError("expected tf.train.Example, got no whole number")
        byte = data[place]
        place += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, place
        shift += 7
