"""Copies of images share a split, whatever they are called."""

import collections
import json
import random
from pathlib import Path

import numpy as np
import pytest

from components.example_gen.near_duplicates import find_near_duplicates
from tests.components.example_gen.listings import listing, plan
from tests.components.image_example_gen import image_runs
from tests.trainer_utils.auditing.pictures import copies_of, cut_tiles, jpeg
from trainer_utils.format import ConfigError


@pytest.fixture(scope="module")
def pictures(tmp_path_factory) -> Path:
    """Twelve photos and their copies, by names that say nothing; `owners.json` beside them."""
    base = tmp_path_factory.mktemp("pictures") / "in"
    noise, names = np.random.default_rng(0), random.Random(0)
    files, owners = {}, {}
    for owner, tile in enumerate(cut_tiles(213)):
        for data in (jpeg(tile), *(data for _, data in copies_of(tile, noise))):
            name = f"{names.choice(['cat', 'dog'])}/{names.randrange(10**9):09d}.jpg"
            files[name], owners[name] = data, owner
    image_runs.write_tree(base, files)
    (base.parent / "owners.json").write_text(json.dumps(owners))
    (base / "cat/broken.jpg").write_bytes(files[min(files)][:200])
    return base


def test_copies_share_a_split(pictures, tmp_path):
    owners = json.loads((pictures.parent / "owners.json").read_text())
    splits = {
        split: [image_runs.value(example, "filename").decode() for example in examples]
        for split, examples in _converted(pictures, tmp_path / "out").items()
    }
    assert sum(map(len, splits.values())) == len(owners)
    assert all(splits.values())
    counts = {split: collections.Counter(map(owners.get, names)) for split, names in splits.items()}
    apart = sum(min(count[owner] for count in counts.values()) for owner in range(12))
    assert apart <= 0.01 * len(owners)


def _converted(base: Path, uri: Path) -> dict:
    image_runs.convert(base, uri, group_by="near_duplicates", max_reject_fraction=0.1)
    assert "cat/broken.jpg" in (uri / "rejects.jsonl").read_text()
    return image_runs.read(uri)


def test_groups_do_not_depend_on_the_order_of_the_listing(tmp_path):
    from components.common.listing import Blob, BlobColumn, Entry, Listing

    tiles = cut_tiles(213)[:3]
    noise = np.random.default_rng(1)
    entries = []
    for number, data in enumerate(d for tile in tiles for _, d in copies_of(tile, noise)):
        (tmp_path / f"{number}.jpg").write_bytes(data)
        entries.append(Entry(f"{number}.jpg", None, (Blob(f"{number}.jpg", len(data)),)))
    found = []
    for some in (entries, entries[::-1]):
        given = Listing(entries=tuple(some), blobs=(BlobColumn("image", "image"),))
        found.append(find_near_duplicates(given, base=str(tmp_path), image_roots=()))
    assert found[0] == found[1]
    assert len(set(found[0].values())) == 3


def test_inputs_without_images_have_no_copies():
    with pytest.raises(ConfigError, match="group_by: expected one of filename"):
        plan(listing(["a", "b"]), group_by="near_duplicates")
