"""What is written for TFDS is what TFDS reads."""

import json

from components.schema.tfds import render_tfds_features, render_tfds_info
from trainer_utils.format import Feature
from trainer_utils.format.tfds import parse_tfds_features, parse_tfds_splits


def test_what_we_write_is_read_again():
    features = {
        "image": Feature(type="string", shape=(0, 0, 3), extra={"sizes": "mixed"}),
        "mask": Feature(type="string", shape=(4, 5), extra={"sizes": "fixed"}),
        "label": Feature(type="int"),
        "box": Feature(type="float", shape=(4,)),
        "tokens": Feature(type="int", shape=(0,), dense=False),
        "words": Feature(type="string", shape=(0,), dense=False),
        "raw": Feature(type="string"),
    }
    text = render_tfds_features(features, classes={"label": 3})
    assert parse_tfds_features(text, path="x") == features
    assert json.loads(text)["featuresDict"]["features"]["label"]["classLabel"] == {
        "numClasses": "3"
    }
    template = "../3/Split-train/data_tfrecord-{SHARD_X_OF_Y}"
    info = render_tfds_info("photos", {"train": (template, [5, 4], 900)})
    assert parse_tfds_splits(info, path="x") == {
        "train": {
            "../3/Split-train/data_tfrecord-00000-of-00002": 5,
            "../3/Split-train/data_tfrecord-00001-of-00002": 4,
        }
    }
