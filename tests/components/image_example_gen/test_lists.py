"""ImageExampleGen with lists of photos, splits and labels, and with unusual file names."""

import os

import pytest

import trainer_utils
from tests.components.image_example_gen.image_runs import (
    convert,
    flat,
    labels_of,
    photo,
    value,
    write_photos,
)
from tests.components.runs import accounting, by_filename, placed, rejects_in
from trainer_utils.core.errors import ConfigError


def test_bad_csv_row_is_one_reject_with_a_code(tmp_path):
    base = write_photos(tmp_path / "in", "1.jpg", "2.jpg", "3.jpg", "../elsewhere.jpg")
    (base / "list.csv").write_text(
        "TRAIN,1.jpg,cat\n"
        "TRAIN,missing.jpg,cat\n"
        "TEST,2.jpg,\n"
        "TEST,../elsewhere.jpg,cat\n"
        f"TRAIN,{tmp_path}/elsewhere.jpg,cat\n"
        f"TRAIN,{base}-2/1.jpg,cat\n"
        "TEST,3.jpg,cat\n"
    )
    manifest = convert(base, tmp_path / "out", max_reject_fraction=0.9)
    lines = rejects_in(tmp_path / "out")
    assert sorted((line["source"], line["code"], line["split"]) for line in lines) == [
        ("../elsewhere.jpg", "OUTSIDE_INPUT_BASE", "test"),
        (f"{tmp_path}/elsewhere.jpg", "OUTSIDE_INPUT_BASE", "train"),
        (f"{base}-2/1.jpg", "OUTSIDE_INPUT_BASE", "train"),
        ("2.jpg", "NO_LABEL", "test"),
        ("missing.jpg", "FILE_NOT_FOUND", "train"),
    ]
    (missing,) = [line for line in lines if line["source"] == "missing.jpg"]
    assert missing["detail"].startswith("line 2")
    placed_in = {"1.jpg": ("train", "cat"), "3.jpg": ("test", "cat")}
    assert placed(tmp_path / "out") == placed_in
    assert accounting(manifest["total"]) == dict(found=7, written=2, rejected=5, skipped=0)


@pytest.mark.parametrize(
    ("uri", "columns"),
    [
        ("{there}/{n}.jpg", 1),
        ("file://{there}/{n}.jpg", 2),
        ("{encoded}/{n}.jpg", 1),
        ("../far there/{n}.jpg", 1),
    ],
)
def test_files_of_file_roots_are_read_as_listed(tmp_path, uri, columns):
    there = write_photos(tmp_path / "far there", *(f"{number}.jpg" for number in range(4)))
    base = write_photos(tmp_path / "in", "own.jpg")
    places = {"there": there, "encoded": there.as_uri()}
    uris = [uri.format(**places, n=number) for number in range(4)] + ["own.jpg"]
    gone = {name: f"{place}/gone" for name, place in places.items()}
    uris.append(uri.format(**gone, n=9))  # the folder is missing as well
    rows = "".join(f"TRAIN,{','.join([one] * columns)},cat\n" for one in uris)
    names = ["image_uri", "other_view"][:columns]
    (base / "list.csv").write_text(f"split,{','.join(names)},label\n{rows}")
    roots = [there.as_uri() if "encoded" in uri else str(there)]
    manifest = convert(base, tmp_path / "out", max_reject_fraction=0.2, file_roots=roots)
    assert accounting(manifest["total"]) == dict(found=6, written=5, rejected=1, skipped=0)
    (line,) = rejects_in(tmp_path / "out")
    assert (line["source"], line["code"]) == (uris[-1], "FILE_NOT_FOUND")
    found = by_filename(tmp_path / "out")
    for name in ["image"] if columns == 1 else names:
        kept = [row[name] for _, row in found.values()]
        assert sorted(kept) == sorted(path.read_bytes() for path in tmp_path.glob("*/*.jpg"))
    assert not any("/" in name for name in found)


def test_rows_without_split_are_skipped_or_rejected(tmp_path):
    base = write_photos(tmp_path / "in", *(f"{number}.jpg" for number in range(4)))
    words = ["TRAIN", "DISCARD", "discard", "holdout"]
    rows = "".join(f"{word},{number}.jpg,cat\n" for number, word in enumerate(words))
    (base / "list.csv").write_text(f"split,image_uri,label\n{rows}")
    manifest = convert(base, tmp_path / "out", max_reject_fraction=0.5)
    assert accounting(manifest["total"]) == dict(found=4, written=1, rejected=1, skipped=2)
    (line,) = rejects_in(tmp_path / "out")
    assert (line["source"], line["code"]) == ("3.jpg", "UNKNOWN_SPLIT")
    assert "'holdout'" in line["detail"]


