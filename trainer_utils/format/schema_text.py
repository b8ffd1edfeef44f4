"""`schema.pbtxt`: a dataset's features as a TensorFlow Metadata schema, in protobuf's text format.

What TFMD has no words for, such as an image's size, is JSON in an annotation, after `datum:`.
Source: `tensorflow_metadata/proto/v0/schema.proto`; protobuf's text format language specification.
"""

import json
from collections.abc import Mapping, Sequence

from trainer_utils.format.datum import Feature

SCHEMA_TAG = "datum:"
_TYPES = {"int": "INT", "float": "FLOAT", "string": "BYTES"}


def schema_tag(feature: Feature, *, shape: Sequence[int], is_dense: bool) -> str | None:
    """What an entry of this shape does not say of a feature, as JSON; None: nothing."""
    extra = {name: value for name, value in feature.extra.items() if name != "tfmd"}
    if not extra and (feature.shape, feature.dense) == (tuple(shape), is_dense):
        return None
    said = {"shape": list(feature.shape), "dense": feature.dense, "extra": extra}
    return SCHEMA_TAG + json.dumps(said, sort_keys=True)


def feature_entry(name: str, feature: Feature, *, num_classes: int | None = None) -> str:
    """A feature as the fields of TFMD's message `Feature`; `num_classes`: it is their ids."""
    shape = () if feature.is_image or not feature.dense else feature.shape
    fields = [f"name: {_quoted(name)}", f"type: {_TYPES[feature.type]}"]
    if feature.dense:
        fields += ["presence {", "  min_fraction: 1.0", "  min_count: 1", "}"]
        fields += ["shape {", *(f"  dim {{ size: {size} }}" for size in shape), "}"]
    else:
        fields += ["value_count {", "  min: 0", "}"]
    if feature.is_image:
        fields += ["image_domain {", "}"]
    if (tag := schema_tag(feature, shape=shape, is_dense=feature.dense)) is not None:
        fields += ["annotation {", f"  tag: {_quoted(tag)}", "}"]
    if num_classes is not None:
        domain = f"name: {_quoted(name)} min: 0 max: {num_classes - 1} is_categorical: true"
        fields += ["int_domain {", f"  {domain}", "}"]
    return "\n".join(fields)


def render_schema_text(
    features: Mapping[str, Feature], *, vocabularies: Mapping[str, Sequence[str]]
) -> str:
    """`schema.pbtxt` as text, with the labels of features that are ids, in the order of these."""
    lines = []
    for name, feature in sorted(features.items()):
        size = len(vocabularies[name]) if name in vocabularies else None
        entry = feature_entry(name, feature, num_classes=size)
        lines += ["feature {", *(f"  {line}" for line in entry.split("\n")), "}"]
    for name, labels in sorted(vocabularies.items()):
        values = [f"  value: {_quoted(label)}" for label in labels]
        lines += ["string_domain {", f"  name: {_quoted(name)}", *values, "}"]
    return "".join(f"{line}\n" for line in lines)


def _quoted(text: str) -> str:
    """A string literal; whatever is no plain ASCII as octal escapes of its UTF-8."""
    return '"{}"'.format(
        "".join(
            chr(octet) if 32 <= octet < 127 and octet not in b"\"\\'" else f"\\{octet:03o}"
            for octet in text.encode()
        )
    )
