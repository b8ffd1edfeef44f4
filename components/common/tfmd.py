"""Datum's features as a TensorFlow Metadata schema, and back.

    schema = schema_from_features(features, num_classes={"label": 5})
    features_from_schema(schema)       # the same features again

Source: `tensorflow_metadata/proto/v0/schema.proto`.
"""

from collections.abc import Mapping

from google.protobuf import text_format
from tensorflow_metadata.proto.v0 import schema_pb2

from trainer_utils.format import DatasetError, Feature

__all__ = [
    "check_agreement",
    "features_from_schema",
    "merge_schema",
    "parse_schema",
    "render_schema",
    "schema_from_features",
]

_TO_TFMD = {"int": schema_pb2.INT, "float": schema_pb2.FLOAT, "string": schema_pb2.BYTES}
_FROM_TFMD = {number: name for name, number in _TO_TFMD.items()}


def schema_from_features(
    features: Mapping[str, Feature], *, num_classes: Mapping[str, int] | None = None
) -> schema_pb2.Schema:
    """The TFMD schema that says the same.

    Args:
        features: by name.
        num_classes: for features that are ids of a vocabulary, its size.
    """
    schema = schema_pb2.Schema()
    for name, feature in sorted(features.items()):
        entry = schema.feature.add(name=name, type=_TO_TFMD[feature.type])
        if feature.dense:
            entry.presence.min_fraction = 1.0
            entry.presence.min_count = 1
            entry.shape.SetInParent()
            for size in () if feature.is_image else feature.shape:
                entry.shape.dim.add(size=size)
        else:
            entry.value_count.min = 0
        if feature.is_image:
            entry.image_domain.SetInParent()
        if name in (num_classes or {}):
            entry.int_domain.name = name
            entry.int_domain.min = 0
            entry.int_domain.max = (num_classes or {})[name] - 1
            entry.int_domain.is_categorical = True
    return schema


def features_from_schema(schema: schema_pb2.Schema) -> dict[str, Feature]:
    """Datum's features of a TFMD schema, as far as it fixes their shape.

    An `image_domain` without a known size becomes a plain string: rank and size are the data's.

    Raises:
        DatasetError: a feature is a struct, or has no type.
    """
    features = {}
    for entry in schema.feature:
        if entry.type not in _FROM_TFMD:
            raise DatasetError(
                f"feature {entry.name!r}: expected INT, FLOAT or BYTES, "
                f"got {schema_pb2.FeatureType.Name(entry.type)}. Datum's format has no such type."
            )
        shape = tuple(dim.size for dim in entry.shape.dim)
        features[entry.name] = Feature(
            type=_FROM_TFMD[entry.type], shape=shape, dense=entry.HasField("shape")
        )
    return features


def check_agreement(
    given: schema_pb2.Schema, features: Mapping[str, Feature], *, source: str
) -> None:
    """Refuses a schema that contradicts the data.

    Raises:
        DatasetError: a feature of one is not in the other, has another type, another shape, or is
            fixed in the schema and not in the data; the message names it.
    """
    of_schema = features_from_schema(given)
    for name in sorted(of_schema.keys() ^ features.keys()):
        where = "in the schema only" if name in of_schema else "in the examples only"
        raise DatasetError(
            f"feature {name!r}: expected in schema and examples, got it {where} "
            f"({source}). Make the schema from these examples."
        )
    for name, wanted in sorted(of_schema.items()):
        found = features[name]
        if wanted.type != found.type:
            raise DatasetError(
                f"feature {name!r}: expected {wanted.type} as the schema says, "
                f"got {found.type} ({source})"
            )
        found_shape = () if found.is_image else found.shape
        # A scalar is [] or [1] in TFMD: SchemaGen writes the latter, parsers take either.
        if wanted.dense and (not found.dense or _size(wanted.shape) != _size(found_shape)):
            raise DatasetError(
                f"feature {name!r}: expected shape {list(wanted.shape)} as the schema says, got "
                f"{list(found_shape) if found.dense else 'a variable length'} ({source})"
            )


def merge_schema(
    given: schema_pb2.Schema, features: Mapping[str, Feature], own: schema_pb2.Schema
) -> schema_pb2.Schema:
    """`given`, with the shapes and image domains that the data shows where it leaves them out."""
    merged = schema_pb2.Schema()
    merged.CopyFrom(given)
    known = {entry.name: entry for entry in own.feature}
    for entry in merged.feature:
        mine = known[entry.name]
        if features[entry.name].dense and not entry.HasField("shape"):
            entry.shape.CopyFrom(mine.shape)  # replaces value_count: they share a oneof
        if mine.HasField("image_domain"):
            entry.image_domain.SetInParent()
        elif mine.WhichOneof("domain_info") and not entry.WhichOneof("domain_info"):
            entry.int_domain.CopyFrom(mine.int_domain)
    return merged


def render_schema(schema: schema_pb2.Schema) -> str:
    """`schema.pbtxt` as text."""
    return str(text_format.MessageToString(schema))


def parse_schema(text: str, *, path: str) -> schema_pb2.Schema:
    """Reads `schema.pbtxt`.

    Raises:
        DatasetError: it is no such text; the message names `path`.
    """
    try:
        return text_format.Parse(text, schema_pb2.Schema())
    except text_format.ParseError as error:
        raise DatasetError(f"{path!r}: expected a TFMD schema: {error}") from error


def _size(shape: tuple[int, ...]) -> int:
    product = 1
    for size in shape:
        product *= size
    return product
