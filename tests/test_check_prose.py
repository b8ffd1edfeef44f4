"""The wording check finds unusual words, and leaves code alone."""

import pytest

from scripts.check_prose import check_file


def write(folder, name, text):
    path = folder / name
    path.write_text(text)
    return path


def test_words_of_a_page_are_found_by_line(tmp_path):
    page = write(tmp_path, "a.md", "# A page\n\nThe file is\nwritten anew, and so on.\n")
    assert check_file(page) == [(4, "'anew' in a page")]


@pytest.mark.parametrize(
    "text",
    [
        "```python\nanew = 1\n```\n",
        "- a list:\n\n  ```sh\n  mend told\n  ```\n",
        "the name `anew` of a variable\n",
        "[audio](tutorials/sounds.md)\n",
        "<!-- not run: as told -->\n",
    ],
)
def test_code_and_links_of_a_page_are_not_prose(tmp_path, text):
    assert check_file(write(tmp_path, "a.md", text)) == []


def test_docstrings_comments_and_test_names_are_checked(tmp_path):
    source = '"""What is read."""\n\n# written anew\ndef test_it_stands():\n    pass\n'
    findings = check_file(write(tmp_path, "a.py", source))
    assert [line for line, _ in findings] == [1, 1, 3, 4]
