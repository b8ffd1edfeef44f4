"""What is made from the declared settings: tables of the docs, and stubs for editors."""

import ast
import importlib.util
import inspect

import pytest

from tests.docs.markdown import REPOSITORY

pytest.importorskip("tfx", reason="the stubs have the signatures of the components")
import components
import trainer_utils
from trainer_utils.format.settings import settings_of

SCRIPT = REPOSITORY / "scripts/write_settings.py"


@pytest.fixture(scope="module")
def script():
    spec = importlib.util.spec_from_file_location("write_settings", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_each_file_is_what_make_settings_writes(script):
    for path, text in script.written_files().items():
        assert path.read_text() == text, f"{path.name}: make settings writes it anew"


def test_each_setting_stands_in_a_table_of_the_docs(script):
    pages = "".join(page.read_text() for page in (REPOSITORY / "docs").glob("*.md"))
    for name, settings in script.DECLARED.items():
        start = pages.index(f"<!-- settings: {name} -->")
        table = pages[start : pages.index("<!-- end of settings -->", start)]
        rows = [line.split(" | ") for line in table.splitlines() if line.startswith("| `")]
        assert [row[0] for row in rows] == [f"| `{one}`" for one in settings_of(settings)]
        assert all(len(row) == 3 for row in rows)


def test_help_has_every_setting_of_the_input():
    for options in (trainer_utils.InputOptions, trainer_utils.ImageOptions):
        for name in inspect.signature(options).parameters:
            assert f"\n    {name}: " in inspect.getdoc(options), name
    assert "\n\nRaises:\n" in inspect.getdoc(trainer_utils.InputOptions)


def stubs(path):
    """The functions of a stub by name, as a parser of Python alone sees them."""
    for node in ast.parse((REPOSITORY / path).read_text()).body:
        if isinstance(node, ast.ClassDef):
            yield node.name, next(part for part in node.body if isinstance(part, ast.FunctionDef))
        elif isinstance(node, ast.FunctionDef):
            yield node.name, node


def defaults_of(node):
    """Literal defaults by name."""
    arguments = node.args
    given = zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
    return {one.arg: ast.literal_eval(default) for one, default in given if default is not None}


def test_editors_see_every_argument_with_its_default_and_sentence():
    found = dict(stubs("components/__init__.pyi"))
    assert [*found] == components.__all__
    for name, node in found.items():
        constructor = getattr(components, name).__init__
        parameters = inspect.signature(constructor).parameters
        named = [one.arg for one in [*node.args.args, *node.args.kwonlyargs]]
        assert named == [*parameters]
        with_defaults = {n: p.default for n, p in parameters.items() if p.default is not p.empty}
        assert defaults_of(node) == with_defaults
        assert ast.get_docstring(node) == inspect.getdoc(constructor)
        for argument in parameters.keys() - {"self"}:
            assert f"\n    {argument}: " in inspect.getdoc(constructor), (name, argument)
