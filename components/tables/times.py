"""Format Arrow's dates and times in ISO 8601 with all their digits.

    texts_of_times(pa.array([1_700_000_000_123_456_789], pa.timestamp("ns")))
    # ["2023-11-14T22:13:20.123456789"]

Arrow's own conversion of nanoseconds needs pandas, and returns other objects with it than without.
The format is that of `datetime.isoformat`, or of `pandas.Timestamp.isoformat` for nanoseconds.
"""

import datetime
import re
import zoneinfo
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

_OFFSET = re.compile(r"([+-])(\d\d):?(\d\d)")
_NANOSECONDS = 1000  # per microsecond


def texts_of_times(array: pa.Array) -> list[str | None]:
    """Format dates, times of day and timestamps as strings.

    Raises:
        pa.ArrowInvalid, ValueError, OverflowError: a time is outside the years 1 to 9999, a time of
            day has nanoseconds, or the time zone is unknown.
    """
    kind = array.type
    if pa.types.is_timestamp(kind):
        return _timestamps(array)
    if pa.types.is_time64(kind):
        array = array.cast(pa.time64("us"))
    return [None if value is None else value.isoformat() for value in array.to_pylist()]


def _timestamps(array: pa.Array) -> list[str | None]:
    kind, numbers = array.type, array.cast(pa.int64())
    rest: list[int | None] = [0] * len(array)
    if kind.unit == "ns":
        micros = _floor_divided(numbers)
        rest = pc.subtract(numbers, pc.multiply(micros, _NANOSECONDS)).to_pylist()
        numbers = micros
    unit = "us" if kind.unit == "ns" else kind.unit
    zone = None if kind.tz is None else _zone_of(kind.tz)
    values = numbers.cast(pa.timestamp(unit)).to_pylist()
    return [
        None if value is None else _text(value, zone, nanoseconds or 0)
        for value, nanoseconds in zip(values, rest, strict=True)
    ]


def _floor_divided(numbers: pa.Array) -> pa.Array:
    """Convert nanoseconds to microseconds, rounded down: times before 1970 are negative."""
    quotients = pc.divide(numbers, _NANOSECONDS)  # rounds towards zero
    is_above = pc.greater(pc.multiply(quotients, _NANOSECONDS), numbers)
    return pc.subtract(quotients, is_above.cast(pa.int64()))


def _zone_of(name: str) -> datetime.tzinfo:
    if name.upper() in ("UTC", "ETC/UTC", "Z"):
        return datetime.timezone.utc
    if match := _OFFSET.fullmatch(name):
        minutes = 60 * int(match[2]) + int(match[3])
        offset = datetime.timedelta(minutes=-minutes if match[1] == "-" else minutes)
        return datetime.timezone(offset)
    try:
        return zoneinfo.ZoneInfo(name)
    except zoneinfo.ZoneInfoNotFoundError as error:
        raise ValueError(f"this machine has no time zone {name!r}") from error


def _text(value: Any, zone: datetime.tzinfo | None, nanoseconds: int) -> str:
    if zone is not None:
        value = value.replace(tzinfo=datetime.timezone.utc).astimezone(zone)
    if not nanoseconds:
        return str(value.isoformat())
    whole = value.replace(tzinfo=None)
    offset = value.isoformat()[len(whole.isoformat()) :]
    return f"{whole.isoformat(timespec='microseconds')}{nanoseconds:03d}{offset}"
