"""Examples in docstrings are calls that their functions take, and attributes that results have."""

import ast
import builtins
import dataclasses
import importlib
import inspect
import re
import textwrap
import types
import typing
from collections.abc import Iterator
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[2]
PACKAGES = ("trainer_utils", "components", "pipelines")
UNKNOWN = object()


def modules() -> list[str]:
    paths = [p for package in PACKAGES for p in sorted((REPOSITORY / package).rglob("*.py"))]
    names = [".".join(p.relative_to(REPOSITORY).with_suffix("").parts) for p in paths]
    return [name.removesuffix(".__init__") for name in names if not name.endswith("__main__")]


def examples(docstring: str) -> Iterator[ast.Module]:
    """Paragraphs of a docstring that are Python with a call in it."""
    _summary, _, rest = docstring.partition("\n")
    for paragraph in re.split(r"\n\s*\n", textwrap.dedent(rest)):
        code = textwrap.dedent(paragraph.replace("\n    \n", "\n\n")).strip("\n")
        code = re.sub(r"(?<=[(\[{ ])…(?=[)\]}, ])", "...", code)
        try:
            tree = ast.parse(code)
        except SyntaxError:
            continue
        if any(isinstance(node, ast.Call) for node in ast.walk(tree)):
            yield tree


def docstrings(module: types.ModuleType) -> Iterator[tuple[str, str]]:
    tree = ast.parse(inspect.getsource(module))
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef):
            text = ast.get_docstring(node, clean=True)
            if text:
                yield getattr(node, "name", module.__name__), text


class Checker(ast.NodeVisitor):
    """Walks an example in a module's namespace; `problems` are its untrue calls and attributes."""

    def __init__(self, namespace: dict[str, object]) -> None:
        self.values = {**vars(builtins), **namespace}
        self.types: dict[str, object] = {}
        self.problems: list[str] = []

    def value_of(self, node: ast.expr) -> object:
        """The object that a name or dotted name means; UNKNOWN for what the example makes."""
        if isinstance(node, ast.Name):
            return UNKNOWN if node.id in self.types else self.values.get(node.id, UNKNOWN)
        if isinstance(node, ast.Attribute):
            owner = self.value_of(node.value)
            if isinstance(owner, types.ModuleType | type):
                found = getattr(owner, node.attr, UNKNOWN)
                if found is UNKNOWN and node.attr not in _fields(owner):
                    self.problems.append(f"{ast.unparse(node)}: there is no such name")
                return found
            kind = self.type_of(node.value)
            return getattr(kind, node.attr, UNKNOWN) if isinstance(kind, type) else UNKNOWN
        return UNKNOWN

    def type_of(self, node: ast.expr) -> object:
        """The class of what an expression gives; UNKNOWN where annotations do not say."""
        if isinstance(node, ast.Name):
            return self.types.get(node.id, UNKNOWN)
        if isinstance(node, ast.Call):
            target = self.value_of(node.func)
            if isinstance(target, type):
                return target
            try:
                returned = typing.get_type_hints(target).get("return", UNKNOWN)
            except (TypeError, NameError, AttributeError):
                return UNKNOWN
            return returned if isinstance(returned, type) else UNKNOWN
        return UNKNOWN

    def visit_Assign(self, node: ast.Assign) -> None:
        self.visit(node.value)
        kind = self.type_of(node.value)
        for target in node.targets:
            for name in ast.walk(target):
                if isinstance(name, ast.Name):
                    self.types[name.id] = kind if name is target else UNKNOWN

    def visit_For(self, node: ast.For) -> None:
        self.visit(node.iter)
        self._forget(node.target)
        for statement in node.body:
            self.visit(statement)

    def visit_With(self, node: ast.With) -> None:
        for item in node.items:
            self.visit(item.context_expr)
            if item.optional_vars is not None:
                self._forget(item.optional_vars)
        for statement in node.body:
            self.visit(statement)

    def visit_Import(self, node: ast.Import) -> None:
        for name in node.names:
            self.values[name.asname or name.name] = importlib.import_module(name.name)

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        module = importlib.import_module(node.module or "")
        for name in node.names:
            if not hasattr(module, name.name):
                self.problems.append(f"{node.module}.{name.name}: there is no such name")
            self.values[name.asname or name.name] = getattr(module, name.name, UNKNOWN)

    def visit_Attribute(self, node: ast.Attribute) -> None:
        kind = self.type_of(node.value)
        known = isinstance(kind, type) and kind.__module__.split(".")[0] in PACKAGES
        if known and not hasattr(kind, node.attr) and node.attr not in _fields(kind):
            self.problems.append(f"{ast.unparse(node)}: {kind.__name__} has no {node.attr}")
        self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> None:
        target = self.value_of(node.func)
        method = isinstance(node.func, ast.Attribute) and isinstance(
            self.type_of(node.func.value), type
        )
        if callable(target) and getattr(target, "__module__", "").split(".")[0] in PACKAGES:
            self._bind(node, target, takes_self=method and inspect.isfunction(target))
        self.generic_visit(node)

    def _bind(self, node: ast.Call, target: object, *, takes_self: bool) -> None:
        stars = [a for a in node.args if isinstance(a, ast.Starred)]
        shortened = [a for a in node.args if isinstance(a, ast.Constant) and a.value is ...]
        if stars or any(k.arg is None for k in node.keywords):
            return
        try:
            signature = inspect.signature(target)  # type: ignore[arg-type]
        except (TypeError, ValueError):
            return
        places = [None] * (len(node.args) + takes_self - len(shortened))
        names = {k.arg: None for k in node.keywords if k.arg}
        bind = signature.bind_partial if shortened else signature.bind
        try:
            bind(*places, **names)
        except TypeError as error:
            self.problems.append(f"{ast.unparse(node)}: {error} in {signature}")

    def _forget(self, target: ast.expr) -> None:
        for name in ast.walk(target):
            if isinstance(name, ast.Name):
                self.types[name.id] = UNKNOWN


