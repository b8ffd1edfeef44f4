"""Evaluate a condition on features for many records at once, never as code.

    condition = parse_condition("label == 'cat' and height > 100")
    condition.mask(columns, {"label": ["cat", "dog"]})      # array([True, False, …])

The grammar is a small part of Python's: `and`, `or`, `not`; `==`, `!=`, `<`, `<=`, `>`, `>=`, `in`
and `not in`, chained too; `+`, `-`, `*`, `/`, `//`, `%` of numbers; `len`, `min`, `max`, `abs`;
numbers, strings, `None` and lists of these. A name is a feature, and so is `feature('a/b')`.

A feature with one value evaluates to it, one without a value to None, which is neither smaller nor
larger than anything. A feature with several values supports `len` and `in`. Bytes are strings. A
feature with a vocabulary is compared by class name with strings, and by id with numbers.
"""

import ast
import dataclasses
import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, NoReturn

import numpy as np
import numpy.typing as npt

from trainer_utils.core.errors import ConfigError, did_you_mean
from trainer_utils.format.example_columns import Column

_MAX_CHARACTERS = 4096
_ALLOWED = "a condition on features such as \"label != 'unknown' and height >= 64\""
_ORDER: dict[type[ast.cmpop], Callable[[Any, Any], Any]] = {
    ast.Lt: np.less,
    ast.LtE: np.less_equal,
    ast.Gt: np.greater,
    ast.GtE: np.greater_equal,
}
_ARITHMETIC: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: np.add,
    ast.Sub: np.subtract,
    ast.Mult: np.multiply,
    ast.Div: np.true_divide,
    ast.FloorDiv: np.floor_divide,
    ast.Mod: np.mod,
}
_DIVISIONS = (np.true_divide, np.floor_divide, np.mod)
_EXACT = 1 << 53  # integers up to this are the same as float64

Bools = npt.NDArray[np.bool_]
Columns = Mapping[str, Column]


@dataclasses.dataclass(frozen=True)
class Condition:
    """A valid condition; `features` are the names that it uses."""

    text: str
    features: tuple[str, ...]

    def mask(self, columns: Columns, vocabularies: Mapping[str, Sequence[str]]) -> Bools:
        """Return the mask of records for which the condition is true.

        Args:
            columns: the columns of its features; empty without records.
            vocabularies: the class names of features that have a vocabulary.

        Raises:
            ConfigError: a string is compared with a number, or is not a class of the feature.
        """
        try:
            evaluation = _Evaluation(self.text, columns, vocabularies)
            return evaluation.truth(evaluation.value(self._tree))
        except (TypeError, OverflowError) as error:
            raise _not_comparable(self.text, error) from None

    @functools.cached_property
    def _tree(self) -> ast.expr:
        return ast.parse(self.text.strip(), mode="eval").body


def parse_condition(text: object) -> Condition:
    """Parse the value of `where`; raise `ConfigError` if it is not allowed."""
    if not isinstance(text, str) or not text.strip() or len(text) > _MAX_CHARACTERS:
        raise ConfigError.of("where", text, allowed=_ALLOWED)
    evaluation = _Evaluation(text, {}, {})  # without records: checks the grammar only
    try:
        evaluation.value(ast.parse(text.strip(), mode="eval").body)
    except ConfigError:
        raise
    except (SyntaxError, ValueError, RecursionError, MemoryError, OverflowError) as error:
        why = error.msg if isinstance(error, SyntaxError) else type(error).__name__
        raise ConfigError.of("where", text, allowed=f"{_ALLOWED} ({why})") from None
    except TypeError as error:  # a string compared with a length or another number
        raise _not_comparable(text, error) from None
    if not evaluation.features:
        raise ConfigError.of("where", text, allowed=f"{_ALLOWED}, with the name of a feature")
    return Condition(text, tuple(evaluation.features))


def _not_comparable(text: str, error: Exception) -> ConfigError:
    return ConfigError.of("where", text, allowed=f"values that can be compared ({error})")


