"""Which records a report is made of."""

import re

from components.report.page import render_report
from components.report.sample import spread


def test_a_sample_is_spread_over_all():
    assert [spread(*given) for given in ((0, 5), (3, 5), (10, 5), (7, 3))] == [
        [],
        [0, 1, 2],
        [0, 2, 4, 6, 8],
        [0, 2, 4],
    ]


def test_a_table_of_thousands_of_columns_and_long_names_stays_a_page(write_dataset, tmp_path):
    example = {f"{n:04}{'x' * 500}": [n / 7] for n in range(2000)}
    example["text"] = [b"word " * 200_000]
    uri = write_dataset(tmp_path / "dataset", {"train": [[example, example]]}, {})
    page = render_report(uri)
    assert len(page) < 1_000_000
    assert re.search(r"1,881\s+more features", page)
