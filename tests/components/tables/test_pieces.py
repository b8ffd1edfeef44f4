"""Bytes that are not text are named."""

import pytest

from components.tables import pieces


@pytest.mark.parametrize(
    ("data", "code", "advice"),
    [
        (b"PAR1\x15\0\0", "UNSUPPORTED_FORMAT", "a Parquet file. Read it as one: layout='parquet'"),
        (b"\x89PNG\r\n\x1a\n\0\0", "UNSUPPORTED_FORMAT", "a PNG image"),
        (b"\x1f\x8b\x08\0\0", "UNSUPPORTED_FORMAT", "Unpack it first"),
        ("words".encode("utf-16"), "NUL_BYTE", "encoding='utf-16'"),
        ("words".encode("utf-16-be"), "NUL_BYTE", "encoding='utf-16'"),
        (b"words\0of C", "NUL_BYTE", "Remove these bytes"),
        (b"caf\xe9", "NOT_UTF8", "encoding='latin-1'"),
    ],
)
def test_binary_data_is_named_with_a_fitting_fix(data, code, advice):
    found = pieces.text_problem(data)
    assert found is not None
    assert found[0] == code
    assert advice in found[1]
