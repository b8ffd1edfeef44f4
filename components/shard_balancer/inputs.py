"""Several datasets as one input: their shards one after the other, their features made one.

inputs = open_inputs(["a/examples", "b/examples"])
inputs.shards["train"]                       # of both, in order
inputs.features([None, facts_of_b])          # where a dataset does not say, what was found
"""

import collections
import dataclasses
import os
import posixpath
from collections.abc import Mapping, Sequence

from components.common.source import Source, SourceShard, open_source
from trainer_utils.dataset.inspection import DatasetFacts, features_of_facts
from trainer_utils.format import ConfigError, DatasetError, Feature
from trainer_utils.storage.files import is_remote

__all__ = ["InputShard", "Inputs", "check_apart", "merge_features", "open_inputs"]


@dataclasses.dataclass(frozen=True)
class InputShard:
    """A shard, and the number of the input that it is of."""

    source: int
    shard: SourceShard


@dataclasses.dataclass(frozen=True)
class Inputs:
    """Some opened datasets, in the order given; a split holds what all of them have of it."""

    sources: tuple[Source, ...]

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
        """The numbers of those whose features only reading their records can tell."""
        return frozenset(n for n, source in enumerate(self.sources) if source.features is None)

    def features(self, facts: Mapping[int, DatasetFacts]) -> dict[str, Feature]:
        """The features of all together.

        Args:
            facts: by the number of an input that does not say its own.

        Raises:
            DatasetError: a feature is of different kinds in two of them.
        """
        return merge_features(
            {
                f"{number}: {source.uri}": features_of_facts(facts[number])
                if source.features is None
                else source.features
                for number, source in enumerate(self.sources)
                if source.features is not None or facts[number].records
            }
        )

    @property
    def vocabularies(self) -> dict[str, Sequence[str]]:
        """Values by feature; an id means the same in all inputs that have it.

        Raises:
            DatasetError: two inputs have different vocabularies of a feature.
        """
        merged: dict[str, Sequence[str]] = {}
        for source in self.sources:
            for name, values in source.vocabularies.items():
                if list(merged.setdefault(name, values)) != list(values):
                    raise DatasetError(
                        f"vocabulary of feature {name!r}: expected the same in all inputs, since "
                        f"records are moved as they are, got {_few(merged[name])} and "
                        f"{_few(values)} ({source.uri}). Give both runs the same `vocabulary`."
                    )
        return merged

    @property
    def label_counts(self) -> dict[str, dict[str, int]]:
        """How often each label occurs, by split; nothing where an input does not say."""
        if any(source.manifest is None for source in self.sources):
            return {}
        sums: dict[str, collections.Counter[str]] = {}
        for source in self.sources:
            assert source.manifest is not None
            for split, labels in source.manifest.label_counts.items():
                sums.setdefault(split, collections.Counter()).update(labels)
        return {split: dict(counts) for split, counts in sums.items()}


def open_inputs(uris: Sequence[str]) -> Inputs:
    """Opens datasets; reads no record.

    Raises:
        DatasetError: one is no dataset, or not whole, or their vocabularies differ.
    """
    if not uris:
        raise ConfigError("examples: expected at least one artifact, got none")
    inputs = Inputs(tuple(map(open_source, uris)))
    _ = inputs.vocabularies  # differing ones are refused before any record is moved
    return inputs


def check_apart(uris: Sequence[str], output: str) -> None:
    """Refuses to write over an input.

    Raises:
        ConfigError: the output is an input, or a folder that an input lies in.
    """
    target = _normal(output)
    for uri in uris:
        if posixpath.commonpath([target, _normal(uri)]) == target:
            raise ConfigError(
                f"balanced_examples: expected a folder apart from the input, got {output!r} for "
                f"the input {uri!r}. Writing there would destroy it."
            )


def _normal(uri: str) -> str:
    if is_remote(uri):
        scheme, _, path = uri.partition("://")
        return f"/{scheme}:/{posixpath.normpath(path)}"
    return os.path.realpath(uri)


def merge_features(by_input: Mapping[str, Mapping[str, Feature]]) -> dict[str, Feature]:
    """Features that hold for the examples of all inputs together.

    Args:
        by_input: features by name, by where they are of.

    Raises:
        DatasetError: a feature is of different kinds in two inputs.
    """
    merged: dict[str, tuple[str, Feature]] = {}
    for where, features in by_input.items():
        for name, feature in features.items():
            first_where, first = merged.setdefault(name, (where, feature))
            merged[name] = first_where, _both(name, first, feature, (first_where, where))
    everywhere = set.intersection(*(set(features) for features in by_input.values()))
    return {
        name: feature if name in everywhere else _sparse(feature)
        for name, (_, feature) in sorted(merged.items())
    }


def _both(name: str, one: Feature, other: Feature, where: tuple[str, str]) -> Feature:
    if one == other:
        return one
    alike = one.type == other.type and one.is_image == other.is_image
    alike &= one.extra.get("encoding") == other.extra.get("encoding")
    if one.is_image or not (one.dense and other.dense):
        alike &= len(one.shape or (1,)) == len(other.shape or (1,))
    elif one.shape != other.shape:  # two fixed sizes: lists of no fixed length
        alike &= len(one.shape) < 2 and len(other.shape) < 2
    if not alike:
        raise DatasetError(
            f"feature {name!r}: expected the same in all inputs, got {_told(one)} ({where[0]}) "
            f"and {_told(other)} ({where[1]}). Balance them apart, or convert one of them."
        )
    extra = {k: v for k, v in one.extra.items() if other.extra.get(k) == v}
    if one.is_image:
        return dataclasses.replace(one, extra=extra | _image_extra(one, other))
    if one.dense and other.dense and one.shape == other.shape:
        return dataclasses.replace(one, extra=extra)
    sizes = zip(one.shape or (1,), other.shape or (1,), strict=True)
    return Feature(type=one.type, shape=tuple(map(max, sizes)), dense=False, extra=extra)


def _image_extra(one: Feature, other: Feature) -> dict[str, object]:
    extra: dict[str, object] = {"sizes": "fixed"}
    if one.shape != other.shape or not (one.is_fixed_size and other.is_fixed_size):
        extra["sizes"] = "mixed"
    formats = {*one.extra.get("formats", ()), *other.extra.get("formats", ())}
    return extra | ({"formats": sorted(formats)} if formats else {})


def _sparse(feature: Feature) -> Feature:
    if feature.is_image:
        return dataclasses.replace(feature, dense=False)
    return dataclasses.replace(feature, dense=False, shape=feature.shape or (1,))


def _told(feature: Feature) -> str:
    kind = "an image of rank" if feature.is_image else f"{feature.type} of shape"
    shape = len(feature.shape) if feature.is_image else list(feature.shape)
    return f"{kind} {shape}"


def _few(values: Sequence[str]) -> str:
    return f"{len(values)} values ({', '.join(values[:3])}, …)"
