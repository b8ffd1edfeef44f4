"""Convert between Datum's features and TensorFlow Metadata, and check schemas and statistics.

    schema = schema_from_features(features)
    features_from_schema(schema)       # the same features again
    check_statistics(read_statistics(uri), features, records, source=uri)

Source: `tensorflow_metadata/proto/v0/{schema,statistics}.proto`; TFX keeps a split's statistics as
`Split-<name>/FeatureStats.pb`.
"""

import dataclasses
import json
import math
from collections.abc import Collection, Mapping, Sequence
from types import MappingProxyType

from google.protobuf import message, text_format
from tensorflow_metadata.proto.v0 import schema_pb2, statistics_pb2

from trainer_utils.core.errors import DatasetError
from trainer_utils.dataset.inspection import DatasetFacts
from trainer_utils.format import Feature
from trainer_utils.format.datum import SCHEMA_TAG, feature_entry, render_schema_text, schema_tag
from trainer_utils.format.naming import SPLIT_PREFIX
from trainer_utils.storage import exists, join, list_files, read_bytes

_TO_TFMD = {"int": schema_pb2.INT, "float": schema_pb2.FLOAT, "string": schema_pb2.BYTES}
_FROM_TFMD = {number: name for name, number in _TO_TFMD.items()}
_STATISTICS_FILE = "FeatureStats.pb"
_KINDS = {0: "int", 1: "float", 2: "string", 3: "string"}  # FeatureNameStatistics.Type


def schema_from_features(
    features: Mapping[str, Feature],
    *,
    vocabularies: Mapping[str, Sequence[str]] = MappingProxyType({}),
    texts: Collection[str] = (),
) -> schema_pb2.Schema:
    """Return the TFMD schema of features.

    Properties without a TFMD field, such as an image's size, go into the feature's annotation.
    Properties without a Datum equivalent, which `features_from_schema` keeps in `extra["tfmd"]`,
    are restored from there.

    Args:
        features: the features by name.
        vocabularies: the values of each feature; for a feature of integers, in the order of ids.
        texts: features that are text in a natural language.
    """
    text = render_schema_text(features, vocabularies=vocabularies)
    schema = text_format.Parse(text, schema_pb2.Schema())
    for entry in schema.feature:
        if (restored := _restored(entry.name, features[entry.name])) is not None:
            entry.CopyFrom(restored)
        if entry.name in texts and not entry.WhichOneof("domain_info"):
            entry.natural_language_domain.SetInParent()
    return schema


def features_from_schema(schema: schema_pb2.Schema) -> dict[str, Feature]:
    """Return Datum's features for a TFMD schema; `schema_from_features` is the inverse.

    Properties without a Datum equivalent, such as domains and presence, go into `extra["tfmd"]`.

    Raises:
        DatasetError: a feature is a struct, or has no type.
    """
    features = {}
    for entry in schema.feature:
        feature = _feature(entry)
        if _entry(entry.name, feature) != entry:
            kept = text_format.MessageToString(entry, as_one_line=True)
            feature = dataclasses.replace(feature, extra={**feature.extra, "tfmd": kept})
        features[entry.name] = feature
    return features


def _entry(name: str, feature: Feature) -> schema_pb2.Feature:
    """Return a feature as TFMD; properties without a TFMD field go into its annotation."""
    return text_format.Parse("\n".join(feature_entry(name, feature)), schema_pb2.Feature())


def _feature(entry: schema_pb2.Feature) -> Feature:
    if entry.type not in _FROM_TFMD:
        raise DatasetError(
            f"feature {entry.name!r}: expected INT, FLOAT or BYTES, "
            f"got {schema_pb2.FeatureType.Name(entry.type)}. Datum's format has no such type."
        )
    kind = _FROM_TFMD[entry.type]
    for tag in entry.annotation.tag:
        if tag.startswith(SCHEMA_TAG):
            said = json.loads(tag.removeprefix(SCHEMA_TAG))
            return Feature(
                type=kind, shape=tuple(said["shape"]), dense=said["dense"], extra=said["extra"]
            )
    return Feature(type=kind, shape=_declared_shape(entry), dense=entry.HasField("shape"))


