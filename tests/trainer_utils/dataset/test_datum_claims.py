"""Test datasets of Datum with a description that its own reader cannot use."""

import numpy as np
import pytest
from PIL import Image

import trainer_utils
from trainer_utils.dataset import open_dataset

pytest.importorskip("datum")  # not installed by `make test-trainer`

BOXES = [1, 2, 3, 2]  # in each image
LISTS = ["xmin", "xmax", "ymin", "ymax", "area", "labels", "pose", "is_truncated"]
SIZE = 32, 40
OBJECT = """<object><name>{name}</name><pose>Left</pose><truncated>0</truncated>
<difficult>0</difficult><bndbox><xmin>{n}</xmin><ymin>{n}</ymin><xmax>{x}</xmax><ymax>{y}</ymax></bndbox></object>"""


@pytest.fixture(scope="module")
def voc(tmp_path_factory, photos):
    """Write photos with boxes and label maps in the form that Datum reads; return the folder."""
    base = tmp_path_factory.mktemp("voc")
    for folder in ("JPEGImages", "Annotations", "ImageSets", "SegmentationClass"):
        (base / folder).mkdir()
    height, width = SIZE
    for number, count in enumerate(BOXES):
        Image.fromarray(photos[number][:height, :width]).save(base / f"JPEGImages/{number}.jpg")
        classes = np.random.default_rng(number).integers(0, 2, SIZE, np.uint8) * 200
        Image.fromarray(classes).save(base / f"SegmentationClass/{number}.png")
        objects = [
            OBJECT.format(name=("cat", "dog")[n % 2], n=n, x=n + 8, y=n + 9) for n in range(count)
        ]
        head = f"<size><width>{width}</width><height>{height}</height></size>"
        text = f"<annotation>{head}{''.join(objects)}</annotation>"
        (base / f"Annotations/{number}.xml").write_text(text)
    (base / "classes.names").write_text("cat\ndog\n")
    for path in ("train.txt", "ImageSets/train.txt"):
        (base / path).write_text("".join(f"{number}\n" for number in range(len(BOXES))))
    return base


@pytest.fixture(scope="module")
def export(voc, tmp_path_factory):
    from datum.configs import TFRWriteConfigs
    from datum.export import export_to_tfrecord

    def export(problem, sparse_features=()):
        configs = TFRWriteConfigs()
        configs.splits = {"train": {"num_examples": len(BOXES)}}
        configs.sparse_features = list(sparse_features)
        uri = str(tmp_path_factory.mktemp(problem))
        export_to_tfrecord(str(voc), uri, problem, configs)
        return uri

    return export


@pytest.mark.parametrize("sparse_features", [[], [*LISTS, "labels_difficult"]])
def test_boxes_are_read_with_any_datum_description(export, sparse_features):
    uri = export("image_det", sparse_features)
    assert not open_dataset(uri).features["xmin"].dense
    found = trainer_utils.input_fn(uri, "train", batch_size=None, shuffle=False)
    counts = [{name: len(example[name]) for name in LISTS} for example in found]
    assert sorted(map(str, counts)) == sorted(str(dict.fromkeys(LISTS, n)) for n in BOXES)
    (batch,) = trainer_utils.input_fn(uri, "train", batch_size=4, image_size=(16, 16))
    assert batch["xmin"].shape == (4, 3)


def test_resized_label_maps_keep_their_classes(export):
    uri = export("image_seg")
    (batch,) = trainer_utils.input_fn(uri, "train", batch_size=4, image_size=(13, 17))
    assert batch["image"].shape == (4, 13, 17, 3)
    assert set(np.unique(batch["label"])) == {0, 200}  # bilinear resizing would mix them
