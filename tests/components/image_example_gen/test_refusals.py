"""Inputs and settings that make no dataset: each is one clear error."""

from typing import Any

import pytest

from tests.components.image_example_gen.image_runs import convert, photo, write_tree
from tests.components.runs import input_config
from trainer_utils.format import InputError

ANY: dict[str, Any] = {"max_reject_fraction": 1}
TWO = {"1.jpg": photo(1), "2.jpg": photo(2)}
FOLDERS = dict.fromkeys(["val/1.jpg", "val/2.jpg", "train/cat/3.jpg", "train/dog/4.jpg"], photo(1))


def csv(text: str) -> dict[str, bytes]:
    """A CSV in Latin-1 beside 1.jpg and 2.jpg."""
    return {**TWO, "list.csv": text.encode("latin-1")}


# Files, settings, and what the message says
NO_DATASET: dict[str, tuple[dict[str, bytes], dict[str, Any], list[str]]] = {
    "a plain list": (
        {**FOLDERS, "val.txt": b"1.jpg 65\n"},
        ANY,
        ["'val.txt'", "'1.jpg 65'", "CSV"],
    ),
    "a plain list of paths": (
        {**FOLDERS, "train.lst": b"./train/cat/3.jpg\t0\n"},
        ANY,
        ["'train.lst'", "filename,label", "layout='folder'"],
    ),
    "no folder": ({}, {}, ["{base}"]),
    "text alone": ({"a.txt": b"no photo"}, ANY, ["{base}", "none that can be read"]),
    "hidden and text": (
        {".DS_Store": b"x", "a.txt": b"no photo"},
        ANY,
        ["{base}", "none that can be read"],
    ),
    "an unknown folder beside splits": (
        {f"{name}/1.jpg": photo(1) for name in ("train", "test", "holdout")},
        {},
        ["{base}", "train", "test", "holdout"],
    ),
    "an unknown split": (
        csv("TRAIN,1.jpg,a\nHOLDOUT,2.jpg,a\n"),
        {},
        ["2.jpg", "'HOLDOUT'", "line 2"],
    ),
    "a column too few": (
        csv("TRAIN,1.jpg,a\nTRAIN,2.jpg\n"),
        {},
        ["list.csv", "3 columns", "got 2", "line 2"],
    ),
    "Latin-1": (csv("TRAIN,1.jpg,caf\xe9\n"), {}, ["list.csv", "UTF-8", "byte 15"]),
    "a label of two lines": (csv('TRAIN,1.jpg,"a\nb"\n'), {}, ["'a\\nb'", "one line"]),
    "an empty CSV": (csv(""), {}, ["list.csv"]),
    "no CSV file": (TWO, {"layout": "csv"}, ["{base}", "layout='csv'"]),
    "a pattern of nothing": (
        TWO,
        {"input_config": input_config(train="nothing-here/*")},
        ["{base}", "'nothing-here/*'"],
    ),
    "patterns that overlap": (
        {"a/1.jpg": photo(1), "b/2.jpg": photo(2)},
        {"input_config": input_config(train="*", test="b/*")},
        ["'b/2.jpg'", "two"],
    ),
}


def refused(base: Any, out: Any, words: list[str], **settings: Any) -> None:
    with pytest.raises(InputError) as caught:
        convert(base, out, **settings)
    message = str(caught.value)
    assert "\n" not in message
    assert [word for word in words if word.format(base=base) not in message] == []
    assert not (out / "manifest.json").exists()


def test_input_that_makes_no_dataset_is_refused_in_one_clear_sentence(tmp_path):
    for case, (files, settings, words) in NO_DATASET.items():
        refused(write_tree(tmp_path / case, files), tmp_path / "out", words, **settings)
    (tmp_path / "empty").mkdir()
    refused(tmp_path / "empty", tmp_path / "out", ["{base}", "empty"])
