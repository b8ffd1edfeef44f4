"""Test that TFDS's JSON files are parsed."""

import json
from pathlib import Path

import numpy as np
import pytest

from trainer_utils.core.errors import DatasetError
from trainer_utils.format import Feature
from trainer_utils.format.tfds import parse_tfds_features, parse_tfds_splits

GOLDEN = Path(__file__).parents[2] / "golden/tfds"


def sparse(kind: str, longest: int = 0) -> Feature:
    return Feature(type=kind, shape=(longest,), dense=False)


def test_features_of_every_kind_are_parsed():
    features = parse_tfds_features((GOLDEN / "features.json").read_text(), path="x")
    assert features == {
        "audio": sparse("int"),
        "bbox": Feature(type="float", shape=(4,)),
        "dyn": sparse("float"),
        "enc": Feature(type="string"),
        "f64": Feature(type="float"),
        "fixedseq": Feature(type="int", shape=(4,)),
        "flag": Feature(type="int"),
        "frames": sparse("string"),
        "grey": Feature(type="string", shape=(8, 9), extra={"sizes": "fixed"}),
        "image": Feature(type="string", shape=(0, 0, 3), extra={"sizes": "mixed"}),
        "label": Feature(type="int"),
        "mat": Feature(type="int", shape=(2, 2)),
        "nested/a": Feature(type="int"),
        "nested/b": Feature(type="string"),
        "objects/bbox": sparse("float"),
        "objects/label": sparse("int"),
        "opt": Feature(type="int"),
        "ragged/ragged_flat_values": sparse("int"),
        "ragged/ragged_row_lengths_0": sparse("int"),
        "text": Feature(type="string"),
        "tokens": sparse("int"),
        "u8": Feature(type="int", shape=(2,)),
        "vec": Feature(type="float", shape=(3,)),
        "words": sparse("string"),
    }


def test_shards_of_each_split_are_parsed():
    assert parse_tfds_splits((GOLDEN / "dataset_info.json").read_text(), path="x") == {
        "train": {"my_set-train.tfrecord-00000-of-00001": 20},
        "validation": {"my_set-validation.tfrecord-00000-of-00001": 5},
    }


def test_encoded_tensor_of_unknown_sizes_has_a_shape_feature(tmp_path):
    """Compare with TFDS's own description, for tensors of each encoding and unknown size."""
    tfds = pytest.importorskip("tensorflow_datasets")
    tensors = {
        f"{encoding}{len(shape)}{shape.count(None)}": tfds.features.Tensor(
            shape=shape, dtype=np.int64, encoding=encoding
        )
        for encoding in ("none", "bytes", "zlib")
        for shape in [(), (2,), (None,), (None, 2), (None, None), (None, 3, None)]
        if encoding != "none" or shape.count(None) < 2
    }
    written = tfds.features.FeaturesDict(tensors)
    names = {
        "/".join([name, *part])
        for name, info in written.get_serialized_info().items()
        for part in ([[key] for key in info] if isinstance(info, dict) else [[]])
    }
    written.save_config(tmp_path)
    features = parse_tfds_features((tmp_path / "features.json").read_text(), path="x")
    assert features is not None
    assert set(features) == names
    assert features["zlib32/shape"] == Feature(type="int", shape=(3,))
    assert features["zlib32/value"] == Feature(type="string")
    inside = tfds.features.FeaturesDict({"all": tfds.features.Sequence(tensors["bytes22"])})
    inside.save_config(tmp_path)
    assert parse_tfds_features((tmp_path / "features.json").read_text(), path="x") is None


def test_template_only_substitutes_known_fields():
    names = {name: name for name in ("{DATASET.__class__}", "{DATASET:>9999999999}", "{DATASET!r}")}
    names["{DATASET}-{SPLIT}-{SHARD_X_OF_Y}"] = "set-train-00000-of-00001"
    for template, name in (names | {"{OTHER}": None}).items():
        split = {"name": "train", "shardLengths": ["1"], "filepathTemplate": template}
        text = json.dumps({"name": "set", "splits": [split]})
        if name is not None:
            assert parse_tfds_splits(text, path="x") == {"train": {name: 1}}
            continue
        with pytest.raises(DatasetError, match="OTHER"):
            parse_tfds_splits(text, path="x")


def test_other_file_format_raises_with_the_fix():
    text = json.dumps({"name": "a", "fileFormat": "array_record", "splits": []})
    with pytest.raises(DatasetError, match=r"format tfrecord, got 'array_record'.*convert"):
        parse_tfds_splits(text, path="x")
