"""Compares TFX's schema and statistics with what the examples hold.

check_facts(schema, facts, source=uri)
check_statistics(read_statistics(uri), features, records, source=uri)
"""

from collections.abc import Mapping

from tensorflow_metadata.proto.v0 import schema_pb2, statistics_pb2

from components.common.statistics import feature_name
from trainer_utils.dataset.inspection import DatasetFacts
from trainer_utils.format import DatasetError, Feature

__all__ = ["check_facts", "check_statistics"]

_KINDS = {0: "int", 1: "float", 2: "string", 3: "string"}  # FeatureNameStatistics.Type


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
                raise DatasetError(
                    f"feature {entry.name!r}: expected it {rule} as the schema says, got it in "
                    f"{found.present} of {facts.records} examples with {found.shortest} to "
                    f"{found.longest} values ({source}). Make the schema from these examples."
                )


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
        if dataset.num_examples > records.get(split, 0):  # fewer is a sample
            raise DatasetError(
                f"split {split!r}: expected at most its {records.get(split, 0)} examples in the "
                f"statistics, got {dataset.num_examples} ({source}). Make them from these examples."
            )
        found = {feature_name(entry): entry for entry in dataset.features}
        for name in sorted(found.keys() - features.keys()):
            raise DatasetError(
                f"feature {name!r}: expected it in the examples as the statistics have it, "
                f"got it not ({source}). Make the statistics from these examples."
            )
        for name, entry in found.items():
            _check_feature(name, entry, features[name], f"{source}, split {split}")


def _check_feature(
    name: str, entry: statistics_pb2.FeatureNameStatistics, feature: Feature, source: str
) -> None:
    kind = _KINDS.get(entry.type)
    if kind != feature.type:
        raise DatasetError(
            f"feature {name!r}: expected {kind} as the statistics say, "
            f"got {feature.type} ({source})"
        )
    which = entry.WhichOneof("stats")
    missing = getattr(entry, which).common_stats.num_missing if which else 0
    if missing and feature.dense:
        raise DatasetError(
            f"feature {name!r}: expected it missing in {missing} examples as the statistics say, "
            f"got it in every one ({source})"
        )
