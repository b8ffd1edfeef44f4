"""What a conversion would make, without making it: the run's own plan, in words.

    print(plan_conversion(prepare("photos/", num_shards=4)))

Files of images and sounds are listed and not read: only the run itself can say how many are bad.
Tables and texts are read once, by way of a temporary folder.
"""

import collections
import dataclasses
import itertools
import tempfile
from collections.abc import Mapping

from components.example_gen.plan import Plan
from components.file_conversion import FileConversion
from components.layouts.reading import name_layout
from components.steps import conversion_of
from components.text_conversion import TextConversion
from pipelines.tools.conversion.settings import Conversion
from trainer_utils.format.json_text import JsonObject
from trainer_utils.storage import display_path
from trainer_utils.text_output import Part, Shown, human_bytes, make_table, quantity

_MESSAGE_BYTES = 100  # of an example beside its file: names, sizes, label


@dataclasses.dataclass(frozen=True, kw_only=True)
class SplitEstimate:
    """`records` at the most, `bytes` and `num_shards` about, the smallest and largest shard."""

    records: int
    rejected: int
    skipped: int
    bytes: int
    num_shards: int
    shard_records: tuple[int, int]


@dataclasses.dataclass(frozen=True, kw_only=True)
class ConversionPlan(Shown):
    """What a run would do, as far as it is known: bad files show only when they are read."""

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

    def to_json(self) -> JsonObject:
        """All of it as JSON takes it."""
        return dataclasses.asdict(self)

    def parts(self) -> list[Part]:
        """What a person sees, as `print_parts` takes it."""
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
        bad_files = "" if self.kind == "text" else " Bad files show only when they are read."
        return [*parts, "", f"Nothing was written.{bad_files}"]


def plan_conversion(conversion: Conversion) -> ConversionPlan:
    """Plans what `convert` would do.

    Raises:
        InputError, ConfigError: as `convert`, as far as it is known without a run.
    """
    steps = conversion_of(conversion.selection, conversion.settings)
    kinds: dict[str, str] = {}
    if isinstance(steps, FileConversion):
        plan: Plan = (files := steps.plan(""))  # nothing is written to plan them
        layouts = {name_layout(inputs, layout=steps.settings.layout) for inputs in steps.inputs()}
        sizes = dict.fromkeys(plan.splits, 0)
        for task in files.tasks:
            sizes[task.argument.name.split] += task.bytes + _MESSAGE_BYTES * task.records
        kinds = {blob.name: blob.kind for blob in files.blobs}
    else:
        assert isinstance(steps, TextConversion)
        with tempfile.TemporaryDirectory(prefix="tfx-shards-") as folder:
            plan = (rows := steps.plan(folder))
        layouts = {piece.layout for piece in steps.pieces}
        sizes = {one.split: int(one.num_records * rows.row_bytes) for one in plan.layouts}
    rejected = collections.Counter(reject.split for reject in plan.rejects)
    splits = {}
    for one in plan.layouts:
        held = [stop - start for start, stop in itertools.pairwise(one.bounds)]
        splits[one.split] = SplitEstimate(
            records=one.num_records,
            rejected=rejected[one.split],
            skipped=plan.skipped.get(one.split, 0),
            bytes=sizes[one.split],
            num_shards=one.num_shards,
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
    )
