"""Turns a folder of images into a dataset: plan, write, publish."""

import collections
import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from absl import logging
from tfx import types
from tfx.components.example_gen import utils
from tfx.proto import example_gen_pb2, range_config_pb2
from tfx.types import artifact_utils, standard_component_specs
from tfx.utils import proto_utils

from components.common.beam import LocalFirstBeamExecutor
from components.common.files import join, list_names, remove_file, rename, write_text
from components.common.listing import Listing
from components.common.progress import Work, shown_progress
from components.common.publish import describe_artifact, package_versions, publish_dataset
from components.common.rejects import Reject, check_reject_fraction, render_rejects
from components.common.summaries import read_summaries, start_working, working_folder
from components.image_example_gen.features import make_features
from components.image_example_gen.inputs import LocatedInputs, locate, read_listing
from components.image_example_gen.layouts import what_was_looked_for
from components.image_example_gen.plan import Partition, Plan, plan_shards
from components.image_example_gen.reports import ShardSummary
from components.image_example_gen.settings import ImageSettings
from components.image_example_gen.transforms import WriteImageShards
from components.image_example_gen.vocabularies import label_column
from trainer_utils.format import (
    Accounting,
    ConfigError,
    InputError,
    Manifest,
    Shard,
    ShardName,
)
from trainer_utils.format.naming import check_split_name

__all__ = ["Executor"]


class Executor(LocalFirstBeamExecutor):
    """Executor of ImageExampleGen."""

    def Do(
        self,
        input_dict: dict[str, list[types.Artifact]],
        output_dict: dict[str, list[types.Artifact]],
        exec_properties: dict[str, Any],
    ) -> None:
        """Converts the images.

        Args:
            input_dict: empty.
            output_dict: `examples`: the Examples artifact to fill.
            exec_properties: `input_base`, `input_config`, `output_config`, `range_config` as in
                TFX's FileBasedExampleGen, and the fields of `ImageSettings`. Where TFX's driver
                ran, it has filled in spans; where none did, they are resolved here.

        Raises:
            InputError: the input is missing, malformed, or too much of it was rejected.
            ConfigError: a setting is not allowed.
        """
        self._log_startup(input_dict, output_dict, exec_properties)
        artifact = artifact_utils.get_single_instance(output_dict["examples"])
        settings = ImageSettings.from_properties(exec_properties)
        located = _locate(exec_properties, settings)
        listing = read_listing(located, layout=settings.layout, columns=settings.columns)
        settings = _suited(settings, listing)
        partition = _partition(exec_properties)
        plan = plan_shards(listing, partition=partition, settings=settings)
        gzip = settings.compression == "gzip"
        start_working(artifact.uri)
        with (
            shown_progress(artifact.uri, _work(plan), unit="images"),
            self._make_beam_pipeline() as pipeline,
        ):
            pipeline | WriteImageShards(  # type: ignore[operator]
                plan, base=located.base, uri=artifact.uri, settings=settings
            )
        summaries = _read_summaries(artifact.uri, plan)
        rejects = [*plan.rejects, *(r for summary in summaries for r in summary.rejects)]
        _check_outcome(rejects, summaries, listing.found, located.base, settings, artifact.uri)
        manifest = _manifest(
            plan,
            _drop_empty_shards(summaries, artifact.uri, gzip),
            rejects,
            settings,
            partition,
        )
        features = make_features(plan, summaries)
        describe_artifact(artifact, manifest, gzip=gzip, vocabularies=plan.vocabularies)
        if not _driver_ran(exec_properties):
            _set_span(artifact, located)
        publish_dataset(
            artifact.uri, manifest, features, vocabularies=plan.vocabularies, rejects=rejects
        )


def _suited(settings: ImageSettings, listing: Listing) -> ImageSettings:
    """The settings for inputs whose boxes or label maps must go on fitting their images.

    Those are drawn on a file's pixels as they lie, so these are not turned.

    Raises:
        ConfigError: images would be cut, and their boxes would not.
    """
    has_boxes = any(column.name == "xmin" for column in listing.columns)
    if has_boxes and settings.images.encoding == "raw":
        raise ConfigError(
            "encoding: expected 'file' for images with boxes, since raw ones are cut to a square, "
            "got 'raw'"
        )
    if not has_boxes and len(listing.blobs) == 1:
        return settings
    images = dataclasses.replace(settings.images, orientation="keep")
    return dataclasses.replace(settings, images=images)


def _locate(exec_properties: dict[str, Any], settings: ImageSettings) -> LocatedInputs:
    input_config = example_gen_pb2.Input()
    proto_utils.json_to_proto(
        exec_properties[standard_component_specs.INPUT_CONFIG_KEY], input_config
    )
    range_config = None
    if not _driver_ran(exec_properties) and exec_properties.get(
        standard_component_specs.RANGE_CONFIG_KEY
    ):
        range_config = range_config_pb2.RangeConfig()
        proto_utils.json_to_proto(
            exec_properties[standard_component_specs.RANGE_CONFIG_KEY], range_config
        )
    _check_split_names("input_config", [split.name for split in input_config.splits])
    return locate(
        exec_properties[standard_component_specs.INPUT_BASE_KEY],
        input_config,
        range_config,
        image_roots=settings.image_roots,
    )


