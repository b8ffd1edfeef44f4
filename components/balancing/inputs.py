"""Treat several datasets as one input: concatenated shards and merged features."""

import collections
import dataclasses
from collections.abc import Mapping, Sequence

from components.runtime.workspace import is_within
from trainer_utils.core.errors import ConfigError, DatasetError
from trainer_utils.dataset import Dataset, ShardFile, open_dataset
from trainer_utils.dataset.inspection import DatasetFacts, features_of_facts
from trainer_utils.dataset.selection import merge_features
from trainer_utils.dataset.transform_graph import graph_vocabularies
from trainer_utils.format import Feature


@dataclasses.dataclass(frozen=True)
class InputShard:
    """A shard, and the index of its input."""

    source: int
    shard: ShardFile


@dataclasses.dataclass(frozen=True)
class Inputs:
    """Opened datasets, in the order given. A split combines the splits of that name."""

    sources: tuple[Dataset, ...]
    # Vocabularies by feature from elsewhere, such as the inputs and the graph of a Transform
    carried: Mapping[str, Sequence[str]] = dataclasses.field(default_factory=dict)

    @property
    def shards(self) -> dict[str, list[InputShard]]:
        """The shards of each split, in order."""
        shards: dict[str, list[InputShard]] = {}
        for number, source in enumerate(self.sources):
            for split, group in source.shards.items():
                shards.setdefault(split, []).extend(InputShard(number, s) for s in group)
        return shards

    @property
    def name(self) -> str:
        """The uris, for messages."""
        return ", ".join(source.uri for source in self.sources)

    @property
    def without_features(self) -> frozenset[int]:
        """The indices of inputs without metadata: their features must be read from records."""
        return frozenset(n for n, source in enumerate(self.sources) if not source.says_features)

    def features(self, facts: Mapping[int, DatasetFacts]) -> dict[str, Feature]:
        """Merge the features of all inputs.

        Args:
            facts: the facts of each input without metadata, by its index.

        Raises:
            DatasetError: two inputs disagree on the kind of a feature, or features are unknown.
        """
        features_by_source: dict[str, Mapping[str, Feature]] = {}
        for number, source in enumerate(self.sources):
            if source.says_features:
                features_by_source[f"{number}: {source.uri}"] = source.features
            elif number in facts and facts[number].records:
                features_by_source[f"{number}: {source.uri}"] = features_of_facts(facts[number])
        if not features_by_source:
            raise DatasetError(
                "examples: expected at least one record to infer the features from, got none "
                f"({self.name})."
            )
        return merge_features(features_by_source)

    @property
    def known_features(self) -> dict[str, Feature]:
        """Return the features of the inputs that have metadata."""
        return self.features({}) if any(source.says_features for source in self.sources) else {}

    @property
    def vocabularies(self) -> dict[str, Sequence[str]]:
        """Values by feature. An id has the same meaning in all inputs."""
        merged: dict[str, Sequence[str]] = {}
        for source in self.sources:
            for name, values in source.vocabularies.items():
                if list(merged.setdefault(name, values)) != list(values):
                    raise DatasetError(
                        f"vocabulary of feature {name!r}: expected the same in all inputs, since "
                        f"records are copied unchanged, got {_few(merged[name])} and "
                        f"{_few(values)} ({source.uri}). Give both runs the same `vocabulary`."
                    )
        return {**self.carried, **merged}

    @property
    def label_counts(self) -> dict[str, dict[str, int]]:
        """Frequency of each label by split; empty if an input does not count them."""
        sums: dict[str, collections.Counter[str]] = {}
        for source in self.sources:
            if source.manifest is None:
                return {}
            for split, labels in source.manifest.label_counts.items():
                sums.setdefault(split, collections.Counter()).update(labels)
        return {split: dict(counts) for split, counts in sums.items()}


def open_inputs(
    uris: Sequence[str],
    *,
    before_transform: Sequence[str] = (),
    transform_graphs: Sequence[str] = (),
) -> Inputs:
    """Open datasets without reading records.

    Args:
        uris: the datasets.
        before_transform: the datasets that a Transform read to produce the examples.
        transform_graphs: the graphs that it produced.
    """
    if not uris:
        raise ConfigError("examples: expected at least one artifact, got none", setting="examples")
    carried: dict[str, Sequence[str]] = {}
    if before_transform:
        carried.update(open_inputs(before_transform).vocabularies)
    for uri in transform_graphs:
        carried.update(graph_vocabularies(uri))
    inputs = Inputs(tuple(open_dataset(uri, inspect=False) for uri in uris), carried)
    _ = inputs.vocabularies  # raises before any record is moved if they differ
    return inputs


def check_apart(uris: Sequence[str], output: str) -> None:
    """Raise ConfigError if the output would overwrite an input."""
    for uri in uris:
        if is_within(uri, output):
            rule = f"a folder other than the input {uri!r}, which would be overwritten"
            raise ConfigError.of("balanced_examples", output, allowed=rule)


def _few(values: Sequence[str]) -> str:
    return f"{len(values)} values ({', '.join(values[:3])}, …)"
