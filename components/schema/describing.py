"""Describe a dataset's features: `schema.pbtxt` for TFX, JSON for Datum and TFDS, a JSON Schema.

    described = describe("balanced/", "exported/")
    described.files["schema.pbtxt"]

Shard paths are relative to the folder that the files are written to.

Source: `tensorflow_datasets/core/proto/{dataset_info,feature}.proto` of TFDS 4.9; JSON Schema
2020-12; Datum 1.13.
"""

import dataclasses
import itertools
import os
import posixpath
import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from components.schema import tfmd
from trainer_utils.core.errors import DatasetError
from trainer_utils.core.json_text import Json, JsonObject, render_json
from trainer_utils.dataset import Dataset, open_dataset, read_shard_blocks
from trainer_utils.dataset.inspection import DatasetFacts
from trainer_utils.format import Feature
from trainer_utils.format.datum import DATUM_IMAGE_FORMATS
from trainer_utils.format.naming import (
    EXAMPLE_SCHEMA_FILE,
    SCHEMA_FILE,
    TFDS_FEATURES_FILE,
    TFDS_INFO_FILE,
)
from trainer_utils.format.tfds import labels_file
from trainer_utils.storage import exists, is_remote, join, read_text
from trainer_utils.writing.publishing import describing_texts

_TFDS_UNKNOWN = -1
_NUMBERED = re.compile(r"(?P<head>.*-)\d{5,}-of-\d{5,}$")
_DIALECT = "https://json-schema.org/draft/2020-12/schema"
_MAX_NAMED_CLASSES = 1000  # a person would not read a longer list
_INT64 = {"type": "integer", "minimum": -(2**63), "maximum": 2**63 - 1}
_VALUES: dict[str, JsonObject] = {
    "int": _INT64,
    "float": {"type": "number"},
    "string": {"type": "string"},
}
_PIXEL = {"type": "integer", "minimum": 0, "maximum": 255}


class Described(NamedTuple):
    """The description of a dataset."""

    files: Mapping[str, bytes]  # contents by path
    num_features: int  # features of an example
    datum_limits: Sequence[str]  # a sentence for each feature that Datum cannot read unchanged

    @property
    def schema_file(self) -> dict[str, bytes]:
        """Contents of `schema.pbtxt`, by its path."""
        return {SCHEMA_FILE: self.files[SCHEMA_FILE]}


def describe(
    examples: str,
    uri: str,
    *,
    schema: str | None = None,
    statistics: str | None = None,
    tfds: bool = False,
) -> Described:
    """Inspect a dataset and describe its features.

    Args:
        examples: the uri of the dataset.
        uri: the folder that the files will be written to.
        schema, statistics: uris of the TFX artifacts that the examples must agree with.
        tfds: also write the files that TFDS reads.

    Raises:
        DatasetError: `examples` is not a dataset, or disagrees with the schema or statistics.
    """
    source, facts, is_whole = _look(open_dataset(examples, inspect=False))
    features = dict(source.features)
    merged = tfmd.schema_from_features(
        features, vocabularies=source.vocabularies, texts=facts.texts
    )
    if schema is not None:
        path = join(schema, SCHEMA_FILE)
        if not exists(path):
            raise DatasetError.at(path, expected="a schema of TFX's", got="none")
        given = tfmd.parse_schema(read_text(path), path=path)
        tfmd.check_agreement(given, features, source=examples)
        if is_whole:
            tfmd.check_facts(given, facts, source=examples)
        features = tfmd.adopt_shapes(given, features)
        merged = tfmd.merge_schema(given, features, merged)
        for name, said in tfmd.features_from_schema(merged).items():
            if "tfmd" in said.extra:  # fields that only TFMD has
                extra = {**features[name].extra, "tfmd": said.extra["tfmd"]}
                features[name] = dataclasses.replace(features[name], extra=extra)
    if statistics is not None:
        tfmd.check_statistics(
            tfmd.read_statistics(statistics), features, source.records, source=examples
        )
    vocabularies = source.vocabularies
    records = {  # by the path from `uri` to each shard, because Datum joins the two
        split: {_path_from(uri, shard.path): shard.num_records for shard in shards}
        for split, shards in source.shards.items()
    }
    files = describing_texts(
        features, records, vocabularies=vocabularies, schema=tfmd.render_schema(merged)
    )
    files[EXAMPLE_SCHEMA_FILE] = render_example_schema(features, vocabularies=vocabularies)
    if tfds:
        files |= _tfds_files(source, features, uri)
    return Described(
        files={path: text.encode() for path, text in files.items()},
        num_features=len(features),
        datum_limits=datum_limits(features, [shard.path for shard in source.shard_files]),
    )


