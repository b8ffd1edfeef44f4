"""A condition on the features of a record: a text that is parsed into functions, never evaluated.

    condition = parse_condition("label != 'unknown' and min(height, width) >= 64")
    condition.features                                    # ('label', 'height', 'width')
    condition.bind({"label": ["cat", "unknown"]}).holds({"label": [0], "height": [80], …})

The grammar is a small part of Python's: `and`, `or`, `not`; `==`, `!=`, `<`, `<=`, `>`, `>=`, `in`
and `not in`, chained too; `+`, `-`, `*`, `/`, `//`, `%` of numbers; `len`, `min`, `max`, `abs`;
numbers, texts, `None` and lists of these. A name is a feature, and so is `feature('a/b')`, for
names that are none of Python's. Nothing else is allowed: no attribute, index or other call.

A feature with one value stands for it, with none for None, with several for their list; bytes are
texts. Nothing is larger or smaller than None. A feature with a vocabulary has the names of classes
beside texts, and ids beside numbers.
"""

import ast
import dataclasses
import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn

from trainer_utils.format import ConfigError
from trainer_utils.format.spelling import did_you_mean

__all__ = ["Condition", "parse_condition"]

_MOST_CHARACTERS = 4096
_ALLOWED = "a condition on features such as \"label != 'unknown' and height >= 64\""

_COMPARISONS: dict[type[ast.cmpop], Callable[[Any, Any], bool]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.In: lambda value, among: value in among,
    ast.NotIn: lambda value, among: value not in among,
}
_WITHOUT_ORDER = (ast.Eq, ast.NotEq)
_ARITHMETIC: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}
_FUNCTIONS: dict[str, Callable[..., Any]] = {"len": len, "min": min, "max": max, "abs": abs}
_FEATURE = "feature"

Values = Mapping[str, Sequence[Any]]  # of a record: of each feature its values
_Function = Callable[[Values], Any]
_Vocabularies = Mapping[str, Sequence[str]]


@dataclasses.dataclass(frozen=True)
class Condition:
    """A condition that is well formed."""

    text: str
    features: tuple[str, ...]
    _tree: ast.expr
    _function: _Function

    def bind(self, vocabularies: _Vocabularies) -> "Condition":
        """The condition on the records of a dataset, whose features have classes of these names.

        Raises:
            ConfigError: a text is compared with a feature whose classes do not have it.
        """
        function = _Compiler(self.text, vocabularies).function(self._tree)
        return dataclasses.replace(self, _function=function)

    def holds(self, values: Values) -> bool:
        """Whether it is true of a record.

        Args:
            values: those of its features: integers, floats, or bytes and views of these.

        Raises:
            ConfigError: values are compared that cannot be, such as a text with a number.
        """
        try:
            return bool(self._function(values))
        except (TypeError, ArithmeticError) as error:
            problem = str(error)
        raise ConfigError(
            f"where: expected values that can be compared, got {self.text!r}: {problem}",
            setting="where",
            value=self.text,
        )


def parse_condition(text: object, *, setting: str = "where") -> Condition:
    """Parses a condition.

    Args:
        setting: whose value it is, for the error.

    Raises:
        ConfigError: it is none; the message says what is not allowed.
    """
    if not isinstance(text, str) or not text.strip() or len(text) > _MOST_CHARACTERS:
        raise ConfigError.of(setting, text, allowed=_ALLOWED)
    try:
        tree = ast.parse(text.strip(), mode="eval").body
        compiler = _Compiler(text, {}, setting)
        function = compiler.function(tree)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        if isinstance(error, ConfigError):
            raise
        why = error.msg if isinstance(error, SyntaxError) else type(error).__name__
        raise ConfigError.of(setting, text, allowed=f"{_ALLOWED} ({why})") from None
    if not compiler.features:
        raise ConfigError.of(setting, text, allowed=f"{_ALLOWED}, with the name of a feature")
    return Condition(text, tuple(dict.fromkeys(compiler.features)), tree, function)


