"""Names found at once against those that are decoded one by one, of records built in any way."""

import io

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from trainer_utils.format import RecordIndex, ShardWriter
from trainer_utils.format.example_decoding import decode_example
from trainer_utils.format.name_places import find_names

NAMES = ("filename", "id")
KEYS = st.sampled_from(["filename", "id", "fi", "idd", "image", "x" * 130])
TEXTS = st.sampled_from(
    [b"", b"a", b"filename", b"\x0a\x02id", b"n" * 127, b"n" * 128, b"n" * 20_000]
)
VALUES = st.one_of(st.lists(TEXTS, max_size=2), st.just([7]), st.just([0.5]), st.none())
PLAIN = st.dictionaries(KEYS, VALUES, max_size=4)
# Parts that no writer of examples makes so, but that any protocol buffer may have.
ODD = st.sampled_from([b"", b"\x0a\x00", b"\x10\x05", b"\x1a\x01x", b"\x0a", b"\xff"])


def shard_of(records: list[bytes]) -> tuple[bytes, np.ndarray]:
    stream = io.BytesIO()
    writer = ShardWriter(stream)
    for record in records:
        writer.write([record])
    writer.finish()
    lengths = np.array([len(record) for record in records], np.uint64)
    return stream.getvalue(), RecordIndex(lengths).offsets


def name_of(record: bytes) -> bytes | None:
    """None where it has no name; raises ValueError where it is no example."""
    found = decode_example(record, NAMES)
    for name in NAMES:
        values = found.get(name)
        if values and isinstance(values[0], memoryview):
            return bytes(values[0])
    return None


@given(st.lists(st.tuples(PLAIN, ODD), min_size=1, max_size=8))
@settings(max_examples=40)
def test_names_are_those_that_are_decoded(serialize, parts):
    records = [serialize(**{n: v or [] for n, v in values.items()}) + odd for values, odd in parts]
    data, offsets = shard_of(records)
    found = find_names(np.frombuffer(data, np.uint8), offsets, NAMES)
    for number, (record, (values, odd)) in enumerate(zip(records, parts, strict=True)):
        if found.is_found[number]:
            assert data[found.begins[number] : found.ends[number]] == name_of(record)
        is_usual = not odd and not any(v and not isinstance(v[0], bytes) for v in values.values())
        if is_usual:
            assert found.is_found[number] == (name_of(record) is not None), values
