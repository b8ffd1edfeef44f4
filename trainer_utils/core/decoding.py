"""Decode values of JSON to the classes whose annotations declare them.

    class Shard(NamedTuple):
        path: str
        records: Count
        crc32c: Crc32c

    decode(list[Shard], [{"path": "a", "records": 3, "crc32c": "0a1b2c3d"}])
    decode(list[Shard], [{"path": "a", "records": True, "crc32c": "0a1b2c3d"}])
    # DecodeError: [0].records: expected an integer from 0 on, below 2**64, got True

An annotation is a dataclass, a `NamedTuple`, `str`, `int`, `float`, `bool`, `Any`, a union such as
`X | None`, or a list, tuple, sequence or mapping of these. `Annotated[int, …]` adds a rule: `Range`
or `HexDigits`.

A list is decoded by columns: each rule checks one field of all its elements at once. A call for
each value would take twice as long for a manifest of 100,000 shards.
"""

import collections.abc
import copy
import dataclasses
import functools
import itertools
import types
import typing
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Annotated, Any, TypeAlias

_MAX_SHOWN = 80  # characters of an invalid value in a message
_JSON_TYPES: Mapping[type, str] = {
    **{str: "a string", int: "an integer", float: "a number", bool: "true or false"},
    **{list: "a list", dict: "an object", types.NoneType: "null"},
}


_Ignoring: TypeAlias = bool | frozenset[type]
"""Whether unknown keys are ignored, or the classes in whose objects they are."""


class DecodeError(ValueError):
    """A value differs from its declaration.

    Attributes:
        problem: the rule and the value.
        row: the index of the element in the decoded column.
        place: the place of the value within that element, such as `.shards[3].records`.
    """

    def __init__(self, problem: str, *, row: int, place: str = "") -> None:
        self.problem, self.row, self.place = problem, row, place
        name = place.removeprefix(".")
        super().__init__(f"{name}: {problem}" if name else problem)

    def within(self, row: int, place: str) -> "DecodeError":
        """Return the error for a value at `place` in element `row` of the outer column."""
        return DecodeError(self.problem, row=row, place=place + self.place)


@dataclasses.dataclass(frozen=True)
class Range:
    """Rule for an integer: from `start` on, and below `stop`."""

    start: int
    stop: int

    def __str__(self) -> str:
        is_power = self.stop.bit_count() == 1
        stop = f"2**{self.stop.bit_length() - 1}" if is_power else str(self.stop)
        return f"an integer from {self.start} on, below {stop}"


@dataclasses.dataclass(frozen=True)
class HexDigits:
    """Rule for an integer from 0 on that is stored as a string of `count` hexadecimal digits."""

    count: int

    def __str__(self) -> str:
        return f"{self.count} hexadecimal digits"


Count = Annotated[int, Range(0, 1 << 64)]
"""A number of things."""

Crc32c = Annotated[int, HexDigits(8)]
"""A CRC-32C, stored as hexadecimal digits."""


def decode(kind: Any, value: Any, *, takes_unknown: bool | Sequence[type] = False) -> Any:
    """Return a value of JSON as the annotated type `kind`.

    Args:
        kind: the type. Fields that are missing in the value keep their defaults.
        value: the value, of the types that `json.loads` returns.
        takes_unknown: whether keys that are not fields are ignored, or the classes in whose objects
            they are.

    Raises:
        DecodeError: the value differs from the type; the message has the place within `value`.
        Exception: the error of a dataclass that rejects its fields.
    """
    ignoring = takes_unknown if isinstance(takes_unknown, bool) else frozenset(takes_unknown)
    (decoded,) = _column_of(kind, ignoring).decode([value])
    return decoded


def encode_fields(value: Any) -> dict[str, Any]:
    """Return the fields of such a class as `decode` takes them; leave out fields of value None."""
    kind: Any = type(value)
    digits = _hex_digits(kind)
    fields = {name: getattr(value, name) for name in _fields_of(kind)[0]}
    return {
        name: f"{field:0{digits[name]}x}" if name in digits else field
        for name, field in fields.items()
        if field is not None
    }


@functools.cache
def _hex_digits(kind: Any) -> Mapping[str, int]:
    """Return the numbers of digits of the fields that are stored as hexadecimal digits."""
    hints = typing.get_type_hints(kind, include_extras=True)
    return {
        name: rule.count
        for name, hint in hints.items()
        for part in (hint, *typing.get_args(hint))
        for rule in getattr(part, "__metadata__", ())
        if isinstance(rule, HexDigits)
    }


