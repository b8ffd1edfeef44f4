"""Write `croissant.json`, the MLCommons Croissant 1.0 description that dataset catalogues read.

Source: https://docs.mlcommons.org/croissant/docs/croissant-spec.html, version 1.0.
"""

import hashlib
import urllib.parse
from collections.abc import Mapping, Sequence

from trainer_utils.core.json_text import Json, JsonObject, render_json
from trainer_utils.format.datum import Feature
from trainer_utils.format.naming import SHARD_PREFIX, SPLIT_PREFIX

_VERSION = "http://mlcommons.org/croissant/1.0"
_TERMS = (
    "citeAs column extract field fileObject fileProperty fileSet format includes isLiveDataset "
    "jsonPath key md5 parentField path recordSet references regex repeated replace samplingRate "
    "separator source subField transform"
)
_CONTEXT: JsonObject = {  # copied from the specification
    "@language": "en",
    "@vocab": "https://schema.org/",
    **{term: f"cr:{term}" for term in _TERMS.split()},
    "conformsTo": "dct:conformsTo",
    "cr": "http://mlcommons.org/croissant/",
    "data": {"@id": "cr:data", "@type": "@json"},
    "dataType": {"@id": "cr:dataType", "@type": "@vocab"},
    "dct": "http://purl.org/dc/terms/",
    "equivalentProperty": "cr:equivalentProperty",
    "examples": {"@id": "cr:examples", "@type": "@json"},
    "rai": "http://mlcommons.org/croissant/RAI/",
    "sc": "https://schema.org/",
}
_SHARDS = "shards"
_ENCODINGS = {".csv": "text/csv", ".json": "application/json", ".jsonl": "application/jsonlines"}
_DATA_TYPES = {"int": "sc:Integer", "float": "sc:Float", "string": "sc:Text"}
_SOUND = ("audio", "sample_rate")  # features of AudioExampleGen: a WAV file and its rate
_MAX_NAMED_CLASSES = 1000  # larger vocabularies are only in their own file


def render_croissant(
    features: Mapping[str, Feature],
    records: Mapping[str, int],
    *,
    vocabularies: Mapping[str, Sequence[str]] | None = None,
    files: Mapping[str, str] | None = None,
    producer: str = "tfx-shards",
    fingerprint: str = "",
) -> str:
    """Return the description as JSON.

    Args:
        features: the features by name.
        records: the number of records of each split, in order.
        vocabularies: the class names of integer features, in the order of their ids.
        files: the content of text files next to the shards, by path relative to the dataset's uri.
        producer: the component that wrote the dataset.
        fingerprint: the hexadecimal fingerprint of the inputs, which is part of the dataset's name.
    """
    classes = {
        name: values
        for name, values in sorted((vocabularies or {}).items())
        if name in features and features[name].type == "int" and len(values) <= _MAX_NAMED_CLASSES
    }
    counts = ", ".join(f"{count:,} in {split}" for split, count in records.items())
    shards = {
        "@type": "cr:FileSet",
        "@id": _SHARDS,
        "name": _SHARDS,
        "description": "Records of tf.train.Example; manifest.json has a checksum of each file.",
        "encodingFormat": "application/x-tfrecord",
        "includes": [f"{SPLIT_PREFIX}{split}/{SHARD_PREFIX}-*" for split in records],
    }
    splits = _record_set(
        "splits",
        [_field("splits/name", "name", "sc:Text")],
        dataType="cr:Split",
        key={"@id": "splits/name"},
        data=[{"splits/name": split} for split in records],
    )
    fields = [_field("examples/split", "split", "sc:Text")]
    fields[0]["source"] = {
        "fileSet": {"@id": _SHARDS},
        "extract": {"fileProperty": "fullpath"},
        "transform": {"regex": f"{SPLIT_PREFIX}(\\w+)/"},
    }
    fields[0]["references"] = {"field": {"@id": "splits/name"}}
    for name, feature in sorted(features.items()):
        is_sound = name == _SOUND[0] and _SOUND[1] in features
        fields.append(_feature(name, feature, is_sound=is_sound, has_classes=name in classes))
    return render_json(
        {
            "@context": _CONTEXT,
            "@type": "sc:Dataset",
            "conformsTo": _VERSION,
            "name": f"dataset-{fingerprint[:12]}" if fingerprint else "dataset",
            "description": f"{sum(records.values()):,} records ({counts}), written by {producer}.",
            "distribution": [shards, *(_file(*file) for file in sorted((files or {}).items()))],
            "recordSet": [
                splits,
                *(_classes(name, values) for name, values in classes.items()),
                _record_set("examples", fields, description="One tf.train.Example each."),
            ],
        }
    )


def _file(path: str, text: str) -> JsonObject:
    data = text.encode()
    return {
        "@type": "cr:FileObject",
        "@id": _escaped(path),
        "name": path,
        "contentUrl": urllib.parse.quote(path),
        "contentSize": f"{len(data)} B",
        "encodingFormat": _ENCODINGS.get(path[path.rfind(".") :], "text/plain"),
        "sha256": hashlib.sha256(data).hexdigest(),
    }


def _record_set(place: str, fields: Sequence[Json], **others: Json) -> JsonObject:
    return {"@type": "cr:RecordSet", "@id": place, "name": place, "field": fields} | others


def _classes(feature: str, values: Sequence[str]) -> JsonObject:
    place = f"classes/{_escaped(feature)}"
    number, name = f"{place}/id", f"{place}/name"
    return _record_set(
        place,
        [_field(number, "id", "sc:Integer"), _field(name, "name", ["sc:Text", "sc:name"])],
        name=f"classes of {feature}",
        dataType="sc:Enumeration",
        key={"@id": number},
        data=[{number: n, name: value} for n, value in enumerate(values)],
    )


def _feature(name: str, feature: Feature, *, is_sound: bool, has_classes: bool) -> JsonObject:
    """Return a field with an id in a namespace for features, since one may be named `split`."""
    kind = "sc:ImageObject" if feature.has_pixels else _DATA_TYPES[feature.type]
    kind = "sc:AudioObject" if is_sound else kind
    field = _field(f"examples/features/{_escaped(name)}", name, kind)
    field["source"] = {"fileSet": {"@id": _SHARDS}, "extract": {"column": name}}
    if not (feature.dense and (not feature.shape or feature.is_image)):
        field["repeated"] = True
    if has_classes:
        field["references"] = {"field": {"@id": f"classes/{_escaped(name)}/id"}}
    return field


def _field(place: str, name: str, data_type: Json) -> JsonObject:
    return {"@type": "cr:Field", "@id": place, "name": name, "dataType": data_type}


def _escaped(name: str) -> str:
    """Escape a name for use in an id, which is an IRI."""
    return urllib.parse.quote(name, safe="/")
