"""The photos of the demo are those of their seed."""

import hashlib

import pytest
from PIL import Image, UnidentifiedImageError

from pipelines.examples.demo_photos import REGIONS, make_photos


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
