"""ImageExampleGen on CSV files that name photos, splits and labels."""

import pytest

from tests.components.image_example_gen.image_runs import (
    accounting,
    convert,
    input_config,
    labels_of,
    placed,
    rejects_in,
    splits_of,
    write_photos,
)

ROWS = "TRAIN,1.jpg,cat\nVALIDATION,more/2.jpg,dog\nTEST,3.jpg,cat\n"
OF_ROWS = {"1.jpg": ("train", "cat"), "more/2.jpg": ("eval", "dog"), "3.jpg": ("test", "cat")}


CSV_FILES = {
    "no header": (ROWS, OF_ROWS),
    "header": ("split,image_uri,label\n" + ROWS, OF_ROWS),
    "header in capitals": ("SPLIT,Image_URI,Label\n" + ROWS, OF_ROWS),
    "byte order mark": ("\ufeffsplit,image_uri,label\n" + ROWS, OF_ROWS),
    "CRLF": (ROWS.replace("\n", "\r\n"), OF_ROWS),
    "blank lines": (ROWS.replace("\n", "\n\n") + "\n\n", OF_ROWS),
    "spaces": (ROWS.replace(",", " , "), OF_ROWS),
    "no newline at the end": (ROWS.rstrip("\n"), OF_ROWS),
    "absolute": (
        "TRAIN,{base}/1.jpg,cat\nTEST,{base}/more/2.jpg,dog\n",
        {"1.jpg": ("train", "cat"), "more/2.jpg": ("test", "dog")},
    ),
    "relative with dots": ("TRAIN,./more/../1.jpg,cat\n", {"1.jpg": ("train", "cat")}),
    "other columns": ("label,image_uri,split\ncat,1.jpg,TEST\n", {"1.jpg": ("test", "cat")}),
    "quotes": ('TRAIN,"1.jpg","cat, or ""dog"""\n', {"1.jpg": ("train", 'cat, or "dog"')}),
    "no labels": (
        "TRAIN,1.jpg,\nTEST,3.jpg,\n",
        {"1.jpg": ("train", None), "3.jpg": ("test", None)},
    ),
}


@pytest.mark.parametrize(("text", "expected"), CSV_FILES.values(), ids=CSV_FILES)
def test_a_csv_names_split_and_label_of_each_photo(tmp_path, text, expected):
    base = write_photos(tmp_path / "in", "1.jpg", "more/2.jpg", "3.jpg", "not-listed.jpg")
    (base / "list.csv").write_text(text.format(base=base), "utf-8", newline="")
    manifest = convert(base, tmp_path / "out")
    assert placed(tmp_path / "out") == expected
    assert manifest["total"]["found"] == len(expected)


def test_photos_of_a_csv_are_relative_to_its_folder_and_filenames_to_the_base(tmp_path):
    base = write_photos(tmp_path / "in", "lists/1.jpg", "2.jpg")
    (base / "lists" / "list.csv").write_text("TRAIN,1.jpg,cat\nTEST,../2.jpg,dog\n")
    convert(base, tmp_path / "out", input_config=input_config(all="lists/list.csv"))
    assert placed(tmp_path / "out") == {"lists/1.jpg": ("train", "cat"), "2.jpg": ("test", "dog")}


@pytest.mark.parametrize("spelling", ["in", "./in/", "{parent}/in/", "{parent}/./in", "link"])
def test_absolute_paths_in_a_csv_are_found_however_the_input_base_is_spelt(
    tmp_path, monkeypatch, spelling
):
    base = write_photos(tmp_path / "in", "1.jpg", "more/2.jpg")
    (tmp_path / "link").symlink_to("in")
    (base / "list.csv").write_text(f"TRAIN,{base}/1.jpg,cat\nTEST,{base}/more/2.jpg,dog\n")
    monkeypatch.chdir(tmp_path)
    convert(spelling.format(parent=tmp_path), tmp_path / "out", max_reject_fraction=0)
    assert placed(tmp_path / "out") == {"1.jpg": ("train", "cat"), "more/2.jpg": ("test", "dog")}


def test_the_input_base_may_be_the_csv_itself(tmp_path):
    base = write_photos(tmp_path / "in", "1.jpg", "2.jpg")
    (base / "some.csv").write_text("TRAIN,1.jpg,cat\n")
    (base / "other.csv").write_text("TEST,2.jpg,dog\n")
    convert(base / "some.csv", tmp_path / "out")
    assert placed(tmp_path / "out") == {"1.jpg": ("train", "cat")}


@pytest.mark.parametrize("word", ["UNASSIGNED", "unassigned", ""])
def test_a_hash_assigns_the_rows_of_a_csv_that_name_no_split(tmp_path, word):
    names = [f"{number}.jpg" for number in range(40)]
    base = write_photos(tmp_path / "in", *names, "own.jpg")
    rows = "".join(f"{word},{name},cat\n" for name in names)
    (base / "list.csv").write_text(f"split,image_uri,label\n{rows}TEST,own.jpg,dog\n")
    convert(base, tmp_path / "out")
    splits = splits_of(tmp_path / "out")
    assert splits.pop("own.jpg") == "test"
    assert splits.keys() == set(names)
    assert set(splits.values()) == {"train", "eval"}


def test_layout_folder_takes_a_csv_for_a_file_like_any_other(tmp_path):
    base = write_photos(tmp_path / "in", "1.jpg", "2.jpg")
    (base / "list.csv").write_text("TRAIN,1.jpg,cat\n")
    convert(base, tmp_path / "out", layout="folder", max_reject_fraction=0.5)
    assert labels_of(tmp_path / "out") == {"1.jpg": None, "2.jpg": None}
    (line,) = rejects_in(tmp_path / "out/rejects.jsonl")
    assert (line["source"], line["code"]) == ("list.csv", "NOT_AN_IMAGE")


def test_a_bad_row_of_a_csv_is_a_line_of_rejects_with_one_code(tmp_path):
    base = write_photos(tmp_path / "in", "1.jpg", "2.jpg", "../elsewhere.jpg")
    (base / "link.jpg").symlink_to("../elsewhere.jpg")
    (base / "list.csv").write_text(
        "TRAIN,1.jpg,cat\n"
        "TRAIN,missing.jpg,cat\n"
        "TEST,2.jpg,\n"
        "TEST,../elsewhere.jpg,cat\n"
        f"TRAIN,{tmp_path}/elsewhere.jpg,cat\n"
        f"TRAIN,{base}-2/1.jpg,cat\n"
        "TRAIN,link.jpg,cat\n"
    )
    manifest = convert(base, tmp_path / "out", max_reject_fraction=0.9)
    lines = rejects_in(tmp_path / "out/rejects.jsonl")
    assert sorted((line["source"], line["code"], line["split"]) for line in lines) == [
        ("../elsewhere.jpg", "OUTSIDE_INPUT_BASE", "test"),
        (f"{tmp_path}/elsewhere.jpg", "OUTSIDE_INPUT_BASE", "train"),
        (f"{base}-2/1.jpg", "OUTSIDE_INPUT_BASE", "train"),
        ("2.jpg", "NO_LABEL", "test"),
        ("link.jpg", "OUTSIDE_INPUT_BASE", "train"),
        ("missing.jpg", "FILE_NOT_FOUND", "train"),
    ]
    (missing,) = [line for line in lines if line["source"] == "missing.jpg"]
    assert missing["detail"].startswith("line 2")
    assert placed(tmp_path / "out") == {"1.jpg": ("train", "cat")}
    assert accounting(manifest["total"]) == dict(found=7, written=1, rejected=6, skipped=0)
