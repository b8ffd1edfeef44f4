"""Datum's JSON files, read by Datum itself."""

import json

import pytest

from trainer_utils.format import DatasetError, Feature, parse_shard_info
from trainer_utils.format.datum import parse_features, render_features, render_shard_info

FEATURES = {
    "image": Feature(type="string", shape=(480, 640, 3), extra={"sizes": "mixed"}),
    "boxes": Feature(type="float", shape=(3, 4), dense=False),
    "label": Feature(type="int", extra={"num_classes": 5}),
}
SHARDS = {"train": {"Split-train/b": 3, "Split-train/a": 4}, "eval": {}}


def test_features_and_shards_are_read_as_they_were_written():
    assert parse_features(render_features(FEATURES), path="x") == FEATURES
    assert parse_shard_info(render_shard_info(SHARDS), path="x") == SHARDS
    assert list(parse_shard_info(render_shard_info(SHARDS), path="x")["train"]) == [
        "Split-train/b",
        "Split-train/a",
    ]


def test_datum_reads_the_features(tmp_path):
    pytest.importorskip("datum")  # which `make test-trainer` does not install
    from datum.reader.parser import DatumParser

    path = tmp_path / "datum_to_type_and_shape_mapping.json"
    path.write_text(render_features(FEATURES))
    read = DatumParser(str(tmp_path)).datum_to_type_shape
    assert {name: (e["type"], e["shape"], e["dense"]) for name, e in read.items()} == {
        "image": ("string", [480, 640, 3], True),
        "boxes": ("float", [3, 4], False),
        "label": ("int", [], True),
    }


def test_what_are_no_features_or_shards_is_refused_with_its_path():
    good = {"type": "int", "shape": [], "dense": True}
    wrong = [3, {}, {"type": "int", "shape": [], "dens": True}]
    wrong += [{**good, **change} for change in ({"type": "double"}, {"shape": 3}, {"shape": ["a"]})]
    for value in ([], None, *({"x": one} for one in wrong)):
        with pytest.raises(DatasetError, match="some/path"):
            parse_features(json.dumps(value), path="some/path")
    for info in ([], {"train": 3}, {"train": {"a": "3"}}, {"train": {"a": -1}}):
        with pytest.raises(DatasetError, match="some/path"):
            parse_shard_info(json.dumps(info), path="some/path")
