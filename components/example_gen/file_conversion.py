"""The conversions of files to examples: images, audio, and the values that tables have for them."""

import dataclasses
import functools
import posixpath
import re
from collections.abc import Sequence
from typing import Any

import pyarrow.compute as pc
from absl import logging

from components.example_gen.conversion import FILE_SECONDS, Conversion, rejects_path
from components.example_gen.file_examples import SIXTEEN_BIT_PEAK, ShardSummary
from components.example_gen.file_plan import FilePlan, plan_shards
from components.example_gen.file_shards import ShardTask, WriteMediaShard
from components.example_gen.input_selection import (
    InputSelection,
    fingerprint,
    layout_inputs,
    refuse_overlap,
)
from components.example_gen.parallel_shards import ParallelShards, ShardResult, keep_full_shards
from components.example_gen.plan import Written
from components.example_gen.planned_listing import listing_of
from components.example_gen.settings import (
    AudioSettings,
    ExampleGenSettings,
    ImageSettings,
    ListSettings,
    MediaSettings,
    TextSettings,
)
from components.example_gen.updates import (
    BaseDataset,
    Listing,
    count_changes,
    plan_update,
    read_base,
    render_inputs,
)
from components.inputs.advice import how_to_set
from components.inputs.arrow_columns import (
    array_of,
    blob_paths,
    is_in_table,
    sizes_of,
    to_python_values,
)
from components.inputs.fingerprint import sum_blobs, sum_facts
from components.inputs.input_table import InputTable, join_inputs, with_excluded
from components.inputs.listing import ImageRoot, LayoutInputs, NamedFiles
from components.inputs.parquet_cells import memory_of_column
from components.inputs.rejects import RejectLimit
from components.layouts import lists
from components.layouts.archives import is_archive
from components.layouts.names import MEDIA
from components.layouts.reading import read_layout
from components.media.image_opening import missing_reader
from components.media.options import DESCRIPTIONS
from components.runtime.runners import Runner
from components.runtime.tasks import Cost, Task
from components.runtime.workspace import prepare_workspace
from components.tables.pieces import select_settings
from trainer_utils.core.errors import ConfigError, InputError, did_you_mean
from trainer_utils.dataset import Dataset
from trainer_utils.format import Shard
from trainer_utils.format.input_listing import InputListing
from trainer_utils.format.media_formats import FORMATS
from trainer_utils.storage.host_errors import problem_of
from trainer_utils.storage.paths import decode_path, display_path

_DECODED_BYTE_SECONDS = 1 / 25e6  # of one core
# Memory of a process: it holds the largest image, and as much again while it is rotated or resized.
# Without images, it holds audio and files read ahead. Few files of n bytes have more than 64 n
# pixels: sharp photos have 3 to 10 n, scans and screenshots up to 50 n.
_PIXEL_BYTES, _MIN_BYTES = 6, 256 << 20
_PIXELS_A_BYTE = 64
_SIXTEEN_BITS = (1 << 16) - 1


