"""Files, classes and folders of any name."""

import json
import os

import pytest

import trainer_utils
from tests.components.image_example_gen.image_runs import (
    convert,
    flat,
    labels_of,
    photo,
    read,
    value,
    write_photos,
)
from trainer_utils.format import ConfigError

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
def test_a_file_may_have_any_name(tmp_path, folder):
    names = [f"{folder}{name}" for name in ODD_NAMES.values()]
    convert(write_photos(tmp_path / "in", *names), tmp_path / "out")
    stored = {value(e, "filename"): value(e, "image") for e in flat(tmp_path / "out")}
    assert stored == {os.fsencode(name): photo(n) for n, name in enumerate(names)}


def test_a_class_may_have_any_name_of_one_line(tmp_path):
    names = ["  a b ", "ünï-日本", 'it\'s "b", c', "a\u2028b\x85c", "[x]*?"]
    convert(write_photos(tmp_path / "in", *(f"{name}/1.jpg" for name in names)), tmp_path / "out")
    assert labels_of(tmp_path / "out") == {f"{name}/1.jpg": name for name in names}


def test_features_may_have_the_names_that_are_wanted(tmp_path):
    names = {"image": "image/encoded", "label": "image/class/label"}
    base = write_photos(tmp_path / "in", "train/cat/1.jpg", "train/dog/2.jpg", "val/cat/3.jpg")
    given = {
        "feature_names": json.dumps(names),
        "vocabulary": json.dumps({"label": ["dog", "cat"]}),
    }
    manifest = convert(base, tmp_path / "out", **given)
    assert manifest["splits"]["train"]["labels"] == {"cat": 1, "dog": 1}
    dataset = trainer_utils.input_fn(
        str(tmp_path / "out"),
        "train",
        features="image/encoded",
        label="image/class/label",
        labels={"one_hot": True},
        image_size=(8, 8),
        batch_size=2,
    )
    _, labels = next(iter(dataset))
    assert sorted(labels.numpy().tolist()) == [[0, 1], [1, 0]]
    plain = read(tmp_path / "out")["eval"][0].features.feature
    assert plain["image/encoded"].bytes_list.value[0] == (base / "val/cat/3.jpg").read_bytes()
    assert not {"image", "label"} & set(plain)


def test_a_name_that_is_missed_or_taken_is_refused(tmp_path):
    base = write_photos(tmp_path / "in", "cat/1.jpg")
    for names in ({"imge": "x"}, {"image": "height"}, {"image": "label"}):
        with pytest.raises(ConfigError, match="feature_names"):
            convert(base, tmp_path / "out", feature_names=json.dumps(names))