def _fields(kind: object) -> set[str]:
    """What instances have that the class does not: annotated and assigned in its methods."""
    bases = getattr(kind, "__mro__", ())
    names = {name for base in bases for name in inspect.get_annotations(base)}
    for base in bases:
        if base.__module__.split(".")[0] in PACKAGES:
            names.update(re.findall(r"self\.(\w+)(?=[^=\n]* = )", inspect.getsource(base)))
    return names


def problems_of(text: str, namespace: dict[str, object]) -> list[str]:
    found = []
    for tree in examples(text):
        checker = Checker(namespace)
        checker.visit(tree)
        found += checker.problems
    return found


@pytest.mark.parametrize("name", modules())
def test_examples_are_true(name):
    module = importlib.import_module(name)
    found = {
        owner: problems
        for owner, text in docstrings(module)
        if (problems := problems_of(text, vars(module)))
    }
    assert not found


@dataclasses.dataclass
class Result:
    size: int


def make(path: str, *, deep: bool = False) -> Result:
    return Result(len(path) + deep)


@pytest.mark.parametrize(
    ("example", "problem"),
    [
        ("result = make('a')\nresult.size", None),
        ("make(...)", None),
        ("make('a', 'b')", "too many positional"),
        ("make('a', shallow=True)", "unexpected keyword"),
        ("make()", "missing a required"),
        ("result = make('a')\nresult.length", "has no length"),
        ("from trainer_utils import no_such_name\nprint(no_such_name)", "no such name"),
    ],
)
def test_untrue_examples_are_found(example, problem, monkeypatch):
    monkeypatch.setattr(make, "__module__", "trainer_utils")
    monkeypatch.setattr(Result, "__module__", "trainer_utils")
    monkeypatch.setattr(inspect, "getsource", lambda _: "class Result: ...")
    found = problems_of(f"Summary.\n\n{example}\n", {"make": make})
    assert [problem in text for text in found] == ([] if problem is None else [True])
