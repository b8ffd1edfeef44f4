"""The sums against RFC 3720's examples and google-crc32c."""

import itertools

import google_crc32c
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainer_utils.format.crc32c import (
    combine_crc32c,
    extend_crc32c,
    masked_crc32c,
    masked_crc32c_of_rows,
)


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        # RFC 3720, appendix B.4
        (bytes(32), 0x8A9136AA),
        (b"\xff" * 32, 0x62A8AB43),
        (bytes(range(32)), 0x46DD794E),
        (bytes(range(31, -1, -1)), 0x113FDB5C),
        (b"", 0),
    ],
)
def test_sums_are_those_of_the_standard(data, expected):
    assert extend_crc32c(0, data) == expected
    assert extend_crc32c(extend_crc32c(0, data[:7]), data[7:]) == expected


def test_the_mask_is_tensorflows():
    # (crc >> 15 | crc << 17) + 0xa282ead8 of 0x8a9136aa, by hand
    rotated = (0x8A9136AA >> 15 | 0x8A9136AA << 17) & 0xFFFFFFFF
    assert masked_crc32c(bytes(32)) == (rotated + 0xA282EAD8) & 0xFFFFFFFF
    assert masked_crc32c(bytes(10), bytes(22)) == masked_crc32c(bytes(32))


def test_rows_are_summed_as_google_crc32c_sums_each():
    for width, count in itertools.product((1, 8, 12), (0, 1, 64, 65, 500)):
        rows = np.random.default_rng(0).integers(0, 256, (count, width), np.uint8)
        expected = []
        for row in rows:
            crc = google_crc32c.value(row.tobytes())
            expected.append(((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF)
        assert masked_crc32c_of_rows(rows).tolist() == expected
        assert masked_crc32c_of_rows(np.repeat(rows, 2, axis=1)[:, ::2]).tolist() == expected


@given(st.binary(), st.binary(max_size=5000))
def test_sums_of_two_parts_make_that_of_the_whole(one, other):
    sums = extend_crc32c(0, one), extend_crc32c(0, other)
    assert combine_crc32c(*sums, len(other)) == extend_crc32c(0, one + other)
