"""What the features are, and how many records each shard holds: Datum's two JSON files, and the
features as a TensorFlow Metadata schema, `schema.pbtxt`, in protobuf's text format.

A `string` feature of rank 2 or 3 is an encoded image of that height, width and channels; its
rank says how Datum decodes it (2: one channel, 3: three). Keys of ours Datum ignores. What TFMD has
no words for, such as an image's size, is JSON in an annotation, after `datum:`.
Source: `datum/writer/tfrecord_writer.py` and `datum/reader/parser.py` of datum 1.13;
`tensorflow_metadata/proto/v0/schema.proto`; protobuf's text format language specification.
"""

import dataclasses
import json
from collections.abc import Mapping, Sequence

from trainer_utils.format.errors import DatasetError
from trainer_utils.format.json_text import Json, parse_json_object, render_json
from trainer_utils.format.tensors import TensorSpec, TokenSpec

DATUM_IMAGE_FORMATS = frozenset({"GIF", "JPEG", "PNG"})
"""What Datum decodes, by `tf.io.decode_jpeg`, which takes all three (of GIF those of one picture).
They may come where an image's `extra` has no `formats`."""

_TYPES = ("int", "float", "string")
_MOST_VALUES = 1 << 31  # along one axis; TensorFlow takes no more
SCHEMA_TAG = "datum:"
_TFMD_TYPES = {"int": "INT", "float": "FLOAT", "string": "BYTES"}
_ESCAPES = {ord(c): f"\\{e}" for c, e in zip("\n\r\t\"'\\", "nrt\"'\\", strict=True)}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Feature:
    """One feature of every example.

    Args:
        type: `int` (int64), `float` (float32) or `string` (bytes).
        shape: of one example; of an image, `(height, width[, channels])` of one of them.
        dense: every example has it, in that shape; False: any number of values.
        extra: keys of ours beside Datum's, such as `sizes` of an image.
    """

    type: str
    shape: tuple[int, ...] = ()
    dense: bool = True
    extra: Mapping[str, Json] = dataclasses.field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.type not in _TYPES:
            raise DatasetError(f"type: expected one of {', '.join(_TYPES)}, got {self.type!r}")
        if not all(0 <= size < _MOST_VALUES for size in self.shape):
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
        """Whether its bytes are pixels, uint8, of the size `extra["image_shape"]`."""
        return self.extra.get("encoding") == "raw"

    @property
    def tensor(self) -> TensorSpec | None:
        """Of bytes that are an array, a serialized `TensorProto`: what all of these are."""
        said = self.extra.get("tensor")
        return None if said is None else TensorSpec.from_json(said)

    @property
    def tokens(self) -> TokenSpec | None:
        """Of bytes that are a document of tokens: what all of these have in common."""
        is_tokens = self.extra.get("encoding") == "tokens"
        return TokenSpec.from_json(self.extra["tokens"]) if is_tokens else None

    @property
    def has_pixels(self) -> bool:
        """Whether it becomes an image."""
        return self.is_image or self.is_raw_image

    @property
    def is_sequence(self) -> bool:
        """Whether it is a feature list of `tf.train.SequenceExample`, and `shape` of one step."""
        return "sequence" in self.extra

    @property
    def is_fixed_size(self) -> bool:
        """Of an image: whether all examples have `shape`, as far as is known."""
        return self.extra.get("sizes") == "fixed"


def parse_features(text: str, *, path: str) -> dict[str, Feature]:
    """Reads `datum_to_type_and_shape_mapping.json`; a DatasetError names the feature and `path`."""
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
    """`datum_to_type_and_shape_mapping.json` as text."""
    return render_json(
        {
            name: {**f.extra, "type": f.type, "shape": list(f.shape), "dense": f.dense}
            for name, f in features.items()
        }
    )


def parse_shard_info(text: str, *, path: str) -> dict[str, dict[str, int]]:
    """Reads `shard_info.json`: for each split its shards' paths, in order, and their records."""
    info = parse_json_object(text, path=path)
    for split, shards in info.items():
        counts = shards.values() if isinstance(shards, dict) else [None]
        if not all(type(count) is int and count >= 0 for count in counts):
            said = f"split {split!r}: expected records by shard path, got {shards!r}"
            raise DatasetError(f"{said} ({path})")
    return info


def render_shard_info(records_by_shard: Mapping[str, Mapping[str, int]]) -> str:
    """`shard_info.json` as text. Shards keep their order, which slices follow."""
    return render_json(records_by_shard, sort_keys=False)


def schema_tag(feature: Feature, *, shape: Sequence[int], is_dense: bool) -> str | None:
    """What an entry of this shape does not say of a feature, as JSON; None: nothing."""
    extra = {name: value for name, value in feature.extra.items() if name != "tfmd"}
    if not extra and (feature.shape, feature.dense) == (tuple(shape), is_dense):
        return None
    said = {"shape": list(feature.shape), "dense": feature.dense, "extra": extra}
    return SCHEMA_TAG + json.dumps(said, sort_keys=True)


def feature_entry(name: str, feature: Feature, *, num_classes: int | None = None) -> list[str]:
    """A feature as the lines of TFMD's message `Feature`, in the order in which protobuf writes
    them; `num_classes`: it is their ids."""
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
    """`schema.pbtxt` as protobuf writes it, with the values of features that have a vocabulary, of
    a feature of integers in the order of their ids."""
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
    """A string literal; whatever is no plain ASCII as escapes of its UTF-8."""
    octets = text.encode()
    signs = (_ESCAPES.get(n) or (chr(n) if 32 <= n < 127 else f"\\{n:03o}") for n in octets)
    return f'"{"".join(signs)}"'