class _Column:
    """The decoder of one type, for all values at one place in a list of elements.

    Args:
        json_types: the types that a value may have in JSON.
    """

    def __init__(self, *json_types: type) -> None:
        self.json_types = frozenset(json_types)

    @property
    def rule(self) -> str:
        """The allowed values."""
        return " or ".join(name for kind, name in _JSON_TYPES.items() if kind in self.json_types)

    def decode(self, values: list[Any]) -> list[Any]:
        """Return the decoded values; raise a DecodeError for the first invalid one."""
        if not values:  # a class may have a field of the same class
            return []
        if not {*map(type, values)} <= self.json_types:
            self._reject(values, lambda value: type(value) in self.json_types)
        return self._convert(values)

    def _convert(self, values: list[Any]) -> list[Any]:
        """Return the decoded values, whose types were checked."""
        return values

    def _reject(self, values: list[Any], is_valid: Callable[[Any], bool]) -> None:
        """Raise a DecodeError for the first value that is not valid."""
        row = next(row for row, value in enumerate(values) if not is_valid(value))
        raise DecodeError(f"expected {self.rule}, got {_short(values[row])}", row=row)


class _Objects(_Column):
    """Decoder of values of any type, even if JSON does not have it."""

    def decode(self, values: list[Any]) -> list[Any]:
        """Return the values."""
        return values


class _Integers(_Column):
    """Decoder of integers within a range."""

    def __init__(self, limits: Range) -> None:
        super().__init__(int)
        self._limits = limits

    @property
    def rule(self) -> str:
        """The allowed values."""
        return str(self._limits)

    def _convert(self, values: list[Any]) -> list[Any]:
        start, stop = self._limits.start, self._limits.stop
        if values and not (start <= min(values) and max(values) < stop):
            self._reject(values, lambda value: start <= value < stop)
        return values


class _HexNumbers(_Column):
    """Decoder of integers that are stored as hexadecimal digits."""

    def __init__(self, digits: HexDigits) -> None:
        super().__init__(str)
        self._digits = digits

    @property
    def rule(self) -> str:
        """The allowed values."""
        return str(self._digits)

    def _convert(self, values: list[Any]) -> list[Any]:
        try:
            numbers = [int(digits, 16) for digits in values]
            if numbers and not (min(numbers) >= 0 and max(numbers) < 16**self._digits.count):
                raise ValueError
        except ValueError:
            self._reject(values, self._is_valid)
        return numbers

    def _is_valid(self, digits: str) -> bool:
        try:
            number = int(digits, 16)
        except ValueError:
            return False
        return bool(0 <= number < 16**self._digits.count)


class _Unions(_Column):
    """Decoder of one of several types, chosen by a value's type in JSON."""

    def __init__(self, members: Sequence[_Column]) -> None:
        super().__init__(*itertools.chain.from_iterable(member.json_types for member in members))
        self._members = members

    def _convert(self, values: list[Any]) -> list[Any]:
        json_types = {*map(type, values)}
        decoded = [*values]
        for member in self._members:
            if json_types <= member.json_types:
                return member.decode(values)
            rows = [row for row, value in enumerate(values) if type(value) in member.json_types]
            try:
                part = member.decode([values[row] for row in rows])
            except DecodeError as error:
                raise error.within(rows[error.row], "") from None
            for row, value in zip(rows, part, strict=True):
                decoded[row] = value
        return decoded


class _Lists(_Column):
    """Decoder of lists of any length, whose elements have one type."""

    def __init__(self, element: _Column, make: Callable[[list[Any]], Any]) -> None:
        super().__init__(list)
        self._element, self._make = element, make

    def _convert(self, values: list[Any]) -> list[Any]:
        return [*map(self._make, _decode_groups(self._element, values, lambda row, n: f"[{n}]"))]


class _Mappings(_Column):
    """Decoder of objects with any names, whose values have one type."""

    def __init__(self, element: _Column) -> None:
        super().__init__(dict)
        self._element = element

    def _convert(self, values: list[Any]) -> list[Any]:
        groups = [[*value.values()] for value in values]
        decoded = _decode_groups(self._element, groups, lambda row, n: f"[{[*values[row]][n]!r}]")
        return [
            dict(zip(value, group, strict=True))
            for value, group in zip(values, decoded, strict=True)
        ]


class _Tuples(_Column):
    """Decoder of lists of one length, with a type for each element."""

    def __init__(self, elements: Sequence[_Column]) -> None:
        super().__init__(list)
        self._elements = elements

    @property
    def rule(self) -> str:
        """The allowed values."""
        return f"a list of {len(self._elements)}"

    def _convert(self, values: list[Any]) -> list[Any]:
        if any(len(value) != len(self._elements) for value in values):
            self._reject(values, lambda value: len(value) == len(self._elements))
        columns = []
        for place, element in enumerate(self._elements):
            columns.append(_decode_at(element, [v[place] for v in values], f"[{place}]"))
        return [*zip(*columns, strict=True)]


