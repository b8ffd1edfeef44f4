"""Read and write Datum's two JSON files, and render features as a TensorFlow Metadata schema.

Datum's files describe the features and the records of each shard. The schema is `schema.pbtxt` in
protobuf's text format.

A `string` feature of rank 2 or 3 is an encoded image with that height, width and channels. Datum
decodes rank 2 with one channel and rank 3 with three, and it ignores the keys that tfx-shards adds.
Properties that TFMD cannot express, such as an image's size, are JSON in an annotation after
`datum:`.
Source: `datum/writer/tfrecord_writer.py` and `datum/reader/parser.py` of datum 1.13;
`tensorflow_metadata/proto/v0/schema.proto`; protobuf's text format language specification.
"""

import dataclasses
import functools
import json
from collections.abc import Mapping, Sequence

from trainer_utils.core.errors import DatasetError
from trainer_utils.core.json_text import Json, parse_json_object, render_json
from trainer_utils.format.tensors import TensorSpec, TokenSpec

DATUM_IMAGE_FORMATS = frozenset({"GIF", "JPEG", "PNG"})
"""The formats that Datum decodes by `tf.io.decode_jpeg`: all three, a GIF with one frame only.
An image feature without `formats` in its `extra` may have any of them.
"""

_TYPES = ("int", "float", "string")
_MAX_VALUES = 1 << 31  # along one axis, the limit of TensorFlow
SCHEMA_TAG = "datum:"
_TFMD_TYPES = {"int": "INT", "float": "FLOAT", "string": "BYTES"}
_ESCAPES = {ord(c): f"\\{e}" for c, e in zip("\n\r\t\"'\\", "nrt\"'\\", strict=True)}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Feature:
    """The type and shape of one feature.

    Args:
        type: `int` (int64), `float` (float32) or `string` (bytes).
        shape: the shape in one example. For images it is `(height, width[, channels])` of a sample
            image.
        dense: whether every example has the feature in that shape. False: any number of values.
        extra: keys of tfx-shards in addition to Datum's, such as `sizes` of an image.
    """

    type: str
    shape: tuple[int, ...] = ()
    dense: bool = True
    extra: Mapping[str, Json] = dataclasses.field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.type not in _TYPES:
            raise DatasetError(f"type: expected one of {', '.join(_TYPES)}, got {self.type!r}")
        if not all(0 <= size < _MAX_VALUES for size in self.shape):
            raise DatasetError(f"shape: expected sizes of 0 to 2**31, got {self.shape!r}")
        if self.tensor is not None and (self.type != "string" or self.is_image):
            raise DatasetError(f"tensor: expected it in one string, got {self.type} {self.shape!r}")
        if self.tokens is not None and (self.type != "string" or self.shape):
            raise DatasetError(f"tokens: expected them in one string, got {self.type} {self.shape}")

    @property
    def is_image(self) -> bool:
        """Whether its bytes are an encoded image."""
        return self.type == "string" and len(self.shape) in (2, 3)

    @property
    def is_raw_image(self) -> bool:
        """Whether its bytes are uint8 pixels with the shape `extra["image_shape"]`."""
        return self.extra.get("encoding") == "raw"

    @functools.cached_property
    def tensor(self) -> TensorSpec | None:
        """Dtype and shape if its bytes are arrays (serialized `TensorProto`), else None."""
        said = self.extra.get("tensor")
        return None if said is None else TensorSpec.from_json(said)

    @functools.cached_property
    def tokens(self) -> TokenSpec | None:
        """Common properties of its documents if its bytes are tokens, else None."""
        is_tokens = self.extra.get("encoding") == "tokens"
        return TokenSpec.from_json(self.extra["tokens"]) if is_tokens else None

    @property
    def has_pixels(self) -> bool:
        """Whether it is decoded to an image."""
        return self.is_image or self.is_raw_image

    @property
    def is_sequence(self) -> bool:
        """Whether it is a feature list of `tf.train.SequenceExample` (`shape` is for one step)."""
        return "sequence" in self.extra

    @property
    def is_fixed_size(self) -> bool:
        """Whether all images are known to have `shape`."""
        return self.extra.get("sizes") == "fixed"


