"""YOLO's folders by Ultralytics, Roboflow and Darknet, and unsupported contents."""

import pytest

from components.inputs.listing import FileTable, LayoutInputs
from components.layouts.reading import name_layout, read_layout
from tests.components.layouts.layout_files import values
from tests.make import write_files
from trainer_utils.core.errors import InputError
from trainer_utils.storage import list_files

BOXES = b"0 0.5 0.5 0.25 0.5\n1 0.25 0.25 0.5 0.5\n"
NAMES = b"nc: 2\nnames: ['cat', 'dog']\n"
ULTRALYTICS = {
    "data.yaml": b"path: .\ntrain: images/train\nval: images/val\nnames:\n  0: cat\n  1: dog\n",
    "images/train/1.jpg": b"x",
    "images/train/2.jpg": b"x",
    "images/val/3.jpg": b"x",
    "labels/train/1.txt": BOXES,
    "labels/val/3.txt": b"",
}
ROBOFLOW = {
    "data.yaml": b"train: ../train/images\nval: ../valid/images\ntest: ../test/images\n" + NAMES,
    "train/images/1.jpg": b"x",
    "train/images/2.jpg": b"x",
    "valid/images/3.jpg": b"x",
    "train/labels/1.txt": BOXES,
    "valid/labels/3.txt": b"",
}
DARKNET = {
    "train/1.jpg": b"x",
    "train/2.jpg": b"x",
    "valid/3.jpg": b"x",
    "train/1.txt": BOXES,
    "valid/3.txt": b"",
    "obj.names": b"cat\ndog\n",
}
TREES = {"ultralytics": ULTRALYTICS, "roboflow": ROBOFLOW, "darknet": DARKNET}


def inputs_of(base, **settings):
    files = FileTable.of(list_files(str(base)))
    return LayoutInputs(base=str(base), root="", files=files, **settings)


def read(base, **settings):
    return read_layout(inputs_of(base, **settings), layout="auto")


@pytest.mark.parametrize("tree", TREES)
def test_boxes_and_splits_are_read_from_every_tree(tmp_path, tree):
    base = write_files(tmp_path, TREES[tree])
    assert name_layout(inputs_of(base), layout="auto") == "yolo"
    listing = read(base)
    assert listing.vocabularies == {"labels": ("cat", "dog")}
    by_number = {name[-5]: row for name, row in values(listing).items()}
    assert by_number["1"] == {
        "xmin": (0.375, 0.0),
        "xmax": (0.625, 0.5),
        "ymin": (0.25, 0.0),
        "ymax": (0.75, 0.5),
        "area": (0.125, 0.25),
        "labels": ("cat", "dog"),
    }
    assert by_number["2"]["xmin"] == by_number["3"]["xmin"] == ()
    splits = {entry.name[-5]: entry.split for entry in listing.entries}
    assert splits == {"1": "train", "2": "train", "3": "eval"}


def test_classes_without_names_are_numbers(tmp_path):
    tree = {name: data for name, data in DARKNET.items() if name != "obj.names"}
    listing = read(write_files(tmp_path, tree))
    assert values(listing)["train/1.jpg"]["labels"] == (0, 1)
    assert listing.vocabularies == {}


BAD = {
    "a class too high": (b"2 0.5 0.5 0.1 0.1\n", "line 1: expected a class below 2, got 2"),
    "a class that is no number": (b"0.5 0.5 0.5 0.1 0.1\n", "expected a class below 2, got 0.5"),
    "pixels": (b"0 100 80 20 20\n", "expected a box relative to its image"),
    "a box outside": (b"\n0 0.9 0.5 0.5 0.1\n", "line 2: expected a box relative to its image"),
    "words": (b"cat 0.5 0.5 0.1 0.1\n", "line 1: expected numbers"),
    "too few numbers": (b"0 0.5 0.5 0.1\n", "expected a class and four numbers, got 4 numbers"),
}


@pytest.mark.parametrize("case", BAD)
def test_a_bad_line_rejects_its_image(tmp_path, case):
    text, detail = BAD[case]
    listing = read(write_files(tmp_path, ULTRALYTICS | {"labels/train/2.txt": text}))
    ((name, code, found),) = [(left.name, left.code, left.detail) for left in listing.excluded]
    assert (name, code) == ("images/train/2.jpg", "BAD_ANNOTATION")
    assert detail in found


def test_a_text_without_its_image_is_counted(tmp_path):
    listing = read(write_files(tmp_path, ULTRALYTICS | {"labels/train/9.txt": BOXES}))
    assert [(left.name, left.code) for left in listing.excluded] == [
        ("labels/train/9.txt", "FILE_NOT_FOUND")
    ]


@pytest.mark.parametrize(
    ("line", "word"),
    [
        (b"1 0.1 0.2 0.5 0.2 0.5 0.6 0.1 0.6\n", "oriented boxes"),
        (b"1 0.1 0.2 0.5 0.2 0.3 0.6\n", "segments"),
    ],
)
def test_polygons_are_refused_by_name_or_boxed(tmp_path, line, word):
    base = write_files(tmp_path, ULTRALYTICS | {"labels/train/1.txt": line})
    with pytest.raises(InputError, match=rf"{word}.*--box-format polygon"):
        read(base)
    row = values(read(base, box_format="polygon"))["images/train/1.jpg"]
    edges = [row[edge] for edge in ("xmin", "ymin", "xmax", "ymax")]
    assert edges == [(0.1,), (0.2,), (0.5,), (0.6,)]


def test_keypoints_are_refused_by_name(tmp_path):
    config = ULTRALYTICS["data.yaml"] + b"kpt_shape: [17, 3]\n"
    with pytest.raises(InputError, match="kpt_shape"):
        read(write_files(tmp_path, ULTRALYTICS | {"data.yaml": config}))


def test_an_image_in_no_split_of_data_yaml_is_skipped(tmp_path):
    listing = read(write_files(tmp_path, ULTRALYTICS | {"images/extra/7.jpg": b"x"}))
    assert [(left.name, left.code) for left in listing.excluded] == [("images/extra/7.jpg", None)]
