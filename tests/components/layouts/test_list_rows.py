"""Lists of boxes, captions, labels, and several rows per file, as exported by other tools."""

import json

import pytest

from components.inputs.listing import FileTable, LayoutInputs
from components.layouts.reading import read_layout
from tests.components.layouts.layout_files import values
from tests.make import write_files
from trainer_utils.core.errors import InputError
from trainer_utils.storage import list_files

BOXES = ("xmin", "ymin", "xmax", "ymax")
DETECTION = {
    "tensorflow": (
        "filename,width,height,class,xmin,ymin,xmax,ymax\n"
        "1.jpg,200,100,cat,20,10,60,50\n1.jpg,200,100,dog,100,0,200,100\n2.jpg,200,100,cat,0,0,2,1\n"
    ),
    "corners and sizes by other names": (
        "img_width,img_height,image,label,x1,y1,x2,y2\n"
        "200,100,1.jpg,cat,20,10,60,50\n200,100,1.jpg,dog,100,0,200,100\n200,100,2.jpg,cat,0,0,2,1\n"
    ),
    "left, top, width and height": (
        "image,width,height,class_name,x,y,w,h\n"
        "1.jpg,200,100,cat,20,10,40,40\n1.jpg,200,100,dog,100,0,100,100\n2.jpg,200,100,cat,0,0,2,1\n"
    ),
    "open images": (
        "ImageID,Source,LabelName,Confidence,XMin,XMax,YMin,YMax,IsOccluded\n"
        "1,x,cat,1,0.1,0.3,0.1,0.5,0\n1,x,dog,1,0.5,1,0,1,1\n2,x,cat,1,0,0.01,0,0.01,0\n"
    ),
    "four numbers in one column": (
        "image,width,height,label,bbox\n"
        '1.jpg,200,100,cat,"[20, 10, 40, 40]"\n1.jpg,200,100,dog,"[100, 0, 100, 100]"\n'
        '2.jpg,200,100,cat,"[0, 0, 2, 1]"\n'
    ),
    "centres": (
        "image,label,x_center,y_center,width,height\n"
        "1.jpg,cat,0.2,0.3,0.2,0.4\n1.jpg,dog,0.75,0.5,0.5,1\n2.jpg,cat,0.005,0.005,0.01,0.01\n"
    ),
}
EXPECTED = {
    "1.jpg": {"xmin": (0.1, 0.5), "ymin": (0.1, 0), "xmax": (0.3, 1), "ymax": (0.5, 1)},
    "2.jpg": {"xmin": (0,), "ymin": (0,), "xmax": (0.01,), "ymax": (0.01,)},
}


def read(base, *, columns=None, **settings):
    files = FileTable.of(list_files(str(base)))
    inputs = LayoutInputs(base=str(base), root="", files=files, columns=columns or {}, **settings)
    return read_layout(inputs, layout="auto")


def write(base, text, name="list.csv", images=("1.jpg", "2.jpg", "3.jpg")):
    return write_files(base, {**dict.fromkeys(images, b"an image"), name: text.encode()})


@pytest.mark.parametrize("form", DETECTION)
def test_rows_of_boxes_become_relative_boxes_of_their_image(tmp_path, form, subtests):
    found = values(read(write(tmp_path, DETECTION[form])))
    assert {name: row["labels"] for name, row in found.items()} == {
        "1.jpg": ("cat", "dog"),
        "2.jpg": ("cat",),
    }
    for name, expected in EXPECTED.items():
        with subtests.test(name=name):
            for edge, numbers in expected.items():
                assert found[name][edge] == pytest.approx(numbers), (name, edge)
            areas = [
                (right - left) * (bottom - top)
                for left, top, right, bottom in zip(
                    *(expected[edge] for edge in BOXES), strict=True
                )
            ]
            assert found[name]["area"] == pytest.approx(areas)


def test_retinanet_list_has_no_header(tmp_path):
    rows = "1.jpg,20,10,60,50,cat\n1.jpg,100,0,200,100,dog\n2.jpg,0,0,2,1,cat\n3.jpg,,,,,\n"
    found = values(read(write(tmp_path, rows)))
    assert {name: row["labels"] for name, row in found.items()} == {
        "1.jpg": ("cat", "dog"),
        "2.jpg": ("cat",),
        "3.jpg": (),
    }
    # The list has no sizes, so boxes stay in pixels until each image is read.
    assert [found["1.jpg"][edge] for edge in BOXES] == [(20, 100), (10, 0), (60, 200), (50, 100)]
    assert (found["1.jpg"]["width"], found["3.jpg"]["width"]) == (0, None)


def test_ambiguous_four_numbers_need_a_setting(tmp_path):
    base = write(tmp_path, 'image,label,bbox\n1.jpg,cat,"[20, 10, 60, 50]"\n')
    with pytest.raises(InputError, match=r"box_format='xywh' \(--box-format xywh\)"):
        read(base)
    assert values(read(base, box_format="xyxy"))["1.jpg"]["xmax"] == (60,)
    assert values(read(base, box_format="xywh"))["1.jpg"]["xmax"] == (80,)