def parse_features(text: str, *, path: str) -> dict[str, Feature]:
    """Parse `datum_to_type_and_shape_mapping.json`.

    Raises:
        DatasetError: an entry is invalid; the message has the feature and `path`.
    """
    features = {}
    for name, entry in parse_json_object(text, path=path).items():
        try:
            known = dict(entry)
            kind, shape, dense = (known.pop(key) for key in ("type", "shape", "dense"))
            if type(dense) is not bool or not all(type(size) is int for size in shape):
                raise TypeError("shape is a list of integers, dense is true or false")
            features[name] = Feature(type=kind, shape=tuple(shape), dense=dense, extra=known)
        except (KeyError, TypeError, ValueError) as error:
            said = f"feature {name!r}: expected type, shape and dense, got {entry!r}"
            raise DatasetError(f"{said} ({path}): {error}") from error
    return features


def render_features(features: Mapping[str, Feature]) -> str:
    """Render `datum_to_type_and_shape_mapping.json`."""
    return render_json(
        {
            name: {**f.extra, "type": f.type, "shape": list(f.shape), "dense": f.dense}
            for name, f in features.items()
        }
    )


def parse_shard_info(text: str, *, path: str) -> dict[str, dict[str, int]]:
    """Parse `shard_info.json`: for each split, the records of each shard by path, in order."""
    info = parse_json_object(text, path=path)
    for split, shards in info.items():
        counts = shards.values() if isinstance(shards, dict) else [None]
        if not all(type(count) is int and count >= 0 for count in counts):
            said = f"split {split!r}: expected records by shard path, got {shards!r}"
            raise DatasetError(f"{said} ({path})")
    return info


def render_shard_info(records_by_shard: Mapping[str, Mapping[str, int]]) -> str:
    """Render `shard_info.json`. Shards keep their order, since slices depend on it."""
    return render_json(records_by_shard, sort_keys=False)


def schema_tag(feature: Feature, *, shape: Sequence[int], is_dense: bool) -> str | None:
    """Return as JSON the properties that an entry of this shape cannot express, or None."""
    extra = {name: value for name, value in feature.extra.items() if name != "tfmd"}
    if not extra and (feature.shape, feature.dense) == (tuple(shape), is_dense):
        return None
    said = {"shape": list(feature.shape), "dense": feature.dense, "extra": extra}
    return SCHEMA_TAG + json.dumps(said, sort_keys=True)


def feature_entry(name: str, feature: Feature, *, num_classes: int | None = None) -> list[str]:
    """Render a feature as the lines of TFMD's message `Feature`, in protobuf's order.

    Args:
        name: the name of the feature.
        feature: the feature.
        num_classes: the number of classes if its values are class ids.
    """
    shape = () if feature.is_image or not feature.dense else feature.shape
    lines = [f"name: {_quoted(name)}"]
    if not feature.dense:
        lines += _message("value_count", "min: 0")
    lines.append(f"type: {_TFMD_TYPES[feature.type]}")
    if num_classes is not None:
        bounds = "min: 0", f"max: {num_classes - 1}", "is_categorical: true"
        lines += _message("int_domain", f"name: {_quoted(name)}", *bounds)
    if feature.dense:
        lines += _message("presence", "min_fraction: 1.0", "min_count: 1")
    if (tag := schema_tag(feature, shape=shape, is_dense=feature.dense)) is not None:
        lines += _message("annotation", f"tag: {_quoted(tag)}")
    if feature.dense:
        lines += _message("shape", *(line for n in shape for line in _message("dim", f"size: {n}")))
    return lines + (_message("image_domain") if feature.is_image else [])


def render_schema_text(
    features: Mapping[str, Feature], *, vocabularies: Mapping[str, Sequence[str]]
) -> str:
    """Render `schema.pbtxt` as protobuf does, including the vocabularies of features.

    Args:
        features: the features by name.
        vocabularies: the values by feature; for integer features in the order of their ids.
    """
    lines = []
    for name, feature in sorted(features.items()):
        is_class = name in vocabularies and feature.type == "int"
        num_classes = len(vocabularies[name]) if is_class else None
        lines += _message("feature", *feature_entry(name, feature, num_classes=num_classes))
    for name, values in vocabularies.items():
        texts = (f"value: {_quoted(value)}" for value in values)
        lines += _message("string_domain", f"name: {_quoted(name)}", *texts)
    return "".join(f"{line}\n" for line in lines)


def _message(name: str, *lines: str) -> list[str]:
    return [f"{name} {{", *(f"  {line}" for line in lines), "}"]


def _quoted(text: str) -> str:
    """Quote a string. Bytes that are not printable ASCII become escapes of its UTF-8."""
    octets = text.encode()
    signs = (_ESCAPES.get(n) or (chr(n) if 32 <= n < 127 else f"\\{n:03o}") for n in octets)
    return f'"{"".join(signs)}"'