def _look(source: Dataset) -> tuple[Dataset, DatasetFacts, bool]:
    """Inspect a dataset.

    Returns:
        The dataset with features and counts, its facts, and whether these cover all records rather
        than a sample.
    """
    if not (source.says_features and source.is_counted):
        return *source.with_facts(takes_lists=False), True
    facts = DatasetFacts()
    for shard in (group[0] for group in source.shards.values() if group):
        for block in itertools.islice(read_shard_blocks(shard.path), 1):
            facts.add(block, path=shard.path, takes_lists=False)
    return source, facts, False


def _path_from(uri: str, path: str) -> str:
    """Return a relative path on a disk, an absolute one for a url: object stores have no `..`."""
    if is_remote(path):
        inside = path.startswith(uri.rstrip("/") + "/")
        return posixpath.relpath(path, uri) if inside else path
    if is_remote(uri):
        raise DatasetError(
            f"shard {path!r}: expected it on the file system of {uri!r}, since Datum joins a "
            "shard's path to the folder of the JSON. Keep both in one place.",
            path=path,
        )
    return os.path.relpath(os.path.realpath(path), os.path.realpath(uri))


def render_example_schema(
    features: Mapping[str, Feature], *, vocabularies: Mapping[str, Sequence[str]]
) -> str:
    """Return the JSON Schema of one example as `input_fn` parses it, for other readers.

    Bytes are strings; images are arrays of shape (height, width, channels).
    """
    properties = {n: _property(feature, vocabularies.get(n)) for n, feature in features.items()}
    schema = {
        "$schema": _DIALECT,
        "type": "object",
        "properties": properties,
        "required": sorted(properties),
        "additionalProperties": False,
    }
    return render_json(schema)


def _property(feature: Feature, classes: Sequence[str] | None) -> JsonObject:
    """Return the JSON Schema of one feature of a parsed example."""
    if feature.is_raw_image:
        return _array(_PIXEL, feature.extra["image_shape"])
    if feature.is_image:
        channels = 1 if len(feature.shape) == 2 else 3
        size = feature.shape[:2] if feature.is_fixed_size else (None, None)
        return _array(_PIXEL, (*size, channels))
    value = _VALUES[feature.type]
    if classes is not None and feature.type == "int":
        value = {"type": "integer", "minimum": 0, "maximum": len(classes) - 1}
        if len(classes) <= _MAX_NAMED_CLASSES:
            value = {"oneOf": [{"const": n, "title": name} for n, name in enumerate(classes)]}
    if feature.dense:
        return _array(value, feature.shape)
    return _array(value, (None,) * max(1, len(feature.shape)))


def _array(value: Mapping[str, Json], shape: Sequence[int | None]) -> JsonObject:
    """Return the schema of nested arrays. A size of None means any size."""
    schema = dict(value)
    for size in reversed(shape):
        schema = {"type": "array", "items": schema}
        if size is not None:
            schema |= {"minItems": size, "maxItems": size}
    return schema


def datum_limits(features: Mapping[str, Feature], paths: Iterable[str]) -> list[str]:
    """Return a sentence for each feature that Datum's reader (1.13) cannot read unchanged."""
    paths = list(paths)
    notes = []
    if any(path.endswith(".gz") for path in paths):
        notes.append("shards: Datum reads no gzip. Write them with compression='none'.")
    if any(is_remote(path) for path in paths):
        notes.append(
            "shards: Datum joins a shard's path to the folder of its JSON, so that it opens remote "
            "shards only there. Give Datum the uri of the examples."
        )
    for name, feature in sorted(features.items()):
        notes += [f"feature {name!r}: {note}" for note in _notes(name, feature, features)]
    return notes


