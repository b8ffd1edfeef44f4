"""Changes one feature of a serialized `tf.train.Example`; all other bytes stay as they are.

Source: `tensorflow/core/example/{example,feature}.proto` and the protocol buffers' encoding guide.
"""

from trainer_utils.format.errors import DatasetError
from trainer_utils.format.example import encode_example, read_fields, varint

_FEATURES, _ENTRY, _KEY = 1, 1, 1  # field numbers: of Example, of Features, of a map's entry
_DELIMITED = 2  # wire type
_FIRST = b"\x0a"  # the tag of a field 1 with a length


def replace_feature(record: bytes, name: str, value: bytes | int | float) -> bytes:
    """The record with another value of a feature, which it gets where it has none.

    Of a `tf.train.SequenceExample` the context is meant; ints are of 64 bits, signed. What is no
    such message is a `DatasetError`.
    """
    kept: list[bytes] = []  # entries of the features' map
    others: list[bytes] = []  # fields of the record beside the features
    place: int | None = None  # of the entry among those kept
    try:
        for content, is_features in _parts(record, _FEATURES):
            if not is_features:
                others.append(content)
                continue
            for part, is_entry in _parts(content, _ENTRY):
                if not is_entry or _key(part) != name.encode():
                    kept.append(_delimited(part) if is_entry else part)
                elif place is None:
                    place = len(kept)
    except ValueError as error:
        raise DatasetError(f"record: expected a tf.train.Example, got another: {error}") from error
    # An example of one feature is the map's entry, framed as it stands in `Features`.
    example = b"".join(encode_example({name: value}))
    kept.insert(len(kept) if place is None else place, _parts(example, _FEATURES)[0][0])
    return _delimited(b"".join(kept)) + b"".join(others)


def _parts(message: bytes, wanted: int) -> list[tuple[bytes, bool]]:
    """A message's fields: the content of those that are wanted, and the others with their tags."""
    parts, start = [], 0
    for number, wire, begin, end in read_fields(message, 0, len(message)):
        is_wanted = number == wanted and wire == _DELIMITED
        parts.append((message[begin if is_wanted else start : end], is_wanted))
        start = end
    return parts


def _key(entry: bytes) -> bytes:
    return next((content for content, is_key in reversed(_parts(entry, _KEY)) if is_key), b"")


def _delimited(content: bytes) -> bytes:
    return _FIRST + varint(len(content)) + content
