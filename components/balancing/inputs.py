"""Several datasets as one input: their shards one after the other, their features made one."""

import collections
import dataclasses
from collections.abc import Mapping, Sequence

from components.common.workspace import is_within
from trainer_utils.dataset import Dataset, ShardFile, open_dataset
from trainer_utils.dataset.inspection import DatasetFacts, features_of_facts
from trainer_utils.dataset.selection import merge_features
from trainer_utils.format import ConfigError, DatasetError, Feature
from trainer_utils.storage import is_folder, join, list_names, read_text


@dataclasses.dataclass(frozen=True)
class InputShard:
    """A shard, and the number of the input that it is of."""

    source: int
    shard: ShardFile


@dataclasses.dataclass(frozen=True)
class Inputs:
    """Some opened datasets, in the order given; a split holds what all of them have of it."""

    sources: tuple[Dataset, ...]
    # Vocabularies by feature that lie elsewhere, as of what a Transform read and made
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
        """Where they are, for messages."""
        return ", ".join(source.uri for source in self.sources)

    @property
    def without_features(self) -> frozenset[int]:
        """The numbers of those whose features only reading their records shows."""
        return frozenset(n for n, source in enumerate(self.sources) if not source.says_features)

    def features(self, facts: Mapping[int, DatasetFacts]) -> dict[str, Feature]:
        """The features of all together.

        Args:
            facts: by the number of an input that does not say its own.

        Raises:
            DatasetError: a feature is of different kinds in two, or nothing says what they are.
        """
        found: dict[str, Mapping[str, Feature]] = {}
        for number, source in enumerate(self.sources):
            if source.says_features:
                found[f"{number}: {source.uri}"] = source.features
            elif number in facts and facts[number].records:
                found[f"{number}: {source.uri}"] = features_of_facts(facts[number])
        if not found:
            raise DatasetError(
                "examples: expected at least one record, since nothing else says what the features "
                f"are, got none ({self.name})."
            )
        return merge_features(found)

    @property
    def known_features(self) -> dict[str, Feature]:
        """The features of those that say theirs."""
        return self.features({}) if any(source.says_features for source in self.sources) else {}

    @property
    def vocabularies(self) -> dict[str, Sequence[str]]:
        """Values by feature; an id means the same in all inputs that have it."""
        merged: dict[str, Sequence[str]] = {}
        for source in self.sources:
            for name, values in source.vocabularies.items():
                if list(merged.setdefault(name, values)) != list(values):
                    raise DatasetError(
                        f"vocabulary of feature {name!r}: expected the same in all inputs, since "
                        f"records are moved as they are, got {_few(merged[name])} and "
                        f"{_few(values)} ({source.uri}). Give both runs the same `vocabulary`."
                    )
        return {**self.carried, **merged}

    @property
    def label_counts(self) -> dict[str, dict[str, int]]:
        """How often each label occurs, by split; nothing where an input does not say."""
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
    """Opens datasets; reads no record.

    Args:
        before_transform, transform_graphs: what Transform read, and made beside its examples.
    """
    if not uris:
        raise ConfigError("examples: expected at least one artifact, got none", setting="examples")
    carried: dict[str, Sequence[str]] = {}
    if before_transform:
        carried.update(open_inputs(before_transform).vocabularies)
    for uri in transform_graphs:
        carried.update(_made_by_transform(uri))
    inputs = Inputs(tuple(open_dataset(uri, inspect=False) for uri in uris), carried)
    _ = inputs.vocabularies  # differing ones are refused before any record is moved
    return inputs


def _made_by_transform(uri: str) -> dict[str, list[str]]:
    """The vocabularies that a Transform made, by the names of their files.

    Source: `tensorflow_transform.compute_and_apply_vocabulary`: a text, a value a line.
    """
    folder = join(uri, "transform_fn/assets")
    if not is_folder(folder):
        return {}
    texts = [name for name in list_names(folder) if not name.endswith((".gz", ".tfrecord"))]
    return {
        name.removesuffix(".txt"): read_text(join(folder, name)).removesuffix("\n").split("\n")
        for name in texts
    }


def check_apart(uris: Sequence[str], output: str) -> None:
    """Refuses to write over an input."""
    for uri in uris:
        if is_within(uri, output):
            rule = f"a folder apart from the input {uri!r}, which writing there would destroy"
            raise ConfigError.of("balanced_examples", output, allowed=rule)


def _few(values: Sequence[str]) -> str:
    return f"{len(values)} values ({', '.join(values[:3])}, …)"
