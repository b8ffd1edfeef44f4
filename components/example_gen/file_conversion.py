"""Examples that hold files: images, sounds, and what tables and annotations say of them.

class ImageConversion(FileConversion):
    unit, media = "images", "image"
"""

import collections
import dataclasses
import functools
from collections.abc import Sequence
from typing import Any, ClassVar

from absl import logging

from components.common.file_table import decode_path
from components.common.layout_inputs import FilesElsewhere, LayoutInputs
from components.common.listing import Listing, join_listings
from components.common.progress import Work, show_progress
from components.common.summaries import read_finished, start_working
from components.common.worker_errors import raising_reported
from components.example_gen import lists
from components.example_gen.conversion import Conversion, MakePipeline
from components.example_gen.features import features_of_files
from components.example_gen.file_plan import FilePlan, plan_shards
from components.example_gen.file_reports import ShardSummary
from components.example_gen.fingerprint import fingerprint_of_files
from components.example_gen.image_roots import check_image_roots, roots_of
from components.example_gen.inputs import InputSelection, layout_inputs, refuse_overlap
from components.example_gen.media import DESCRIPTIONS
from components.example_gen.near_duplicates import find_near_duplicates
from components.example_gen.plan import Written, sum_label_counts
from components.example_gen.settings import LISTS, MEDIA, MediaSettings
from components.example_gen.simple_layouts import read_simple, without_reserved
from components.example_gen.unnamed_files import warn_of_unnamed
from trainer_utils.format import ConfigError, InputError, Shard, ShardName
from trainer_utils.format.spelling import did_you_mean
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

    def __init__(
        self, settings: Any, selection: InputSelection, make_pipeline: MakePipeline | None
    ) -> None:
        super().__init__(settings, selection, make_pipeline)
        self._named: Listing | None = None
        self._elsewhere: FilesElsewhere | None = None
        self._roots_of_lists: list[str] = []
        if not settings.image_roots and settings.layout in ("auto", *LISTS):
            self._take_what_lists_name()

    def _take_what_lists_name(self) -> None:
        """Makes image roots of the folders of files that lists name elsewhere.

        They are inputs, whose change makes another fingerprint; so they are known from the start.
        """
        if not any(lists.find(inputs) for inputs in self.inputs()):
            return
        self._elsewhere = FilesElsewhere()
        listing = self._read_listing(self._elsewhere)
        roots = roots_of(self._elsewhere.found, base=self.located.base)
        if not roots:
            self._named = listing  # which need not be read again
            return
        self.located = dataclasses.replace(self.located, image_roots=roots)
        self._roots_of_lists = [root.base for root in roots]
        self.settings = dataclasses.replace(self.settings, image_roots=self._roots_of_lists)

    def is_source_file(self, path: str) -> bool:
        """Whether a path is by itself what examples are made of, as a list is."""
        return lists.is_list(path)

    def read_layout(self, inputs: LayoutInputs, layout: str) -> Listing:
        """Works out split, features and bytes of each input: of lists, and of class folders."""
        return without_reserved(read_simple(inputs, layout=layout))

    def suited(self, settings: MediaSettings, listing: Listing) -> MediaSettings:
        """The settings for what was found."""
        vocabulary = {**listing.vocabularies, **settings.vocabularies}
        return dataclasses.replace(settings, vocabulary=vocabulary)

    def plan(self, uri: str) -> FilePlan:
        """Finds the inputs and lays out their shards; no image or sound is read.

        They are looked at where copies of them are to share a split.
        """
        if roots := self._roots_of_lists:
            shown = ", ".join(map(repr, roots[:3])) + (", …" if len(roots) > 3 else "")
            logging.warning("a list names %s outside of the input: below %s", self.unit, shown)
        self.listing = self._named or self._read_listing(self._elsewhere)
        tables = [pattern.files for pattern in self.located.patterns]
        warn_of_unnamed(self.listing, tables, media=self.media)
        self.settings = self.suited(self.settings, self.listing)
        self.listing, self.settings = _renamed(self.listing, self.settings)
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

    def inputs(self, elsewhere: FilesElsewhere | None = None) -> list[LayoutInputs]:
        """What the layout is read from, one a pattern of `input_config`."""
        return layout_inputs(
            self.located,
            columns=self.settings.columns,
            column_names=self.settings.column_names,
            header=self.settings.header,
            media=self.media,
            elsewhere=elsewhere,
            names=self.settings.layout_names,
        )

    def _read_listing(self, elsewhere: FilesElsewhere | None = None) -> Listing:
        inputs, settings = self.inputs(elsewhere), self.settings
        try:
            listings = [self.read_layout(some, settings.layout) for some in inputs]
        except OSError as error:  # of a file without which no input is known
            path = display_path(str(error.filename or self.located.base))
            raise InputError(f"{path!r}: cannot be read: {problem_of(error, path)[1]}") from error
        listing = join_listings(listings)
        if len(listings) > 1:
            refuse_overlap(map(decode_path, listing.entries.paths()))
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
        with raising_reported(uri), show_progress(uri, work, unit=self.unit):
            write_media_shards(
                self._make_pipeline, plan, base=self.located.base, uri=uri, settings=self.settings
            )
        reports = read_finished(uri, work)
        shards = [Shard(**report["shard"]) for report in reports]
        summaries = [ShardSummary.from_json(report["summary"]) for report in reports]
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


def _renamed(listing: Listing, settings: MediaSettings) -> tuple[Listing, MediaSettings]:
    """What was found, with features of the names that are asked for; and settings that know them.

    Raises:
        ConfigError: there is no such feature, or a name is taken.
    """
    wanted = settings.feature_names
    own = [*(blob.name for blob in listing.blobs), *(column.name for column in listing.columns)]
    of_engine = {"filename", *(d for b in listing.blobs for d in DESCRIPTIONS.get(b.kind, ()))}
    for name, new in wanted.items():
        if name not in own or name in of_engine:
            known = [one for one in own if one not in of_engine]
            raise ConfigError.of(
                "feature_names",
                name,
                allowed=f"one of {', '.join(known)}",
                advice=did_you_mean(name, known).strip(),
            )
        if new in {*own, *of_engine} - {*wanted}:
            raise ConfigError.of(f"feature_names[{name!r}]", new, allowed="a name that is free")
    return (
        dataclasses.replace(
            listing,
            blobs=tuple(b._replace(name=wanted.get(b.name, b.name)) for b in listing.blobs),
            columns=tuple(
                dataclasses.replace(column, name=wanted.get(column.name, column.name))
                for column in listing.columns
            ),
        ),
        dataclasses.replace(
            settings,
            vocabulary={wanted.get(n, n): labels for n, labels in settings.vocabularies.items()},
            group_by=settings.group_by and wanted.get(settings.group_by, settings.group_by),
        ),
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
