"""A dataset's features as `schema.pbtxt` for TFX, JSON for Datum and TFDS, and a JSON Schema.

    described = describe("balanced/", "exported/")
    described.files["schema.pbtxt"]

Shards are named as they are seen from where the files will lie.
"""

import dataclasses
import itertools
import os
import posixpath
import re
from collections.abc import Iterable, Mapping, Sequence

from tensorflow_metadata.proto.v0 import schema_pb2

from components.schema.statistics import check_facts, check_statistics, read_statistics
from components.schema.tfds import render_tfds_features, render_tfds_info
from components.schema.tfmd import (
    adopt_shapes,
    check_agreement,
    features_from_schema,
    merge_schema,
    parse_schema,
    render_schema,
    schema_from_features,
)
from trainer_utils.dataset import Dataset, open_dataset, read_shard_blocks
from trainer_utils.dataset.inspection import DatasetFacts
from trainer_utils.format import DatasetError, Feature
from trainer_utils.format.datum import DATUM_IMAGE_FORMATS
from trainer_utils.format.json_text import Json, JsonObject, render_json
from trainer_utils.format.naming import EXAMPLE_SCHEMA_FILE, SCHEMA_FILE
from trainer_utils.format.tfds import (
    TFDS_FEATURES_FILE,
    TFDS_INFO_FILE,
    labels_file,
)
from trainer_utils.storage import exists, is_remote, join, read_text
from trainer_utils.writing.publishing import describing_texts

_TFDS_NAME = "dataset"
_NUMBERED = re.compile(r"(?P<head>.*-)\d{5,}-of-\d{5,}$")
_DIALECT = "https://json-schema.org/draft/2020-12/schema"  # of JSON Schema
_MOST_NAMED_CLASSES = 1000  # each is named, as far as a person might read it
_INT64 = {"type": "integer", "minimum": -(2**63), "maximum": 2**63 - 1}
_VALUES: dict[str, JsonObject] = {
    "int": _INT64,
    "float": {"type": "number"},
    "string": {"type": "string"},
}
_PIXEL = {"type": "integer", "minimum": 0, "maximum": 255}


@dataclasses.dataclass(frozen=True)
class Described:
    """What is said of a dataset."""

    files: Mapping[str, bytes]  # by path
    num_features: int  # of an example
    datum_limits: Sequence[str]  # one sentence for each thing that Datum would not read as it is

    @property
    def schema_file(self) -> dict[str, bytes]:
        """`schema.pbtxt` alone."""
        return {SCHEMA_FILE: self.files[SCHEMA_FILE]}


def describe(
    examples: str,
    uri: str,
    *,
    schema: str | None = None,
    statistics: str | None = None,
    tfds: bool = False,
) -> Described:
    """Looks at a dataset, and says what it holds.

    Args:
        examples: its uri.
        uri: of the folder that the files are for.
        schema, statistics: uris of TFX's of the examples, which they must agree with.
        tfds: whether TFDS is told too.

    Raises:
        DatasetError: the examples are no dataset, or disagree with the schema or statistics.
    """
    source, features, merged = _describe_features(examples, schema)
    if statistics is not None:
        check_statistics(read_statistics(statistics), features, source.records, source=examples)
    files = _render_files(source, features, merged, uri)
    if tfds:
        files |= _tfds_files(source, features, uri)
    return Described(
        files={path: text.encode() for path, text in files.items()},
        num_features=len(features),
        datum_limits=datum_limits(features, [shard.path for shard in source.shard_files]),
    )


def _describe_features(
    uri: str, schema_uri: str | None
) -> tuple[Dataset, dict[str, Feature], schema_pb2.Schema]:
    """What the examples hold, and what a given schema adds to it.

    Raises:
        DatasetError: the two disagree.
    """
    source, facts, is_whole = _look(open_dataset(uri, inspect=False))
    features = dict(source.features)
    schema = schema_from_features(features, vocabularies=source.vocabularies, texts=facts.texts)
    if schema_uri is None:
        return source, features, schema
    path = join(schema_uri, SCHEMA_FILE)
    if not exists(path):
        raise DatasetError.at(path, expected="a schema of TFX's", got="none")
    given = parse_schema(read_text(path), path=path)
    check_agreement(given, features, source=uri)
    if is_whole:
        check_facts(given, facts, source=uri)
    features = adopt_shapes(given, features)
    schema = merge_schema(given, features, schema)
    for name, said in features_from_schema(schema).items():
        if "tfmd" in said.extra:  # what only TFMD can say of it
            extra = {**features[name].extra, "tfmd": said.extra["tfmd"]}
            features[name] = dataclasses.replace(features[name], extra=extra)
    return source, features, schema