def _check_split_names(setting: str, names: Sequence[str]) -> None:
    for place, name in enumerate(names):
        check_split_name(name)
        if name in names[:place]:
            raise ConfigError(f"{setting}: expected each split once, got {name!r} twice")


def _driver_ran(exec_properties: dict[str, Any]) -> bool:
    """Whether TFX's driver has filled in spans; open-source Kubeflow runs none."""
    return exec_properties.get(utils.FINGERPRINT_PROPERTY_NAME) is not None


def _partition(exec_properties: dict[str, Any]) -> Partition | None:
    """The splits that output_config asks for; None where it leaves them to the layout."""
    output_config = example_gen_pb2.Output()
    proto_utils.json_to_proto(
        exec_properties[standard_component_specs.OUTPUT_CONFIG_KEY], output_config
    )
    split_config = output_config.split_config
    if not split_config.splits:
        return None
    _check_split_names("output_config", [split.name for split in split_config.splits])
    for split in split_config.splits:
        if split.hash_buckets <= 0:
            raise ConfigError(
                f"output_config split {split.name!r}: expected hash_buckets of at least 1, "
                f"got {split.hash_buckets}"
            )
    return Partition(
        tuple((split.name, split.hash_buckets) for split in split_config.splits),
        split_config.partition_feature_name or "filename",
    )


def _work(plan: Plan) -> dict[str, Work]:
    return {
        task.name: Work(
            len(task.entries), sum(blob.size for entry in task.entries for blob in entry.blobs)
        )
        for task in plan.tasks
    }


def _read_summaries(uri: str, plan: Plan) -> list[ShardSummary]:
    found = {
        (summary.split, summary.shard_index): summary
        for summary in map(ShardSummary.from_json, read_summaries(working_folder(uri)))
    }
    return [found[task.split, task.shard_index] for task in plan.tasks]


def _check_outcome(
    rejects: Sequence[Reject],
    summaries: Sequence[ShardSummary],
    found: int,
    base: str,
    settings: ImageSettings,
    uri: str,
) -> None:
    """Refuses too many rejects. TFX removes a failed run's output, so the list goes beside it."""
    listed_in = f"{uri.rstrip('/')}.rejects.jsonl"
    try:
        check_reject_fraction(
            rejects,
            found=found,
            max_reject_fraction=settings.max_reject_fraction,
            listed_in=listed_in,
        )
        if not any(summary.records for summary in summaries):
            raise InputError(f"input_base {base!r}: expected images, found none that can be read.")
    except InputError as error:
        folder = working_folder(uri)
        write_text(listed_in, render_rejects(rejects), temporary_folder=folder)
        if settings.layout == "auto" and not any(summary.records for summary in summaries):
            raise InputError(f"{error} {what_was_looked_for(list_names(base))}") from None
        raise


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
    plan: Plan,
    summaries: Sequence[ShardSummary],
    rejects: Sequence[Reject],
    settings: ImageSettings,
    partition: Partition | None,
) -> Manifest:
    num_shards = collections.Counter(summary.split for summary in summaries)
    rejected = collections.Counter(reject.split for reject in rejects)
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
                path=_shard_path(
                    summary, num_shards[summary.split], settings.compression == "gzip"
                ),
                split=summary.split,
                records=summary.records,
                bytes=summary.bytes,
                crc32c=summary.crc32c,
            )
            for summary in summaries
        ),
        accounting={
            name: Accounting(
                found=written[name] + rejected[name] + plan.skipped[name],
                written=written[name],
                rejected=rejected[name],
                skipped=plan.skipped[name],
            )
            for name in plan.splits
        },
        producer="ImageExampleGen",
        config={**settings.for_manifest(), "splits": partition and dict(partition.buckets)},
        input_fingerprint=_content(summaries),
        label_counts={name: dict(counts) for name, counts in labels.items() if counts},
        conversions=_sum(summary.conversions for summary in summaries),
        reject_counts=dict(collections.Counter(reject.code for reject in rejects)),
        versions=package_versions(),
    )


def _sum(counts: Iterable[Mapping[str, int]]) -> dict[str, int]:
    total: collections.Counter[str] = collections.Counter()
    for count in counts:
        total.update(count)
    return dict(total)


def _content(summaries: Sequence[ShardSummary]) -> str:
    return f"{sum(int(summary.content, 16) for summary in summaries) % 2**128:032x}"


def _set_span(artifact: types.Artifact, located: LocatedInputs) -> None:
    """What TFX's driver sets on the artifact, for where no driver ran."""
    artifact.set_int_custom_property(utils.SPAN_PROPERTY_NAME, located.span)
    if located.version is not None:
        artifact.set_int_custom_property(utils.VERSION_PROPERTY_NAME, located.version)
