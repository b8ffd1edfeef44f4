"""TFDS's two JSON files, `dataset_info.json` and `features.json`, so that TFDS opens a dataset.

    render_tfds_features(features, classes={"label": 10})
    render_tfds_info("photos", {"train": ("Split-train/…-{SHARD_X_OF_Y}", [5, 4], 900)})

Source: `tensorflow_datasets/core/proto/{dataset_info,feature}.proto` of TFDS 4.9.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from trainer_utils.format.datum import Feature
from trainer_utils.format.json_text import JsonObject, render_json

_FEATURES = "tensorflow_datasets.core.features"
_UNKNOWN = -1


def render_tfds_features(
    features: Mapping[str, Feature], *, classes: Mapping[str, int] | None = None
) -> str:
    """`features.json` as text.

    Args:
        features: by name.
        classes: for features that are ids of a vocabulary, its size.
    """
    entries = {
        name: _entry(feature, (classes or {}).get(name)) for name, feature in features.items()
    }
    return render_json(_of_kind("features_dict.FeaturesDict", featuresDict={"features": entries}))


def _entry(feature: Feature, num_classes: int | None) -> JsonObject:
    if feature.is_image and feature.dense:
        size = feature.shape[:2] if feature.is_fixed_size else (_UNKNOWN, _UNKNOWN)
        channels = 1 if len(feature.shape) == 2 else 3
        image = {"dtype": "uint8", "shape": _shape((*size, channels))}
        return _of_kind("image_feature.Image", image=image)
    if feature.type == "string" and feature.dense:
        # As a tensor, not as a text: TFDS shows a text as UTF-8, and bytes need be none.
        return _tensor("string", ())
    single = feature.shape == () or (feature.shape == (1,) and feature.dense)
    if num_classes is not None and feature.type == "int" and single:
        label = {"numClasses": str(num_classes)}
        return _of_kind("class_label_feature.ClassLabel", classLabel=label)
    dtype = {"int": "int64", "float": "float32", "string": "string"}[feature.type]
    if feature.dense:
        return _tensor(dtype, feature.shape)
    sequence = {"feature": _tensor(dtype, ()), "length": str(_UNKNOWN)}
    return _of_kind("sequence_feature.Sequence", sequence=sequence)


def _tensor(dtype: str, shape: tuple[int, ...]) -> JsonObject:
    tensor = {"dtype": dtype, "encoding": "none", "shape": _shape(shape)}
    return _of_kind("tensor_feature.Tensor", tensor=tensor)


def _shape(shape: Sequence[int]) -> JsonObject:
    return {"dimensions": [str(size) for size in shape]} if shape else {}


def _of_kind(python_class: str, **content: Any) -> JsonObject:
    return {"pythonClassName": f"{_FEATURES}.{python_class}", **content}


def render_tfds_info(name: str, splits: Mapping[str, tuple[str, Sequence[int], int]]) -> str:
    """`dataset_info.json` as text.

    Args:
        name: of the dataset, as an identifier.
        splits: for each the template of its shards' paths, relative to the JSON's folder, such as
            `Split-train/data_tfrecord-{SHARD_X_OF_Y}`; the shards' records; and their bytes.
    """
    entries = [
        {
            "filepathTemplate": template,
            "name": split,
            "numBytes": str(num_bytes),
            "shardLengths": [str(number) for number in records],
        }
        for split, (template, records, num_bytes) in splits.items()
    ]
    return render_json(
        {"fileFormat": "tfrecord", "name": name, "splits": entries, "version": "1.0.0"}
    )
