"""Splits and classes of folders, junk files, unread files, links and masks."""

import json

import pytest

from components.inputs.listing import FileTable, LayoutInputs
from components.layouts.junk import ignored_mask, junk_mask
from components.layouts.reading import read_layout
from tests.components.layouts.layout_files import read
from tests.make import jpeg, photo, write_files
from trainer_utils.core.errors import InputError
from trainer_utils.storage import InputFile

IMAGE = jpeg(1)


def placed(listing):
    """Return the split and class of each file."""
    return {e.name: (e.split, e.values[0] if e.values else None) for e in listing.entries}


def names(*paths):
    return dict.fromkeys(paths, IMAGE)


TREES = {
    "classes that are numbered alike": (
        names(*(f"{label}/{n}.jpg" for label in ("cats", "dogs") for n in range(4))),
        {f"{label}/{n}.jpg": (None, label) for label in ("cats", "dogs") for n in range(4)},
    ),
    "wrappers": (
        names("photos/photos/cat/1.jpg", "photos/photos/dog/2.jpg"),
        {"cat/1.jpg": (None, "cat"), "dog/2.jpg": (None, "dog")},
    ),
    "training and testing": (
        names("Training/a/1.jpg", "Training/b/2.jpg", "Testing/a/3.jpg"),
        {"a/1.jpg": ("train", "a"), "b/2.jpg": ("train", "b"), "a/3.jpg": ("test", "a")},
    ),
    "splits within a wrapper": (
        names("x/train/a/1.jpg", "x/train/b/2.jpg", "x/val/b/3.jpg"),
        {"a/1.jpg": ("train", "a"), "b/2.jpg": ("train", "b"), "b/3.jpg": ("eval", "b")},
    ),
    "splits of file names": (
        names("cat/train_1.jpg", "dog/train_2.jpg", "cat/test_3.jpg"),
        {
            "cat/train_1.jpg": ("train", "cat"),
            "dog/train_2.jpg": ("train", "dog"),
            "cat/test_3.jpg": ("test", "cat"),
        },
    ),
    "images within classes": (
        names("cat/images/1.jpg", "dog/images/2.jpg"),
        {"images/1.jpg": (None, "cat"), "images/2.jpg": (None, "dog")},
    ),
    "a split without labels": (
        names("train/cat/1.jpg", "train/dog/2.jpg", "test/3.jpg"),
        {
            "cat/1.jpg": ("train", "cat"),
            "dog/2.jpg": ("train", "dog"),
            "test/3.jpg": ("test", None),
        },
    ),
    "masks": (
        names(
            "train/images/1.jpg", "train/masks/1.png", "val/images/2.jpg", "val/masks/2_mask.png"
        ),
        {"images/1.jpg": ("train", None), "images/2.jpg": ("eval", None)},
    ),
    "a wrapped layout": (
        {**names("data/train/1.jpg", "data/train/2.jpg"), "data/train.txt": "1.jpg a\n2.jpg b\n"},
        {"train/1.jpg": ("train", "a"), "train/2.jpg": ("train", "b")},
    ),
    "a list of validation images": (
        {
            **names("train/a/1.jpg", "train/b/2.jpg", "val/3.jpg", "val/4.jpg"),
            "val.txt": "3.jpg b\n4.jpg a\n",
        },
        {
            "a/1.jpg": ("train", "a"),
            "b/2.jpg": ("train", "b"),
            "val/3.jpg": ("eval", "b"),
            "val/4.jpg": ("eval", "a"),
        },
    ),
    "tiny ImageNet": (
        {
            **names("train/n1/images/n1_0.JPEG", "train/n2/images/n2_0.JPEG"),
            **names("val/images/val_0.JPEG", "test/images/test_0.JPEG"),
            "val/val_annotations.txt": "val_0.JPEG\tn2\t0\t32\t44\t62\n",
            "wnids.txt": "n1\nn2\n",
            "train/n1/n1_boxes.txt": "n1_0.JPEG\t0\t10\t63\t58\n",
        },
        {
            "images/n1_0.JPEG": ("train", "n1"),
            "images/n2_0.JPEG": ("train", "n2"),
            "images/val_0.JPEG": ("eval", "n2"),
            "images/test_0.JPEG": ("test", None),
        },
    ),
}


@pytest.mark.parametrize(("files", "expected"), TREES.values(), ids=TREES)
def test_tree_gives_splits_and_classes(tmp_path, files, expected):
    found = placed(read(write_files(tmp_path, files)))
    assert {"/".join(name.split("/")[-2:]): place for name, place in found.items()} == expected


