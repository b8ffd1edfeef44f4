"""The conversions of files to examples: images, audio, and the values that tables have for them."""

import collections
import dataclasses
import functools
import itertools
import math
import posixpath
import re
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow.compute as pc
from absl import logging

from components.common.advice import how_to_set
from components.common.entry import (
    InputTable,
    array_of,
    blob_paths,
    join_inputs,
    sizes_of,
    sum_blobs,
    sum_facts,
    texts_of,
    with_excluded,
)
from components.common.layout_inputs import ImageRoot, LayoutInputs, NamedFiles
from components.common.rejects import Reject, RejectLimit
from components.common.tasks import Cost, Runner, Task, map_tasks
from components.common.workspace import prepare_workspace
from components.example_gen.conversion import Conversion, rejects_path
from components.example_gen.file_examples import SIXTEEN_BIT_PEAK, ShardSummary
from components.example_gen.file_plan import (
    BaseDataset,
    FilePlan,
    Listing,
    count_changes,
    plan_shards,
    plan_update,
    read_base,
    render_inputs,
)
from components.example_gen.file_shards import EncodedPart, WriteMediaShard
from components.example_gen.inputs import (
    InputSelection,
    fingerprint,
    layout_inputs,
    refuse_overlap,
)
from components.example_gen.plan import Written
from components.example_gen.settings import (
    AudioSettings,
    ExampleGenSettings,
    ImageSettings,
    ListSettings,
    MediaSettings,
    TextSettings,
)
from components.image_opening import missing_reader
from components.layouts import lists
from components.layouts.archives import is_archive
from components.layouts.names import MEDIA
from components.layouts.reading import read_layout
from components.media.options import DESCRIPTIONS
from components.tables.pieces import select_settings
from trainer_utils.dataset import Dataset
from trainer_utils.format import ConfigError, InputError, Shard, ShardName, shard_bounds
from trainer_utils.format.errors import did_you_mean
from trainer_utils.format.media_formats import FORMATS
from trainer_utils.storage.file_system import decode_path, display_path, is_remote, problem_of
from trainer_utils.writing.publishing import remove_shard, rename_shard, working_folder

# Time of one core per file that is kept, and per byte of a decoded file.
_FILE_SECONDS, _DECODED_BYTE_SECONDS = 300e-6, 1 / 25e6
# Memory of a process: it holds the largest image, and as much again while it is rotated or resized.
# Without images, it holds audio and files read ahead; with `verify`, also TensorFlow. Few files of
# n bytes have more than 64 n pixels: sharp photos have 3 to 10 n, scans and screenshots up to 50 n.
_PIXEL_BYTES, _MIN_BYTES, _TENSORFLOW_BYTES = 6, 256 << 20, 512 << 20
_PIXELS_A_BYTE = 64
_SIXTEEN_BITS = (1 << 16) - 1
# If there are fewer shards than processes, parts of this many records are encoded in parallel.
# Writing them twice costs a quarter more for photos.
_PART_RECORDS, _PARTS_A_PROCESS = 250, 3


