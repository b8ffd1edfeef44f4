"""Which split an image goes to: by hash, by label, by pattern and by span."""

import datetime
import shutil
from collections import Counter

import pytest
from tfx.proto import range_config_pb2
from tfx.types import artifact_utils
from tfx.utils import proto_utils

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


def test_partitioned_by_label_a_class_is_whole_in_one_split(many, tmp_path):
    shares = (("train", 2), ("eval", 1))
    config = output_config(*shares, partition_feature_name="label")
    convert(many, tmp_path, output_config=config)
    splits_by_label: dict[str | None, set[str]] = {}
    for split, label in placed(tmp_path).values():
        splits_by_label.setdefault(label, set()).add(split)
    assert len(splits_by_label) == 12
    assert all(len(splits) == 1 for splits in splits_by_label.values())
    assert set.union(*splits_by_label.values()) == {"train", "eval"}


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


def days(year: int, month: int, day: int) -> int:
    return (datetime.date(year, month, day) - datetime.date(1970, 1, 1)).days


def static_range(span: int) -> str:
    fixed = range_config_pb2.StaticRange(start_span_number=span, end_span_number=span)
    return proto_utils.proto_to_json(range_config_pb2.RangeConfig(static_range=fixed))


@pytest.mark.parametrize(
    ("folders", "pattern", "config", "taken", "span", "version"),
    [
        (["span-1", "span-3", "span-2"], "span-{SPAN}", None, "span-3", 3, None),
        (["span-9", "span-10"], "span-{SPAN}", None, "span-10", 10, None),
        (["span-1", "span-3", "span-2"], "span-{SPAN}", static_range(1), "span-1", 1, None),
        (["span-07", "span-06"], "span-{SPAN:2}", None, "span-07", 7, None),
        (["s1/v1", "s2/v1", "s2/v10", "s2/v9"], "s{SPAN}/v{VERSION}", None, "s2/v10", 2, 10),
        (["s1/v5", "s2/v1"], "s{SPAN}/v{VERSION}", static_range(1), "s1/v5", 1, 5),
        (
            ["2024-12-31", "2025-01-02", "2025-01-01"],
            "{YYYY}-{MM}-{DD}",
            None,
            "2025-01-02",
            days(2025, 1, 2),
            None,
        ),
        (
            ["2024-12-31", "2025-01-02"],
            "{YYYY}-{MM}-{DD}",
            static_range(days(2024, 12, 31)),
            "2024-12-31",
            days(2024, 12, 31),
            None,
        ),
    ],
)
def test_without_a_driver_the_executor_finds_the_span(
    tmp_path, folders, pattern, config, taken, span, version
):
    names = [f"{folder}/{part}/cat/1.jpg" for folder in folders for part in ("x", "y")]
    artifact = run(
        write_photos(tmp_path / "in", *names),
        tmp_path / "out",
        input_config=input_config(train=f"{pattern}/x/*", eval=f"{pattern}/y/*"),
        range_config=config,
    )
    assert placed(tmp_path / "out") == {
        f"{taken}/x/cat/1.jpg": ("train", "cat"),
        f"{taken}/y/cat/1.jpg": ("eval", "cat"),
    }
    assert artifact.get_int_custom_property("span") == span
    assert artifact.has_custom_property("version") == (version is not None)
    assert version is None or artifact.get_int_custom_property("version") == version
