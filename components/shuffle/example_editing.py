"""Changes one feature of a serialized `tf.train.Example`; all other bytes stay as they are.

replace_feature(record, "label", 3)
replace_feature(record, "species", b"lynx")

Source: `tensorflow/core/example/{example,feature}.proto` and the protocol buffers' encoding guide.
"""

from trainer_utils.format.errors import DatasetError
from trainer_utils.format.example import encode_example, varint
from trainer_utils.format.example_decoding import read_fields

_FEATURES, _ENTRY, _KEY = 1, 1, 1  # field numbers: of Example, of Features, of a map's entry
_DELIMITED = 2  # wire type
_FIRST = b"\x0a"  # the tag of a field 1 with a length


def replace_feature(record: bytes, name: str, value: bytes | int | float) -> bytes:
    """The record with another value of a feature, which it gets where it has none.

    Args:
        record: a serialized `tf.train.Example`, or a `tf.train.SequenceExample`, whose context is
            meant.
        name: of the feature.
        value: what it is to be: bytes, an integer of 64 bits, signed, or a float.

    Raises:
        DatasetError: it is no such message.
    """
    entry = _entry(name, value)
    kept: list[bytes] = []  # entries of the features' map
    others: list[bytes] = []  # fields of the record beside the features
    is_placed = False
    try:
        for content, is_features in _parts(record, 0, len(record), _FEATURES):
            if not is_features:
                others.append(content)
                continue
            for part, is_entry in _parts(content, 0, len(content), _ENTRY):
                if is_entry and _key(part) == name.encode():
                    if not is_placed:
                        kept.append(entry)
                    is_placed = True
                else:
                    kept.append(_delimited(part) if is_entry else part)
    except ValueError as error:
        raise DatasetError(f"record: expected a tf.train.Example, got another: {error}") from error
    if not is_placed:
        kept.append(entry)
    return _delimited(b"".join(kept)) + b"".join(others)


def _entry(name: str, value: bytes | int | float) -> bytes:
    """The map's entry, as it stands in `Features`."""
    example = b"".join(encode_example({name: value}))
    ((_, _, start, stop),) = read_fields(example, 0, len(example))
    return example[start:stop]


def _parts(message: bytes, start: int, stop: int, wanted: int) -> list[tuple[bytes, bool]]:
    """A message's fields: the content of those that are wanted, and the others with their tags."""
    parts = []
    for number, wire, begin, end in read_fields(message, start, stop):
        is_wanted = number == wanted and wire == _DELIMITED
        parts.append((message[begin if is_wanted else start : end], is_wanted))
        start = end
    return parts


def _key(entry: bytes) -> bytes:
    keys = [
        entry[start:stop]
        for number, wire, start, stop in read_fields(entry, 0, len(entry))
        if number == _KEY and wire == _DELIMITED
    ]
    return keys[-1] if keys else b""


def _delimited(content: bytes) -> bytes:
    return _FIRST + varint(len(content)) + content