def test_a_bad_box_is_a_reject(tmp_path):
    head = "image,width,height,label,xmin,ymin,xmax,ymax\n"
    rows = ["1.jpg,200,100,cat,20,10,260,50", "2.jpg,200,100,,20,10,60,50", "3.jpg,9,9,cat,1,,3,4"]
    listing = read(write(tmp_path, head + "\n".join(rows)))
    assert [(left.name, left.code) for left in listing.excluded] == [
        ("1.jpg", "BAD_ANNOTATION"),
        ("2.jpg", "NO_LABEL"),
        ("3.jpg", "BAD_ANNOTATION"),
    ]


def test_columns_set_by_the_user_are_not_boxes(tmp_path):
    base = write(tmp_path, DETECTION["tensorflow"].replace("1.jpg,200,100,dog,100,0,200,100\n", ""))
    kinds = dict.fromkeys(BOXES, "float")
    assert values(read(base, columns=kinds))["1.jpg"]["xmin"] == 20


def test_captions_of_a_file_are_a_list(tmp_path):
    rows = "image,caption\n" + "".join(f"{n}.jpg,c {n} {k}\n" for n in (1, 2) for k in range(3))
    base = write(tmp_path, rows, "captions.txt")
    grouped = values(read(base))
    assert grouped["1.jpg"]["caption"] == ("c 1 0", "c 1 1", "c 1 2")
    each = values(read(base, rows="each"))
    assert sorted(row["caption"] for row in each.values()) == sorted(
        f"c {n} {k}" for n in (1, 2) for k in range(3)
    )
    assert len(each) == 6


def test_two_labels_of_a_file_need_a_setting(tmp_path):
    base = write(tmp_path, "image,label\n1.jpg,cat\n1.jpg,dog\n2.jpg,cat\n")
    with pytest.raises(InputError, match=r"--rows grouped.*--rows each") as error:
        read(base)
    assert "'cat' in line 2, 'dog' in line 3" in str(error.value)
    grouped = values(read(base, rows="grouped"))
    assert {n: row["label"] for n, row in grouped.items()} == {
        "1.jpg": ("cat", "dog"),
        "2.jpg": ("cat",),
    }
    assert len(read(base, rows="each").entries) == 3


MULTI = "image,label\n1.jpg,cat|dog\n2.jpg,cat\n3.jpg,dog|\n"


def test_several_labels_in_a_field_need_a_separator(tmp_path):
    base = write(tmp_path, MULTI)
    with pytest.raises(InputError, match=r"label_separator='\|' \(--label-separator '\|'\)"):
        read(base)
    found = values(read(base, label_separator="|"))
    assert {n: row["label"] for n, row in found.items()} == {
        "1.jpg": ("cat", "dog"),
        "2.jpg": ("cat",),
        "3.jpg": ("dog",),
    }
    whole = values(read(base, columns={"label": "label"}))
    assert whole["1.jpg"]["label"] == "cat|dog"


@pytest.mark.parametrize("missing", ["", " ", "-1"])
def test_a_missing_label_is_a_reject_or_an_unlabelled_split(tmp_path, missing):
    text = f"image,label\n1.jpg,cat\n2.jpg,{missing}\n3.jpg,dog\n"
    listing = read(write(tmp_path / "one", text))
    assert [(left.name, left.code) for left in listing.excluded] == [("2.jpg", "NO_LABEL")]
    assert {n: row["label"] for n, row in values(listing).items()} == {
        "1.jpg": "cat",
        "3.jpg": "dog",
    }
    text = f"image,label,split\n1.jpg,cat,train\n2.jpg,{missing},test\n3.jpg,dog,train\n"
    listing = read(write(tmp_path / "split", text))
    assert {n: row["label"] for n, row in values(listing).items()} == {
        "1.jpg": "cat",
        "2.jpg": None,
        "3.jpg": "dog",
    }


def test_minus_one_among_numbers_is_a_number(tmp_path):
    text = "image,label\n1.jpg,1\n2.jpg,-1\n3.jpg,0\n"
    assert {n: r["label"] for n, r in values(read(write(tmp_path, text))).items()} == {
        "1.jpg": 1,
        "2.jpg": -1,
        "3.jpg": 0,
    }


def test_ids_find_files_by_their_stems(tmp_path):
    images = ("a/000c14.png", "b/012345.png", "b/1e5.png")
    text = "id_code,diagnosis\n000c14,2.0\n012345,\n1e5,0.0\n"
    listing = read(write(tmp_path, text, images=images))
    assert {n: row["diagnosis"] for n, row in values(listing).items()} == {
        "a/000c14.png": 2,
        "b/1e5.png": 0,
    }
    assert [(left.name, left.code) for left in listing.excluded] == [("b/012345.png", "NO_LABEL")]


def test_a_name_of_two_files_is_refused(tmp_path):
    base = write(tmp_path, "image,label\n1.jpg,cat\n", images=("a/1.jpg", "b/1.jpg"))
    with pytest.raises(InputError, match=r"line 2.*a/1.jpg, b/1.jpg.*--image-dir a"):
        read(base)


