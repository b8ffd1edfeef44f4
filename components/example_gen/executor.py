"""Turns files into a dataset: plan, write, publish.

class Executor(MediaExecutor):
    producer, unit, settings_class = "ImageExampleGen", "images", MediaSettings
"""

import collections
import dataclasses
from collections.abc import Iterable, Sequence
from typing import Any, ClassVar

from absl import logging
from tfx import types
from tfx.types import artifact_utils

from components.common.beam import LocalFirstBeamExecutor
from components.common.layout_inputs import LayoutInputs
from components.common.listing import Listing, join_listings
from components.common.progress import Work, shown_progress
from components.common.publish import describe_artifact, package_versions, publish_dataset
from components.common.rejects import Reject
from components.common.summaries import (
    check_finished,
    read_summaries,
    start_working,
    working_folder,
)
from components.example_gen.conclusion import (
    account,
    check_outcome,
    located_inputs,
    set_span,
    total_counts,
)
from components.example_gen.features import make_features
from components.example_gen.fingerprint import media_fingerprint
from components.example_gen.inputs import LocatedInputs, layout_inputs, refuse_overlap
from components.example_gen.media_settings import MediaSettings
from components.example_gen.outside import refuse_outside
from components.example_gen.partition import Partition, partition_of
from components.example_gen.plan import Plan, plan_shards
from components.example_gen.reports import ShardSummary
from components.example_gen.transforms import WriteMediaShards
from components.example_gen.vocabularies import label_column
from trainer_utils.format import InputError, Manifest, Shard, ShardName
from trainer_utils.storage import (
    display_path,
    join,
    list_names,
    problem_of,
    remove_file,
    rename,
)

__all__ = ["MediaExecutor"]


class MediaExecutor(LocalFirstBeamExecutor):
    """What the executors of ExampleGens of files have in common.

    Attributes:
        producer: the component's name, for the manifest.
        unit: what the inputs are called, such as `images`.
        media: what they are, `image` or `audio`, where nothing says so.
        settings_class: of the component.
    """

    producer: ClassVar[str]
    unit: ClassVar[str]
    media: ClassVar[str]
    settings_class: ClassVar[type[MediaSettings]]

    def is_source_file(self, path: str) -> bool:
        """Whether a path is by itself what examples are made of, as a list is."""
        raise NotImplementedError

    def read_layout(self, inputs: LayoutInputs, layout: str) -> Listing:
        """Works out split, features and bytes of each input."""
        raise NotImplementedError

    def what_was_looked_for(self, names: Iterable[str]) -> str:
        """A sentence for inputs in which nothing was recognised, with what is at their top."""
        raise NotImplementedError

    def suited(self, settings: MediaSettings, listing: Listing) -> MediaSettings:
        """The settings for what was found."""
        return settings

    def Do(
        self,
        input_dict: dict[str, list[types.Artifact]],
        output_dict: dict[str, list[types.Artifact]],
        exec_properties: dict[str, Any],
    ) -> None:
        """Converts the files.

        Args:
            input_dict: empty.
            output_dict: `examples`: the Examples artifact to fill.
            exec_properties: `input_base`, `input_config`, `output_config`, `range_config` as in
                TFX's FileBasedExampleGen, and the fields of the settings. Where TFX's driver
                ran, it has filled in spans; where none did, they are resolved here.

        Raises:
            InputError: the input is missing, malformed, or too much of it was rejected.
            ConfigError: a setting is not allowed.
        """
        self._log_startup(input_dict, output_dict, exec_properties)
        artifact = artifact_utils.get_single_instance(output_dict["examples"])
        located, listing, settings, plan = self.plan(exec_properties)
        refuse_outside(listing, settings, base=located.base)
        partition = partition_of(exec_properties)
        start_working(artifact.uri)
        with (
            shown_progress(artifact.uri, _work(plan), unit=self.unit),
            self._make_beam_pipeline() as pipeline,
        ):
            pipeline | WriteMediaShards(  # type: ignore[operator]
                plan, base=located.base, uri=artifact.uri, settings=settings
            )
        summaries = _read_summaries(artifact.uri, plan)
        rejects = [*plan.rejects, *(r for summary in summaries for r in summary.rejects)]
        check_outcome(
            rejects,
            found=listing.found,
            written=sum(summary.records for summary in summaries),
            base=located.base,
            settings=settings,
            uri=artifact.uri,
            what=self.unit,
            looked_for=lambda: self.what_was_looked_for(list_names(located.base)),
        )
        kept = _drop_empty_shards(summaries, artifact.uri, settings.gzip)
        fingerprint = media_fingerprint(located, listing, plan, summaries)
        manifest = _manifest(self.producer, plan, kept, rejects, settings, partition, fingerprint)
        features = make_features(plan, summaries)
        vocabularies = plan.vocabularies
        describe_artifact(artifact, manifest, gzip=settings.gzip, vocabularies=vocabularies)
        set_span(artifact, located, exec_properties)
        publish_dataset(
            artifact.uri, manifest, features, vocabularies=vocabularies, rejects=rejects
        )

    def plan(
        self, exec_properties: dict[str, Any]
    ) -> tuple[LocatedInputs, Listing, MediaSettings, Plan]:
        """Finds the inputs and lays out their shards; no image or sound is read.

        Args:
            exec_properties: as `Do` takes.

        Raises:
            InputError, ConfigError: as `Do`.
        """
        settings = self.settings_class.from_properties(exec_properties)
        located = located_inputs(
            exec_properties,
            image_roots=settings.image_roots,
            is_source_file=self.is_source_file,
            unit=self.unit,
        )
        listing = self._read_listing(located, settings)
        settings = self.suited(settings, listing)
        partition = partition_of(exec_properties)
        return (
            located,
            listing,
            settings,
            plan_shards(listing, partition=partition, settings=settings),
        )

    def _read_listing(self, located: LocatedInputs, settings: MediaSettings) -> Listing:
        inputs = layout_inputs(
            located,
            columns=settings.columns,
            column_names=settings.column_names,
            header=settings.header,
            media=self.media,
        )
        try:
            listings = [self.read_layout(some, settings.layout) for some in inputs]
        except OSError as error:  # of a file without which no input can be told
            path = display_path(str(error.filename or located.base))
            raise InputError(f"{path!r}: cannot be read: {problem_of(error)[1]}") from error
        listing = listings[0]
        if len(listings) > 1:
            listing = join_listings(listings)
            refuse_overlap([entry.name for entry in listing.entries])
        contents = {name: crc for some in inputs for name, crc in some.contents.items()}
        return dataclasses.replace(listing, contents=contents)


