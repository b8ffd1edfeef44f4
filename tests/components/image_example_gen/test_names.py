"""Files, classes and folders of any name."""

import os

import pytest

from tests.components.image_example_gen.image_runs import (
    convert,
    flat,
    labels_of,
    photo,
    sha256,
    value,
    write_photos,
)
from trainer_utils.format import InputError

ODD_NAMES = {
    "spaces": "  two  words .jpg",
    "unicode": "ünïcødé-日本-😀.jpg",
    "decomposed": "e\u0301.jpg",
    "not UTF-8": os.fsdecode(b"caf\xe9-\xff.jpg"),
    "newline": "line\nbreak\r.jpg",
    "quotes": 'it\'s "quoted" \\ `here`.jpg',
    "wildcards": "100%_[a-z]*?{SPAN}$HOME~.jpg",
    "no suffix": "photo",
    "dash": "-rf",
    "255 bytes": "é" * 127 + "x",
}


@pytest.mark.parametrize("folder", ["", "train/a/"], ids=["at the top", "in a class"])
@pytest.mark.parametrize("name", ODD_NAMES.values(), ids=ODD_NAMES)
def test_a_file_may_have_any_name(tmp_path, name, folder):
    base = write_photos(tmp_path / "in", f"{folder}plain.jpg", f"{folder}{name}")
    convert(base, tmp_path / "out")
    stored = {
        value(example, "filename"): sha256(value(example, "image"))
        for example in flat(tmp_path / "out")
    }
    assert stored == {
        f"{folder}plain.jpg".encode(): sha256(photo(0)),
        os.fsencode(f"{folder}{name}"): sha256(photo(1)),
    }


@pytest.mark.parametrize("name", ["  a b ", "ünï-日本", 'it\'s "b", c', "a\u2028b\x85c", "[x]*?"])
def test_a_class_may_have_any_name_of_one_line(tmp_path, name):
    base = write_photos(tmp_path / "in", f"{name}/1.jpg", "zzz/2.jpg")
    convert(base, tmp_path / "out")
    assert labels_of(tmp_path / "out") == {f"{name}/1.jpg": name, "zzz/2.jpg": "zzz"}


@pytest.mark.parametrize(
    ("name", "shown"),
    [("two\nlines", "two\\nlines"), ("a\rb", "a\\rb"), (os.fsdecode(b"caf\xe9"), "caf")],
    ids=["newline", "carriage return", "not UTF-8"],
)
def test_a_class_that_no_vocabulary_can_hold_is_named(tmp_path, name, shown):
    others = [f"train/other-{number}/1.jpg" for number in range(9)]
    base = write_photos(tmp_path / "in", f"train/{name}/1.jpg", *others)
    with pytest.raises(InputError, match="label") as caught:
        convert(base, tmp_path / "out")
    assert shown in str(caught.value)
    assert not (tmp_path / "out/manifest.json").exists()


@pytest.mark.parametrize("name", ["photos [2024] *?", "ünï 日本", 'it\'s "here"', "{SPAN}", "in/"])
def test_the_input_base_may_have_any_name(tmp_path, name):
    base = write_photos(tmp_path / name, "a/1.jpg", "b/2.jpg")
    convert(f"{base}/" if name.endswith("/") else base, tmp_path / "out")
    assert labels_of(tmp_path / "out") == {"a/1.jpg": "a", "b/2.jpg": "b"}
