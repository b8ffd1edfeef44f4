"""Test that an audit finds the planted problems of a dataset, by name, and nothing else."""

from pathlib import Path

import numpy as np
import pytest
from PIL import Image, ImageFilter

from components.auditing.audit import audit_dataset
from components.auditing.findings import KINDS
from tests.components.auditing.pictures import copies_of, cut_tiles, jpeg, png
from trainer_utils.core.errors import ConfigError, DatasetError
from trainer_utils.format import Feature

PHOTO = {
    "image": Feature(type="string", shape=(106, 106, 3)),
    "label": Feature(type="int"),
    "filename": Feature(type="string"),
}


def photo(name: str, data: bytes, label: int) -> dict:
    return {"image": [data], "label": [label], "filename": [name.encode()]}


@pytest.fixture(scope="module")
def tiles() -> list[Image.Image]:
    return cut_tiles(106)[10:]  # below the sky


@pytest.fixture(scope="module")
def photos(tmp_path_factory, write_dataset, tiles) -> str:
    """Write 12 training and 6 evaluation photos of two classes, plus copies and bad photos."""
    train = [photo(f"t{n}.jpg", jpeg(tile), n % 2) for n, tile in enumerate(tiles[:12])]
    held = [photo(f"e{n}.jpg", jpeg(tile), n % 2) for n, tile in enumerate(tiles[12:18])]
    copies = dict(copies_of(tiles[3]))
    train += [
        photo("twice.jpg", jpeg(tiles[0]), 0),
        photo("otherwise.jpg", jpeg(tiles[1]), 0),
        photo("smaller.jpg", copies["resized by 0.5"], 1),
        photo("white.png", png(Image.new("RGB", (100, 100), "white")), 0),
        photo("night.jpg", jpeg(tiles[30].point(lambda level: level // 20), 98), 0),
        photo(
            "fog.jpg", jpeg(tiles[29].resize((300, 300)).filter(ImageFilter.GaussianBlur(25))), 1
        ),
        photo("strip.jpg", jpeg(tiles[20].crop((0, 40, 106, 65))), 1),
        photo("huge.jpg", jpeg(tiles[21].resize((600, 600), Image.Resampling.BICUBIC)), 1),
        photo("third.jpg", jpeg(tiles[22]), 2),
    ]
    held.append(photo("mirrored.jpg", copies["mirrored"], 1))
    splits = {"train": [train[:8], train[8:]], "eval": [held]}
    return str(write_dataset(tmp_path_factory.mktemp("photos"), splits, PHOTO))


@pytest.fixture(scope="module")
def audit(photos):
    return audit_dataset(photos)


def names(audit, kind: str) -> list[set[str]]:
    return [{one.name for one in f.records} for f in audit.findings if f.kind == kind]


PLANTED = {
    "leakage": [{"t3.jpg", "smaller.jpg", "mirrored.jpg"}],
    "duplicates": [{"t0.jpg", "twice.jpg"}, {"t1.jpg", "otherwise.jpg"}],
    "near_duplicates": [{"t3.jpg", "smaller.jpg"}],
    "label_conflict": [{"t1.jpg", "otherwise.jpg"}],
    "blank": [{"white.png"}],
    "dark": [{"night.jpg"}],
    "blurred": [{"fog.jpg"}],
    "odd_aspect": [{"strip.jpg"}],
    "odd_size": [{"strip.jpg"}, {"huge.jpg"}],
}


def test_planted_problems_are_found_by_name(audit, subtests):
    for kind, expected in PLANTED.items():
        with subtests.test(kind=kind):
            assert names(audit, kind) == expected
            assert audit.counts[kind] == len(expected)
    assert {*PLANTED, "missing_class"} <= {*audit.counts} <= {*KINDS}
    assert not {"label_shift", "size_shift"} & {*audit.counts}  # shares and sizes are equal
    (found,) = [one for one in audit.findings if one.kind == "missing_class"]
    assert found.splits == ("eval",)
    assert "'2'" in found.detail


def test_records_are_named_and_check_raises_by_kind(audit):
    (found,) = [one for one in audit.findings if one.kind == "label_conflict"]
    places = [(r.split, r.number, r.label) for r in found.records]
    assert places == [("train", 1, "1"), ("train", 13, "0")]
    audit.check(["label_shift"])
    with pytest.raises(DatasetError, match=r"1 leakage: .*train: t3\.jpg"):
        audit.check(["leakage"])
    with pytest.raises(ConfigError, match="Did you mean 'leakage'"):
        audit.check(["leakge"])


def test_most_limits_the_list_and_an_unknown_label_raises(photos, audit):
    short = audit_dataset(photos, most=0)
    assert short.counts == audit.counts
    assert not short.findings
    with pytest.raises(ConfigError, match=r"label: expected one of .*'labl'.*Did you mean 'label'"):
        audit_dataset(photos, label="labl")


def text_dataset(folder: Path, write_dataset, train: list[str], held: list[str]) -> str:
    splits = {
        name: [[{"text": [text.encode()], "label": [n % 2]} for n, text in enumerate(texts)]]
        for name, texts in (("train", train), ("eval", held))
    }
    features = {"text": Feature(type="string"), "label": Feature(type="int")}
    return str(write_dataset(folder, splits, features))


def sentences(words: str, count: int, length: int, seed: int) -> list[str]:
    random = np.random.default_rng(seed)
    return [" ".join(random.choice(list(words), length)) for _ in range(count)]


def test_leaked_and_shifted_texts_are_found(tmp_path, write_dataset):
    train = sentences("abcdefghijklmnopqrstuvwxyz", 120, 14, 0)
    held = sentences("αβγδεζηθικλμνξοπρστυφχψω", 60, 40, 1)
    held[7] = train[5].upper().replace("A", "B") + "."
    audit = audit_dataset(text_dataset(tmp_path / "texts", write_dataset, train, held))
    (leak,) = [one for one in audit.findings if one.kind == "leakage"]
    assert [one.name for one in leak.records] == ["train 5", "eval 7"]
    assert {"length_shift", "vocabulary_shift"} <= set(audit.counts)


def test_clips_compare_by_bytes_and_images_take_precedence(tmp_path, write_dataset, tiles):
    spoken = [{"a": [b"spoken"], "audio": [f"RIFF....WAVE{n}".encode()]} for n in range(3)]
    rows = [{**spoken[n], "id": [i]} for n, i in ((0, b"a"), (1, b"b"), (1, b"c"), (2, b"d"))]
    features = {name: Feature(type="string") for name in ("a", "audio", "image", "id")}
    splits = {"train": [rows[:2]], "eval": [rows[2:]]}
    audit = audit_dataset(str(write_dataset(tmp_path / "sounds", splits, features)))
    assert names(audit, "leakage") == [{"b", "c"}]
    assert audit.counts == {"leakage": 1}
    shown = [jpeg(tiles[1]), jpeg(tiles[1], 60), jpeg(tiles[5])]
    rows = [
        {**spoken[sound], "image": [shown[image]], "id": [name]}
        for name, sound, image in ((b"a", 0, 0), (b"b", 1, 1), (b"c", 0, 2))
    ]
    uri = write_dataset(tmp_path / "both", {"train": [rows]}, features)
    assert names(audit_dataset(str(uri)), "near_duplicates") == [{"a", "b"}]


def test_dataset_is_compared_with_an_earlier_one(tmp_path, write_dataset):
    same = sentences("abcdefghijklmnopqrstuvwxyz", 200, 30, 3)
    longer = sentences("abcdefghijklmnopqrstuvwxyz", 200, 90, 4)
    old = text_dataset(tmp_path / "old", write_dataset, same, same[:50])
    new = text_dataset(tmp_path / "new", write_dataset, longer, longer[:50])
    shifts = [one for one in audit_dataset(new, against=old).findings if one.kind == "length_shift"]
    assert {one.splits for one in shifts} == {("train",), ("eval",)}
    assert not audit_dataset(old, against=old).counts.get("length_shift")


def test_empty_split_and_records_without_media_are_audited(tmp_path, write_dataset):
    splits = {"train": [[{"x": [1.0]}, {"x": [2.0]}, {"x": [1.0]}]], "eval": [[]]}
    uri = write_dataset(tmp_path / "numbers", splits, {"x": Feature(type="float")})
    audit = audit_dataset(str(uri))
    assert audit.counts == {"duplicates": 1}
    assert [one.name for one in audit.findings[0].records] == ["train 0", "train 2"]
