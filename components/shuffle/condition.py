"""Evaluate a condition on features with Arrow, for many records at once, never as code.

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
import pyarrow as pa
import pyarrow.compute as pc

from trainer_utils.core.errors import ConfigError, did_you_mean
from trainer_utils.format.example_columns import Column
from trainer_utils.storage.host_errors import is_host_error
from trainer_utils.storage.paths import encode_path

_MAX_CHARACTERS = 4096
_ALLOWED = "a condition on features such as \"label != 'unknown' and height >= 64\""
_ORDER: dict[type[ast.cmpop], Callable[[Any, Any], Any]] = {
    ast.Lt: pc.less,
    ast.LtE: pc.less_equal,
    ast.Gt: pc.greater,
    ast.GtE: pc.greater_equal,
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
        except (pa.ArrowException, TypeError, OverflowError) as error:
            if is_host_error(error):
                raise
            allowed = f"values that can be compared ({error})"
            raise ConfigError.of("where", self.text, allowed=allowed) from None

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
    except (pa.ArrowException, TypeError):
        pass  # a string compared with a number: raised again with records
    if not evaluation.features:
        raise ConfigError.of("where", text, allowed=f"{_ALLOWED}, with the name of a feature")
    return Condition(text, tuple(evaluation.features))


class _Values(NamedTuple):
    """The values of a feature: `flat` values end to end, and the `counts` of each record."""

    name: str
    flat: pa.Array
    counts: npt.NDArray[np.int64]

    def single(self) -> pa.Array:
        """Return the only value of each record, or null."""
        if (self.counts > 1).any():
            raise TypeError(f"feature {self.name!r} has several values, of which are `in` and len")
        starts = np.cumsum(self.counts) - self.counts
        return self.flat.take(pa.array(starts, mask=self.counts == 0))


class _Evaluation:
    """An evaluator of allowed nodes, to constants, `_Values`, Arrow arrays or masks."""

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
                return pc.abs(*self._arrays(self.value(part)))
            case ast.Call(ast.Name("min" | "max" as name), [_, *_] as parts, []):
                join = pc.min_element_wise if name == "min" else pc.max_element_wise
                return join(*self._arrays(*map(self.value, parts)), skip_nulls=False)
        self._refuse(node)

    def truth(self, value: Any) -> Bools:
        if isinstance(value, np.ndarray):
            return value
        (array,) = self._arrays(value)
        if _is_text(array):
            array = pc.binary_length(array)
        return _filled(pc.not_equal(array, 0))

    def _feature(self, name: str) -> _Values:
        self.features[name] = None
        column = self._columns.get(name)
        if column is None or not len(column.values):
            return _Values(name, pa.nulls(0), np.zeros(self._count, np.int64))
        if column.kind == "string":
            return _Values(name, pa.array(column.values.tolist(), pa.binary()), column.counts)
        flat = column.values.astype(np.float64 if column.kind == "float" else np.int64)
        return _Values(name, pa.array(flat), column.counts)

    def _constant(self, node: ast.expr) -> Any:
        match node:
            case ast.List(parts) | ast.Tuple(parts):
                return [self._constant(part) for part in parts]
            case ast.UnaryOp(ast.USub(), ast.Constant(int(value) | float(value))):
                return -value
            case ast.Constant(str(value)):
                return encode_path(value)
            case ast.Constant(int() | float() | None):
                return node.value
        self._refuse(node)

    def _array(self, value: Any) -> pa.Array:
        """Return one value per record. Masks, True and False become numbers, as in Python."""
        match value:
            case _Values():
                return value.single()
            case np.ndarray():
                return pa.array(value.astype(np.int64))
            case pa.Array():
                return value
            case list():
                raise TypeError("a list is what `in` looks into")
        return pa.array([int(value) if isinstance(value, bool) else value] * self._count)

    def _arrays(self, *values: Any) -> list[pa.Array]:
        """Convert several values; one without any value gets the type of the others."""
        arrays = [*map(self._array, values)]
        kinds = (array.type for array in arrays if not pa.types.is_null(array.type))
        kind = next(kinds, pa.int64())
        return [array.cast(kind) if pa.types.is_null(array.type) else array for array in arrays]

    def _compare(self, left: ast.expr, test: ast.cmpop, right: ast.expr) -> Bools:
        value, other = self._named(left, right), self._named(right, left)
        if type(test) in _ORDER:
            return _filled(_ORDER[type(test)](*self._arrays(value, other)))
        if isinstance(test, ast.In | ast.NotIn):
            is_equal = self._inside(value, other, right)
        elif isinstance(test, ast.Eq | ast.NotEq):
            is_equal = self._equal(value, other)
        else:
            self._refuse(test)
        return ~is_equal if isinstance(test, ast.NotIn | ast.NotEq) else is_equal

    def _equal(self, value: Any, other: Any) -> Bools:
        first, second = self._arrays(value, other)
        both_missing: Bools = _filled(first.is_null()) & _filled(second.is_null())
        return _filled(pc.equal(first, second)) | both_missing

    def _inside(self, value: Any, among: Any, node: ast.expr) -> Bools:
        """Evaluate `in`: for a list, a substring, or the values of a feature."""
        if isinstance(among, list):
            none = np.zeros(self._count, np.bool_)
            return np.asarray(np.any([none, *(self._equal(value, each) for each in among)], axis=0))
        if not isinstance(among, _Values) or isinstance(value, _Values | pa.Array | np.ndarray):
            self._refuse(node)
        owners = np.repeat(np.arange(len(among.counts)), among.counts)
        hits = _filled(pc.equal(among.flat, pa.scalar(value))) if len(among.flat) else owners > 0
        if _is_text(among.flat):
            within = _filled(pc.match_substring(among.flat, value))
            hits = np.where(among.counts[owners] == 1, within, hits)
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
        ids = np.array(value.flat.to_pylist(), np.int64)
        is_class = (ids >= 0) & (ids < len(vocabulary))
        names = pa.array([name.encode() for name in vocabulary], pa.binary())
        return value._replace(flat=names.take(pa.array(ids, mask=~is_class)))

    def _lengths(self, value: Any, node: ast.expr) -> pa.Array:
        """Return the length of a string, or the number of values: 1 for a number, 0 for None."""
        if not isinstance(value, _Values):
            self._refuse(node)
        if not _is_text(value.flat):
            return pa.array(value.counts)
        texts = value.flat.to_pylist()
        characters = np.array([len(text.decode(errors="surrogateescape")) for text in texts])
        owners = np.repeat(np.arange(len(value.counts)), value.counts)
        of_single = np.bincount(owners, characters, len(value.counts)).astype(np.int64)
        return pa.array(np.where(value.counts == 1, of_single, value.counts))

    def _arithmetic(self, operate: Callable[[Any, Any], Any], value: Any, other: Any) -> pa.Array:
        """Apply an operator as Python does; null if a side is missing or the divisor is 0."""
        arrays = self._arrays(value, other)
        if any(map(_is_text, arrays)):
            raise TypeError("arithmetic with a string")
        missing = np.any([_filled(array.is_null()) for array in arrays], axis=0)
        left, right = (array.fill_null(0).to_numpy(zero_copy_only=False) for array in arrays)
        if operate in _DIVISIONS:
            missing, right = missing | (right == 0), np.where(right == 0, 1, right)
        with np.errstate(all="ignore"):
            return pa.array(operate(left, right), mask=missing, from_pandas=False)

    def _refuse(self, node: ast.AST) -> NoReturn:
        source = ast.get_source_segment(self._text.strip(), node) or type(node).__name__
        advice = f"{source!r} is not allowed in it"
        raise ConfigError.of("where", self._text, allowed=_ALLOWED, advice=advice)


def _filled(array: Any) -> Bools:
    """Replace null with false."""
    return np.asarray(array.fill_null(False).to_numpy(zero_copy_only=False), np.bool_)


def _is_text(array: pa.Array) -> bool:
    return bool(pa.types.is_binary(array.type))