def _notes(name: str, feature: Feature, features: Mapping[str, Feature]) -> list[str]:
    """Return sentences about the parts of a feature that Datum cannot express, each with a fix."""
    if feature.is_raw_image:
        return ["Datum has no raw pixels and reads bytes. Keep the images encoded."]
    if feature.is_image:
        notes = []
        others = sorted(set(feature.extra.get("formats", ())) - DATUM_IMAGE_FORMATS)
        if others:
            notes.append(f"Datum decodes no {', '.join(others)}. Convert these to JPEG or PNG.")
        if not feature.dense:
            notes.append(
                "Datum needs an image in every example. Leave out the examples without one."
            )
        return notes
    if feature.type == "string" and not feature.dense and feature.shape == (1,):
        return ["Datum reads a missing value as an empty list. Write an empty string instead."]
    if not feature.dense and len(feature.shape) > 1 and f"{name}_shape" not in features:
        return [
            "Datum reads matrices of any size only if each has its shape next to it. Write a "
            f"feature '{name}_shape' of {len(feature.shape)} integers."
        ]
    return []


def _tfds_files(source: Dataset, features: Mapping[str, Feature], uri: str) -> dict[str, str]:
    """Return the files that `tfds.builder_from_directory` reads."""
    splits = []
    for split, shards in source.shards.items():
        matches = {_NUMBERED.fullmatch(_path_from(uri, shard.path)) for shard in shards}
        heads = {match["head"] for match in matches if match is not None}
        if None in matches or len(heads) != 1:
            raise DatasetError(
                f"split {split!r}: expected shards called …-00000-of-{len(shards):05d}, not "
                f"compressed, for TFDS, got {shards[0].path if shards else 'none'!r}. "
                "Write it again: "
                f"tfx-shards balance {shlex.quote(source.uri)} OUT --compression none."
            )
        described = {
            "filepathTemplate": heads.pop() + "{SHARD_X_OF_Y}",
            "name": split,
            "numBytes": str(sum(shard.bytes for shard in shards)),
            "shardLengths": [str(shard.num_records) for shard in shards],
        }
        splits.append(described)
    info = {"fileFormat": "tfrecord", "name": "dataset", "splits": splits, "version": "1.0.0"}
    classes = {name: len(values) for name, values in source.vocabularies.items()}
    labels = {
        labels_file(name): "".join(f"{value}\n" for value in values)
        for name, values in source.vocabularies.items()
    }
    return {
        TFDS_FEATURES_FILE: render_tfds_features(features, classes=classes),
        TFDS_INFO_FILE: render_json(info),
        **labels,
    }


def render_tfds_features(features: Mapping[str, Feature], *, classes: Mapping[str, int]) -> str:
    """Return the content of `features.json`; `classes` are vocabulary sizes by id feature."""
    entries = {name: _tfds_entry(feature, classes.get(name)) for name, feature in features.items()}
    return render_json(_tfds_kind("features_dict.FeaturesDict", featuresDict={"features": entries}))


def _tfds_entry(feature: Feature, num_classes: int | None) -> JsonObject:
    """Return a feature in the form of TFDS's `features.json`."""
    dtype = {"int": "int64", "float": "float32", "string": "string"}[feature.type]
    if feature.is_image and feature.dense:
        size = feature.shape[:2] if feature.is_fixed_size else (_TFDS_UNKNOWN, _TFDS_UNKNOWN)
        shape = _tfds_shape((*size, 1 if len(feature.shape) == 2 else 3))
        return _tfds_kind("image_feature.Image", image={"dtype": "uint8", "shape": shape})
    if feature.type == "string" and feature.dense:
        # A tensor rather than text: TFDS decodes text as UTF-8, and these bytes may not be.
        return _tfds_tensor(dtype, ())
    is_single = feature.shape == () or (feature.shape == (1,) and feature.dense)
    if num_classes is not None and feature.type == "int" and is_single:
        label = {"numClasses": str(num_classes)}
        return _tfds_kind("class_label_feature.ClassLabel", classLabel=label)
    if feature.dense:
        return _tfds_tensor(dtype, feature.shape)
    sequence = {"feature": _tfds_tensor(dtype, ()), "length": str(_TFDS_UNKNOWN)}
    return _tfds_kind("sequence_feature.Sequence", sequence=sequence)


def _tfds_tensor(dtype: str, shape: tuple[int, ...]) -> JsonObject:
    tensor = {"dtype": dtype, "encoding": "none", "shape": _tfds_shape(shape)}
    return _tfds_kind("tensor_feature.Tensor", tensor=tensor)


def _tfds_shape(shape: Sequence[int]) -> JsonObject:
    return {"dimensions": [str(size) for size in shape]} if shape else {}


def _tfds_kind(python_class: str, **content: Any) -> JsonObject:
    return {"pythonClassName": f"tensorflow_datasets.core.features.{python_class}", **content}
