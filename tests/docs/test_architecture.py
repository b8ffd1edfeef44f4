"""ARCHITECTURE.md names existing files and all packages."""

import re
from pathlib import Path

REPOSITORY = Path(__file__).parents[2]
TEXT = (REPOSITORY / "ARCHITECTURE.md").read_text()
PACKAGES = ("trainer_utils", "components", "pipelines")
FILES = {
    str(path.relative_to(REPOSITORY))
    for name in PACKAGES
    for path in (REPOSITORY / name).rglob("*.py")
}


def expand(name: str) -> list[str]:
    """Expand `a/{b,c}/` to `a/b/` and `a/c/`."""
    head, brace, rest = name.partition("{")
    inner, _, tail = rest.partition("}")
    return [head + one.strip() + tail for one in inner.split(",")] if brace else [name]


def test_every_named_file_exists():
    names = set(re.findall(r"`([\w/]+\.py)`", TEXT))
    assert not [n for n in names if not any(f"/{path}".endswith(f"/{n}") for path in FILES)]


def test_every_package_is_named():
    rows = re.findall(r"^\| (`.*) \|", TEXT.partition("## The packages")[2], re.MULTILINE)
    folders = [part.strip() for row in rows for part in re.split(r"`, `|`", row) if part.strip()]
    named: set[str] = set()
    for folder in (path for row in folders for path in expand(row)):
        roots = ("", *(f"{package}/" for package in PACKAGES))  # paths may omit the package
        named |= {f"{root}{folder}".rstrip("/") for root in roots}
    subpackages = {
        str(path.parent.relative_to(REPOSITORY))
        for package in PACKAGES
        for path in (REPOSITORY / package).glob("*/__init__.py")
    }
    assert subpackages
    assert not subpackages - named
