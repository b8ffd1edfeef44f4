"""The page of `diff`: both sides of each change; hostile data stays text."""

import io
import re

import pytest
from click.testing import CliRunner
from PIL import Image

from pipelines.cli.app import app
from tests.pipelines.tools.report.test_page import HOSTILE, Page


def jpeg(pixels) -> bytes:
    stream = io.BytesIO()
    Image.fromarray(pixels).save(stream, "JPEG")
    return stream.getvalue()


@pytest.fixture
def show(photos, write_dataset, tmp_path):
    def example(name, photo, label):
        return {"filename": [name.encode()], "image": [jpeg(photos[photo])], "label": [label]}

    def show(before, after, *arguments) -> Page:
        uris = [
            write_dataset(
                tmp_path / side,
                {
                    split: [[example(*record) for record in records]]
                    for split, records in of.items()
                },
                {},
            )
            for side, of in (("before", before), ("after", after))
        ]
        path = tmp_path / "diff.html"
        result = CliRunner().invoke(app, ["diff", *uris, "-o", str(path), *arguments])
        assert result.exit_code == 0, result.output
        return Page(path.read_text())

    return show


def test_each_change_has_the_pictures_of_its_sides(show):
    page = show(
        {"train": [("same", 0, 1), ("gone", 1, 1), ("moves", 2, 1), ("other", 3, 1)], "eval": []},
        {"train": [("same", 0, 1), ("new", 4, 1), ("other", 5, 8)], "eval": [("moves", 2, 1)]},
    )
    alts = [img["alt"] for img in page.all("img")]
    assert alts == [
        "after: new", "before: gone", "before: other", "after: other",
        "before: moves", "after: moves",
    ]  # fmt: skip
    sources = dict(zip(alts, (img["src"] for img in page.all("img")), strict=True))
    assert sources["before: moves"] == sources["after: moves"]
    assert sources["before: other"] != sources["after: other"]
    text = re.sub(r"\s+", " ", page.text)
    assert "label18" in re.sub(" ", "", text[text.index("Values that differ") :])


def test_as_many_are_shown_as_are_listed(show):
    page = show(
        {"train": []}, {"train": [(f"{n}", n, n) for n in range(5)]}, "--most", "2", "--json"
    )
    assert [img["alt"] for img in page.all("img")] == ["after: 0", "after: 1"]
    assert "added: 5 records, the first 2" in page.text


def test_nothing_of_hostile_data_becomes_markup(show):
    page = show({"train": [(HOSTILE, 0, 1), ("gone", 0, 0)]}, {"train": [(HOSTILE, 1, 2)]})
    assert not page.all("script")
    assert all(img["src"].startswith("data:image/jpeg;base64,") for img in page.all("img"))
    assert not [name for _, found in page.elements for name in found if name.startswith("on")]
    assert "<script>alert(1)</script>" in page.text  # as text
    assert "{{7*7}}" in page.text
    assert not set("\x1b\u202e") & set(page.text)
    (policy,) = [m for m in page.all("meta") if "http-equiv" in m]
    assert policy["content"].startswith("default-src 'none'; ")
    assert "script" not in policy["content"]


def test_equal_datasets_make_a_page_that_says_so(show):
    same = {"train": [("a", 0, 1)]}
    assert "Both hold the same records" in show(same, same).text
