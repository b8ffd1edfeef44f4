"""Describe the result of a conversion without running it, from the plan of the run.

    print(plan_conversion(prepare("photos/", num_shards=4)))

Only a sample of the images and audio files is opened, so damaged files may remain undetected.
Tables and texts are read once, using a temporary folder.
"""

import collections
import dataclasses
import itertools
import tempfile
from collections.abc import Mapping

import pyarrow as pa

from components.example_gen.file_conversion import FileConversion
from components.example_gen.file_plan import FilePlan
from components.example_gen.plan import Plan
from components.example_gen.text_conversion import TextConversion
from components.inputs.input_table import entries_of
from components.inputs.rejects import RejectedInputError, too_many_rejects
from components.layouts.file_kinds import kind_of_bytes
from components.layouts.names import MEDIA
from components.layouts.reading import name_layout
from components.raw_inputs.requests import Conversion
from components.steps import conversion_of
from trainer_utils.core.json_text import JsonObject
from trainer_utils.core.text_output import Part, TextReport, human_bytes, make_table, quantity
from trainer_utils.storage import display_path

_HEAD_BYTES = 512
_MAX_OPENED = 64  # files whose first bytes are checked
_MESSAGE_BYTES = 100  # bytes of an example in addition to its file: names, sizes, label


@dataclasses.dataclass(frozen=True, kw_only=True)
class SplitEstimate:
    """An estimate of a split.

    Args:
        records: maximum number of records.
        rejected: number of inputs known to be rejected.
        skipped: number of inputs that are skipped.
        bytes: approximate size of the split.
        num_shards: approximate number of shards.
        shard_records: number of records of the smallest and the largest shard.
    """

    records: int
    rejected: int
    skipped: int
    bytes: int
    num_shards: int
    shard_records: tuple[int, int]


@dataclasses.dataclass(frozen=True, kw_only=True)
class ConversionPlan(TextReport):
    """The expected result of a run; damaged files outside the sample are unknown."""

    source: str
    kind: str
    seen: str
    layout: str
    found: int
    features: Mapping[str, str]
    classes: Mapping[str, int]
    splits: Mapping[str, SplitEstimate]
    rejects: Mapping[str, int] = dataclasses.field(default_factory=dict)
    first_rejects: Mapping[str, str] = dataclasses.field(default_factory=dict)
    opened: int = 0
    opened_bad: int = 0
    problem: str = ""

    def to_json(self) -> JsonObject:
        """Return all fields as plain JSON types."""
        return dataclasses.asdict(self)

    def parts(self) -> list[Part]:
        """Return the parts that `print_parts` prints."""
        features = []
        for name, kind in self.features.items():
            number = self.classes.get(name)
            classes = "" if number is None else f", {quantity(number, 'class', 'classes')}"
            features.append(f"{name} ({kind}{classes})")
        header = ["split", "records", "rejected", "skipped", "about", "shards", "records a shard"]
        rows = [
            [
                *(name, split.records, split.rejected, split.skipped),
                *(human_bytes(split.bytes), split.num_shards),
                "-".join(f"{number:,}" for number in dict.fromkeys(split.shard_records)),
            ]
            for name, split in self.splits.items()
        ]
        parts: list[Part] = [
            f"{self.source}: {self.kind}, layout {self.layout} ({self.seen})",
            f"{quantity(self.found, 'input')} found; features: {', '.join(features)}",
            "",
            make_table(header, rows),
        ]
        if self.rejects:
            parts += ["", "Would be rejected:"]
            for code, count in self.rejects.items():
                parts.append(f"{count:,} {code}, the first {self.first_rejects[code]}")
        if self.problem:
            return [*parts, "", "This run would fail:", *self.problem.split("\n")]
        if self.opened:
            bad = f"{self.opened_bad:,} with an unknown format" if self.opened_bad else ""
            said = f"{quantity(self.opened, 'file')} opened as a sample"
            parts += ["", f"{said}: {bad or 'all with a known format'}. The run reads all files."]
        return [*parts, "", "Nothing was written."]


