"""TFDS's two JSON files, `dataset_info.json` and `features.json`, read.

TFDS joins the names of nested features by `/`. It keeps one dimension of unknown size as a flat
list, and two or more as flat values with row lengths beside them.
Source: `tensorflow_datasets/core/{dataset_info,example_serializer,naming}.py` of TFDS 4.9 and
`core/proto/{dataset_info,feature}.proto`.
"""

import math
import re
from collections.abc import Mapping

from trainer_utils.format.datum import Feature
from trainer_utils.format.errors import DatasetError, reading
from trainer_utils.format.json_text import Json, parse_json_object

TFDS_INFO_FILE = "dataset_info.json"
TFDS_FEATURES_FILE = "features.json"

_TEMPLATE = "{DATASET}-{SPLIT}.{FILEFORMAT}-{SHARD_X_OF_Y}"
_FIELD = re.compile(r"\{(\w+)\}")
_UNKNOWN = -1
_LEAVES = ("classLabel", "text", "image", "video", "tensor", "boundingBox", "audio")


def labels_file(feature: str) -> str:
    """The file of a label's class names, one a line, beside the JSON."""
    return f"{feature.replace('/', '.')}.labels.txt"


def parse_tfds_splits(text: str, *, path: str) -> dict[str, dict[str, int]]:
    """Reads `dataset_info.json`: for each split its shards' names, in order, and records."""
    with reading(path, "TFDS's dataset_info.json"):
        info = parse_json_object(text, path=path)
        file_format = info.get("fileFormat", "tfrecord")
        if file_format != "tfrecord":
            advice = "Convert it: tfds build --file_format=tfrecord, or `tfds convert_format`."
            expected, got = "the file format tfrecord", repr(file_format)
            raise DatasetError.at(path, expected=expected, got=got, advice=advice)
        return {split["name"]: _shards(info, split) for split in info.get("splits", ())}


def _shards(info: Mapping[str, Json], split: Mapping[str, Json]) -> dict[str, int]:
    lengths = [int(number) for number in split.get("shardLengths", ())]
    count = len(lengths)
    if min(lengths, default=0) < 0:
        raise ValueError(f"shardLengths: {min(lengths)} records")
    template = split.get("filepathTemplate") or _TEMPLATE
    digits = max(5, len(str(count)))
    shards = {}
    for index, records in enumerate(lengths):
        fields = {
            "DATASET": info["name"],
            "SPLIT": split["name"],
            "FILEFORMAT": "tfrecord",
            "SHARD_INDEX": f"{index:0{digits}d}",
            "NUM_SHARDS": f"{count:0{digits}d}",
            "SHARD_X_OF_Y": f"{index:0{digits}d}-of-{count:0{digits}d}",
        }
        # Not `str.format`, by which a template reaches for attributes, or asks for gigabytes.
        name = _FIELD.sub(lambda found, of=fields: of[found[1]], template)
        shards[name] = records
    return shards


def parse_tfds_features(text: str, *, path: str) -> dict[str, Feature] | None:
    """Reads `features.json`: features by name, nested ones joined by `/`; None where one is of a
    kind that is not known here, so that only the records can tell. An image of open size has 0 for
    it."""
    features: dict[str, Feature] = {}
    with reading(path, "TFDS's features.json"):
        return features if _collect("", parse_json_object(text, path=path), (), features) else None


def _collect(
    name: str, entry: Mapping[str, Json], outer: tuple[int, ...], features: dict[str, Feature]
) -> bool:
    """Adds what an entry holds; `outer` are the dimensions of the sequences round it."""
    if "featuresDict" in entry:
        nested = entry["featuresDict"].get("features", {})
        return all(
            [_collect(f"{name}/{key}".lstrip("/"), e, outer, features) for key, e in nested.items()]
        )
    if "sequence" in entry:
        length = int(entry["sequence"].get("length", _UNKNOWN))
        return _collect(name, entry["sequence"]["feature"], (*outer, length), features)
    kind = next((kind for kind in _LEAVES if kind in entry), None)
    if kind is None:
        return False
    leaf = entry[kind]
    sizes = tuple(int(size) for size in leaf.get("shape", {}).get("dimensions", ()))
    if kind in ("classLabel", "text"):
        _add(name, "int" if kind == "classLabel" else "string", outer, features)
    elif kind == "video":
        _add(name, "string", (*outer, _UNKNOWN), features)
    elif kind == "image":
        if outer or leaf.get("dtype", "uint8") != "uint8":  # which nobody decodes
            _add(name, "string", outer, features)
        else:
            features[name] = _image(*sizes)
    elif leaf.get("encoding", "none").lower() in ("none", ""):
        dtype = leaf["dtype"]
        type_ = "string" if dtype in ("string", "object") else "int"
        type_ = "float" if dtype.startswith(("float", "bfloat")) else type_
        _add(name, type_, (*outer, *sizes), features)
    elif sizes.count(_UNKNOWN) < 2:
        _add(name, "string", outer, features)
    elif outer:
        return False
    else:  # an encoded tensor of several open sizes has its shape beside it
        features[f"{name}/shape"] = Feature(type="int", shape=(len(sizes),))
        features[f"{name}/value"] = Feature(type="string")
    return True


def _add(name: str, kind: str, shape: tuple[int, ...], features: dict[str, Feature]) -> None:
    unknown = shape.count(_UNKNOWN)
    if unknown > 1:
        features[f"{name}/ragged_flat_values"] = Feature(type=kind, shape=(0,), dense=False)
        for depth in range(unknown - 1):
            row_lengths = Feature(type="int", shape=(0,), dense=False)
            features[f"{name}/ragged_row_lengths_{depth}"] = row_lengths
    elif unknown or (kind == "string" and shape):
        longest = 0 if unknown else math.prod(shape)
        features[name] = Feature(type=kind, shape=(longest,), dense=False)
    else:
        features[name] = Feature(type=kind, shape=shape)


def _image(height: int, width: int, channels: int) -> Feature:
    size = (max(height, 0), max(width, 0))
    sizes = "fixed" if min(height, width) > 0 else "mixed"
    shape = size if channels == 1 else (*size, 3)
    return Feature(type="string", shape=shape, extra={"sizes": sizes})
