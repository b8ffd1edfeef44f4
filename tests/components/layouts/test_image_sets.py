"""Image sets of Pascal VOC: which are splits, and what a line of one names."""

import pytest

from tests.components.layouts.voc_files import annotation, one
from trainer_utils.format import InputError

SETS = {
    "of VOC": ({"Main/train.txt": "a\n", "Main/val.txt": "b\n"}, ["train", "eval"]),
    "of Datum": ({"train.txt": "a\n", "test.txt": "b\n"}, ["train", "test"]),
    "Main before the folder above": ({"Main/val.txt": "a\nb\n", "train.txt": "a\n"}, ["eval"] * 2),
    "other spellings": ({"Training.TXT": "a\n", "validation.txt": "b\n"}, ["train", "eval"]),
    "written on Windows": ({"train.txt": "\ufeffa\r\n\r\nb\r\n"}, ["train", "train"]),
    "of a class called train": (
        {"Main/train_train.txt": "a  1\n", "Main/train_val.txt": "b -1\n"},
        [None, None],
    ),
    "none": ({}, [None, None]),
}


@pytest.mark.parametrize("case", SETS)
def test_a_set_is_a_split_if_it_is_called_after_one(tmp_path, read, write, case):
    sets, splits = SETS[case]
    base = one(tmp_path, write, annotation())
    write(base, **{"JPEGImages/b.jpg": b"", "Annotations/b.xml": annotation()})
    write(base, **{f"ImageSets/{name}": text for name, text in sets.items()})
    listing = read(base)
    assert [entry.split for entry in listing.entries] == splits
    assert listing.excluded == ()


@pytest.mark.parametrize(
    ("sets", "match"),
    [
        ({"Main/train.txt": b"a\nx\na\n"}, r"'a'.*train.txt \(line 1\).*train.txt \(line 3\)"),
        ({"val.txt": b"a\n", "dev.txt": b"\na\n"}, r"'a'.*dev.txt \(line 2\).*val.txt \(line 1\)"),
        ({"train.txt": "a\n".encode("utf-16")}, r"'ImageSets/train.txt'.*zero \(byte 3\)"),
    ],
)
def test_a_bad_image_set_is_refused(tmp_path, read, write, sets, match):
    base = one(tmp_path, write, annotation())
    write(base, **{f"ImageSets/{name}": text for name, text in sets.items()})
    with pytest.raises(InputError, match=match):
        read(base)