def _restored(name: str, feature: Feature) -> schema_pb2.Feature | None:
    """Return the TFMD entry that a feature was read from, if it has not changed since."""
    if "tfmd" not in feature.extra:
        return None
    entry = text_format.Parse(feature.extra["tfmd"], schema_pb2.Feature())
    extra = {key: value for key, value in feature.extra.items() if key != "tfmd"}
    same = _feature(entry) == dataclasses.replace(feature, extra=extra)
    return entry if same and entry.name == name else None


def _declared_shape(entry: schema_pb2.Feature) -> tuple[int, ...]:
    return tuple(dim.size for dim in entry.shape.dim)


def _disagreement(name: str, expected: str, got: str, source: str) -> DatasetError:
    """Return the error for a schema or statistics that do not describe the examples."""
    advice = "Make the schema and the statistics from these examples"
    return DatasetError(f"{name}: expected {expected}, got {got} ({source}). {advice}.")


def check_agreement(
    schema: schema_pb2.Schema, features: Mapping[str, Feature], *, source: str
) -> None:
    """Raise DatasetError if a schema contradicts the names, types or shapes of the data."""
    declared = {
        entry.name: dataclasses.replace(_feature(entry), shape=_declared_shape(entry))
        for entry in schema.feature
    }
    for name in sorted(declared.keys() | features.keys()):
        in_schema, in_data = declared.get(name), features.get(name)
        if in_schema is None or in_data is None:
            expected = "it in schema and examples"
            got = "it in the examples only" if in_schema is None else "it in the schema only"
        elif in_schema.type != in_data.type:
            expected, got = f"{in_schema.type} as the schema says", in_data.type
        else:
            shape = () if in_data.is_image else in_data.shape
            # TFMD has scalars as [] or [1]: SchemaGen writes [1], parsers accept both.
            is_as_long = in_data.dense and math.prod(in_schema.shape) == math.prod(shape)
            if not in_schema.dense or is_as_long:
                continue
            expected = f"shape {list(in_schema.shape)} as the schema says"
            got = str(list(shape)) if in_data.dense else "a variable length"
        raise _disagreement(f"feature {name!r}", expected, got, source)


def adopt_shapes(schema: schema_pb2.Schema, features: Mapping[str, Feature]) -> dict[str, Feature]:
    """Return the features with matrix shapes, which only the schema has, filled in."""
    adopted = dict(features)
    for entry in schema.feature:
        feature, shape = features[entry.name], _declared_shape(entry)
        if feature.dense and feature.type != "string" and len(shape) > 1:
            adopted[entry.name] = dataclasses.replace(feature, shape=shape)
    return adopted


def merge_schema(
    schema: schema_pb2.Schema, features: Mapping[str, Feature], derived: schema_pb2.Schema
) -> schema_pb2.Schema:
    """Return `given` with missing shapes and image domains filled in from the data."""
    merged = schema_pb2.Schema()
    merged.CopyFrom(schema)
    known = {entry.name: entry for entry in derived.feature}
    for entry in merged.feature:
        mine = known[entry.name]
        if features[entry.name].dense and not entry.HasField("shape"):
            entry.shape.CopyFrom(mine.shape)  # replaces value_count: they share a oneof
        domain = mine.WhichOneof("domain_info")
        if domain == "image_domain" or (domain and not entry.WhichOneof("domain_info")):
            getattr(entry, domain).CopyFrom(getattr(mine, domain))
            getattr(entry, domain).SetInParent()
        if not any(tag.startswith(SCHEMA_TAG) for tag in entry.annotation.tag):
            shape, is_dense = _declared_shape(entry), entry.HasField("shape")
            tag = schema_tag(features[entry.name], shape=shape, is_dense=is_dense)
            entry.annotation.tag.extend([] if tag is None else [tag])
    return merged


