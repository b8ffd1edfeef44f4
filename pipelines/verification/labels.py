"""The integers of some features of serialized `tf.train.Example` messages, without TensorFlow.

    integers_of(record, {b"label"})        # {b'label': [3]}

Only what leads to these features is looked at: an image beside them is jumped over.

Source: `tensorflow/core/example/{example,feature}.proto` and the protocol buffers' encoding guide.
"""

from collections.abc import Collection

from trainer_utils.format.example import message_fields, read_varint

__all__ = ["integers_of"]

_FEATURES, _ENTRY = 1, 1  # field numbers of Example and of Features
_KEY, _VALUE = 1, 2  # of a map's entry
_INT64_LIST, _INTEGERS = 3, 1  # of Feature and of Int64List


def integers_of(record: bytes, names: Collection[bytes]) -> dict[bytes, list[int]]:
    """The values of the features of integers among `names`.

    Raises:
        ValueError: the record is no message of that kind.
    """
    found: dict[bytes, list[int]] = {}
    for features, _, start, stop in message_fields(record, 0, len(record)):
        if features != _FEATURES:
            continue
        for entry, _, entry_start, entry_stop in message_fields(record, start, stop):
            if entry != _ENTRY:
                continue
            key, value = b"", (0, 0)
            for field, _, begin, end in message_fields(record, entry_start, entry_stop):
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
    for kind, _, begin, end in message_fields(record, start, stop):
        if kind == _INT64_LIST:
            for field, _, inner, inner_end in message_fields(record, begin, end):
                if field != _INTEGERS:
                    continue
                while inner < inner_end:  # packed, or a single one
                    value, inner = read_varint(record, inner)
                    values.append(value - (1 << 64) if value >> 63 else value)
    return values