class FileConversion(Conversion[FilePlan]):
    """The conversion of files. Each is read when its shard is written."""

    settings: MediaSettings
    found: InputTable  # set by `plan`

    def __init__(
        self, settings: MediaSettings, selection: InputSelection, runner: Runner | None
    ) -> None:
        super().__init__(settings, selection, runner)
        self._known: InputTable | None = None  # set if `list_inputs` has read them

    def check_settings(self) -> None:
        """Raise ConfigError if a package is missing, or options do not fit together."""
        self.settings.audio.check_installed()
        self.settings.images.check_compatible()

    def list_inputs(self) -> None:
        """List the files of the inputs, and those below `file_roots` that lists refer to.

        These are inputs too: a change to one changes the fingerprint. So lists are read here if
        there are `file_roots`.
        """
        super().list_inputs()
        if not self.settings.file_roots:
            return
        # `NamedFiles` collects the files that are looked up while the lists are read.
        names = dict.fromkeys(self.settings.file_roots)
        roots = tuple(ImageRoot(root, NamedFiles(root)) for root in names)
        self.located = dataclasses.replace(self.located, file_roots=roots)
        self._known = self._read_inputs()
        roots = tuple(ImageRoot(root.base, root.table) for root in roots)
        self.located = dataclasses.replace(self.located, file_roots=roots)

    @functools.cached_property
    def base(self) -> BaseDataset | None:
        """The dataset to update, if any."""
        uri = self.settings.base_dataset
        return None if uri is None else read_base(uri)

    @property
    def parents(self) -> dict[str, list[Dataset]]:  # noqa: D102
        return {} if self.base is None else {"base_dataset": [self.base.dataset]}

    @property
    def packages(self) -> set[str]:  # noqa: D102
        packages = super().packages
        if self.media == "audio" or "audio" in self.settings.columns.values():
            packages |= {"numpy", "soundfile"}
            if self.settings.audio.sample_rate is not None:
                packages.add("scipy")
        return packages | ({"numpy"} if self.settings.group_by else set())

    def is_up_to_date(self) -> bool:
        """Return whether the base dataset has these settings and an unchanged listing of inputs."""
        assert self.base is not None
        same_settings = not self.base.differing(self.config, free=("update",))
        return same_settings and self.base.fingerprint == fingerprint(self.located)

    def is_source_file(self, path: str) -> bool:
        """Return whether a single file is a source of examples, as a list is."""
        return lists.is_list(path)

    def read_layout(self, inputs: LayoutInputs, layout: str) -> InputTable:
        """Determine the split, features and bytes of each input."""
        return read_layout(inputs, layout=layout)

    def adjusted_settings(self, settings: MediaSettings, inputs: InputTable) -> MediaSettings:
        """Return the settings, adjusted to the inputs."""
        vocabulary = {**inputs.vocabularies, **settings.vocabularies}
        return dataclasses.replace(settings, vocabulary=vocabulary)

    def plan(self, uri: str) -> FilePlan:
        """Find the inputs and lay out their shards, without reading images or audio.

        They are read only if copies are to share a split.
        """
        self.found = self._known or self._read_inputs()
        self.settings = self.adjusted_settings(self.settings, self.found)
        self.found, self.settings = _renamed(self.found, self.settings)
        _refuse_unreadable_formats(self.found)
        has_media = any(column.kind in MEDIA for column in self.found.blobs)
        if (base := self.base) is not None:
            base.check(self.config, uri)
        plan = plan_shards(
            self.found,
            partition=self.selection.partition,
            settings=self.settings,
            find_groups=self._find_groups if has_media else None,
            known={} if base is None else base.dataset.vocabularies,
        )
        if base is None:
            return plan
        return plan_update(plan, base, Listing(plan.rows, self.located), self.settings)

    def _find_groups(self) -> dict[str, str]:
        from components.example_gen.near_duplicates import find_near_duplicates  # rarely needed

        return find_near_duplicates(self.found, self.blob_reader())

    def inputs(self) -> list[LayoutInputs]:
        """Return the inputs of the layout, one for each pattern of `input_config`."""
        return layout_inputs(
            self.located,
            columns=self.settings.columns,
            column_names=self.settings.column_names,
            header=self.settings.header,
            delimiter=self.settings.delimiter,
            quoting=self.settings.quoting,
            encoding=self._list_encoding,
            rows=self.settings.rows,
            label_separator=self.settings.label_separator,
            find_files=self.settings.find_files,
            name_pattern=self.settings.name_pattern,
            box_format=getattr(self.settings, "box_format", None),
            vocabularies=self.settings.vocabularies,
            media=self.media,
            names=self.settings.layout_names,
            follow_links=self.settings.follow_links,
        )

    @property
    def _list_encoding(self) -> str:
        """The encoding of lists; ImageExampleGen's `encoding` is for images."""
        settings: Any = self.settings
        is_image = isinstance(settings, ImageSettings)
        return str(settings.list_encoding if is_image else settings.encoding)

    def _read_inputs(self) -> InputTable:
        inputs, settings = self.inputs(), self.settings
        try:
            tables = [self.read_layout(part, settings.layout) for part in inputs]
        except OSError as error:  # a file that all inputs depend on
            path = display_path(str(error.filename or self.located.base))
            raise InputError(f"{path!r}: cannot be read: {problem_of(error, path)[1]}") from error
        joined = join_inputs(tables)
        if len(tables) > 1:
            refuse_overlap(to_python_values(array_of(joined.rows, "name")))
        contents = {name: crc for part in inputs for name, crc in part.contents.items()}
        joined = with_excluded(joined, self.skipped_files())
        return dataclasses.replace(joined, contents=contents)

    def write(self, plan: FilePlan, uri: str) -> Written:
        """Read every file, write the shards, and read them back."""
        prepare_workspace(uri, key=self.key())
        tasks, limit = plan.tasks, self._reject_limit(plan, uri)
        shards = ParallelShards(
            write_shard=WriteMediaShard(
                plan.columns, plan.blobs, self.located.base, uri, self.settings, limit
            ),
            runner=self._runner,
            cost=self._cost_of(plan, tasks),
            paths=(self.located.base, *self.settings.file_roots),
            unit=self.unit,
            limit=limit,
        )
        results = shards.write(tasks)
        kept = keep_full_shards([shard for shard, _ in results], uri=uri)
        return self._summarise(plan, tasks, results, kept)

    def _reject_limit(self, plan: FilePlan, uri: str) -> RejectLimit:
        """Return the limit on rejects; raise InputError if the plan alone exceeds it."""
        limit = RejectLimit(
            found=plan.found,
            max_reject_fraction=self.settings.max_reject_fraction,
            rejected_before=0,
            listed_in=rejects_path(uri),
        )
        limit.check(plan.rejects, seen=plan.found, where=" (before a file was opened)")
        return dataclasses.replace(limit, rejected_before=len(plan.rejects))

    def _summarise(
        self,
        plan: FilePlan,
        tasks: Sequence[Task[ShardTask]],
        results: Sequence[ShardResult],
        shards: tuple[Shard, ...],
    ) -> Written:
        """Return the outcome of a plan.

        Args:
            plan: the plan.
            tasks: its tasks.
            results: the result of each task.
            shards: the shards of the dataset, without those whose inputs were all rejected.
        """
        total = ShardSummary.of(summary for _, summary in results)
        self._warn_about_images(total)
        summaries = [summary for shard, summary in results if shard.records]
        digests = _listing_digests(Listing(plan.rows, self.located), tasks, results)
        full = [shard for shard in shards if shard.records]
        listing = None if self.base is not None else self._listing_of(plan, total)
        return Written(
            shards=shards,
            listing=listing,
            inputs=render_inputs(
                zip(full, summaries, digests, strict=True),
                fingerprint=listing.fingerprint if listing else fingerprint(self.located),
            ),
            update={} if self.base is None else count_changes(self.base, summaries),
            features=total.features(plan, plan.blobs),
            label_counts=[(shard.split, summary.labels) for shard, summary in results],
            rejects=tuple(total.rejects),
            conversions=total.conversions,
            fingerprint=self._fingerprint(plan, total),
        )

    def _listing_of(self, plan: FilePlan, total: ShardSummary) -> InputListing:
        """Return the identity of a new dataset by its inputs; an update keeps its base's order."""
        rejects = sorted(total.rejects, key=lambda reject: reject.source)
        listing = listing_of(plan, self.located, self.config)
        return listing.with_rejects([f"{reject.source}: {reject.code}" for reject in rejects])

    def _fingerprint(self, plan: FilePlan, total: ShardSummary) -> str:
        """Return the fingerprint of all inputs: of records, rejects, unread files and lists."""
        unread = {blob: True for entry in plan.unread() for blob in entry.blobs}
        sums = self.sums_of_unread(self.found.excluded, unread)
        roots = [root.base for root in self.located.file_roots]
        value = total.fingerprint + sum_blobs(sums.items(), roots)
        value += sum_facts((("read", name), crc) for name, crc in self.found.contents.items())
        return f"{value % 2**128:032x}"

    def _warn_about_images(self, total: ShardSummary) -> None:
        """Warn of images that lose levels, and of boxes whose frame only a setting decides."""
        _warn_of_dark_images(total)
        if count := total.conversions.get("BOX_FRAME_GIVEN"):
            frame = getattr(self.settings, "box_frame", None)
            logging.warning(
                "EXIF rotates %d images, and nothing but box_frame=%r says that their boxes are of "
                "the %s pixels",
                *(count, frame, frame),
            )

    def _cost_of(self, plan: FilePlan, tasks: Sequence[Task[ShardTask]]) -> Cost:
        images, audio = self.settings.images, self.settings.audio
        seconds = FILE_SECONDS * sum(task.records for task in tasks)
        if images.decodes_all or audio.sample_rate is not None:
            seconds += _DECODED_BYTE_SECONDS * sum(task.bytes for task in tasks)
        largest = int(sizes_of(plan.rows).max(initial=0))
        pixels = min(images.max_pixels, _PIXELS_A_BYTE * largest)
        held = max(_MIN_BYTES, largest + _PIXEL_BYTES * pixels)
        for blob in plan.blobs:
            column = f"blob:{blob.name}"
            if is_in_table(plan.rows, column):
                sizes = array_of(plan.rows, column).field("size")
                held += memory_of_column(pc.mean(sizes).as_py(), pc.sum(sizes).as_py())
        return Cost(seconds, held)


