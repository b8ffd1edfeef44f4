"""Turns any Examples artifact into equal, globally shuffled shards: plan, write, publish."""

import dataclasses
import itertools
from collections.abc import Mapping, Sequence
from typing import Any

from absl import logging
from tfx import types
from tfx.types import artifact_utils

from components.common.beam import LocalFirstBeamExecutor
from components.common.publish import describe_artifact, package_versions, publish_dataset
from components.common.source import Source, infer_features, open_source
from components.common.summaries import read_summaries, start_working, working_folder
from components.shard_balancer.plan import SplitLayout, plan_buckets
from components.shard_balancer.settings import BalancerSettings
from components.shard_balancer.transforms import BalanceSplits, SplitWork
from trainer_utils.format import Accounting, CorruptShardError, DatasetError, Manifest, Shard

__all__ = ["Executor"]

_KEPT_PROPERTIES = ("span", "version")


class Executor(LocalFirstBeamExecutor):
    """Executor of ShardBalancer."""

    def Do(
        self,
        input_dict: dict[str, list[types.Artifact]],
        output_dict: dict[str, list[types.Artifact]],
        exec_properties: dict[str, Any],
    ) -> None:
        """Writes the balanced dataset.

        Args:
            input_dict: `examples`: the Examples artifact to balance.
            output_dict: `balanced_examples`: the Examples artifact to fill.
            exec_properties: the fields of `BalancerSettings`, `num_shards` as JSON.

        Raises:
            DatasetError: the input is no dataset, not whole, or damaged.
            ConfigError: a setting is not allowed.
        """
        self._log_startup(input_dict, output_dict, exec_properties)
        given = artifact_utils.get_single_instance(input_dict["examples"])
        artifact = artifact_utils.get_single_instance(output_dict["balanced_examples"])
        settings = BalancerSettings.from_properties(exec_properties)
        source = open_source(given.uri)
        work = [_plan_split(source, split, settings) for split in source.shards]
        gzip = settings.compression == "gzip"
        start_working(artifact.uri)
        with self._make_beam_pipeline() as pipeline:
            pipeline | BalanceSplits(work, uri=artifact.uri, gzip=gzip)  # type: ignore[operator]
        manifest = _manifest(source, read_summaries(working_folder(artifact.uri)), settings)
        features = source.features if source.features is not None else infer_features(source)
        describe_artifact(artifact, manifest, gzip=gzip, vocabularies=source.vocabularies)
        for name in _KEPT_PROPERTIES:
            if given.has_custom_property(name):
                artifact.set_int_custom_property(name, given.get_int_custom_property(name))
        publish_dataset(artifact.uri, manifest, features, vocabularies=source.vocabularies)


def _plan_split(source: Source, split: str, settings: BalancerSettings) -> SplitWork:
    shards = list(source.shards[split])
    num_records = sum(shard.records for shard in shards)
    num_shards = settings.shards_of(
        split, num_records=num_records, num_bytes=sum(shard.bytes for shard in shards)
    )
    asked = settings.num_shards
    if isinstance(asked, int) and num_shards < asked:
        logging.warning("split %r: %d shards, one a record, not %d", split, num_shards, asked)
    layout = SplitLayout(split, num_records, num_shards, settings.seed, settings.shuffle)
    firsts = itertools.accumulate((shard.records for shard in shards), initial=0)
    return SplitWork(
        layout,
        tuple(plan_buckets(layout, shards, memory_bytes=settings.memory_bytes)),
        tuple(zip(firsts, shards, strict=False)),
    )


def _manifest(
    source: Source, summaries: Sequence[Mapping[str, Any]], settings: BalancerSettings
) -> Manifest:
    for summary in summaries:
        if "error" in summary:
            raise (CorruptShardError if summary["is_corrupt"] else DatasetError)(summary["error"])
    order = {split: index for index, split in enumerate(source.shards)}
    shards = sorted(
        (Shard(**shard) for summary in summaries for shard in summary["shards"]),
        key=lambda shard: (order[shard.split], shard.path),
    )
    written = {split: sum(s.records for s in shards if s.split == split) for split in order}
    found = {split: sum(s.records for s in group) for split, group in source.shards.items()}
    if written != found:
        raise DatasetError(f"records: expected {found} as in {source.uri}, got {written}")
    content = sum(int(summary["content"], 16) for summary in summaries) % 2**64
    config = dataclasses.asdict(settings)
    del config["memory_bytes"]  # it changes the way, not the outcome
    return Manifest(
        shards=tuple(shards),
        accounting={split: Accounting(found=n, written=n) for split, n in written.items()},
        producer="ShardBalancer",
        config=config,
        input_fingerprint=f"{content:016x}",
        label_counts=source.manifest.label_counts if source.manifest else {},
        versions=package_versions(),
    )
