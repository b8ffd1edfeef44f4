"""Labels that nobody has any more, once some records are gone; how often the others occur.

    labels, counts = decide_labels({uri: search_dataset(uri, names)}, names)
    labels[uri]         # {'patient': [3]}: ids whose names go
    counts[uri]         # {'train': {'cat': 7}}, as the manifest has them

A label goes where records that are taken out had it, or where it is one of the names, unless a
record that stays has it, of whatever dataset: then it stays in all of them.
"""

import collections
from collections.abc import Mapping, Sequence

from pipelines.tools.forget.names import Names
from pipelines.tools.forget.search import FoundDataset
from pipelines.tools.verification.metadata_checks import label_features
from trainer_utils.dataset import Dataset, read_shard_blocks
from trainer_utils.format.example_decoding import decode_example
from trainer_utils.storage import join

__all__ = ["LabelCounts", "decide_labels"]

LabelCounts = Mapping[str, Mapping[str, int]]
"""How often each label occurs, by split."""

_Counts = dict[str, dict[str, "collections.Counter[str]"]]  # of labels, by feature and split


def decide_labels(
    found: Mapping[str, FoundDataset], names: Names
) -> tuple[dict[str, dict[str, list[int]]], dict[str, LabelCounts]]:
    """Which labels go, and what the manifests will say of the others.

    Args:
        found: all datasets, by uri.
        names: of the records.

    Returns:
        By uri: ids by feature; label counts.
    """
    counted: dict[str, tuple[_Counts, _Counts]] = {}
    mine, others = set(names.names), set[str]()
    for uri, one in found.items():
        if one.records:
            counted[uri] = _count(one)
            others |= _labels_in(one.dataset, counted[uri][0])
            mine |= _labels_in(one.dataset, counted[uri][1])
    for uri, one in found.items():  # few labels are left by now, and few datasets that have them
        left, vocabularies = mine - others, one.dataset.vocabularies
        if uri not in counted and any(left.intersection(of) for of in vocabularies.values()):
            counted[uri] = _count(one)
            others |= _labels_in(one.dataset, counted[uri][0])
    gone = mine - others
    return {
        uri: {
            feature: ids
            for feature, labels in one.dataset.vocabularies.items()
            if (ids := [number for number, label in enumerate(labels) if label in gone])
        }
        for uri, one in found.items()
    }, {uri: _label_counts(one, *counted.get(uri, ())) for uri, one in found.items()}


def _count(found: FoundDataset) -> tuple[_Counts, _Counts]:
    """How often each label occurs in the records that stay, and in those that go."""
    dataset = found.dataset
    assert dataset.manifest is not None
    assert dataset.files is not None
    left_out = {(record["shard"], record["number"]) for record in found.records}
    features = [*dataset.vocabularies, *label_features(dataset.files, dataset.manifest)]
    known = dataset.features
    features = [n for n in features if n in known and known[n].type == "int"]
    features = [n for n in features if not known[n].is_sequence]
    kept: _Counts = {feature: {} for feature in features}
    gone: _Counts = {feature: {} for feature in features}
    for shard in dataset.manifest.shards if features else ():
        number = 0
        for block in read_shard_blocks(join(dataset.uri, shard.path)):
            for record in block.records():
                counts = gone if (shard.path, number) in left_out else kept
                for feature, values in decode_example(record, kept).items():
                    labels = dataset.vocabularies.get(feature, ())
                    of_split = counts[feature].setdefault(shard.split, collections.Counter())
                    of_split.update(_label(labels, value) for value in values)
                number += 1
    return kept, gone


def _label(labels: Sequence[str], value: object) -> str:
    return labels[value] if isinstance(value, int) and 0 <= value < len(labels) else str(value)


def _labels_in(dataset: Dataset, counts: _Counts) -> set[str]:
    """The labels that were counted; of maps of classes and of steps, which are not, all."""
    found = set[str]()
    for feature, labels in dataset.vocabularies.items():
        found.update(*(counts[feature].values() if feature in counts else [labels]))
    return found


def _label_counts(
    found: FoundDataset, kept: _Counts | None = None, gone: _Counts | None = None
) -> LabelCounts:
    """Of the feature that the manifest has counted before; of none where it cannot be told."""
    assert found.dataset.manifest is not None
    before = {split: dict(of) for split, of in found.dataset.manifest.label_counts.items() if of}
    if kept is None or gone is None:
        return before
    for feature, by_split in kept.items():
        splits = {*by_split, *gone[feature]}
        none = collections.Counter[str]()
        if before == {s: by_split.get(s, none) + gone[feature].get(s, none) for s in splits}:
            return {split: dict(of) for split, of in by_split.items()}
    return {}