class ImageConversion(FileConversion):
    """The conversion of images, and lists of images."""

    unit, media = "images", "image"

    def is_source_file(self, path: str) -> bool:  # noqa: D102
        return lists.is_list(path) or is_archive(path)

    def adjusted_settings(self, settings: MediaSettings, inputs: InputTable) -> MediaSettings:
        """Return the settings, adjusted to the inputs; raw images cannot have boxes."""
        settings = super().adjusted_settings(settings, inputs)
        has_boxes = any(column.name == "xmin" for column in inputs.columns)
        if has_boxes and settings.images.encoding == "raw":
            rule = "'file' for images with boxes, since raw ones are cut to a square"
            raise ConfigError.of("encoding", "raw", allowed=rule)
        return settings


class AudioConversion(FileConversion):
    """The conversion of audio files, and lists of audio files."""

    unit, media = "audio files", "audio"


class ListConversion(FileConversion):
    """The conversion of tables whose rows refer to image or audio files."""

    unit, media = "rows", "image"

    def __init__(
        self, settings: ExampleGenSettings, selection: InputSelection, runner: Runner | None
    ) -> None:
        super().__init__(select_settings(ListSettings, settings), selection, runner)


class TextItemConversion(ListConversion):
    """The conversion of text from a custom layout."""

    unit, media = "texts", "text"


