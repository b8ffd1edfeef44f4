"""A JSON Schema of one example as `input_fn` parses it, for whatever else reads or checks examples.

    render_example_schema(features, vocabularies={"label": ["cat", "dog"]})

Bytes are strings; images are arrays of height, width and channels.

Source: JSON Schema, draft 2020-12.
"""

from collections.abc import Mapping, Sequence

from trainer_utils.format.datum import Feature
from trainer_utils.format.json_text import Json, JsonObject, render_json

_DIALECT = "https://json-schema.org/draft/2020-12/schema"
_MOST_NAMED_CLASSES = 1000  # each is named, as far as a person might read it
_INT64 = {"type": "integer", "minimum": -(2**63), "maximum": 2**63 - 1}
_VALUES: dict[str, JsonObject] = {
    "int": _INT64,
    "float": {"type": "number"},
    "string": {"type": "string"},
}
_PIXEL = {"type": "integer", "minimum": 0, "maximum": 255}


def render_example_schema(
    features: Mapping[str, Feature], *, vocabularies: Mapping[str, Sequence[str]] | None = None
) -> str:
    """The schema as text.

    Args:
        features: by name.
        vocabularies: names of the classes of features that are ids, in order.
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
