"""Parse TFDS's two JSON files, `dataset_info.json` and `features.json`.

TFDS joins the names of nested features by `/`. It stores one dimension of unknown size as a flat
list, and two or more as flat values with row lengths next to them.
Source: `tensorflow_datasets/core/{dataset_info,example_serializer,naming}.py` of TFDS 4.9 and
`core/proto/{dataset_info,feature}.proto`.
"""

import math
import re
from collections.abc import Iterator, Mapping

from trainer_utils.core.errors import DatasetError, reading
from trainer_utils.core.json_text import Json, parse_json_object
from trainer_utils.format.datum import Feature

_TEMPLATE = "{DATASET}-{SPLIT}.{FILEFORMAT}-{SHARD_X_OF_Y}"
_FIELD = re.compile(r"\{(\w+)\}")
_UNKNOWN = -1
_LEAVES = ("classLabel", "text", "image", "video", "tensor", "boundingBox", "audio")


def labels_file(feature: str) -> str:
    """Return the file of a label's class names, one per line, next to the JSON files."""
    return f"{feature.replace('/', '.')}.labels.txt"


def parse_tfds_splits(text: str, *, path: str) -> dict[str, dict[str, int]]:
    """Parse `dataset_info.json`: the records of each shard by name, in order, for each split."""
    with reading(path, "TFDS's dataset_info.json"):
        info = parse_json_object(text, path=path)
        file_format = info.get("fileFormat", "tfrecord")
        if file_format != "tfrecord":
            advice = "Convert it: tfds build --file_format=tfrecord, or `tfds convert_format`."
            expected, got = "the file format tfrecord", repr(file_format)
            raise DatasetError.at(path, expected=expected, got=got, advice=advice)
        return {split["name"]: _shards(info, split) for split in info.get("splits", ())}


def _shards(info: Mapping[str, Json], split: Mapping[str, Json]) -> dict[str, int]:
    """Return the number of records of each shard, by file name."""
    lengths = [int(number) for number in split.get("shardLengths", ())]
    if min(lengths, default=0) < 0:
        raise ValueError(f"shardLengths: {min(lengths)} records")
    template = split.get("filepathTemplate") or _TEMPLATE
    digits = max(5, len(str(len(lengths))))
    fields = {"DATASET": info["name"], "SPLIT": split["name"], "FILEFORMAT": "tfrecord"}
    fields["NUM_SHARDS"] = f"{len(lengths):0{digits}d}"
    shards = {}
    for index, records in enumerate(lengths):
        fields["SHARD_INDEX"] = f"{index:0{digits}d}"
        fields["SHARD_X_OF_Y"] = f"{fields['SHARD_INDEX']}-of-{fields['NUM_SHARDS']}"
        # Not `str.format`: a template could access attributes, or ask for gigabytes of padding.
        shards[_FIELD.sub(lambda match: fields[match[1]], template)] = records
    return shards


class _UnknownKindError(Exception):
    """The type of a feature cannot be determined without its records."""


def parse_tfds_features(text: str, *, path: str) -> dict[str, Feature] | None:
    """Parse `features.json`: features by name, with nested names joined by `/`.

    An image of unknown size has size 0. Return None if a feature has an unknown type, so that the
    caller has to inspect the records.
    """
    with reading(path, "TFDS's features.json"):
        try:
            return dict(_features("", parse_json_object(text, path=path), ()))
        except _UnknownKindError:
            return None


def _features(
    name: str, entry: Mapping[str, Json], shape: tuple[int, ...]
) -> Iterator[tuple[str, Feature]]:
    """Yield the features of an entry; `shape` has the dimensions of the enclosing sequences."""
    if "featuresDict" in entry:
        for key, inner in entry["featuresDict"].get("features", {}).items():
            yield from _features(f"{name}/{key}".lstrip("/"), inner, shape)
        return
    if "sequence" in entry:
        length = int(entry["sequence"].get("length", _UNKNOWN))
        yield from _features(name, entry["sequence"]["feature"], (*shape, length))
        return
    kind = next((kind for kind in _LEAVES if kind in entry), None)
    if kind is None:
        raise _UnknownKindError
    leaf, type_ = entry[kind], "string"
    sizes = tuple(int(size) for size in leaf.get("shape", {}).get("dimensions", ()))
    if kind == "image" and not shape and leaf.get("dtype", "uint8") == "uint8":
        height, width, channels = sizes
        size = (max(height, 0), max(width, 0))
        extra = {"sizes": "fixed" if min(height, width) > 0 else "mixed"}
        yield name, Feature(type=type_, shape=(*size, *[3] * (channels != 1)), extra=extra)
        return
    if kind == "classLabel":
        type_ = "int"
    elif kind == "video":
        shape = (*shape, _UNKNOWN)
    elif kind not in ("text", "image"):  # images here have values that nothing decodes
        if leaf.get("encoding", "none").lower() in ("none", ""):
            dtype, shape = leaf["dtype"], (*shape, *sizes)
            type_ = "string" if dtype in ("string", "object") else "int"
            type_ = "float" if dtype.startswith(("float", "bfloat")) else type_
        elif sizes.count(_UNKNOWN) > 1 and shape:
            raise _UnknownKindError
        elif sizes.count(_UNKNOWN) > 1:  # the shape of such an encoded tensor is a separate feature
            yield f"{name}/shape", Feature(type="int", shape=(len(sizes),))
            name = f"{name}/value"
    unknown = shape.count(_UNKNOWN)
    if unknown > 1:
        yield f"{name}/ragged_flat_values", Feature(type=type_, shape=(0,), dense=False)
        for depth in range(unknown - 1):
            row_lengths = Feature(type="int", shape=(0,), dense=False)
            yield f"{name}/ragged_row_lengths_{depth}", row_lengths
    elif unknown or (type_ == "string" and shape):
        longest = 0 if unknown else math.prod(shape)
        yield name, Feature(type=type_, shape=(longest,), dense=False)
    else:
        yield name, Feature(type=type_, shape=shape)
