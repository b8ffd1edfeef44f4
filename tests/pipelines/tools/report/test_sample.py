"""Which records a report is made of."""

import io
import re

import pytest
from PIL import Image

from pipelines.tools.records import ExampleReader
from pipelines.tools.report import render_report
from pipelines.tools.report.sample import draw_sample, spread


@pytest.mark.parametrize(
    ("count", "most", "expected"),
    [(0, 5, []), (3, 5, [0, 1, 2]), (10, 5, [0, 2, 4, 6, 8]), (7, 3, [0, 2, 4])],
)
def test_a_sample_is_spread_over_all(count, most, expected):
    assert spread(count, most) == expected


def png(colour: tuple[int, int, int]) -> bytes:
    stream = io.BytesIO()
    Image.new("RGB", (8, 4), colour).save(stream, "PNG")
    return stream.getvalue()


def test_colours_are_those_of_the_pixels(write_dataset, tmp_path):
    examples = [{"image": [png((10, 20, 30))]}, {"image": [png((30, 40, 250))]}]
    uri = write_dataset(tmp_path / "dataset", {"train": [examples]}, {})
    found = draw_sample(ExampleReader(uri), most_records=9).features["image"].statistics
    means = {one.name: one.mean for one in found}
    assert {name: means[name] for name in ("red", "green", "blue")} == {
        "red": 20.0,
        "green": 30.0,
        "blue": 140.0,
    }
    assert means["aspect (width / height)"] == 2


def test_a_table_of_thousands_of_columns_and_long_names_stays_a_page(write_dataset, tmp_path):
    example = {f"{n:04}{'x' * 500}": [n / 7] for n in range(2000)}
    example["text"] = [b"word " * 200_000]
    uri = write_dataset(tmp_path / "dataset", {"train": [[example, example]]}, {})
    page = render_report(uri)
    assert len(page) < 1_000_000
    assert re.search(r"1,881\s+more features", page)