@pytest.mark.parametrize(
    ("lists", "folder", "own"),
    [
        (
            "labels/{}.csv",
            "photos/{}",
            {"csv_path": "labels/{split}.csv", "image_dir": "photos/{split}"},
        ),
        ("{}_labels.csv", "all", {"csv_path": "{split}_labels.csv", "image_dir": "all"}),
        ("labels/{}.csv", "{}", {"csv_path": "labels/{split}.csv"}),
    ],
)
def test_custom_lists_and_folders_are_read_as_by_datum(tmp_path, lists, folder, own):
    from datum.generator.image import ClfDatumGenerator

    base, expected = tmp_path / "in", {}
    for number, word in enumerate(("train", "val")):
        images = folder.format(word)
        names = [f"{word}{n}" for n in range(2)]
        write_photos(base, *(f"{images}/{name}.jpg" for name in names))
        path = base / lists.format(word)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("filename,age\n" + "".join(f"{name},{number}\n" for name in names))
        given = {"image_dir": images, "csv_path": lists.format(word)}
        for _, one in ClfDatumGenerator(str(base))(split=word, **given):
            expected[one["image"]] = (word.replace("val", "eval"), one["age"])
    convert(base, tmp_path / "out", **own)
    found = by_filename(tmp_path / "out")
    assert {f"{base}/{name}": (split, row["age"]) for name, (split, row) in found.items()} == (
        expected
    )


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
def test_file_may_have_any_name(tmp_path, folder):
    names = [f"{folder}{name}" for name in ODD_NAMES.values()]
    convert(write_photos(tmp_path / "in", *names), tmp_path / "out", layout="folder")
    stored = {value(e, "filename"): value(e, "image") for e in flat(tmp_path / "out")}
    assert stored == {os.fsencode(name): photo(n) for n, name in enumerate(names)}


def test_class_may_have_any_single_line_name(tmp_path):
    names = ["  a b ", "ünï-日本", 'it\'s "b", c', "a\u2028b\x85c", "[x]*?"]
    convert(write_photos(tmp_path / "in", *(f"{name}/1.jpg" for name in names)), tmp_path / "out")
    assert labels_of(tmp_path / "out") == {f"{name}/1.jpg": name for name in names}


def test_feature_names_can_be_set(tmp_path):
    names = {"image": "image/encoded", "label": "image/class/label"}
    base = write_photos(tmp_path / "in", "train/cat/1.jpg", "train/dog/2.jpg")
    given = {"feature_names": names, "vocabulary": {"label": ["dog", "cat"]}}
    manifest = convert(base, tmp_path / "out", **given)
    assert manifest["splits"]["train"]["labels"] == {"cat": 1, "dog": 1}
    sizes = {"height": 24, "width": 40, "channels": 3}
    for number, (name, (_, row)) in enumerate(sorted(by_filename(tmp_path / "out").items())):
        assert row == {
            **sizes,
            "filename": name.encode(),
            "image/encoded": photo(number),
            "image/class/label": 1 - number,
        }


def test_missing_or_taken_name_is_refused(tmp_path, subtests):
    base = write_photos(tmp_path / "in", "cat/1.jpg", "dog/2.jpg")
    for names in ({"imge": "x"}, {"image": "height"}, {"image": "label"}):
        with subtests.test(names=names), pytest.raises(ConfigError, match="feature_names"):
            convert(base, tmp_path / "out", feature_names=names)


def test_reject_quotes_no_bytes_of_files_outside_the_base(tmp_path):
    for folder in ("in", "elsewhere"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / f"{folder}.jpg").write_bytes(b"root:*:2:secret's")
    write_photos(tmp_path / "in", "1.jpg")
    there = tmp_path / "elsewhere"
    rows = f"1.jpg,cat\nin.jpg,cat\n{there}/elsewhere.jpg,dog\n"
    (tmp_path / "in/list.csv").write_text(f"image,label\n{rows}")
    convert(tmp_path / "in", tmp_path / "out", max_reject_fraction=0.9, file_roots=[str(there)])
    details = {line["source"]: line["detail"] for line in rejects_in(tmp_path / "out")}
    assert details == {
        "in.jpg": "no image format begins with b'root:*:2'",
        "elsewhere.jpg": "no image format begins with some bytes",
    }


def test_reading_labels_raises_for_records_without_label(tmp_path):
    base = write_photos(tmp_path / "in", *(f"{number}.jpg" for number in range(4)))
    rows = "0.jpg,cat,train\n1.jpg,dog,train\n2.jpg,,test\n3.jpg,-1,test\n"
    (base / "list.csv").write_text(f"image,label,split\n{rows}")
    convert(base, tmp_path / "out")
    uri = str(tmp_path / "out")

    def labels(split, **options):
        batches = trainer_utils.iterate(uri, split, batch_size=2, shuffle=False, **options)
        batch = next(iter(batches))
        return batch[1] if "label" in options else batch["label"]

    assert sorted(labels("train", features="filename", label="label").tolist()) == [0, 1]
    with pytest.raises(ConfigError, match=r"label: .* some of these records have none"):
        labels("test", features="filename", label="label")
    assert labels("test").tolist() == [[-1], [-1]]
