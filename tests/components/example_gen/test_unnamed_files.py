"""Images that a list or an annotation leaves out are told, and nothing else is."""

import json

import pytest

from components.common.file_table import FileTable
from components.common.input_table import join_inputs
from components.common.layout_inputs import LayoutInputs
from components.example_gen.unnamed_files import warn_of_unnamed
from components.layouts import read_layout
from trainer_utils.storage import list_files

PHOTO = b"\xff\xd8\xff"  # no layout opens one
INSTANCES = {
    "images": [{"id": 1, "file_name": "1.jpg", "height": 3, "width": 4}],
    "annotations": [{"id": 1, "image_id": 1, "category_id": 1, "bbox": [0, 0, 1, 1]}],
    "categories": [{"id": 1, "name": "cat"}],
}
COCO = {"annotations/instances_train.json": json.dumps(INSTANCES), "train/1.jpg": PHOTO}
LIST = {"train.csv": "image,label\na/1.jpg,cat\na/2.jpg,dog\n", "a/1.jpg": PHOTO, "a/2.jpg": PHOTO}


@pytest.fixture
def warnings(tmp_path, our_messages):
    """What is said of a folder of files, each list of `roots` read by itself."""

    def warnings(contents, roots=("",)):
        for name, content in contents.items():
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content if isinstance(content, bytes) else content.encode())
        table = FileTable.of(list_files(str(tmp_path)))
        read = [
            read_layout(LayoutInputs(base=str(tmp_path), root=root, files=table), layout="auto")
            for root in roots
        ]
        before = len(our_messages())
        warn_of_unnamed(join_inputs(read), [table for _ in roots], media="image")
        return our_messages()[before:]

    return warnings


@pytest.mark.parametrize(
    ("more", "count"),
    [
        ({"train/2.jpg": PHOTO}, "1 image in"),
        ({"train/2.jpg": PHOTO, "train/3.PNG": PHOTO}, "2 images in"),
        ({"train/2.jpg": PHOTO, "train/\xfc.jpg": PHOTO}, "2 images in"),
    ],
)
@pytest.mark.parametrize("inputs", [COCO, LIST], ids=["coco", "list"])
def test_images_beside_those_that_are_named_are_counted_and_one_is_named(
    warnings, inputs, more, count
):
    folder = "train" if inputs is COCO else "a"
    more = {name.replace("train", folder).replace("2", "9"): data for name, data in more.items()}
    (message,) = warnings({**inputs, **more})
    assert count in message
    assert min(more) in message