def _work(plan: Plan) -> dict[str, Work]:
    return {
        task.name: Work(
            len(task.entries), sum(blob.size for entry in task.entries for blob in entry.blobs)
        )
        for task in plan.tasks
    }


def _read_summaries(uri: str, plan: Plan) -> list[ShardSummary]:
    check_finished(uri, [task.name for task in plan.tasks])
    found = {
        (summary.split, summary.shard_index): summary
        for summary in map(ShardSummary.from_json, read_summaries(working_folder(uri)))
    }
    return [found[task.split, task.shard_index] for task in plan.tasks]


def _drop_empty_shards(
    summaries: Sequence[ShardSummary], uri: str, gzip: bool
) -> list[ShardSummary]:
    """Removes shards whose images were all rejected, and numbers the others anew."""
    kept: list[ShardSummary] = []
    by_split: dict[str, list[ShardSummary]] = collections.defaultdict(list)
    for summary in summaries:
        by_split[summary.split].append(summary)
    for split, shards in by_split.items():
        full = [shard for shard in shards if shard.records] or shards[:1]
        if not full[0].records:
            logging.warning("split %r has no examples: it keeps one empty shard", split)
        for shard in shards:
            if shard not in full:
                remove_file(join(uri, _shard_path(shard, len(shards), gzip)))
        for index, shard in enumerate(full):
            old = _shard_path(shard, len(shards), gzip)
            shard.shard_index = index
            if (new := _shard_path(shard, len(full), gzip)) != old:
                rename(join(uri, old), join(uri, new))
        kept += full
    return kept


def _shard_path(summary: ShardSummary, num_shards: int, gzip: bool) -> str:
    return ShardName(
        split=summary.split, shard_index=summary.shard_index, num_shards=num_shards, gzip=gzip
    ).path


def _manifest(
    producer: str,
    plan: Plan,
    summaries: Sequence[ShardSummary],
    rejects: Sequence[Reject],
    settings: MediaSettings,
    partition: Partition | None,
    fingerprint: str,
) -> Manifest:
    num_shards = collections.Counter(summary.split for summary in summaries)
    written: collections.Counter[str] = collections.Counter()
    labels: dict[str, collections.Counter[str]] = {
        name: collections.Counter() for name in plan.splits
    }
    place = label_column(plan.columns)
    class_names = None if place is None else plan.vocabularies.get(plan.columns[place].name)
    for summary in summaries:
        written[summary.split] += summary.records
        for label, count in summary.labels.items():
            labels[summary.split][class_names[label] if class_names else str(label)] += count
    return Manifest(
        shards=tuple(
            Shard(
                path=_shard_path(summary, num_shards[summary.split], settings.gzip),
                split=summary.split,
                records=summary.records,
                bytes=summary.bytes,
                crc32c=summary.crc32c,
                content=summary.checksum,
            )
            for summary in summaries
        ),
        accounting=account(plan.splits, written=written, rejects=rejects, skipped=plan.skipped),
        producer=producer,
        config={**settings.for_manifest(), "splits": partition and dict(partition.buckets)},
        input_fingerprint=fingerprint,
        label_counts={name: dict(counts) for name, counts in labels.items() if counts},
        conversions=total_counts(summary.conversions for summary in summaries),
        reject_counts=dict(collections.Counter(reject.code for reject in rejects)),
        versions=package_versions(),
    )
