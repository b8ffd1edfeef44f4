"""Folds against the few lines of Python that say what they are."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.record_names import fold
from trainer_utils.format import frame_records
from trainer_utils.format.folding import fold_bytes, fold_frames


@given(st.lists(st.one_of(st.binary(max_size=40), st.binary(min_size=400, max_size=500))))
def test_folds_are_those_of_the_payloads(payloads):
    check_folds(payloads)
    check_folds(payloads * 64)  # all together


def check_folds(payloads: list[bytes]) -> None:
    lengths = np.array([len(payload) for payload in payloads], np.int64)
    stops = np.cumsum(lengths + 16) - 4
    data = np.frombuffer(frame_records(payloads), np.uint8)
    expected = [fold(payload) for payload in payloads]
    assert fold_frames(data, stops - lengths, stops).tolist() == expected
    assert [fold_bytes(payload) for payload in payloads] == expected
    assert [fold_bytes(memoryview(b"?" + payload)[1:]) for payload in payloads] == expected


@pytest.mark.parametrize("place", range(24))
def test_a_changed_byte_changes_the_fold(place):
    payload = bytes(range(24))
    changed = bytearray(payload)
    changed[place] ^= 1
    assert fold_bytes(changed) != fold_bytes(payload)


def test_zeros_at_the_end_change_the_fold():
    assert len({fold_bytes(b"a" + bytes(zeros)) for zeros in range(20)}) == 20