def test_a_missing_file_is_not_taken_from_another_folder(tmp_path):
    text = "image,label\n1.jpg,cat\n2.jpg,dog\n"
    listing = read(write(tmp_path, text, images=("1.jpg", "other/2.jpg")))
    assert [(left.name, left.code) for left in listing.excluded] == [("2.jpg", "FILE_NOT_FOUND")]


LOST = {
    "C:\\data\\photos\\cat\\{}.jpg": "tail",
    "/kaggle/input/x/cat/{}.jpg": "tail",
    "old/{}.jpg": "name",
    "old/{}": "stem",
}


@pytest.mark.parametrize("form", LOST)
def test_lost_paths_are_refused_with_the_flag_that_finds_them(tmp_path, form):
    images = ("photos/cat/1.jpg", "photos/cat/2.jpg")
    text = "image,label\n" + "".join(f"{form.format(n)},cat\n" for n in (1, 2))
    base = write(tmp_path, text, images=images)
    way = (
        "tail" if LOST[form] == "name" else LOST[form]
    )  # with one common folder, the tail is the name
    with pytest.raises(InputError, match=rf"2 of these 2 .*--find-files {way}"):
        read(base)
    assert sorted(values(read(base, find_files=way))) == sorted(images)
    assert sorted(values(read(base, find_files=LOST[form]))) == sorted(images)


def test_files_elsewhere_are_refused_with_their_folder(tmp_path):
    text = "image,label\n/data/photos/1.jpg,cat\n/data/photos/more/2.jpg,cat\n"
    with pytest.raises(InputError, match=r"\(--file-root /data/photos\)"):
        read(write(tmp_path, text, images=()))


def test_splits_come_from_the_listed_paths(tmp_path):
    lines = [{"file_name": f"{s}/{n}.jpg", "text": "x"} for s, n in (("train", 1), ("test", 2))]
    text = "".join(json.dumps(line) + "\n" for line in lines)
    images = ("train/1.jpg", "test/2.jpg", "more/3.jpg")
    listing = read(write(tmp_path, text, "metadata.jsonl", images))
    assert {e.name: e.split for e in listing.entries} == {
        "train/1.jpg": "train",
        "test/2.jpg": "test",
    }
    some = text + json.dumps({"file_name": "more/3.jpg", "text": "x"}) + "\n"
    with pytest.raises(InputError, match=r"2 of its 3 files name a split.*more/3.jpg"):
        read(write(tmp_path, some, "metadata.jsonl", images))


def test_a_list_may_be_in_the_folder_of_each_split(tmp_path):
    write_files(tmp_path, {f"{s}/{n}.jpg": b"x" for s, n in (("train", 1), ("valid", 2))})
    for split, number in (("train", 1), ("valid", 2)):
        (tmp_path / split / "metadata.csv").write_text(f"file_name,text\n{number}.jpg,t {number}\n")
    listing = read(tmp_path)
    assert {(e.name, e.split, e.values[0]) for e in listing.entries} == {
        ("train/1.jpg", "train", "t 1"),
        ("valid/2.jpg", "eval", "t 2"),
    }


def test_windows_lists_have_backslashes_and_decimal_commas(tmp_path):
    text = "image;label;weight\r\nb\\1.jpg;schön;0,5\r\nb\\2.jpg;schlecht;12,25\r\n"
    images = {"b/1.jpg": b"x", "b/2.jpg": b"x", "list.csv": text.encode("cp1252")}
    found = values(read(write_files(tmp_path, images), delimiter=";", encoding="cp1252"))
    assert found == {
        "b/1.jpg": {"label": "schön", "weight": 0.5},
        "b/2.jpg": {"label": "schlecht", "weight": 12.25},
    }


def test_trailing_delimiters_are_not_a_column(tmp_path):
    listing = read(write(tmp_path, "image,label,\n1.jpg,cat,\n2.jpg,dog,\n"))
    assert [column.name for column in listing.columns] == ["label"]
    rows = "".join("1.jpg,cat,\n" for _ in range(50))
    base = write(tmp_path, f"image,label,\n{rows}2.jpg,dog,x\n")
    with pytest.raises(InputError, match=r"field 3 has a value.*line 52"):
        read(base, rows="each")


def test_boxes_in_hub_folders_are_lists_in_a_row(tmp_path):
    rows = [
        {"bbox": [[20.0, 10.0, 40.0, 40.0], [100.0, 0.0, 100.0, 100.0]], "categories": [0, 1]},
        {"bbox": [], "categories": []},
        {"bbox": [[150.0, 10.0, 40.0, 40.0]], "categories": [1]},
    ]
    text = "".join(
        json.dumps({"file_name": f"{n}.jpg", "objects": row}) + "\n"
        for n, row in enumerate(rows, 1)
    )
    found = values(read(write(tmp_path, text, "metadata.jsonl")))
    assert {name: row["labels"] for name, row in found.items()} == {
        "1.jpg": (0, 1),
        "2.jpg": (),
        "3.jpg": (1,),
    }
    assert (found["1.jpg"]["xmin"], found["1.jpg"]["xmax"]) == ((20, 100), (60, 200))