def conversion_class(settings: ExampleGenSettings) -> type[FileConversion]:
    """Return the conversion class for settings: images, audio, or tables that refer to files."""
    if isinstance(settings, TextSettings):
        return TextItemConversion if settings.is_custom else ListConversion
    return AudioConversion if isinstance(settings, AudioSettings) else ImageConversion


def _listing_digests(
    listing: Listing, tasks: Sequence[Task[ShardTask]], results: Sequence[ShardResult]
) -> list[str]:
    """Return the digest of the listed inputs of each shard that has records."""
    digests = []
    for task, (shard, summary) in zip(tasks, results, strict=True):
        places = task.argument.places
        if shard.records and places is not None:
            digests.append(listing.of_records(places, summary.names))
    return digests


def _renamed(inputs: InputTable, settings: MediaSettings) -> tuple[InputTable, MediaSettings]:
    """Rename features as requested, and return the inputs with matching settings."""
    wanted = settings.feature_names
    names = [*(blob.name for blob in inputs.blobs), *(column.name for column in inputs.columns)]
    of_engine = {"filename", *(d for b in inputs.blobs for d in DESCRIPTIONS.get(b.kind, ()))}
    known = [name for name in names if name not in of_engine]
    for name, new in wanted.items():
        if name not in known:
            rule, advice = f"one of {', '.join(known)}", did_you_mean(name, known).strip()
            raise ConfigError.of("feature_names", name, allowed=rule, advice=advice)
        if new in {*names, *of_engine} - {*wanted}:
            raise ConfigError.of(f"feature_names[{name!r}]", new, allowed="a name that is free")
    labels = {wanted.get(name, name): of for name, of in settings.vocabularies.items()}
    group_by = settings.group_by and wanted.get(settings.group_by, settings.group_by)
    settings = dataclasses.replace(settings, vocabulary=labels, group_by=group_by)
    return inputs.renamed(wanted), settings


def _refuse_unreadable_formats(inputs: InputTable) -> None:
    """Raise InputError for images whose format needs a missing package, judging by extensions."""
    for known in FORMATS:
        cure = missing_reader(known.name) if known.kind == "image" else None
        if cure is None:
            continue
        pattern = f"(?i)(?:{'|'.join(map(re.escape, known.extensions))})$"
        for column in inputs.blobs:
            if column.kind == "audio":
                continue
            paths = blob_paths(inputs.rows, f"blob:{column.name}")
            named = pc.filter(paths, pc.match_substring_regex(paths, pattern=pattern))
            if len(named):
                first = display_path(decode_path(named[0].as_py()))
                more = f" and {len(named) - 1} more" if len(named) > 1 else ""
                endings = {posixpath.splitext(decode_path(path))[1] for path in named.to_pylist()}
                ignored = how_to_set(ignore=[f"*{ending}" for ending in sorted(endings)])
                raise InputError(
                    f"{first!r}{more}: {cure}; or leave such files out: {ignored}.", path=first
                )


def _warn_of_dark_images(summary: ShardSummary) -> None:
    """Warn of 16-bit images with values so low that 8 bits keep few distinct levels."""
    for name, facts in summary.media.items():
        low, high = facts.ranges.get(SIXTEEN_BIT_PEAK, (0, _SIXTEEN_BITS))
        if high < _SIXTEEN_BITS // 4:
            logging.warning(
                "feature %r: %d images of 16 bits have values of at most %d to %d of 65,535, of "
                "which 8 bits keep %d levels. Set sixteen_bit='keep' (--sixteen-bit keep), or "
                "scale the values to the whole range first",
                *(name, summary.conversions["SIXTEEN_BIT"], low, high, high // 256 + 1),
            )