class _Compiler:
    """Makes functions of the nodes that are allowed."""

    def __init__(self, text: str, vocabularies: _Vocabularies, setting: str = "where") -> None:
        self._text, self._vocabularies, self._setting = text, vocabularies, setting
        self.features: list[str] = []

    def function(self, node: ast.expr) -> _Function:
        if (name := _feature_of(node)) is not None:
            return self._feature(name)
        if isinstance(node, ast.Constant | ast.List | ast.Tuple):
            value = self._constant(node)
            return lambda values: value
        if isinstance(node, ast.BoolOp):
            parts = [self.function(part) for part in node.values]
            if isinstance(node.op, ast.And):
                return lambda values: all(part(values) for part in parts)
            return lambda values: any(part(values) for part in parts)
        if isinstance(node, ast.UnaryOp):
            return self._unary(node)
        if isinstance(node, ast.BinOp) and type(node.op) in _ARITHMETIC:
            return _arithmetic(
                _ARITHMETIC[type(node.op)], self.function(node.left), self.function(node.right)
            )
        if isinstance(node, ast.Compare):
            return self._compare(node)
        if isinstance(node, ast.Call):
            return self._call(node)
        self._refuse(node)

    def _feature(self, name: str) -> _Function:
        self.features.append(name)
        return lambda values: _value(values.get(name, ()))

    def _constant(self, node: ast.expr) -> Any:
        if isinstance(node, ast.List | ast.Tuple):
            return [self._constant(part) for part in node.elts]
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
            value = self._constant(node.operand)
            if isinstance(value, int | float):
                return -value
        elif isinstance(node, ast.Constant) and isinstance(
            node.value, str | int | float | type(None)
        ):
            return node.value
        self._refuse(node)

    def _unary(self, node: ast.UnaryOp) -> _Function:
        of = self.function(node.operand)
        if isinstance(node.op, ast.Not):
            return lambda values: not of(values)
        if isinstance(node.op, ast.USub):
            return _arithmetic(operator.sub, lambda values: 0, of)
        self._refuse(node)

    def _compare(self, node: ast.Compare) -> _Function:
        sides = [node.left, *node.comparators]
        steps = [
            self._comparison(left, test, right)
            for left, test, right in zip(sides, node.ops, sides[1:], strict=False)
        ]
        return steps[0] if len(steps) == 1 else lambda values: all(s(values) for s in steps)

    def _comparison(self, left: ast.expr, test: ast.cmpop, right: ast.expr) -> _Function:
        if type(test) not in _COMPARISONS:
            self._refuse(test)
        compare = _COMPARISONS[type(test)]
        first, second = self._named(left, right), self._named(right, left)
        allows_none = isinstance(test, _WITHOUT_ORDER)
        is_inside = isinstance(test, ast.In | ast.NotIn)

        def step(values: Values) -> bool:
            one, other = first(values), second(values)
            if is_inside:
                return compare(one, () if other is None else other)
            return (allows_none or (one is not None and other is not None)) and compare(one, other)

        return step

    def _named(self, node: ast.expr, beside: ast.expr) -> _Function:
        """A side of a comparison; of a class beside a text its name."""
        found, name = self.function(node), _feature_of(node)
        vocabulary = self._vocabularies.get(name or "")
        texts = _texts(beside)
        if name is None or vocabulary is None or not texts:
            return found
        for text in texts:
            if text not in vocabulary:
                raise ConfigError.of(
                    self._setting,
                    self._text,
                    allowed=f"classes of {name!r} beside it, such as {vocabulary[0]!r}",
                    advice=f"There is no {text!r}.{did_you_mean(text, vocabulary)}",
                )
        return lambda values: _class_names(found(values), vocabulary)

    def _call(self, node: ast.Call) -> _Function:
        name = node.func.id if isinstance(node.func, ast.Name) else ""
        if name not in _FUNCTIONS or node.keywords or not node.args:
            self._refuse(node)
        function = _FUNCTIONS[name]
        parts = [self.function(part) for part in node.args]
        if name == "len":
            return lambda values: _length(*[part(values) for part in parts])

        def call(values: Values) -> Any:
            given = [part(values) for part in parts]
            return None if None in given else function(*given)

        return call

    def _refuse(self, node: ast.AST) -> NoReturn:
        found = ast.get_source_segment(self._text.strip(), node) or type(node).__name__
        raise ConfigError.of(
            self._setting, self._text, allowed=_ALLOWED, advice=f"{found!r} is not allowed in it"
        )


def _feature_of(node: ast.expr) -> str | None:
    """The feature that a node names, if it does."""
    if isinstance(node, ast.Name):
        return node.id
    is_call = isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
    if not is_call or node.func.id != _FEATURE or node.keywords or len(node.args) != 1:  # type: ignore[attr-defined]
        return None
    (name,) = node.args  # type: ignore[attr-defined]
    is_text = isinstance(name, ast.Constant) and isinstance(name.value, str)
    return name.value if is_text else None


def _texts(node: ast.expr) -> list[str]:
    """The texts that stand in a node by themselves."""
    parts = node.elts if isinstance(node, ast.List | ast.Tuple) else [node]
    return [p.value for p in parts if isinstance(p, ast.Constant) and isinstance(p.value, str)]


def _value(values: Sequence[Any]) -> Any:
    """What a feature stands for."""
    plain = [_plain(value) for value in values]
    return (plain[0] if plain else None) if len(plain) < 2 else plain


def _plain(value: Any) -> Any:
    if isinstance(value, bytes | memoryview):
        return bytes(value).decode(errors="surrogateescape")
    return value


def _class_names(value: Any, vocabulary: Sequence[str]) -> Any:
    if isinstance(value, list):
        return [_class_names(one, vocabulary) for one in value]
    is_class = isinstance(value, int) and 0 <= value < len(vocabulary)
    return vocabulary[value] if is_class else value


def _length(value: Any, *others: Any) -> int:
    if others:
        raise TypeError("len of several values")
    if value is None:
        return 0
    return len(value) if isinstance(value, str | list) else 1


def _arithmetic(operate: Callable[[Any, Any], Any], left: _Function, right: _Function) -> _Function:
    def function(values: Values) -> Any:
        one, other = left(values), right(values)
        if one is None or other is None:
            return None
        if not isinstance(one, int | float) or not isinstance(other, int | float):
            raise TypeError(f"arithmetic with {one if isinstance(other, int | float) else other!r}")
        try:
            return operate(one, other)
        except ZeroDivisionError:
            return None

    return function
