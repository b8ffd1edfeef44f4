"""The mutations of `scripts/mutate.py` still apply to the code."""

import runpy
from pathlib import Path

REPOSITORY = Path(__file__).parents[1]


def test_each_mutation_has_one_place_and_its_tests():
    mutations = runpy.run_path(str(REPOSITORY / "scripts/mutate.py"))["MUTATIONS"]
    stale = []
    for mutation in mutations:
        path = REPOSITORY / mutation.file
        count = path.read_text().count(mutation.old) if path.is_file() else 0
        missing = [test for test in mutation.tests.split() if not find_test(test)]
        if count != 1 or missing:
            stale.append((mutation.file, mutation.old, count, missing))
    assert not stale


def find_test(name: str) -> bool:
    """Return whether a file, folder or test of a file exists."""
    return (REPOSITORY / name.partition("::")[0]).exists()
