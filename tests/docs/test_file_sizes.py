"""Files of tests are of a readable size."""

from tests.docs.markdown import REPOSITORY

MOST_LINES = 600


def test_files_of_tests_are_of_a_readable_size():
    long = {
        str(path.relative_to(REPOSITORY)): lines
        for path in sorted((REPOSITORY / "tests").rglob("*.py"))
        if (lines := len(path.read_text().splitlines())) > MOST_LINES
    }
    assert not long
