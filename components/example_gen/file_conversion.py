"""Examples that hold files: images, sounds, and what tables and annotations say of them.

class ImageConversion(FileConversion):
    unit, media = "images", "image"
"""

import collections
import dataclasses
import functools
from collections.abc import Collection, Sequence
from typing import ClassVar

from components.common.file_table import decode_path
from components.common.layout_inputs import LayoutInputs
from components.common.listing import Listing, join_listings
from components.common.progress import Work, show_progress
from components.common.summaries import read_finished, start_working
from components.common.worker_errors import raise_reported_error
from components.example_gen import lists
from components.example_gen.conversion import Conversion
from components.example_gen.features import features_of_files
from components.example_gen.file_plan import FilePlan, plan_shards
from components.example_gen.file_reports import ShardSummary
from components.example_gen.fingerprint import fingerprint_of_files
from components.example_gen.image_roots import check_image_roots
from components.example_gen.inputs import layout_inputs, refuse_overlap
from components.example_gen.media_settings import MediaSettings
from components.example_gen.near_duplicates import find_near_duplicates
from components.example_gen.plan import Written, sum_label_counts
from components.example_gen.settings import MEDIA
from components.example_gen.simple_layouts import read_simple, without_reserved
from components.example_gen.unnamed_files import warn_of_unnamed
from trainer_utils.format import InputError, Shard, ShardName
from trainer_utils.storage.file_system import problem_of
from trainer_utils.storage.paths import display_path
from trainer_utils.writing.shards import remove_shard, rename_shard

__all__ = ["FileConversion"]


class FileConversion(Conversion[FilePlan]):
    """The conversion of files; each is read when its shard is written.

    Attributes:
        media: what the files are, `image` or `audio`, where nothing says so.
        listing: of the inputs, once they are planned.
    """

    workers_module = "example_gen.file_shards"
    media: ClassVar[str]
    settings: MediaSettings
    listing: Listing

    def is_source_file(self, path: str) -> bool:
        """Whether a path is by itself what examples are made of, as a list is."""
        return lists.is_list(path)

    def read_layout(self, inputs: LayoutInputs, layout: str) -> Listing:
        """Works out split, features and bytes of each input: of lists, and of class folders."""
        return without_reserved(read_simple(inputs, layout=layout))

    def suited(self, settings: MediaSettings, listing: Listing) -> MediaSettings:
        """The settings for what was found."""
        return settings

    def plan(self, uri: str) -> FilePlan:
        """Finds the inputs and lays out their shards; no image or sound is read.

        They are looked at where copies of them are to share a split.
        """
        self.listing = self._read_listing()
        self.settings = self.suited(self.settings, self.listing)
        find_groups = functools.partial(
            find_near_duplicates,
            self.listing,
            base=self.located.base,
            image_roots=self.settings.image_roots,
        )
        has_media = any(column.kind in MEDIA for column in self.listing.blobs)
        return plan_shards(
            self.listing,
            partition=self.selection.partition,
            settings=self.settings,
            find_groups=find_groups if has_media else None,
        )

    def _read_listing(self) -> Listing:
        settings = self.settings
        inputs = layout_inputs(
            self.located,
            columns=settings.columns,
            column_names=settings.column_names,
            header=settings.header,
            media=self.media,
        )
        try:
            listings = [self.read_layout(some, settings.layout) for some in inputs]
        except OSError as error:  # of a file without which no input is known
            path = display_path(str(error.filename or self.located.base))
            raise InputError(f"{path!r}: cannot be read: {problem_of(error)[1]}") from error
        listing = join_listings(listings)
        if len(listings) > 1:
            refuse_overlap(map(decode_path, listing.entries.paths()))
        tables = [pattern.files for pattern in self.located.patterns]
        warn_of_unnamed(listing, tables, media=self.media)
        contents = {name: crc for some in inputs for name, crc in some.contents.items()}
        return dataclasses.replace(listing, contents=contents)

    def check(self, plan: FilePlan, uri: str) -> None:
        """Refuses lists whose files lie outside of the inputs: one setting cures it."""
        check_image_roots(self.listing, self.settings, base=self.located.base)

    def write(self, plan: FilePlan, uri: str) -> Written:
        """Reads every file, writes the shards, and reads them back."""
        from components.example_gen.file_transforms import (
            write_media_shards,  # Beam: a plan has none
        )

        assert self._make_pipeline is not None
        start_working(uri)
        work = {task.name: Work(count, size) for task, count, size in plan.sizes()}
        with show_progress(uri, work, unit=self.unit):
            write_media_shards(
                self._make_pipeline, plan, base=self.located.base, uri=uri, settings=self.settings
            )
        shards, summaries = _read_reports(uri, plan.splits, work)
        conversions: collections.Counter[str] = collections.Counter()
        for summary in summaries:
            conversions.update(summary.conversions)
        return Written(
            shards=_keep_full_shards(shards, uri),
            features=features_of_files(plan, summaries),
            label_counts=sum_label_counts(
                (shard.split, summary.labels)
                for shard, summary in zip(shards, summaries, strict=True)
            ),
            rejects=tuple(reject for summary in summaries for reject in summary.rejects),
            conversions=dict(conversions),
            fingerprint=fingerprint_of_files(self.located, self.listing, plan, summaries),
        )


def _read_reports(
    uri: str, splits: Sequence[str], names: Collection[str]
) -> tuple[list[Shard], list[ShardSummary]]:
    """What workers report of each task, in their order."""
    reports = read_finished(uri, names)
    raise_reported_error(reports, splits)  # a name begins with its split
    return (
        [Shard(**report["shard"]) for report in reports],
        [ShardSummary.from_json(report["summary"]) for report in reports],
    )


def _keep_full_shards(written: Sequence[Shard], uri: str) -> tuple[Shard, ...]:
    """Removes shards whose inputs were all rejected, and numbers the others anew."""
    kept: list[Shard] = []
    by_split: dict[str, list[Shard]] = collections.defaultdict(list)
    for shard in written:
        by_split[shard.split].append(shard)
    for split, shards in by_split.items():
        full = [shard for shard in shards if shard.records] or shards[:1]
        for shard in shards:
            if shard not in full:
                remove_shard(shard, uri=uri)
        for place, shard in enumerate(full):
            gzip = shard.path.endswith(".gz")
            name = ShardName(split=split, shard_index=place, num_shards=len(full), gzip=gzip)
            if name.path != shard.path:
                shard = rename_shard(shard, name, uri=uri)
            kept.append(shard)
    return tuple(kept)