class _Array(NamedTuple):
    """One value of each record, or of each value of a feature.

    Attributes:
        kind: `number`, `text`, or empty if all values are missing.
        values: int64, float64, or bytes in an array of objects.
        missing: the mask of missing values.
    """

    kind: str
    values: npt.NDArray[Any]
    missing: Bools

    @classmethod
    def of(cls, values: npt.NDArray[Any]) -> "_Array":
        """Return an array without missing values."""
        kind = "text" if values.dtype == object else "number"
        return cls(kind, values, np.zeros(len(values), np.bool_))

    @classmethod
    def nothing(cls, count: int) -> "_Array":
        """Return missing values of no kind."""
        return cls("", np.zeros(count, np.int64), np.ones(count, np.bool_))

    def as_kind(self, kind: str) -> "_Array":
        """Return this array, of another kind if it has no kind yet."""
        if self.kind or kind != "text":
            return self
        return _Array(kind, _repeated(b"", len(self.values)), self.missing)


class _Values(NamedTuple):
    """The values of a feature: `flat` values end to end, and the `counts` of each record."""

    name: str
    flat: _Array
    counts: npt.NDArray[np.int64]

    def single(self) -> _Array:
        """Return the only value of each record, or a missing one."""
        if (self.counts > 1).any():
            raise TypeError(f"feature {self.name!r} has several values, of which are `in` and len")
        if not len(self.flat.values):
            return _Array.nothing(len(self.counts))
        is_there = self.counts == 1
        places = (np.cumsum(self.counts) - self.counts) * is_there
        missing = ~is_there | self.flat.missing[places]
        return _Array(self.flat.kind, self.flat.values[places], missing)