class FileConversion(Conversion[FilePlan]):
    """The conversion of files. Each is read when its shard is written."""

    settings: MediaSettings
    found: InputTable  # set by `plan`

    def __init__(self, settings: Any, selection: InputSelection, runner: Runner | None) -> None:
        settings.audio.check_installed()
        settings.images.check_compatible()
        super().__init__(settings, selection, runner)
        self._known: InputTable | None = None  # set if they were already read
        if settings.file_roots:
            # Files that lists refer to are inputs, and a change to them changes the fingerprint.
            named = {root: NamedFiles(root) for root in settings.file_roots}
            roots = tuple(ImageRoot(root, files) for root, files in named.items())
            self.located = dataclasses.replace(self.located, image_roots=roots)
            self._known = self._read_inputs()
            roots = tuple(ImageRoot(root.base, root.table) for root in roots)
            self.located = dataclasses.replace(self.located, image_roots=roots)

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

    def adjusted_settings(self, settings: MediaSettings, found: InputTable) -> MediaSettings:
        """Return the settings, adjusted to the inputs."""
        vocabulary = {**found.vocabularies, **settings.vocabularies}
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
        self._listing = Listing(plan.rows, self.located)
        return plan if base is None else plan_update(plan, base, self._listing, self.settings)

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
            tables = [self.read_layout(some, settings.layout) for some in inputs]
        except OSError as error:  # a file that all inputs depend on
            path = display_path(str(error.filename or self.located.base))
            raise InputError(f"{path!r}: cannot be read: {problem_of(error, path)[1]}") from error
        found = join_inputs(tables)
        if len(tables) > 1:
            refuse_overlap(texts_of(array_of(found.rows, "name")))
        contents = {name: crc for some in inputs for name, crc in some.contents.items()}
        found = with_excluded(found, self.skipped_files())
        return dataclasses.replace(found, contents=contents)

    def write(self, plan: FilePlan, uri: str) -> Written:
        """Read every file, write the shards, and read them back."""
        prepare_workspace(uri, key=self.key())
        tasks, paths = plan.tasks, (self.located.base, *self.settings.file_roots)
        cost = self._cost_of(plan, tasks)
        limit = RejectLimit(
            found=plan.found,
            max_reject_fraction=self.settings.max_reject_fraction,
            rejected_before=len(plan.rejects),
            listed_in=rejects_path(uri),
        )
        before = dataclasses.replace(limit, rejected_before=0)
        before.check(plan.rejects, seen=plan.found, where=" (before a file was opened)")
        write = WriteMediaShard(
            plan.columns, plan.blobs, self.located.base, uri, self.settings, limit
        )
        run = functools.partial(
            map_tasks, workspace=working_folder(uri), runner=self._runner, cost=cost, paths=paths
        )
        processes = self._runner.count(plan.num_records, cost, [uri, *paths])
        has_few = len(tasks) < processes and not self.settings.gzip and not is_remote(uri)
        parts_of = [_parts_of(task, len(tasks), processes) if has_few else [] for task in tasks]
        parts = [*itertools.chain.from_iterable(parts_of)]
        made = iter(
            run(
                write.make_part,
                parts,
                unit=self.unit,
                noun="parts of shards",
                check=EncodedPart.read,
                on_result=_Rejected(limit),
            )
        )
        whole = []
        for task, own in zip(tasks, parts_of, strict=True):
            shard = task.argument
            if own:  # join the parts without reading files
                none, joined = np.zeros(0, np.int64), tuple(itertools.islice(made, len(own)))
                shard = dataclasses.replace(shard, places=none, parts=joined)
            whole.append(dataclasses.replace(task, argument=shard))
        results = run(
            write,
            whole,
            unit="" if parts else self.unit,
            check=write.check,
            on_result=_Rejected(limit),
        )
        shards = _keep_full_shards([shard for shard, _ in results], uri)
        filled = [
            (summary, self._listing.of_records(task.argument.places, summary.names))
            for task, (shard, summary) in zip(tasks, results, strict=True)
            if shard.records
        ]
        full = (shard for shard in shards if shard.records)
        found = ShardSummary.of(summary for _, summary in results)
        unread = {blob: True for entry in plan.unread() for blob in entry.blobs}
        sums = self.sums_of_unread(self.found.excluded, unread)
        _warn_of_dark_images(found)
        roots = [root.base for root in self.located.image_roots]
        total = found.fingerprint + sum_blobs(sums.items(), roots)
        total += sum_facts((("read", name), crc) for name, crc in self.found.contents.items())
        if given := found.conversions.get("BOX_FRAME_GIVEN"):
            frame = getattr(self.settings, "box_frame", None)
            logging.warning(
                "EXIF rotates %d images, and nothing but box_frame=%r says that their boxes are of "
                "the %s pixels",
                *(given, frame, frame),
            )
        return Written(
            shards=shards,
            inputs=render_inputs(
                ((shard, *known) for shard, known in zip(full, filled, strict=True)),
                fingerprint=fingerprint(self.located),
            ),
            update={} if self.base is None else count_changes(self.base, [s for s, _ in filled]),
            features=found.features(plan, plan.blobs),
            label_counts=[(shard.split, summary.labels) for shard, summary in results],
            rejects=tuple(found.rejects),
            conversions=found.conversions,
            fingerprint=f"{total % 2**128:032x}",
        )

    def _cost_of(self, plan: FilePlan, tasks: Sequence[Task]) -> Cost:
        images, audio = self.settings.images, self.settings.audio
        seconds = _FILE_SECONDS * sum(task.records for task in tasks)
        if images.decodes_all or audio.sample_rate is not None:
            seconds += _DECODED_BYTE_SECONDS * sum(task.bytes for task in tasks)
        largest = int(sizes_of(plan.rows).max(initial=0))
        pixels = min(images.max_pixels, _PIXELS_A_BYTE * largest)
        held = max(_MIN_BYTES, largest + _PIXEL_BYTES * pixels)
        return Cost(seconds, held + _TENSORFLOW_BYTES * (images.verify == "decode"))


class ImageConversion(FileConversion):
    """The conversion of images, and lists of images."""

    unit, media = "images", "image"

    def is_source_file(self, path: str) -> bool:  # noqa: D102
        return lists.is_list(path) or is_archive(path)

    def adjusted_settings(self, settings: MediaSettings, found: InputTable) -> MediaSettings:
        """Return the settings, adjusted to the inputs; raw images cannot have boxes."""
        settings = super().adjusted_settings(settings, found)
        has_boxes = any(column.name == "xmin" for column in found.columns)
        if has_boxes and settings.images.encoding == "raw":
            rule = "'file' for images with boxes, since raw ones are cut to a square"
            raise ConfigError.of("encoding", "raw", allowed=rule)
        return settings


