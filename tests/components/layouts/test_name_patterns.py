"""Features from the names of files, and warnings of labels in names."""

import logging
import re
from pathlib import Path

import pyarrow as pa
import pytest

from components.inputs.input_table import InputTable
from components.inputs.listing import FileTable, LayoutInputs
from components.layouts.name_patterns import labels_in_names
from components.layouts.reading import read_layout
from tests.components.layouts.layout_files import values
from tests.make import refusing, write_files
from trainer_utils.core.errors import InputError
from trainer_utils.storage import list_files


def read(base: Path, pattern: str | None, *, layout: str = "auto", root: str = "") -> InputTable:
    files = FileTable.of(list_files(str(base)))
    inputs = LayoutInputs(base=str(base), root=root, files=files, name_pattern=pattern)
    return read_layout(inputs, layout=layout)


def write(base: Path, *names: str) -> Path:
    write_files(base, dict.fromkeys(names, "x"))
    return base


PATTERNS = {
    "Oxford pets": (
        r"(?P<label>.+)_\d+",
        {"images/Abyssinian_1.jpg": ("Abyssinian",), "images/great_dane_2.jpg": ("great_dane",)},
    ),
    "UTKFace": (
        r"(?P<age>\d+)_(?P<gender>[01])_",
        {"26_1_20170109.jpg": (26, 1), "100_0_20170110.jpg": (100, 0)},
    ),
    "clips": (
        "(?P<label>[^/]+)/(?P<clip>[^/]+)/",
        {"run/a/1.jpg": ("run", "a"), "jump/b/1.jpg": ("jump", "b")},
    ),
    "leading zeros": (r"(?P<person>\d{4})_c", {"0002_c1.jpg": ("0002",), "1501_c2.jpg": ("1501",)}),
    "optional group": (
        r"[a-z]+(?P<score>-?\d\.\d)?",
        {"a0.5.jpg": (0.5,), "b.jpg": (None,), "c-1.0.jpg": (-1.0,)},
    ),
    "other characters": ("(?P<label>[^ ]+) ", {"naïve 1.jpg": ("naïve",), "漢字 2.jpg": ("漢字",)}),
}


def test_groups_become_features(tmp_path, subtests):
    for number, (what, (pattern, expected)) in enumerate(PATTERNS.items()):
        with subtests.test(what=what):
            write(tmp_path / f"{number}", *expected)
            found = values(read(tmp_path / f"{number}", pattern))
            assert {name: tuple(row.values()) for name, row in found.items()} == expected


def test_label_replaces_class_folders_and_keeps_split_folders(tmp_path):
    names = [f"{split}/x{n}/{n % 2}_{n}.jpg" for split in ("train", "val") for n in range(4)]
    found = read(write(tmp_path, *names), r"(?P<label>\d)_")
    assert {e.name: (e.split, *e.values) for e in found.entries} == {
        name: ("eval" if "val" in name else "train", name.rsplit("/")[2][0]) for name in names
    }


def test_other_groups_keep_class_folders(tmp_path):
    found = read(write(tmp_path, "cat/7_1.jpg", "dog/8_2.jpg"), r"(?P<camera>\d)_")
    assert values(found) == {
        "cat/7_1.jpg": {"label": "cat", "camera": 7},
        "dog/8_2.jpg": {"label": "dog", "camera": 8},
    }


def test_split_is_named_by_its_group(tmp_path):
    write(tmp_path, "a-Training-1.jpg", "b-PrivateTest-2.jpg")
    found = read(tmp_path, "(?P<label>[ab])-(?P<split>[A-Za-z]+)")
    assert {e.name: e.split for e in found.entries} == {
        "a-Training-1.jpg": "train",
        "b-PrivateTest-2.jpg": "test",
    }
    with pytest.raises(InputError, match="'split', such as train, val or test, got 'a'"):
        read(tmp_path, "(?P<split>[ab])-")


def test_words_for_splits_in_names_still_count(tmp_path):
    write(tmp_path, "cat_train_1.jpg", "dog_test_2.jpg")
    found = read(tmp_path, "(?P<label>cat|dog)_")
    assert [e.split for e in found.entries] == ["train", "test"]


def test_names_that_do_not_match_are_counted_and_shown(tmp_path):
    write(tmp_path, "cat_1.jpg", "other.jpg", "b/second.jpg")
    with pytest.raises(InputError) as caught:
        read(tmp_path, r"(?P<label>.+)_\d+")
    for part in ("2 of 3", "'b/second.jpg'", "ignore=["):
        assert part in str(caught.value)


def test_other_layouts_refuse_a_pattern(tmp_path):
    write_files(tmp_path, {"1.jpg": "x", "list.csv": "filename,label\n1.jpg,a\n"})
    with refusing("name_pattern"):
        read(tmp_path, "(?P<label>.)")


@pytest.mark.parametrize(
    ("names", "words"),
    [
        (["cat.0.jpg", "cat.1.jpg", "dog.0.jpg", "dog.1.jpg"], ["cat", "dog"]),
        (
            ["great_dane_1.jpg", "great_dane_2.jpg", "pug_1.jpg", "pug_2.jpg"],
            ["great_dane", "pug"],
        ),
        (["IMG_1.jpg", "IMG_2.jpg"], []),
        (["cat_1.jpg", "cat_2.jpg", "dog_1.jpg"], []),
        (["cat_1.jpg", "cat_2.jpg", "dog_1.jpg", "dog_2.jpg", "17.jpg"], []),
        (["1_c1_7.jpg", "1_c2_8.jpg", "2_c1_7.jpg", "2_c2_9.jpg"], ["1", "2"]),
        (["26_0_1_9.jpg", "26_1_1_8.jpg", "31_0_0_7.jpg", "31_1_0_6.jpg"], ["26", "31"]),
        (["a_x_7b.jpg", "a_y_8c.jpg", "b_x_7d.jpg", "b_y_9e.jpg"], ["a", "b"]),
        (["1_c1_7.jpg", "1_c2.jpg", "2_c1_7.jpg", "2_c2_9.jpg"], []),
        (["2023_01_1.jpg", "2023_02_1.jpg", "2024_01_1.jpg", "2024_02_1.jpg"], []),
        (["1_2.jpg", "1_3.jpg", "2_2.jpg", "2_3.jpg"], []),
        ([], []),
    ],
)
def test_warning_of_labels_in_names(names, words, tmp_path, caplog):
    paths = pa.array([name.encode() for name in names], pa.large_binary())
    assert labels_in_names(paths)[0] == words
    if names:
        with caplog.at_level(logging.WARNING):
            read(write(tmp_path, *names), None)
        assert ("name_pattern" in caplog.text) == bool(words)
        if words:
            pattern = re.search("name_pattern='(.*?)' \\(", caplog.text)[1]
            labels = {row["label"] for row in values(read(tmp_path, pattern)).values()}
            assert labels == {*words}