COCO = json.dumps({"images": [], "annotations": [], "categories": []})
REFUSED = {
    "one class": (names("cat/1.jpg", "cat/2.jpg"), "only the folder 'cat'"),
    "kinds of files": (names("images/1.jpg", "cat/2.jpg"), "'images' next to 'cat'"),
    "the same folders": (
        names("color/a/1.jpg", "color/b/2.jpg", "segmented/a/3.jpg", "segmented/b/4.jpg"),
        "'color' and 'segmented', which both contain 'a', 'b'",
    ),
    "the same names": (
        names("before/x.jpg", "before/y.jpg", "after/x.jpg", "after/y.jpg"),
        "'after' and 'before' with files of the same names",
    ),
    "the same numbers": (
        names(*(f"{side}/{n}.png" for side in ("left", "right") for n in range(3))),
        "files of the same names",
    ),
    "masks with the same numbers": (
        {
            **{f"colour/{n}.png": photo(n, "PNG") for n in range(4)},
            **{f"grey/{n}.png": photo(n, "PNG", "L") for n in range(4)},
        },
        "'colour' and 'grey' with files of the same names",
    ),
    "a class in test alone": (
        names("train/a/1.jpg", "train/b/2.jpg", "test/c/3.jpg"),
        "'c', only in 'test'",
    ),
    "splits next to others": (
        names("train/a/1.jpg", "test/a/2.jpg", "holdout/a/3.jpg"),
        "--ignore 'holdout/*'",
    ),
    "some file names": (names("a/test_1.jpg", "a/2.jpg", "b/3.jpg"), "'a/test_1.jpg' (test)"),
    "two splits": (names("train/test/1.jpg", "train/b/2.jpg"), "train and test"),
    "a COCO file": (
        {**names("cat/1.jpg", "dog/2.jpg"), "cat/result.json": COCO},
        "it has `images` and `annotations`: COCO",
    ),
    "a table below": (
        {**names("cat/1.jpg", "dog/2.jpg"), "cat/metadata.csv": "file_name,text\n1.jpg,x\n"},
        "a table that begins with 'file_name,text'",
    ),
    "a text without an ending": (
        {**names("cat/1.jpg", "dog/2.jpg"), "cat/notes": "hello"},
        "cat/notes",
    ),
    "a clip among images": ({**names("cat/1.jpg", "dog/2.jpg"), "dog/3.wav": b"RIFF"}, "3.wav"),
}


@pytest.mark.parametrize(("files", "message"), REFUSED.values(), ids=REFUSED)
def test_tree_that_is_unclear_is_refused(tmp_path, files, message):
    with pytest.raises(InputError) as caught:
        read(write_files(tmp_path, files))
    assert message in str(caught.value)


def test_explicit_layout_is_obeyed(tmp_path, subtests):
    for case in ("one class", "kinds of files", "the same names", "some file names"):
        with subtests.test(case=case):
            files = REFUSED[case][0]
            found = placed(read(write_files(tmp_path / case, files), "folder"))
            assert found == {name: (None, name.split("/")[0]) for name in files}


def test_junk_is_known_by_name(tmp_path):
    junk = ["._1.jpg", ".DS_Store", "__MACOSX/cat/._1.jpg", "cat/Thumbs.db", "desktop.ini"]
    junk += [".gitattributes", "README", "README.md", "README.dataset.txt", "LICENSE", "_SUCCESS"]
    junk += ["a.csv.crc", "1.jpg.md5", ".ipynb_checkpoints/1.jpg", "cat/readme.txt"]
    data = ["a.csv", "b.crc", "1.jpg", "license_plates.csv", "readme.jpg", "licensed/1.jpg"]
    files = FileTable.of(InputFile(name, 1, "") for name in [*junk, *data])
    assert {*files.select_only(junk_mask(files, media="image"))} == {*junk}
    texts = files.select_only(junk_mask(files, media="text"))
    documents = {"README", "README.md", "README.dataset.txt", "LICENSE", "cat/readme.txt"}
    assert {*junk} - {*texts} == documents


IGNORED = [
    ("*.json", ["a/b/1.json", "2.json"]),
    ("a", ["a/b/1.json", "a/3.jpg"]),
    ("a/*.jpg", ["a/3.jpg"]),
    ("?.json", ["2.json", "a/b/1.json"]),
    ("[23].*", ["2.json", "a/3.jpg"]),
    ("[!2].json", ["a/b/1.json"]),
    ("x+y", ["x+y"]),
]


@pytest.mark.parametrize(("pattern", "expected"), IGNORED)
def test_ignored_files_match_a_pattern(pattern, expected):
    files = FileTable.of(InputFile(n, 1, "") for n in ("a/b/1.json", "2.json", "a/3.jpg", "x+y"))
    assert {*files.select_only(ignored_mask(files, [pattern]))} == {*expected}


def test_files_are_found_by_extension_in_any_case():
    names = ["a.b/c", "x.JPG", "y.tar.gz", "none", ".hidden", "é.png", "z.", "d/e.jpeg"]
    names.append(f"l.{'x' * 20}")
    files = FileTable.of(InputFile(name, 1, "") for name in names)
    assert [*files.ending([".jpg", ".jpeg", ".png"])] == ["d/e.jpeg", "x.JPG", "é.png"]
    assert [*files.ending([".tar.gz"])] == ["y.tar.gz"]
    assert [*files.ending([".b", ".hidde"])] == [*FileTable.of([]).ending([".x"])] == []


def test_detection_makes_no_table_of_all_paths():
    """Assert that detection copies no paths: a million would take a second and 150 MB."""
    names = (f"{'cat' if n % 2 else 'dog'}/{n:03d}.jpg" for n in range(200))
    files = FileTable.of(InputFile(name, 1, "") for name in (*names, "cat/.DS_Store"))
    files = files.select_only(~junk_mask(files, media="image"))
    read_layout(LayoutInputs(base="/nowhere", root="", files=files), layout="auto")
    assert "_places" not in vars(files)


def test_empty_class_folder_is_reported(tmp_path, caplog):
    base = write_files(tmp_path, names("train/cat/1.jpg", "train/dog/2.jpg"))
    (base / "train/owl").mkdir()
    (base / "train/.cache").mkdir()
    with caplog.at_level("WARNING"):
        read(base)
    assert [r.message for r in caplog.records if "does not become a class" in r.message] == [
        f"the folder '{base}/train/owl' has no files to read and does not become a class"
    ]


def test_folders_that_become_one_split_are_named(tmp_path, our_messages):
    files = [f"{top}/{c}/{n}.jpg" for top in ("train", "test", "test2") for n, c in enumerate("ab")]
    read(write_files(tmp_path, names(*files)))
    assert our_messages() == ["the folders 'test', 'test2' all become the split 'test'"]