class AudioConversion(FileConversion):
    """The conversion of audio files, and lists of audio files."""

    unit, media = "sounds", "audio"


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


def parts_of_shard(records: int, *, shards: int, processes: int) -> int:
    """Return the number of parts of a shard: three per process, so that all end at about once."""
    return min(math.ceil(_PARTS_A_PROCESS * processes / shards), records // _PART_RECORDS)


def _parts_of(task: Task, shards: int, processes: int) -> list[Task]:
    """Return the parts of a shard that are encoded in parallel, or an empty list."""
    number = parts_of_shard(task.records, shards=shards, processes=processes)
    if number < 2 or task.argument.known is not None:
        return []
    bounds = shard_bounds(num_records=task.records, num_shards=number).tolist()
    parts = []
    for n, (start, stop) in enumerate(itertools.pairwise(bounds)):
        part = dataclasses.replace(task.argument, places=task.argument.places[start:stop])
        name = f"{task.name}-part-{n:04d}-of-{number:04d}"
        parts.append(Task(name, part, stop - start, task.bytes // number))
    return parts


def _renamed(inputs: InputTable, settings: MediaSettings) -> tuple[InputTable, MediaSettings]:
    """Rename features as requested, and return the inputs with matching settings."""
    wanted = settings.feature_names
    own = [*(blob.name for blob in inputs.blobs), *(column.name for column in inputs.columns)]
    of_engine = {"filename", *(d for b in inputs.blobs for d in DESCRIPTIONS.get(b.kind, ()))}
    known = [name for name in own if name not in of_engine]
    for name, new in wanted.items():
        if name not in known:
            rule, advice = f"one of {', '.join(known)}", did_you_mean(name, known).strip()
            raise ConfigError.of("feature_names", name, allowed=rule, advice=advice)
        if new in {*own, *of_engine} - {*wanted}:
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
            named = paths.filter(pc.match_substring_regex(paths, pattern=pattern))
            if len(named):
                first = display_path(decode_path(named[0].as_py()))
                more = f" and {len(named) - 1} more" if len(named) > 1 else ""
                endings = {posixpath.splitext(decode_path(path))[1] for path in named.to_pylist()}
                ignored = how_to_set(ignore=[f"*{ending}" for ending in sorted(endings)])
                raise InputError(
                    f"{first!r}{more}: {cure}; or leave such files out: {ignored}.", path=first
                )


def _warn_of_dark_images(found: ShardSummary) -> None:
    """Warn of 16-bit images with values so low that 8 bits keep few distinct levels."""
    for name, facts in found.media.items():
        low, high = facts.ranges.get(SIXTEEN_BIT_PEAK, (0, _SIXTEEN_BITS))
        if high < _SIXTEEN_BITS // 4:
            logging.warning(
                "feature %r: %d images of 16 bits have values of at most %d to %d of 65,535, of "
                "which 8 bits keep %d levels. Set sixteen_bit='keep' (--sixteen-bit keep), or "
                "scale the values to the whole range first",
                *(name, found.conversions["SIXTEEN_BIT"], low, high, high // 256 + 1),
            )


class _Rejected:
    """The rejects of finished shards or parts, checked against the limit."""

    def __init__(self, limit: RejectLimit) -> None:
        self._limit, self._rejects, self._seen = limit, list[Reject](), 0

    def __call__(self, result: EncodedPart | tuple[Shard, ShardSummary]) -> None:
        """Add the rejects of one result."""
        summary = result.summary if isinstance(result, EncodedPart) else result[1]
        self._rejects += summary.rejects
        self._seen += len(summary.names) + len(summary.rejects)
        self._limit.check(self._rejects, seen=self._seen)


def _keep_full_shards(written: Sequence[Shard], uri: str) -> tuple[Shard, ...]:
    """Remove shards whose inputs were all rejected, and renumber the others."""
    kept: list[Shard] = []
    by_split: dict[str, list[Shard]] = collections.defaultdict(list)
    for shard in written:
        by_split[shard.split].append(shard)
    for split, shards in by_split.items():
        full = [shard for shard in shards if shard.records] or shards[:1]
        for shard in {*shards}.difference(full):
            remove_shard(shard, uri=uri)
        for place, shard in enumerate(full):
            gzip = shard.path.endswith(".gz")
            name = ShardName(split=split, shard_index=place, num_shards=len(full), gzip=gzip)
            is_named_so = name.path == shard.path
            kept.append(shard if is_named_so else rename_shard(shard, name, uri=uri))
    return tuple(kept)
