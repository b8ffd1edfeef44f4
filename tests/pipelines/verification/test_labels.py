import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipelines.verification.labels import integers_of

INTEGERS = st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1, max_size=5)
FEATURES = st.dictionaries(
    st.text(max_size=12),
    st.one_of(
        INTEGERS, st.lists(st.binary(max_size=300), min_size=1), st.lists(st.floats(width=32))
    ),
    max_size=5,
)


@settings(max_examples=100)
@given(FEATURES)
def test_integers_are_those_of_tensorflow(serialize, features):
    record = serialize(**features)
    expected = {
        name.encode(): values
        for name, values in features.items()
        if values and isinstance(values[0], int)
    }
    found = integers_of(record, {name.encode() for name in features})
    assert {name: values for name, values in found.items() if values} == expected


def test_integers_that_are_not_packed_are_read_too():
    # Example{features{feature{key: "label" value{int64_list{value: 3 value: 300}}}}}
    numbers = b"\x08\x03\x08\xac\x02"
    value = b"\x1a" + bytes([len(numbers)]) + numbers
    entry = b"\x0a\x05label\x12" + bytes([len(value)]) + value
    features = b"\x0a" + bytes([len(entry)]) + entry
    assert integers_of(b"\x0a" + bytes([len(features)]) + features, {b"label"}) == {
        b"label": [3, 300]
    }


@pytest.mark.parametrize("record", [b"\x0a\xff", b"\x0a\x05abc", b"\xff" * 12, b"\x0b"])
def test_other_bytes_are_refused(record):
    with pytest.raises(ValueError, match=r"expected tf\.train\.Example"):
        integers_of(record, {b"label"})