class _Records(_Column):
    """Decoder of objects whose names are the fields of a dataclass or a named tuple."""

    def __init__(self, kind: type, takes_unknown: _Ignoring) -> None:
        super().__init__(dict)
        self._kind, self._takes_unknown = kind, takes_unknown
        self._ignores = takes_unknown if isinstance(takes_unknown, bool) else kind in takes_unknown
        self._names, self._defaults = _fields_of(kind)

    @functools.cached_property
    def _columns(self) -> Mapping[str, _Column]:
        """The decoders of the fields, made when needed, since a field may be of the same class."""
        hints = typing.get_type_hints(self._kind, include_extras=True)
        return {name: _column_of(hints[name], self._takes_unknown) for name in self._names}

    def _convert(self, values: list[Any]) -> list[Any]:
        if not self._ignores and not set[str]().union(*values) <= self._columns.keys():
            self._reject_unknown(values)
        columns = [self._decode_field(name, values) for name in self._names]
        if issubclass(self._kind, tuple):
            # As `_make`, but without a call of a Python function for each row.
            return [*map(tuple.__new__, itertools.repeat(self._kind), zip(*columns, strict=True))]
        rows = zip(*columns, strict=True)
        return [self._kind(**dict(zip(self._names, row, strict=True))) for row in rows]

    def _reject_unknown(self, values: list[Any]) -> None:
        """Raise a DecodeError for the first name that is not a field."""
        for row, value in enumerate(values):
            for name in value.keys() - self._columns:
                allowed = ", ".join(self._names)
                raise DecodeError(f"expected only {allowed}, got {_short(name)}", row=row)

    def _decode_field(self, name: str, values: list[Any]) -> list[Any]:
        """Return the values of a field, with its default in rows that lack it."""
        try:
            field_values = [value[name] for value in values]
        except KeyError:
            return self._decode_partly(name, values)
        return _decode_at(self._columns[name], field_values, f".{name}")

    def _decode_partly(self, name: str, values: list[Any]) -> list[Any]:
        """Return the values of a field that some rows lack, which get its default."""
        if name not in self._defaults:
            row = next(row for row, value in enumerate(values) if name not in value)
            raise DecodeError(f"expected a value of {name!r}, got none", row=row)
        default = self._defaults[name]
        decoded = [default() for _ in values]
        rows = [row for row, value in enumerate(values) if name in value]
        field_values = [values[row][name] for row in rows]
        field_values = _decode_at(self._columns[name], field_values, f".{name}", rows)
        for row, value in zip(rows, field_values, strict=True):
            decoded[row] = value
        return decoded


def _fields_of(kind: Any) -> tuple[Sequence[str], Mapping[str, Callable[[], Any]]]:
    """Return the names of the fields, and functions that return the defaults of some of them."""
    if issubclass(kind, tuple):
        fixed = kind._field_defaults
        return kind._fields, {name: functools.partial(copy.copy, fixed[name]) for name in fixed}
    fields = [field for field in dataclasses.fields(kind) if field.init]
    defaults: dict[str, Callable[[], Any]] = {}
    for field in fields:
        if field.default_factory is not dataclasses.MISSING:
            defaults[field.name] = field.default_factory
        elif field.default is not dataclasses.MISSING:
            defaults[field.name] = functools.partial(copy.copy, field.default)
    return [field.name for field in fields], defaults


@functools.cache
def _column_of(kind: Any, takes_unknown: _Ignoring) -> _Column:
    """Return the decoder of an annotated type."""
    origin, arguments = typing.get_origin(kind) or kind, typing.get_args(kind)
    if kind is object:
        return _Objects()
    if kind is Any:
        return _Column(*_JSON_TYPES)
    if dataclasses.is_dataclass(kind) or hasattr(kind, "_field_defaults"):
        return _Records(kind, takes_unknown)
    if origin is Annotated:
        (rule,) = kind.__metadata__
        return _Integers(rule) if isinstance(rule, Range) else _HexNumbers(rule)
    inner = [_column_of(argument, takes_unknown) for argument in arguments if argument is not ...]
    if origin in (types.UnionType, typing.Union):
        return _Unions(inner)
    if origin is tuple and ... not in arguments:
        return _Tuples(inner)
    if origin in (list, tuple, collections.abc.Sequence):
        return _Lists(inner[0], tuple if origin is tuple else list)
    if origin in (dict, collections.abc.Mapping):
        return _Mappings(inner[1])
    return _Column(float, int) if kind is float else _Column(kind)


def _decode_at(
    column: _Column, values: list[Any], place: str, rows: Sequence[int] | None = None
) -> list[Any]:
    """Decode a column of values that are at `place` within the elements of `rows` (None: all)."""
    try:
        return column.decode(values)
    except DecodeError as error:
        row = error.row if rows is None else rows[error.row]
        raise error.within(row, place) from None


def _decode_groups(
    element: _Column, groups: list[list[Any]], place_of: Callable[[int, int], str]
) -> Iterator[list[Any]]:
    """Decode the values of several groups as one column, and yield them group by group.

    Args:
        element: the decoder of the values.
        groups: the values.
        place_of: returns the place of a value within its element, given the group and the index.
    """
    try:
        decoded = iter(element.decode([*itertools.chain.from_iterable(groups)]))
    except DecodeError as error:
        row, number = next(
            itertools.islice(
                ((row, n) for row, group in enumerate(groups) for n in range(len(group))),
                *(error.row, None),
            )
        )
        raise error.within(row, place_of(row, number)) from None
    return (list(itertools.islice(decoded, len(group))) for group in groups)


def _short(value: object) -> str:
    shown = repr(value)
    return shown if len(shown) <= _MAX_SHOWN else f"{shown[:_MAX_SHOWN]}…"