def _render_files(
    source: Dataset, features: Mapping[str, Feature], schema: schema_pb2.Schema, uri: str
) -> dict[str, str]:
    """The texts that describe the dataset to others, by path."""
    texts = describing_texts(
        features,
        _records_seen_from(uri, source),
        vocabularies=source.vocabularies,
        schema=render_schema(schema),
    )
    rendered = render_example_schema(features, vocabularies=source.vocabularies)
    return {**texts, EXAMPLE_SCHEMA_FILE: rendered}


def _look(source: Dataset) -> tuple[Dataset, DatasetFacts, bool]:
    """All records where the dataset does not say what it holds, else some of each split.

    Returns:
        The source with features and counts, what was found, and whether all records were read.
    """
    if not (source.says_features and source.is_counted):
        return *source.with_facts(takes_lists=False), True
    facts = DatasetFacts()
    for shard in (group[0] for group in source.shards.values() if group):
        for block in itertools.islice(read_shard_blocks(shard.path), 1):
            facts.add(block, path=shard.path, takes_lists=False)
    return source, facts, False


def _records_seen_from(uri: str, source: Dataset) -> Mapping[str, Mapping[str, int]]:
    """Records by the path that leads from `uri` to each shard, as Datum joins the two."""
    return {
        split: {_path_from(uri, shard.path): shard.num_records for shard in shards}
        for split, shards in source.shards.items()
    }


def _path_from(uri: str, path: str) -> str:
    """Relative on a disk; whole for a url, since object stores know no `..`."""
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


def _tfds_files(source: Dataset, features: Mapping[str, Feature], uri: str) -> dict[str, str]:
    """What `tfds.builder_from_directory` opens."""
    splits = {}
    for split, shards in source.shards.items():
        found = {_NUMBERED.fullmatch(_path_from(uri, shard.path)) for shard in shards}
        heads = {match["head"] for match in found if match is not None}
        if None in found or len(heads) != 1:
            raise DatasetError(
                f"split {split!r}: expected shards called …-00000-of-{len(shards):05d}, not "
                f"compressed, for TFDS, got {shards[0].path if shards else 'none'!r}. "
                "Export what ShardBalancer writes, with compression='none'."
            )
        records = [shard.num_records for shard in shards]
        num_bytes = sum(shard.bytes for shard in shards)
        splits[split] = (heads.pop() + "{SHARD_X_OF_Y}", records, num_bytes)
    classes = {name: len(values) for name, values in source.vocabularies.items()}
    labels = {
        labels_file(name): "".join(f"{value}\n" for value in values)
        for name, values in source.vocabularies.items()
    }
    return {
        TFDS_FEATURES_FILE: render_tfds_features(features, classes=classes),
        TFDS_INFO_FILE: render_tfds_info(_TFDS_NAME, splits),
        **labels,
    }


def render_example_schema(
    features: Mapping[str, Feature], *, vocabularies: Mapping[str, Sequence[str]] | None = None
) -> str:
    """A JSON Schema of one example as `input_fn` parses it, for whatever else reads examples.

    Bytes are strings; images are arrays of height, width and channels.
    """
    properties = {
        name: _property(feature, (vocabularies or {}).get(name))
        for name, feature in features.items()
    }
    schema = {
        "$schema": _DIALECT,
        "type": "object",
        "properties": properties,
        "required": sorted(properties),
        "additionalProperties": False,
    }
    return render_json(schema)


def _property(feature: Feature, classes: Sequence[str] | None) -> JsonObject:
    if feature.is_raw_image:
        return _array(_PIXEL, feature.extra["image_shape"])
    if feature.is_image:
        channels = 1 if len(feature.shape) == 2 else 3
        size = feature.shape[:2] if feature.is_fixed_size else (None, None)
        return _array(_PIXEL, (*size, channels))
    value = _VALUES[feature.type]
    if classes is not None and feature.type == "int":
        value = {"type": "integer", "minimum": 0, "maximum": len(classes) - 1}
        if len(classes) <= _MOST_NAMED_CLASSES:
            value = {"oneOf": [{"const": n, "title": name} for n, name in enumerate(classes)]}
    if feature.dense:
        return _array(value, feature.shape)
    return _array(value, (None,) * max(1, len(feature.shape)))


def _array(value: Mapping[str, Json], shape: Sequence[int | None]) -> JsonObject:
    """Nested arrays; a size of None is any."""
    made = dict(value)
    for size in reversed(shape):
        made = {"type": "array", "items": made}
        if size is not None:
            made |= {"minItems": size, "maxItems": size}
    return made


def datum_limits(features: Mapping[str, Feature], paths: Iterable[str]) -> list[str]:
    """One sentence for each thing that Datum's reader (1.13) would not read as it is."""
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
        return ["Datum reads a missing value as an empty list. Write an empty text instead."]
    if not feature.dense and len(feature.shape) > 1 and f"{name}_shape" not in features:
        return [
            "Datum reads matrices of any size only with each one's shape beside it. Write a "
            f"feature '{name}_shape' of {len(feature.shape)} integers."
        ]
    return []
