"""Masks are never images among others: they are read, or refused with a cure that works."""

import re
import shlex
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

import pipelines
from tests.cases.examples import all_of, counts, read_examples
from tests.make import jpeg, photo, wav, write_files
from trainer_utils.core.errors import InputError

Files = Mapping[str, bytes | str]


def pictures(folder: str, *numbers: int, ending: str = ".png") -> dict[str, bytes | str]:
    return {f"{folder}{n:02d}{ending}": photo(n, "PNG") for n in numbers}


def masks(folder: str, *numbers: int, ending: str = "_mask.png") -> dict[str, bytes | str]:
    return {f"{folder}{n:02d}{ending}": photo(n, "PNG", "L") for n in numbers}


def refusal(source: Path, out: Path) -> str:
    with pytest.raises(InputError) as refused:
        pipelines.convert(str(source), str(out))
    return str(refused.value)


def settings_of(advice: str) -> dict[str, Any]:
    """Return the settings of advice such as `ignore=['a'] (--ignore a)`."""
    values: dict[str, Any] = eval(f"dict({advice.partition(' (--')[0]})")
    return values


MIXED: Mapping[str, Files] = {
    "one mask without its image": pictures("", *range(1, 12)) | masks("", *range(12)),
    "first mask of another name": pictures("", *range(12))
    | masks("", *range(12))
    | {"00_x_mask.png": photo(3, "PNG", "L")},
    "few images with masks": pictures("", *range(30)) | masks("", 5, 6, 7),
    "most names without images": pictures("", *range(20)) | masks("", 1, 2, 3, *range(40, 60)),
}


@pytest.mark.parametrize("files", MIXED.values(), ids=MIXED)
def test_masks_next_to_some_images_are_refused(files: Files, tmp_path: Path) -> None:
    write_files(tmp_path / "in", files)
    message = refusal(tmp_path / "in", tmp_path / "no")
    advice = re.search(r"To leave the masks out: (ignore=\[.*?\])", message)
    assert advice is not None, message
    result = pipelines.convert(
        str(tmp_path / "in"), str(tmp_path / "out"), **settings_of(advice[1])
    )
    assert len(all_of(read_examples(result))) == sum("mask" not in name for name in files)


def test_one_coincidence_among_many_names_is_no_mask(tmp_path: Path) -> None:
    files = pictures("", *range(5)) | masks("", 1, *range(40, 50), ending="_label.png")
    write_files(tmp_path / "in", files)
    result = pipelines.convert(str(tmp_path / "in"), str(tmp_path / "out"))
    assert len(all_of(read_examples(result))) == 16


FOLDERS: Mapping[str, Files] = {
    "CamVid": pictures("raw_full/", *range(4)) | masks("approved/", *range(4), ending="_L.png"),
    "photos": {f"x/{n:02d}.jpg": jpeg(n) for n in range(4)} | masks("y/", *range(4)),
    "same names": {f"train2017/{n:02d}.jpg": jpeg(n) for n in range(4)}
    | masks("panoptic_train2017/", *range(4), ending=".png"),
}


@pytest.mark.parametrize("files", FOLDERS.values(), ids=FOLDERS)
def test_folder_of_masks_is_read_by_the_advice(files: Files, tmp_path: Path) -> None:
    write_files(tmp_path / "in", files)
    message = refusal(tmp_path / "in", tmp_path / "no")
    advice = re.search(r"(layout='segmentation', image_dir=.*?, label_dir=.*?) \(--", message)
    assert advice is not None, message
    result = pipelines.convert(
        str(tmp_path / "in"), str(tmp_path / "out"), **settings_of(advice[1])
    )
    examples = all_of(read_examples(result))
    assert len(examples) == 4
    assert all(isinstance(example["label"], bytes) for example in examples)


