"""The manifest of every ExampleGen's dataset: what was written, and how it came to be.

manifest = make_manifest("ImageExampleGen", plan, written, settings=settings, partition=None)
"""

import collections
from collections.abc import Collection, Mapping, Sequence

from absl import logging

from components.common.entry import label_column
from components.common.lineage import package_versions
from components.common.rejects import Reject
from components.example_gen.partition import Partition
from components.example_gen.plan import Plan, Written
from components.example_gen.settings import ExampleGenSettings
from trainer_utils.format import Accounting, Manifest
from trainer_utils.format.json_text import JsonObject


def make_manifest(
    producer: str,
    plan: Plan,
    written: Written,
    *,
    settings: ExampleGenSettings,
    partition: Partition | None,
) -> Manifest:
    """What the manifest says, but for the small files beside it."""
    rejects = (*plan.rejects, *written.rejects)
    records: collections.Counter[str] = collections.Counter()
    for shard in written.shards:
        records[shard.split] += shard.records
    for split in plan.splits:
        if not records[split]:
            logging.warning("split %r has no examples: it keeps one empty shard", split)
    config = config_of(settings, partition)
    if not plan.is_shuffled:
        config["shuffled"] = False
    return Manifest(
        shards=written.shards,
        accounting=_account(plan.splits, written=records, rejects=rejects, skipped=plan.skipped),
        producer=producer,
        config={**config, "update": written.update} if written.update else config,
        input_fingerprint=written.fingerprint,
        label_counts=_named_counts(plan, written.label_counts),
        conversions=written.conversions,
        reject_counts=dict(collections.Counter(reject.code for reject in rejects)),
        versions=package_versions(),
    )


def config_of(settings: ExampleGenSettings, partition: Partition | None) -> JsonObject:
    """The settings that shape a dataset, as its manifest has them."""
    return {**settings.for_manifest(), "splits": partition and dict(partition.buckets)}


def _named_counts(plan: Plan, counts: Mapping[str, Mapping[int, int]]) -> dict[str, dict[str, int]]:
    """Examples by split and class, ids as their names; no split without any."""
    place = label_column(plan.columns)
    names = None if place is None else plan.vocabularies.get(plan.columns[place].name)
    named = {
        split: {names[label] if names else str(label): number for label, number in of.items()}
        for split, of in counts.items()
    }
    return {split: of for split, of in named.items() if of}


def _account(
    splits: Sequence[str],
    *,
    written: Mapping[str, int],
    rejects: Collection[Reject],
    skipped: Mapping[str, int],
) -> dict[str, Accounting]:
    """The accounting law's numbers, by split."""
    rejected = collections.Counter(reject.split for reject in rejects)
    return {
        name: Accounting(
            found=written.get(name, 0) + rejected[name] + skipped.get(name, 0),
            written=written.get(name, 0),
            rejected=rejected[name],
            skipped=skipped.get(name, 0),
        )
        for name in splits
    }
