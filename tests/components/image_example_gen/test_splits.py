"""Which split an image goes to: by hash, by label, by pattern and by span."""

import pytest

from tests.components.image_example_gen.image_runs import (
    convert,
    input_config,
    placed,
    write_photos,
)

# Bounds: five standard deviations of the binomial distribution either side of its mean.


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
