"""Modules that docstrings and documents name in backticks exist."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[2]
PACKAGES = ("trainer_utils", "components", "pipelines")
CODE = (*PACKAGES, "tests", "scripts", "benchmarks")
SOURCES = sorted(path for folder in CODE for path in (REPOSITORY / folder).rglob("*.py"))
TEXTS = {path: path.read_text() for path in SOURCES}
FILES = {f"/{path.relative_to(REPOSITORY)}" for path in SOURCES}
DOCUMENTS = sorted([*(REPOSITORY / "docs").rglob("*.md"), *REPOSITORY.glob("*.md")])
OLD = {"CHANGELOG.md"}  # it names modules of earlier versions

DOTTED = re.compile(rf"`((?:{'|'.join(PACKAGES)})(?:\.\w+)+)")
FILE = re.compile(rf"`((?:(?:{'|'.join(PACKAGES)})/(?:\w+/)*)?\w+\.py)`")
SIBLING = re.compile(r"`([a-z]\w*)`")


def exists(dotted: str) -> bool:
    """Return whether a name is a module, or a word in the module that it is an attribute of."""
    folder, names = REPOSITORY, dotted.split(".")
    while names and (folder / names[0]).is_dir():
        folder /= names.pop(0)
    if names and (folder / f"{names[0]}.py").is_file():
        module = folder / f"{names.pop(0)}.py"
    else:
        module = folder / "__init__.py"
    return not names or re.search(rf"\b{names[0]}\b", TEXTS.get(module, "")) is not None


def docstrings(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(TEXTS[path])):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef)):
            yield ast.get_docstring(node) or ""


def missing(text: str, *, with_files: bool) -> list[str]:
    names = [name for name in DOTTED.findall(text) if not exists(name)]
    files = FILE.findall(text) if with_files else []
    return names + [name for name in files if not any(f.endswith(f"/{name}") for f in FILES)]


def test_modules_named_in_docstrings_exist():
    assert not {
        str(path): names
        for path in SOURCES
        for text in docstrings(path)
        if (names := missing(text, with_files=True))
    }


def test_modules_named_in_documents_exist():
    assert not {
        path.name: names
        for path in DOCUMENTS
        if path.name not in OLD and (names := missing(path.read_text(), with_files=False))
    }


@pytest.mark.parametrize("package", PACKAGES)
def test_names_in_docstrings_of_packages_exist(package):
    found = {}
    for path in (REPOSITORY / package).rglob("__init__.py"):
        docstring = ast.get_docstring(ast.parse(TEXTS[path])) or ""
        modules = {one.stem for one in path.parent.iterdir()}
        code = "\n".join(TEXTS[one].replace(docstring, "") for one in path.parent.glob("*.py"))
        names = [name for name in SIBLING.findall(docstring) if name not in modules]
        found[str(path)] = [name for name in names if not re.search(rf"\b{name}\b", code)]
    assert not {path: names for path, names in found.items() if names}


def test_a_module_that_is_gone_is_found():
    assert missing("`trainer_utils.planning` and `components/old.py`", with_files=True) == [
        "trainer_utils.planning",
        "components/old.py",
    ]
    assert not missing("`trainer_utils.reading.batches.Batches`, `batches.py`", with_files=True)
