"""Inputs and settings that make no dataset: each is one clear error."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.components.image_example_gen.image_runs import convert, write_photos, write_tree
from tests.components.runs import input_config
from trainer_utils.format import InputError


def no_folder(base: Path) -> dict[str, object]:
    base.rmdir()
    return {}


def empty_folder(base: Path) -> dict[str, object]:
    return {}


def text_alone(base: Path) -> dict[str, object]:
    write_tree(base, {"a.txt": b"no photo", "b.txt": b"no photo"})
    return {"max_reject_fraction": 1}


def hidden_and_text(base: Path) -> dict[str, object]:
    write_tree(base, {".DS_Store": b"x", "a.txt": b"no photo"})
    return {"max_reject_fraction": 1}


def unknown_folder_beside_splits(base: Path) -> dict[str, object]:
    write_photos(base, "train/1.jpg", "test/2.jpg", "holdout/3.jpg")
    return {}


def csv_of(text: str) -> Callable[[Path], dict[str, object]]:
    """A CSV in Latin-1 beside 1.jpg and 2.jpg."""

    def make(base: Path) -> dict[str, object]:
        write_photos(base, "1.jpg", "2.jpg")
        (base / "list.csv").write_bytes(text.encode("latin-1"))
        return {}

    return make


def no_csv_file(base: Path) -> dict[str, object]:
    write_photos(base, "1.jpg")
    return {"layout": "csv"}


def pattern_of_nothing(base: Path) -> dict[str, object]:
    write_photos(base, "1.jpg")
    return {"input_config": input_config(train="nothing-here/*")}


def patterns_that_overlap(base: Path) -> dict[str, object]:
    write_photos(base, "a/1.jpg", "b/2.jpg")
    return {"input_config": input_config(train="*", test="b/*")}


def plain_list(name: str, line: str) -> Callable[[Path], dict[str, object]]:
    """A list in plain text beside the folders of its photos, as of ImageNet."""

    def make(base: Path) -> dict[str, object]:
        write_photos(base, "val/1.jpg", "val/2.jpg", "train/cat/3.jpg", "train/dog/4.jpg")
        (base / name).write_text(f"{line}\n")
        return {"max_reject_fraction": 1}

    return make


NO_DATASET = {
    "a plain list": (plain_list("val.txt", "1.jpg 65"), ["'val.txt'", "'1.jpg 65'", "CSV"]),
    "a plain list of paths": (
        plain_list("train.lst", "./train/cat/3.jpg\t0"),
        ["'train.lst'", "filename,label", "layout='folder'"],
    ),
    "no folder": (no_folder, ["{base}"]),
    "an empty folder": (empty_folder, ["{base}", "empty"]),
    "text alone": (text_alone, ["{base}", "none that can be read"]),
    "hidden and text": (hidden_and_text, ["{base}", "none that can be read"]),
    "an unknown folder beside splits": (
        unknown_folder_beside_splits,
        ["{base}", "train", "test", "holdout"],
    ),
    "an unknown split": (
        csv_of("TRAIN,1.jpg,a\nHOLDOUT,2.jpg,a\n"),
        ["2.jpg", "'HOLDOUT'", "line 2"],
    ),
    "a column too few": (
        csv_of("TRAIN,1.jpg,a\nTRAIN,2.jpg\n"),
        ["list.csv", "3 columns", "got 2", "line 2"],
    ),
    "Latin-1": (csv_of("TRAIN,1.jpg,caf\xe9\n"), ["list.csv", "UTF-8", "byte 15"]),
    "a label of two lines": (csv_of('TRAIN,1.jpg,"a\nb"\n'), ["'a\\nb'", "one line"]),
    "an empty CSV": (csv_of(""), ["list.csv"]),
    "no CSV file": (no_csv_file, ["{base}", "layout='csv'"]),
    "a pattern of nothing": (pattern_of_nothing, ["{base}", "'nothing-here/*'"]),
    "patterns that overlap": (patterns_that_overlap, ["'b/2.jpg'", "two"]),
}


def test_input_that_makes_no_dataset_is_refused_in_one_clear_sentence(tmp_path):
    for case, (make, words) in NO_DATASET.items():
        base = tmp_path / case
        base.mkdir()
        properties = make(base)
        with pytest.raises(InputError) as caught:
            convert(base, tmp_path / "out", **properties)
        message = str(caught.value)
        assert "\n" not in message
        assert [word for word in words if word.format(base=base) not in message] == []
        assert not (tmp_path / "out/manifest.json").exists()
