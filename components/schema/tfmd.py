"""TensorFlow Metadata: schemas of Datum's features and back, TFX's statistics, and disagreements.

    schema = schema_from_features(features)
    features_from_schema(schema)       # the same features again; and so the other way round
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

from trainer_utils.dataset.inspection import DatasetFacts
from trainer_utils.format import DatasetError, Feature
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
    """The TFMD schema that says the same.

    What TFMD has no words for, such as an image's size, stands in a feature's annotation; what
    `features_from_schema` found no words for in Datum's terms is taken from `extra["tfmd"]`.

    Args:
        vocabularies: by feature, the values that it has; of a feature of integers in the order of
            their ids.
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
    """Datum's features of a TFMD schema, such that `schema_from_features` gives it back.

    What Datum's terms do not hold, such as domains and presence, is kept in `extra["tfmd"]`.

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
    """A feature in TFMD's own words, with what these do not say in its annotation."""
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
    """The entry that a feature came from, if it has not been changed since."""
    if "tfmd" not in feature.extra:
        return None
    entry = text_format.Parse(feature.extra["tfmd"], schema_pb2.Feature())
    extra = {key: value for key, value in feature.extra.items() if key != "tfmd"}
    same = _feature(entry) == dataclasses.replace(feature, extra=extra)
    return entry if same and entry.name == name else None


def _declared_shape(entry: schema_pb2.Feature) -> tuple[int, ...]:
    return tuple(dim.size for dim in entry.shape.dim)


def _disagreement(name: str, expected: str, got: str, source: str) -> DatasetError:
    """The error of a schema or of statistics that are not of the examples."""
    advice = "Make the schema and the statistics from these examples"
    return DatasetError(f"{name}: expected {expected}, got {got} ({source}). {advice}.")


def check_agreement(
    given: schema_pb2.Schema, features: Mapping[str, Feature], *, source: str
) -> None:
    """Refuses a schema that contradicts the data in names, types or shapes, by feature."""
    of_schema = {
        entry.name: dataclasses.replace(_feature(entry), shape=_declared_shape(entry))
        for entry in given.feature
    }
    for name in sorted(of_schema.keys() | features.keys()):
        wanted, found = of_schema.get(name), features.get(name)
        if wanted is None or found is None:
            expected, got = "it in schema and examples", "it in the "
            got += "schema only" if wanted else "examples only"
            raise _disagreement(f"feature {name!r}", expected, got, source)
        expected, got = wanted.type, found.type
        shape = () if found.is_image else found.shape
        # A scalar is [] or [1] in TFMD: SchemaGen writes the latter, parsers take either.
        is_as_long = found.dense and math.prod(wanted.shape) == math.prod(shape)
        if expected == got and wanted.dense and not is_as_long:
            expected = f"shape {list(wanted.shape)}"
            got = str(list(shape)) if found.dense else "a variable length"
        if expected != got:
            expected += " as the schema says"
            raise _disagreement(f"feature {name!r}", expected, got, source)


def adopt_shapes(given: schema_pb2.Schema, features: Mapping[str, Feature]) -> dict[str, Feature]:
    """The features, with the shapes of matrices that an agreeing schema has and records do not."""
    adopted = dict(features)
    for entry in given.feature:
        feature, shape = features[entry.name], _declared_shape(entry)
        if feature.dense and feature.type != "string" and len(shape) > 1:
            adopted[entry.name] = dataclasses.replace(feature, shape=shape)
    return adopted


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
    """`schema.pbtxt` as text."""
    return str(text_format.MessageToString(schema))


def parse_schema(text: str, *, path: str) -> schema_pb2.Schema:
    """Reads `schema.pbtxt`; raises a DatasetError that names `path` where it is none."""
    try:
        return text_format.Parse(text, schema_pb2.Schema())
    except text_format.ParseError as error:
        raise DatasetError(f"{path!r}: expected a TFMD schema: {error}", path=path) from error


def read_statistics(uri: str) -> dict[str, statistics_pb2.DatasetFeatureStatistics]:
    """An ExampleStatistics artifact's numbers, by split; DatasetError where there are none."""
    statistics = {}
    for file in list_files(uri) if exists(uri) else ():
        folder, _, name = file.path.partition("/")
        if folder.startswith(SPLIT_PREFIX) and name == _STATISTICS_FILE:
            found = statistics_pb2.DatasetFeatureStatisticsList()
            try:
                found.ParseFromString(read_bytes(join(uri, file.path)))
            except message.DecodeError as error:
                raise DatasetError(
                    f"{file.path!r}: expected statistics: {error}", path=file.path
                ) from error
            for dataset in found.datasets[:1]:
                statistics[folder.removeprefix(SPLIT_PREFIX)] = dataset
    if not statistics:
        name = f"{SPLIT_PREFIX}train/{_STATISTICS_FILE}"
        raise DatasetError.at(uri, expected=f"statistics of TFX's, such as {name}", got="none")
    return statistics


def feature_name(entry: statistics_pb2.FeatureNameStatistics) -> str:
    """What the examples call a feature, which TFDV names by a path where it is nested."""
    return entry.name or ".".join(entry.path.step)


def check_facts(schema: schema_pb2.Schema, facts: DatasetFacts, *, source: str) -> None:
    """Refuses a schema whose presence or number of values the examples do not keep to."""
    for entry in schema.feature:
        found = facts.features.get(entry.name)
        if found is None:
            continue
        counts = entry.value_count
        rules = {
            "in every example": entry.presence.min_fraction < 1 or found.present == facts.records,
            f"at least {counts.min} values": found.shortest >= counts.min or not found.present,
            f"at most {counts.max} values": not counts.max or found.longest <= counts.max,
        }
        for rule, is_kept in rules.items():
            if not is_kept:
                got = f"it in {found.present} of {facts.records} examples"
                got += f" with {found.shortest} to {found.longest} values"
                expected = f"it {rule} as the schema says"
                raise _disagreement(f"feature {entry.name!r}", expected, got, source)


def check_statistics(
    statistics: Mapping[str, statistics_pb2.DatasetFeatureStatistics],
    features: Mapping[str, Feature],
    records: Mapping[str, int],
    *,
    source: str,
) -> None:
    """Refuses statistics that are of other examples, by split or feature."""
    for split, dataset in statistics.items():
        most = records.get(split, 0)
        if dataset.num_examples > most:  # fewer is a sample
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
