"""Times are formatted like pandas and the standard library do, but without pandas."""

import datetime
import subprocess
import sys

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from components.tables.times import texts_of_times

NANOSECONDS = [
    1700000000123456789,
    1700000000123456000,
    1700000000000000000,
    -1,
    -1_000,
    -999_999_999,
    0,
    None,
]
EXTREMES = [2**63 - 1, -(2**63) + 1]  # pandas cannot convert them to another zone


@pytest.mark.parametrize("zone", [None, "UTC", "+05:30", "-03:30", "Europe/Berlin"])
def test_nanoseconds_equal_pandas(zone):
    numbers = NANOSECONDS + (EXTREMES if zone in (None, "UTC") else [])
    texts = texts_of_times(pa.array(numbers, pa.timestamp("ns", zone)))
    for number, text in zip(numbers, texts, strict=True):
        stamp = None if number is None else pd.Timestamp(number, tz=zone and "UTC")
        if stamp is not None and zone is not None:
            stamp = stamp.tz_convert(zone)
        assert text == (None if stamp is None else stamp.isoformat())


@pytest.mark.parametrize("unit", ["s", "ms", "us"])
def test_coarser_times_equal_the_standard_library(unit):
    values = np.array([0, 1, -1, 1_234_567, None], dtype=f"datetime64[{unit}]")
    expected = [None if value is None else value.isoformat() for value in values.tolist()]
    assert texts_of_times(pa.array(values)) == expected


def test_dates_and_times_of_day_are_iso_strings():
    day, time = datetime.date(2020, 2, 29), datetime.time(3, 4, 5, 600)
    assert texts_of_times(pa.array([day, None])) == ["2020-02-29", None]
    assert texts_of_times(pa.array([time], pa.time64("ns"))) == ["03:04:05.000600"]


@pytest.mark.parametrize("unit", ["s", "ms"])
def test_years_out_of_range_raise(unit):
    with pytest.raises((ValueError, OverflowError)):
        texts_of_times(pa.array([2**55], pa.timestamp(unit)))


def test_nanoseconds_are_the_same_without_pandas():
    program = """
import sys
sys.modules["pandas"] = None
import pyarrow as pa
from components.tables.times import texts_of_times
print(texts_of_times(pa.array([1700000000123456789], pa.timestamp("ns", "UTC"))))
"""
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert found.stdout == "['2023-11-14T22:13:20.123456789+00:00']\n", found.stderr