def test_masks_of_two_splits_named_like_images_are_refused(tmp_path: Path) -> None:
    files = {f"{s}2017/{n:02d}.jpg": jpeg(n) for s in ("train", "val") for n in range(3)}
    for split in ("train", "val"):
        files |= masks(f"panoptic_{split}2017/", 0, 1, 2, ending=".png")
    write_files(tmp_path / "in", files)
    message = refusal(tmp_path / "in", tmp_path / "no")
    assert "'train2017' and 'panoptic_train2017' with files of the same names" in message


def test_unlabelled_splits_may_share_names(tmp_path: Path) -> None:
    write_files(tmp_path / "in", pictures("train/", 1, 2, 3) | pictures("test/", 1, 2, 3))
    result = pipelines.convert(str(tmp_path / "in"), str(tmp_path / "out"))
    assert counts(read_examples(result)) == {"train": 3, "test": 3}


@pytest.mark.parametrize(
    ("folder", "ending"), [("_labels", "_L.png"), ("annot", ".png"), ("_masks", "_mask.png")]
)
def test_folders_named_by_splits_alone_have_the_images(
    folder: str, ending: str, tmp_path: Path
) -> None:
    files: Files = {}
    for split, numbers in (("train", range(4)), ("val", range(4, 6))):
        files = {**files, **pictures(f"a/{split}/", *numbers)}
        files |= masks(f"a/{split}{folder}/", *numbers, ending=ending)
    write_files(tmp_path / "in", files)
    splits = read_examples(pipelines.convert(str(tmp_path / "in"), str(tmp_path / "out")))
    assert counts(splits) == {"train": 4, "eval": 2}
    assert all(isinstance(example["label"], bytes) for example in all_of(splits))


# Folders next to split folders --------------------------------------------------------------------


def reviews(folder: str, *splits: str) -> dict[str, bytes | str]:
    return {
        f"{folder}{split}/{label}/{n}.txt": f"{label} {split} {n}"
        for split in splits
        for label in ("pos", "neg")
        for n in range(3)
    }


@pytest.mark.parametrize("layout", ["auto", "folder"])
def test_wrapper_with_a_readme_is_no_class(layout: str, tmp_path: Path) -> None:
    write_files(tmp_path / "in", reviews("aclImdb/", "train", "test") | {"aclImdb/README": "a b"})
    result = pipelines.convert(str(tmp_path / "in"), str(tmp_path / "out"), layout=layout)
    splits = read_examples(result)
    assert counts(splits) == {"train": 6, "test": 6}
    assert {example["label"] for example in all_of(splits)} == {"pos", "neg"}


def test_wrapper_of_photos_with_a_list_is_no_class(tmp_path: Path) -> None:
    files = {
        f"set/{s}/{c}/{n}.jpg": jpeg(n) for s in ("train", "test") for c in "ab" for n in (1, 2)
    }
    write_files(tmp_path / "in", {**files, "set/cover.jpg": jpeg(9)})
    result = pipelines.convert(str(tmp_path / "in"), str(tmp_path / "out"), max_reject_fraction=0.2)
    assert {example["label"] for example in all_of(read_examples(result))} == {*"ab"}


def test_single_class_by_a_named_layout_is_reported(
    tmp_path: Path, our_messages: Callable[[], list[str]]
) -> None:
    files = {f"x/{c}/{n}.jpg": jpeg(n) for c in ("d1", "d2") for n in range(3)}
    write_files(tmp_path / "in", {**files, "x/a.jpg": jpeg(5)})
    pipelines.convert(str(tmp_path / "in"), str(tmp_path / "out"), layout="folder")
    assert any("all files have the label 'x'" in message for message in our_messages())


