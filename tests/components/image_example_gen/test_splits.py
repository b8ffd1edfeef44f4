"""Which split an image goes to: by hash, by label, by pattern and by span."""

import shutil
from collections import Counter

import pytest
from tfx.types import artifact_utils

from tests.components.image_example_gen.image_runs import (
    convert,
    input_config,
    output_config,
    placed,
    run,
    splits_of,
    write_photos,
)


# Bounds: five standard deviations of the binomial distribution either side of its mean.
@pytest.mark.parametrize(
    ("config", "bounds"),
    [
        ("{}", {"train": (159, 241), "eval": (59, 141)}),
        (
            output_config(("train", 8), ("eval", 1), ("test", 1)),
            {"train": (205, 275), "eval": (4, 56), "test": (4, 56)},
        ),
        (output_config(("b", 1), ("a", 3)), {"b": (37, 113), "a": (187, 263)}),
        (output_config(("all", 5)), {"all": (300, 300)}),
    ],
    ids=["default 2:1", "8:1:1", "own names", "one"],
)
def test_hash_splits_have_their_shares(many, tmp_path, config, bounds):
    artifact = run(many, tmp_path, output_config=config)
    counts = Counter(splits_of(tmp_path).values())
    assert counts.total() == 300
    assert counts.keys() == bounds.keys()
    assert all(least <= counts[split] <= most for split, (least, most) in bounds.items()), counts
    assert artifact_utils.decode_split_names(artifact.split_names) == list(bounds)


def test_a_photo_keeps_its_split_when_others_come_and_go(many, tmp_path):
    convert(many, tmp_path / "before")
    changed = shutil.copytree(many, tmp_path / "changed")
    shutil.rmtree(changed / "class-00")
    write_photos(changed, *(f"class-20/{number}.jpg" for number in range(30)))
    convert(changed, tmp_path / "after")
    before, after = splits_of(tmp_path / "before"), splits_of(tmp_path / "after")
    common = before.keys() & after.keys()
    assert len(common) == 275
    assert {name: before[name] for name in common} == {name: after[name] for name in common}


TREE = ["a/cat/1.jpg", "a/dog/2.jpg", "b/dog/3.jpg", "b/emu/x/4.jpg", "c/5.jpg", "c/6.jpg"]


@pytest.mark.parametrize(
    ("patterns", "expected"),
    [
        (
            {"train": "a/*", "eval": "b/*"},
            {
                "a/cat/1.jpg": ("train", "cat"),
                "a/dog/2.jpg": ("train", "dog"),
                "b/dog/3.jpg": ("eval", "dog"),
                "b/emu/x/4.jpg": ("eval", "emu"),
            },
        ),
        ({"one": "c/5.jpg", "two": "c/6*"}, {"c/5.jpg": ("one", None), "c/6.jpg": ("two", None)}),
        (
            {"holdout": "a/dog", "other": "b/d?g"},
            {"a/dog/2.jpg": ("holdout", None), "b/dog/3.jpg": ("other", "dog")},
        ),
    ],
    ids=["folders", "files", "a folder itself"],
)
def test_each_pattern_of_input_config_is_a_split(tmp_path, patterns, expected):
    manifest = convert(
        write_photos(tmp_path / "in", *TREE),
        tmp_path / "out",
        input_config=input_config(**patterns),
    )
    assert placed(tmp_path / "out") == expected
    assert set(manifest["split_order"]) == set(patterns)
