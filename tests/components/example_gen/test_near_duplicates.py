"""Test that copies of images, texts and clips share a split, independent of their names."""

import collections
import csv
import itertools
import json
import random
from pathlib import Path

import pytest

from components.example_gen.near_duplicates import find_similar_texts
from tests.components.audio_example_gen import audio_runs
from tests.components.auditing.pictures import copies_of, cut_tiles, jpeg
from tests.components.auditing.prose import altered, paragraphs
from tests.components.image_example_gen import image_runs
from tests.make import wav


@pytest.fixture(scope="module")
def pictures(tmp_path_factory) -> Path:
    """Write twelve photos and their copies under random names, with `owners.json` next to them."""
    base = tmp_path_factory.mktemp("pictures") / "in"
    names = random.Random(0)
    files, owners = {}, {}
    for owner, tile in enumerate(cut_tiles(213)):
        for data in (jpeg(tile), *(data for _, data in copies_of(tile))):
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


@pytest.fixture(scope="module")
def texts() -> tuple[list[str], list[int]]:
    """Return 200 texts with two copies of each, shuffled, and the index of the original of each."""
    rng = random.Random(0)
    rows = [
        (text, owner)
        for owner, own in enumerate(paragraphs(200))
        for text in (own, altered(own, 0.05, rng), own.upper())
    ]
    rng.shuffle(rows)
    return [text for text, _ in rows], [owner for _, owner in rows]


@pytest.fixture(scope="module")
def tables(texts, tmp_path_factory) -> Path:
    """Write the texts as rows of two CSV files; return the folder."""
    base = tmp_path_factory.mktemp("texts") / "in"
    base.mkdir()
    for name, rows in (("a.csv", texts[0][:350]), ("b.csv", texts[0][350:])):
        with (base / name).open("w", newline="") as stream:
            csv.writer(stream).writerows([["said", "n"], *([text, 1] for text in rows)])
    return base


@pytest.mark.parametrize(
    "runner", ["", "--runner=apache_beam.runners.portability.fn_api_runner.FnApiRunner"]
)
def test_similar_texts_share_a_split_on_any_runner(texts, tables, run_text, tmp_path, runner):
    dataset = run_text(
        tables,
        tmp_path / "out",
        columns={"said": "text"},
        group_by="near_duplicates",
        **({"beam_args": [runner]} if runner else {}),
    )
    split_of = dataset.split_of()
    names = [f"a.csv:{n}" for n in range(1, 351)] + [f"b.csv:{n}" for n in range(1, 251)]
    assert split_of.keys() == {*names}
    splits_of = collections.defaultdict(set)
    for name, owner in zip(names, texts[1], strict=True):
        splits_of[owner].add(split_of[name])
    assert sum(len(splits) > 1 for splits in splits_of.values()) <= 2
    counts = collections.Counter(split_of.values())
    assert 300 < counts["train"] < 500
    firsts = find_similar_texts(lambda _: texts[0], 1)
    assert len({(firsts[n], split_of[name]) for n, name in enumerate(names)}) == len({*firsts})


def test_identical_clips_share_a_split(tmp_path):
    owners, files = {}, {}
    for owner, number in itertools.product(range(8), range(5)):
        name = f"{'ab'[number % 2]}/{(number * 8 + owner) * 7919 % 1009}.wav"
        files[name], owners[name] = wav(frames=100 + owner), owner
    audio_runs.convert(files, tmp_path, group_by="near_duplicates")
    found = audio_runs.by_name(tmp_path / "out")
    assert found.keys() == owners.keys()
    placed = {(owners[name], values["split"]) for name, values in found.items()}
    assert len(placed) == 8
    assert {split for _, split in placed} == {"train", "eval"}