def plan_conversion(conversion: Conversion) -> ConversionPlan:
    """Plan a run of `convert` without running it.

    Raises:
        InputError: `convert` would raise it before its run.
        ConfigError: `convert` would raise it before its run.
    """
    steps = conversion_of(conversion.selection, conversion.settings)
    kinds: dict[str, str] = {}
    opened = bad = 0
    if isinstance(steps, FileConversion):
        plan: Plan = (files := steps.plan(""))  # nothing is written to plan them
        layouts = {name_layout(inputs, layout=steps.settings.layout) for inputs in steps.inputs()}
        sizes = dict.fromkeys(plan.splits, 0)
        for task in files.tasks:
            sizes[task.argument.name.split] += task.bytes + _MESSAGE_BYTES * task.records
        kinds = {blob.name: blob.kind for blob in files.blobs}
        opened, bad = _open_sample(steps, files)
    else:
        assert isinstance(steps, TextConversion)
        with tempfile.TemporaryDirectory(prefix="tfx-shards-") as folder:
            plan = (rows := steps.plan(folder))
        layouts = {piece.layout for piece in steps.pieces}
        sizes = {layout.split: int(layout.num_records * rows.row_bytes) for layout in plan.layouts}
    rejected = collections.Counter(reject.split for reject in plan.rejects)
    splits = {}
    for layout in plan.layouts:
        held = [stop - start for start, stop in itertools.pairwise(layout.bounds)]
        splits[layout.split] = SplitEstimate(
            records=layout.num_records,
            rejected=rejected[layout.split],
            skipped=plan.skipped.get(layout.split, 0),
            bytes=sizes[layout.split],
            num_shards=layout.num_shards,
            shard_records=(min(held), max(held)),
        )
    firsts: dict[str, str] = {}
    for reject in sorted(plan.rejects):
        firsts.setdefault(reject.code, f"{display_path(reject.source)} ({reject.detail})")
    codes = collections.Counter(reject.code for reject in plan.rejects)
    return ConversionPlan(
        source=conversion.source,
        kind=conversion.kind,
        seen=conversion.seen,
        layout=", ".join(sorted(layouts)),
        found=plan.found,
        features={**kinds, **{column.name: column.kind for column in plan.columns}},
        classes={name: len(values) for name, values in plan.vocabularies.items()},
        splits=splits,
        rejects=dict(codes.most_common()),
        first_rejects=firsts,
        opened=opened,
        opened_bad=bad,
        problem=(
            _problem(plan, conversion.settings.max_reject_fraction)
            or _problem_of_sample(conversion.kind, opened, bad)
        ),
    )


def _problem(plan: Plan, max_reject_fraction: float) -> str:
    """Return the error that a run of this plan would raise, or an empty string."""
    if len(plan.rejects) > max_reject_fraction * plan.found:
        return str(
            too_many_rejects(
                plan.rejects, found=plan.found, max_reject_fraction=max_reject_fraction
            )
        )
    if not any(layout.num_records for layout in plan.layouts):
        return "No example would be written."
    return ""


def _open_sample(steps: FileConversion, plan: FilePlan) -> tuple[int, int]:
    """Return the number of files opened, and of those whose first bytes are of another kind."""
    opened = bad = 0
    count = len(plan.rows)
    places = sorted({count * k // _MAX_OPENED for k in range(_MAX_OPENED)}) if count else []
    reader = steps.blob_reader()
    for entry in entries_of(plan.rows.take(pa.array(places, pa.int64()))):
        for blob, column in zip(entry.blobs, plan.blobs, strict=True):
            if column.kind not in MEDIA:
                continue
            opened += 1
            if blob.row is None:  # a file or a member of an archive, which may be large
                blob = blob._replace(offset=blob.offset or 0, size=min(blob.size, _HEAD_BYTES))
            try:
                bad += kind_of_bytes(reader.read(blob)[:_HEAD_BYTES]) != column.kind
            except RejectedInputError:
                bad += 1
    return opened, bad


def _problem_of_sample(kind: str, opened: int, bad: int) -> str:
    if not opened or bad < opened:
        return ""
    return (
        f"{quantity(opened, 'file')} opened as a sample: none has a known {kind} format, so all "
        "would be rejected. Convert the files to such a format first."
    )