class _Evaluation:
    """An evaluator of allowed nodes, to constants, `_Values`, `_Array` or masks."""

    def __init__(
        self, text: str, columns: Columns, vocabularies: Mapping[str, Sequence[str]]
    ) -> None:
        self._text, self._columns, self._vocabularies = text, columns, vocabularies
        self.features: dict[str, None] = {}  # the features used, in order
        self._count = len(next(iter(columns.values())).counts) if columns else 0

    def value(self, node: ast.expr) -> Any:
        """Evaluate a node of the condition for all records; refuse any other syntax."""
        match node:
            case ast.Name(id=name) | ast.Call(ast.Name("feature"), [ast.Constant(str(name))], []):
                return self._feature(name)
            case ast.Constant() | ast.List() | ast.Tuple():
                return self._constant(node)
            case ast.BoolOp(op, parts):
                masks = [self.truth(self.value(part)) for part in parts]
                return (np.all if isinstance(op, ast.And) else np.any)(masks, axis=0)
            case ast.UnaryOp(ast.Not(), operand):
                return ~self.truth(self.value(operand))
            case ast.UnaryOp(ast.USub(), operand):
                return self._arithmetic(np.subtract, 0, self.value(operand))
            case ast.BinOp(left, op, right) if type(op) in _ARITHMETIC:
                operate = _ARITHMETIC[type(op)]
                return self._arithmetic(operate, self.value(left), self.value(right))
            case ast.Compare(left, tests, others):
                steps = zip([left, *others], tests, others, strict=False)
                return np.all([self._compare(*step) for step in steps], axis=0)
            case ast.Call(ast.Name("len"), [part], []):
                return self._lengths(self.value(part), node)
            case ast.Call(ast.Name("abs"), [part], []):
                return self._arithmetic(_absolute, 0, self.value(part))
            case ast.Call(ast.Name("min" | "max" as name), [_, *_] as parts, []):
                return self._extreme(name, *map(self.value, parts))
        self._refuse(node)

    def truth(self, value: Any) -> Bools:
        if isinstance(value, np.ndarray):
            return value
        (array,) = self._arrays(value)
        if array.kind == "text":
            return (
                np.fromiter(map(bool, array.values), np.bool_, len(array.values)) & ~array.missing
            )
        return np.not_equal(array.values, 0) & ~array.missing

    def _feature(self, name: str) -> _Values:
        self.features[name] = None
        column = self._columns.get(name)
        if column is None or not len(column.values):
            return _Values(name, _Array.nothing(0), np.zeros(self._count, np.int64))
        if column.kind == "string":
            values = np.empty(len(column.values), object)
            values[:] = [bytes(value) for value in column.values.tolist()]
            return _Values(name, _Array.of(values), column.counts)
        flat = column.values.astype(np.float64 if column.kind == "float" else np.int64)
        return _Values(name, _Array.of(flat), column.counts)

    def _constant(self, node: ast.expr) -> Any:
        match node:
            case ast.List(parts) | ast.Tuple(parts):
                return [self._constant(part) for part in parts]
            case ast.UnaryOp(ast.USub(), ast.Constant(int(value) | float(value))):
                return -value
            case ast.Constant(str(value)):
                return value.encode("utf-8", "surrogateescape")
            case ast.Constant(int() | float() | None):
                return node.value
        self._refuse(node)

    def _array(self, value: Any) -> _Array:
        """Return one value per record. Masks, True and False become numbers, as in Python."""
        match value:
            case _Values():
                return value.single()
            case np.ndarray():
                return _Array.of(value.astype(np.int64))
            case _Array():
                return value
            case list():
                raise TypeError("a list is what `in` looks into")
            case None:
                return _Array.nothing(self._count)
            case bytes():
                return _Array.of(_repeated(value, self._count))
        kind = np.float64 if isinstance(value, float) else np.int64
        return _Array.of(np.full(self._count, value, kind))

    def _arrays(self, *values: Any) -> list[_Array]:
        """Convert several values to one kind; those without any value get the others' kind."""
        arrays = [*map(self._array, values)]
        kinds = {array.kind for array in arrays if array.kind}
        if len(kinds) > 1:
            raise TypeError("a string with a number")
        arrays = [array.as_kind(*kinds or [""]) for array in arrays]
        types = {array.values.dtype for array in arrays if not array.missing.all()}
        for array in arrays if len(types) > 1 else ():
            is_large = (array.values > _EXACT) | (array.values < -_EXACT)
            if array.values.dtype == np.int64 and is_large[~array.missing].any():
                raise TypeError(f"an integer above {_EXACT} with a number that has a fraction")
        return arrays

    def _compare(self, left: ast.expr, test: ast.cmpop, right: ast.expr) -> Bools:
        value, other = self._named(left, right), self._named(right, left)
        if type(test) in _ORDER:
            first, second = self._arrays(value, other)
            holds: Bools = _ORDER[type(test)](first.values, second.values)
            return holds & _present(first, second)
        if isinstance(test, ast.In | ast.NotIn):
            is_equal = self._inside(value, other, right)
        elif isinstance(test, ast.Eq | ast.NotEq):
            is_equal = self._equal(value, other)
        else:
            self._refuse(test)
        return ~is_equal if isinstance(test, ast.NotIn | ast.NotEq) else is_equal

    def _equal(self, value: Any, other: Any) -> Bools:
        first, second = self._arrays(value, other)
        are_equal: Bools = np.equal(first.values, second.values) & _present(first, second)
        return are_equal | (first.missing & second.missing)

    def _inside(self, value: Any, among: Any, node: ast.expr) -> Bools:
        """Evaluate `in`: for a list, a substring, or the values of a feature."""
        if isinstance(among, list):
            none = np.zeros(self._count, np.bool_)
            return np.asarray(np.any([none, *(self._equal(value, each) for each in among)], axis=0))
        if not isinstance(among, _Values) or isinstance(value, _Values | _Array | np.ndarray):
            self._refuse(node)
        owners = np.repeat(np.arange(len(among.counts)), among.counts)
        hits = np.zeros(len(owners), np.bool_)
        if value is not None and len(owners):
            if isinstance(value, bytes) != (among.flat.kind == "text"):
                raise TypeError("a string with a number")
            wanted = _repeated(value, len(owners)) if isinstance(value, bytes) else value
            hits = np.equal(among.flat.values, wanted) & ~among.flat.missing
        if isinstance(value, bytes) and len(owners):
            within = np.fromiter(
                (value in text for text in among.flat.values), np.bool_, len(owners)
            )
            hits = np.where(among.counts[owners] == 1, within & ~among.flat.missing, hits)
        return np.bincount(owners[hits], minlength=len(among.counts)) > 0

    def _named(self, node: ast.expr, beside: ast.expr) -> Any:
        """Return one side of a comparison; a class is replaced by its name next to a string."""
        value = self.value(node)
        vocabulary = self._vocabularies.get(value.name) if isinstance(value, _Values) else None
        parts = beside.elts if isinstance(beside, ast.List | ast.Tuple) else [beside]
        texts = [p.value for p in parts if isinstance(p, ast.Constant) and isinstance(p.value, str)]
        if vocabulary is None or not texts:
            return value
        for text in texts:
            if text not in vocabulary:
                allowed = f"classes of {value.name!r}, such as {vocabulary[0]!r}"
                advice = f"There is no {text!r}.{did_you_mean(text, vocabulary)}"
                raise ConfigError.of("where", self._text, allowed=allowed, advice=advice)
        if value.flat.kind == "text":
            return value
        ids = value.flat.values.astype(np.int64)
        is_class = (ids >= 0) & (ids < len(vocabulary))
        names = np.empty(len(vocabulary), object)
        names[:] = [name.encode("utf-8", "surrogateescape") for name in vocabulary]
        return value._replace(flat=_Array("text", names[ids * is_class], ~is_class))

    def _lengths(self, value: Any, node: ast.expr) -> _Array:
        """Return the length of a string, or the number of values: 1 for a number, 0 for None."""
        if not isinstance(value, _Values):
            self._refuse(node)
        if value.flat.kind != "text":
            return _Array.of(value.counts)
        texts = value.flat.values.tolist()
        characters = np.array([len(text.decode(errors="surrogateescape")) for text in texts])
        owners = np.repeat(np.arange(len(value.counts)), value.counts)
        of_single = np.bincount(owners, characters, len(value.counts)).astype(np.int64)
        return _Array.of(np.where(value.counts == 1, of_single, value.counts))

    def _extreme(self, name: str, *values: Any) -> _Array:
        """Return the smallest or largest of some values; a missing one if any is missing."""
        arrays = self._arrays(*values)
        join: Any = np.fmin if name == "min" else np.fmax
        if arrays[0].kind == "text":
            join = np.minimum if name == "min" else np.maximum
        extremes: Any = arrays[0].values
        for array in arrays[1:]:
            extremes = join(extremes, array.values)
        return _Array(arrays[0].kind, extremes, ~_present(*arrays))

    def _arithmetic(self, operate: Callable[[Any, Any], Any], value: Any, other: Any) -> _Array:
        """Apply an operator as Python does; missing if a side is missing or the divisor is 0."""
        arrays = self._arrays(value, other)
        if any(array.kind == "text" for array in arrays):
            raise TypeError("arithmetic with a string")
        missing = ~_present(*arrays)
        left, right = (np.where(array.missing, 0, array.values) for array in arrays)
        if operate in _DIVISIONS:
            missing, right = missing | (right == 0), np.where(right == 0, 1, right)
        with np.errstate(all="ignore"):
            return _Array("number", operate(left, right), missing)

    def _refuse(self, node: ast.AST) -> NoReturn:
        source = ast.get_source_segment(self._text.strip(), node) or type(node).__name__
        advice = f"{source!r} is not allowed in it"
        raise ConfigError.of("where", self._text, allowed=_ALLOWED, advice=advice)


def _present(*arrays: _Array) -> Bools:
    """Return the mask of records that have a value in all arrays."""
    missing: Bools = np.any([array.missing for array in arrays], axis=0)
    return ~missing


def _absolute(zero: Any, values: Any) -> Any:
    """Return the absolute values, as an operator of two arguments."""
    return np.abs(values)


def _repeated(value: bytes, count: int) -> npt.NDArray[Any]:
    """Return an array of objects that are one string of bytes.

    Numpy's own conversion would cut off NUL characters at its end.
    """
    values = np.empty(count, object)
    values.fill(value)
    return values
