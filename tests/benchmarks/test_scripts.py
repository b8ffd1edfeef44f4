"""Each script of `benchmarks/` belongs to a published figure or to another script."""

import re
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[2]
BENCHMARKS = REPOSITORY / "benchmarks"
PAGES = [REPOSITORY / "README.md", REPOSITORY / "Makefile", *(REPOSITORY / "docs").rglob("*.md")]
DESCRIBED = "\n".join(page.read_text() for page in PAGES)


@pytest.mark.parametrize("path", sorted(BENCHMARKS.glob("*.py")), ids=lambda path: path.stem)
def test_script_is_published_or_used_by_another(path):
    if f"benchmarks/{path.name}" in DESCRIBED:
        return
    others = [other.read_text() for other in BENCHMARKS.rglob("*.py") if other != path]
    used = rf"^\s*(from|import) {path.stem}\b|benchmarks/{path.name}"
    assert any(re.search(used, other, re.MULTILINE) for other in others)


def test_published_scripts_exist():
    names = re.findall(r"(?<!tests/)\bbenchmarks/(\w+\.py)\b", DESCRIBED)
    assert names
    assert not [name for name in names if not (BENCHMARKS / name).is_file()]
