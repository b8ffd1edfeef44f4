"""Datum's features to TFMD and back, and the other way round, without loss."""

import random

import pytest
from google.protobuf import text_format
from tensorflow_metadata.proto.v0 import schema_pb2

from components.schema.tfmd import (
    features_from_schema,
    parse_schema,
    render_schema,
    schema_from_features,
)
from trainer_utils.format import DatasetError
from trainer_utils.format.datum import parse_features, render_features


def random_entry(source: random.Random, name: str) -> schema_pb2.Feature:
    entry = schema_pb2.Feature(name=name)
    entry.type = source.choice([schema_pb2.INT, schema_pb2.FLOAT, schema_pb2.BYTES])
    shape = source.choice(["fixed", "count", "none"])
    if shape == "fixed":
        entry.shape.SetInParent()
        for _ in range(source.randrange(4)):
            entry.shape.dim.add(size=source.randint(1, 9))
    elif shape == "count":
        entry.value_count.min = source.randrange(3)
        if source.random() < 0.5:
            entry.value_count.max = 7
    if source.random() < 0.7:
        entry.presence.min_fraction = source.choice([0.0, 0.25, 1.0])
        entry.presence.min_count = source.randrange(3)
    if source.random() < 0.3:
        entry.annotation.tag.append(f"tag {source.random()}")
    if source.random() < 0.2:
        entry.in_environment.append("TRAINING")
    if source.random() < 0.2:
        entry.drift_comparator.infinity_norm.threshold = source.random()
    domains = {
        schema_pb2.INT: lambda: entry.int_domain.MergeFrom(
            schema_pb2.IntDomain(name=name, min=-5, max=source.randint(0, 99), is_categorical=True)
        ),
        schema_pb2.FLOAT: lambda: entry.float_domain.MergeFrom(
            schema_pb2.FloatDomain(min=0.1, max=source.random() + 1, disallow_nan=True)
        ),
        schema_pb2.BYTES: source.choice(
            [
                lambda: entry.image_domain.SetInParent(),
                lambda: entry.natural_language_domain.SetInParent(),
                lambda: setattr(entry, "domain", name),
                lambda: entry.string_domain.value.extend(["a", 'b"\\', "ü"]),
            ]
        ),
    }
    if source.random() < 0.6:
        domains[entry.type]()
    return entry


def test_random_schemas_come_back_from_datums_json():
    source = random.Random(0)
    for _ in range(300):
        schema = schema_pb2.Schema()
        for number in range(source.randint(0, 8)):
            schema.feature.append(random_entry(source, f"f{number}"))
        text = render_features(features_from_schema(parse_schema(render_schema(schema), path="x")))
        back = schema_from_features(parse_features(text, path="x"))
        assert text_format.MessageToString(back) == text_format.MessageToString(schema)


@pytest.mark.parametrize("kind", [schema_pb2.STRUCT, schema_pb2.TYPE_UNKNOWN])
def test_a_type_that_datum_has_not_is_refused_by_feature(kind):
    schema = schema_pb2.Schema()
    schema.feature.add(name="nested", type=kind)
    with pytest.raises(DatasetError, match="feature 'nested': expected INT, FLOAT or BYTES"):
        features_from_schema(schema)
