"""Datum's features survive conversion to TFMD and back, and TFMD's to Datum."""

import itertools

import pytest
from google.protobuf import text_format
from tensorflow_metadata.proto.v0 import schema_pb2

from components.schema.tfmd import (
    features_from_schema,
    parse_schema,
    render_schema,
    schema_from_features,
)
from trainer_utils.core.errors import DatasetError
from trainer_utils.format.datum import parse_features, render_features

KINDS = (
    *("type: INT", 'type: INT int_domain {name: "i" min: -5 max: 99 is_categorical: true}'),
    *("type: FLOAT", "type: FLOAT float_domain {min: 0.1 max: 1.7 disallow_nan: true}"),
    *("type: BYTES", "type: BYTES image_domain {}", "type: BYTES natural_language_domain {}"),
    'type: BYTES domain: "names"',
    'type: BYTES string_domain {value: "a" value: "b\\"\\\\" value: "ü"}',
)
SHAPES = ("", "shape {}", "shape {dim {size: 3} dim {size: 2}}", "value_count {min: 1 max: 7}")
PRESENCES = ("", "presence {min_fraction: 0.25}", "presence {min_fraction: 1 min_count: 2}")
OTHERS = (
    *("", 'annotation {tag: "a tag"}', 'in_environment: "TRAINING"', "value_count {min: 0}"),
    "drift_comparator {infinity_norm {threshold: 0.3}}",
)


def test_schemas_round_trip_through_datums_json():
    schema = schema_pb2.Schema()
    for number, parts in enumerate(itertools.product(KINDS, SHAPES, PRESENCES, OTHERS)):
        if "value_count" not in parts[3] or not parts[1]:  # at most one of each kind
            text_format.Parse(" ".join(parts), schema.feature.add(name=f"f{number}"))
    text = render_features(features_from_schema(parse_schema(render_schema(schema), path="x")))
    back = schema_from_features(parse_features(text, path="x"))
    assert sorted(map(str, back.feature)) == sorted(map(str, schema.feature))


@pytest.mark.parametrize("kind", [schema_pb2.STRUCT, schema_pb2.TYPE_UNKNOWN])
def test_type_unknown_to_datum_is_refused_with_its_feature(kind):
    schema = schema_pb2.Schema()
    schema.feature.add(name="nested", type=kind)
    with pytest.raises(DatasetError, match="feature 'nested': expected INT, FLOAT or BYTES"):
        features_from_schema(schema)
