"""TFX's ExampleStatistics, which TFDV makes; and whether these, or a schema, are of the examples.

    for split, statistics in read_statistics(uri).items():
        [feature_name(entry) for entry in statistics.features]
    check_statistics(read_statistics(uri), features, records, source=uri)

Source: `tensorflow_metadata/proto/v0/statistics.proto`; TFX keeps a split's statistics as
`Split-<name>/FeatureStats.pb`.
"""

from collections.abc import Mapping

from google.protobuf import message
from tensorflow_metadata.proto.v0 import schema_pb2, statistics_pb2

from components.schema.tfmd import disagreement
from trainer_utils.dataset.inspection import DatasetFacts
from trainer_utils.format import DatasetError, Feature
from trainer_utils.format.naming import SPLIT_PREFIX
from trainer_utils.storage import exists, join, list_files, read_bytes

_FILE = "FeatureStats.pb"
_KINDS = {0: "int", 1: "float", 2: "string", 3: "string"}  # FeatureNameStatistics.Type


def read_statistics(uri: str) -> dict[str, statistics_pb2.DatasetFeatureStatistics]:
    """An ExampleStatistics artifact's numbers, by split.

    Raises:
        DatasetError: there are none, or a file is no such message; the message names it.
    """
    statistics = {}
    for file in list_files(uri) if exists(uri) else ():
        folder, _, name = file.path.partition("/")
        if folder.startswith(SPLIT_PREFIX) and name == _FILE:
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
        name = f"{SPLIT_PREFIX}train/{_FILE}"
        raise DatasetError.at(uri, expected=f"statistics of TFX's, such as {name}", got="none")
    return statistics


def feature_name(entry: statistics_pb2.FeatureNameStatistics) -> str:
    """What the examples call a feature, which TFDV names by a path where it is nested."""
    return entry.name or ".".join(entry.path.step)


def check_facts(schema: schema_pb2.Schema, facts: DatasetFacts, *, source: str) -> None:
    """Refuses a schema whose presence or number of values the examples do not keep to.

    Raises:
        DatasetError: the message names the feature.
    """
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
                raise disagreement(f"feature {entry.name!r}", expected, got, source)


def check_statistics(
    statistics: Mapping[str, statistics_pb2.DatasetFeatureStatistics],
    features: Mapping[str, Feature],
    records: Mapping[str, int],
    *,
    source: str,
) -> None:
    """Refuses statistics that are of other examples.

    Raises:
        DatasetError: the message names the split or the feature.
    """
    for split, dataset in statistics.items():
        most = records.get(split, 0)
        if dataset.num_examples > most:  # fewer is a sample
            expected = f"at most its {most} examples in the statistics"
            raise disagreement(f"split {split!r}", expected, f"{dataset.num_examples}", source)
        where = f"{source}, split {split}"
        for name, entry in ((feature_name(entry), entry) for entry in dataset.features):
            feature, kind = features.get(name), _KINDS.get(entry.type)
            if feature is None or kind != feature.type:
                expected, got = f"{kind} as the statistics say", feature.type if feature else "none"
                raise disagreement(f"feature {name!r}", expected, got, where)
            which = entry.WhichOneof("stats")
            missing = getattr(entry, which).common_stats.num_missing if which else 0
            if missing and feature.dense:
                expected = f"it missing in {missing} examples as the statistics say"
                raise disagreement(f"feature {name!r}", expected, "it in every one", where)
