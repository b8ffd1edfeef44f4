"""The texts of the demo are those of their seed."""

import csv

from pipelines.examples.demo_texts import make_texts


def test_texts_are_those_of_their_seed_with_three_bad_rows(tmp_path):
    for name, seed in (("a", 0), ("again", 0), ("b", 1)):
        make_texts(str(tmp_path / name), most=20, seed=seed)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "again").read_bytes()
    assert (tmp_path / "a").read_bytes() != (tmp_path / "b").read_bytes()
    text = (tmp_path / "a").read_text(errors="surrogateescape")
    *rows, short, not_utf8, no_label = list(csv.DictReader(text.splitlines(keepends=True)))
    assert {row["label"] for row in rows} == {"python", "numpy", "licence", "readme"}
    assert all(int(row["words"]) == len(row["text"].split()) for row in rows)
    assert short["label"] is None
    assert "\udcff" in not_utf8["text"]
    assert no_label["label"] == ""
