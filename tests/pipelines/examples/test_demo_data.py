"""What the demonstrations start from: real data, the same from the same seed."""

import csv
import hashlib

import pytest
from PIL import Image, UnidentifiedImageError

from pipelines.examples.demo_photos import REGIONS, make_photos
from pipelines.examples.demo_texts import make_texts


def digests(folder):
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in folder.rglob("*.*")
    }


def test_photos_are_those_of_their_seed(tmp_path):
    pytest.importorskip("sklearn")
    for name, seed in (("a", 0), ("again", 0), ("b", 1)):
        make_photos(str(tmp_path / name), seed=seed)
    assert digests(tmp_path / "a") == digests(tmp_path / "again")
    assert digests(tmp_path / "a") != digests(tmp_path / "b")


def test_three_of_the_photos_are_broken(tmp_path):
    pytest.importorskip("sklearn")
    make_photos(str(tmp_path / "photos"))
    good, broken = [], []
    for path in (tmp_path / "photos").rglob("*.*"):
        try:
            Image.open(path).load()
            good.append(path)
        except (UnidentifiedImageError, OSError):
            broken.append(path.name)
    assert sorted(broken) == ["empty.jpg", "notes.jpg", "truncated.jpg"]
    assert len(good) == 600
    assert {path.parent.name for path in good} == set(REGIONS)


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