def test_training_folder_of_places_is_renamed_by_the_command(tmp_path: Path) -> None:
    files = {f"data_256/{c}/{n}.jpg": jpeg(n) for c in ("abbey", "bar") for n in range(3)}
    files |= {f"val_256/{c}/{n}.jpg": jpeg(n) for c in ("abbey", "bar") for n in range(3, 5)}
    write_files(tmp_path / "the in", files)
    message = refusal(tmp_path / "the in", tmp_path / "no")
    assert "To leave out all files in 'val_256': ignore=['val_256/*']" in message
    command = re.search(r"If 'data_256' is for training: (.*?)\. To leave", message)
    assert command is not None
    subprocess.run(shlex.split(command[1]), check=True)
    splits = read_examples(pipelines.convert(str(tmp_path / "the in"), str(tmp_path / "out")))
    assert counts(splits) == {"train": 6, "eval": 4}


def test_pattern_that_matches_no_file_of_a_folder_names_it(tmp_path: Path) -> None:
    files = {f"train/a/{c}/{n}.jpg": jpeg(n) for c in ("abbey", "bar") for n in range(3)}
    write_files(tmp_path / "in", {**files, "val/1.jpg": jpeg(5), "val/2.jpg": jpeg(6)})
    settings: dict[str, Any] = {"name_pattern": "(?P<split>[^/]+)/(?P<label>.+)/"}
    with pytest.raises(InputError, match=r"labels and splits, out: ignore=\['val/\*'\]"):
        pipelines.convert(str(tmp_path / "in"), str(tmp_path / "no"), **settings)
    settings["ignore"] = ["val/*"]
    result = pipelines.convert(str(tmp_path / "in"), str(tmp_path / "out"), **settings)
    assert counts(read_examples(result)) == {"train": 6}


# Lists with several files per row -----------------------------------------------------------------

LEAKS: Mapping[str, Files] = {
    "column": {"list.csv": "left,right,split\n0.jpg,1.jpg,train\n2.jpg,1.jpg,test\n"},
    "other column": {"list.csv": "left,right,split\n0.jpg,1.jpg,train\n1.jpg,2.jpg,test\n"},
    "two lists": {
        "train.csv": "left,right\n0.jpg,1.jpg\n",
        "test.csv": "left,right\n2.jpg,1.jpg\n",
    },
}


@pytest.mark.parametrize("files", LEAKS.values(), ids=LEAKS)
def test_file_of_rows_in_two_splits_is_refused(files: Files, tmp_path: Path) -> None:
    write_files(tmp_path / "in", {**{f"{n}.jpg": jpeg(n) for n in range(3)}, **files})
    message = refusal(tmp_path / "in", tmp_path / "no")
    assert "expected each file in one split, got '1.jpg' in rows of " in message
    assert "rows='each' (--rows each)" in message
    result = pipelines.convert(str(tmp_path / "in"), str(tmp_path / "out"), rows="each")
    assert counts(read_examples(result)) == {"train": 1, "test": 1}


def test_file_of_several_rows_without_splits_is_reported(
    tmp_path: Path, our_messages: Callable[[], list[str]]
) -> None:
    rows = "left,right\n0.jpg,1.jpg\n1.jpg,2.jpg\n2.jpg,0.jpg\n"
    write_files(tmp_path / "in", {**{f"{n}.jpg": jpeg(n) for n in range(3)}, "list.csv": rows})
    pipelines.convert(str(tmp_path / "in"), str(tmp_path / "out"), seed=1)
    assert any("3 files are in several rows, such as '0.jpg'" in m for m in our_messages())


def test_files_of_rows_within_one_split_are_read(
    tmp_path: Path, our_messages: Callable[[], list[str]]
) -> None:
    rows = "image,clip,split\n0.jpg,0.wav,train\n0.jpg,1.wav,train\n1.jpg,2.wav,test\n"
    files = {f"{n}.jpg": jpeg(n) for n in range(2)} | {f"{n}.wav": wav(n) for n in range(3)}
    write_files(tmp_path / "in", {**files, "list.csv": rows})
    result = pipelines.convert(str(tmp_path / "in"), str(tmp_path / "out"))
    assert counts(read_examples(result)) == {"train": 2, "test": 1}
    assert not any("several rows" in message for message in our_messages())
