"""Test JSON Schema, against the jsonschema package, and TFDS features."""

import json

import jsonschema
import pytest

from components.schema.describing import render_example_schema, render_tfds_features
from trainer_utils.format import Feature
from trainer_utils.format.tfds import parse_tfds_features

FEATURES = {
    "id": Feature(type="int", shape=(), extra={}),
    "label": Feature(type="int"),
    "vector": Feature(type="float", shape=(2, 3)),
    "pixels": Feature(type="string", extra={"encoding": "raw", "image_shape": [1, 2, 3]}),
}
SCHEMA = json.loads(render_example_schema(FEATURES, vocabularies={"label": ["cat", "dog"]}))
GOOD = {
    "id": 2**63 - 1,
    "label": 1,
    "vector": [[0.5, 1, 2], [3, 4, 5]],
    "pixels": [[[0, 1, 255], [3, 4, 5]]],
}


def test_json_schema_is_valid_and_accepts_an_example():
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    jsonschema.validate(GOOD, SCHEMA, jsonschema.Draft202012Validator)


def test_json_schema_rejects_other_examples():
    changes = [
        {"id": 2**63}, {"id": "a"}, {"label": 2}, {"label": -1}, {"vector": [[1, 2, 3]]},
        {"vector": [[1, 2], [3, 4]]}, {"pixels": [[[0, 1, 256], [3, 4, 5]]]}, {"other": 1},
    ]  # fmt: skip
    bad = [GOOD | change for change in changes]
    bad += [{key: value for key, value in GOOD.items() if key != name} for name in GOOD]
    for example in bad:
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(example, SCHEMA, jsonschema.Draft202012Validator)


def test_tfds_features_round_trip():
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