def render_schema(schema: schema_pb2.Schema) -> str:
    """Return the content of `schema.pbtxt`."""
    return str(text_format.MessageToString(schema))


def parse_schema(text: str, *, path: str) -> schema_pb2.Schema:
    """Parse `schema.pbtxt`; raise a DatasetError that names `path` if it is invalid."""
    try:
        return text_format.Parse(text, schema_pb2.Schema())
    except text_format.ParseError as error:
        raise DatasetError(f"{path!r}: expected a TFMD schema: {error}", path=path) from error


def read_statistics(uri: str) -> dict[str, statistics_pb2.DatasetFeatureStatistics]:
    """Read an ExampleStatistics artifact by split; raise DatasetError if it is empty."""
    statistics = {}
    for file in list_files(uri) if exists(uri) else ():
        folder, _, name = file.path.partition("/")
        if folder.startswith(SPLIT_PREFIX) and name == _STATISTICS_FILE:
            proto = statistics_pb2.DatasetFeatureStatisticsList()
            try:
                proto.ParseFromString(read_bytes(join(uri, file.path)))
            except message.DecodeError as error:
                raise DatasetError(
                    f"{file.path!r}: expected statistics: {error}", path=file.path
                ) from error
            for dataset in proto.datasets[:1]:
                statistics[folder.removeprefix(SPLIT_PREFIX)] = dataset
    if not statistics:
        name = f"{SPLIT_PREFIX}train/{_STATISTICS_FILE}"
        raise DatasetError.at(uri, expected=f"statistics of TFX's, such as {name}", got="none")
    return statistics


def feature_name(entry: statistics_pb2.FeatureNameStatistics) -> str:
    """Return the name of a feature in the examples. TFDV names nested features by a path."""
    return entry.name or ".".join(entry.path.step)


def check_facts(schema: schema_pb2.Schema, facts: DatasetFacts, *, source: str) -> None:
    """Raise DatasetError if the examples violate a schema's presence or value counts."""
    for entry in schema.feature:
        in_data = facts.features.get(entry.name)
        if in_data is None:
            continue
        counts = entry.value_count
        rules = {
            "in every example": entry.presence.min_fraction < 1 or in_data.present == facts.records,
            f"at least {counts.min} values": in_data.shortest >= counts.min or not in_data.present,
            f"at most {counts.max} values": not counts.max or in_data.longest <= counts.max,
        }
        for rule, is_kept in rules.items():
            if not is_kept:
                got = f"it in {in_data.present} of {facts.records} examples"
                got += f" with {in_data.shortest} to {in_data.longest} values"
                expected = f"it {rule} as the schema says"
                raise _disagreement(f"feature {entry.name!r}", expected, got, source)


def check_statistics(
    statistics: Mapping[str, statistics_pb2.DatasetFeatureStatistics],
    features: Mapping[str, Feature],
    records: Mapping[str, int],
    *,
    source: str,
) -> None:
    """Raise DatasetError if statistics describe other examples, by split or feature."""
    for split, dataset in statistics.items():
        most = records.get(split, 0)
        if dataset.num_examples > most:  # statistics of fewer examples come from a sample
            expected = f"at most its {most} examples in the statistics"
            raise _disagreement(f"split {split!r}", expected, f"{dataset.num_examples}", source)
        where = f"{source}, split {split}"
        for name, entry in ((feature_name(entry), entry) for entry in dataset.features):
            feature, kind = features.get(name), _KINDS.get(entry.type)
            if feature is None or kind != feature.type:
                expected, got = f"{kind} as the statistics say", feature.type if feature else "none"
                raise _disagreement(f"feature {name!r}", expected, got, where)
            which = entry.WhichOneof("stats")
            missing = getattr(entry, which).common_stats.num_missing if which else 0
            if missing and feature.dense:
                expected = f"it missing in {missing} examples as the statistics say"
                raise _disagreement(f"feature {name!r}", expected, "it in every one", where)
