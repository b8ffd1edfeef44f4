"""What a conversion would make, without making it.

    print(plan_conversion("photos/", num_shards=4))

Files of images and sounds are listed and not read: only the run itself can say how many are bad.
Tables and texts are read once, by way of a temporary folder.
"""

import collections
import dataclasses
import itertools
import tempfile
from collections.abc import Mapping, Sequence
from typing import Any

from components.audio_example_gen.executor import Executor as AudioExecutor
from components.common.rejects import Reject
from components.example_gen.file_conversion import FileConversion
from components.example_gen.image_roots import OUTSIDE, command_for, suggest_roots
from components.example_gen.inputs import layout_inputs
from components.example_gen.row_conversion import RowConversion
from components.example_gen.simple_layouts import name_simple
from components.image_example_gen.executor import Executor as ImageExecutor
from components.image_example_gen.layouts import name_layout
from components.shard_balancer.settings import BalancerSettings
from components.text_example_gen.executor import Executor as TextExecutor
from pipelines.tools.conversion.pipeline import make_example_gen
from pipelines.tools.conversion.settings import Conversion, prepare
from trainer_utils.format import shard_bounds
from trainer_utils.format.json_text import JsonObject
from trainer_utils.storage import display_path
from trainer_utils.text_output import Part, as_text, human_bytes, make_table, quantity

__all__ = ["ConversionPlan", "SplitEstimate", "plan_conversion", "plan_prepared"]

_EXECUTORS = {"image": ImageExecutor, "text": TextExecutor, "audio": AudioExecutor}
_MESSAGE_BYTES = 100  # of an example beside its file: names, sizes, label


@dataclasses.dataclass(frozen=True, kw_only=True)
class SplitEstimate:
    """What would become of a split.

    Args:
        records: at the most.
        rejected, skipped: of the inputs, as far as is known without reading them.
        bytes: about.
        num_shards: about, since it may follow from the bytes.
        shard_records: of the smallest and of the largest shard.
    """

    records: int
    rejected: int
    skipped: int
    bytes: int
    num_shards: int
    shard_records: tuple[int, int]


@dataclasses.dataclass(frozen=True, kw_only=True)
class ConversionPlan:
    """What a run would do; `str()` makes a table of it.

    Args:
        source: where the inputs are.
        kind: `image`, `text` or `audio`, and `seen`, what that was recognised by.
        layout: that was recognised.
        found: inputs.
        features: that examples would have beside the engine's own, with their kinds.
        classes: how many labels each vocabulary would have.
        splits: by name, in order.
        rejects: how many inputs are known to be rejected, by code, the most frequent first.
        first_rejects: the first of each code: its source, and why.
        cures: what to do about some of them.
    """

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
    cures: Sequence[str] = ()

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
        rows = [
            [
                name,
                split.records,
                split.rejected,
                split.skipped,
                human_bytes(split.bytes),
                split.num_shards,
                "-".join(f"{number:,}" for number in dict.fromkeys(split.shard_records)),
            ]
            for name, split in self.splits.items()
        ]
        header = ["split", "records", "rejected", "skipped", "about", "shards", "records a shard"]
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
            parts += self.cures
        is_read = self.kind == "text"
        bad_files = "" if is_read else " Bad files show only when they are read."
        return [*parts, "", f"Nothing was written.{bad_files}"]

    def __str__(self) -> str:
        return as_text(self.parts())


def plan_conversion(
    source: Any,
    *,
    kind: str | None = None,
    splits: Mapping[str, int] | None = None,
    **options: Any,
) -> ConversionPlan:
    """Plans what `convert` would do with these arguments.

    Raises:
        InputError, ConfigError: as `convert`, as far as it is known without a run.
    """
    return plan_prepared(prepare(source, kind=kind, splits=splits, **options))


def plan_prepared(conversion: Conversion) -> ConversionPlan:
    """The same of what `prepare` made of the arguments."""
    properties = make_example_gen(conversion).spec.exec_properties
    steps = _EXECUTORS[conversion.kind]().conversion(properties)
    if isinstance(steps, FileConversion):
        return _plan_files(conversion, steps)
    assert isinstance(steps, RowConversion)
    return _plan_rows(conversion, steps)


def _plan_files(conversion: Conversion, steps: FileConversion) -> ConversionPlan:
    plan = steps.plan("")  # nothing is written to plan them
    name = name_layout if conversion.kind == "image" else name_simple
    layouts = {
        name(inputs, layout=steps.settings.layout)
        for inputs in layout_inputs(
            steps.located, columns=steps.settings.columns, media=steps.media
        )
    }
    counts = dict.fromkeys(plan.splits, 0)
    sizes = dict.fromkeys(plan.splits, 0)
    for task in plan.tasks:
        counts[task.split] += len(task.entries)
        files = sum(blob.size for entry in task.entries for blob in entry.blobs)
        sizes[task.split] += files + _MESSAGE_BYTES * len(task.entries)
    features = {blob.name: blob.kind for blob in plan.blobs}
    features |= {column.name: column.kind for column in plan.columns}
    return ConversionPlan(
        source=conversion.source,
        kind=conversion.kind,
        seen=conversion.seen,
        layout=", ".join(sorted(layouts)),
        found=plan.found,
        features=features,
        classes={name: len(values) for name, values in plan.vocabularies.items()},
        splits=_estimate_splits(
            conversion, counts, sizes, [r.split for r in plan.rejects], plan.skipped
        ),
        **_describe_rejects(plan.rejects, steps.located.base),
    )


def _describe_rejects(rejects: Sequence[Reject], base: str) -> JsonObject:
    """How many inputs would be rejected, the first of each code, and what to do about it."""
    counts = collections.Counter(reject.code for reject in rejects)
    firsts: dict[str, str] = {}
    for reject in sorted(rejects):
        firsts.setdefault(reject.code, f"{display_path(reject.source)} ({reject.detail})")
    cures = []
    if OUTSIDE in counts:
        outside = (reject.source for reject in rejects if reject.code == OUTSIDE)
        roots = suggest_roots(outside, base=base)
        cures.append(f"Allow the folders that the files are in: {command_for(roots)}")
    if "FILE_NOT_FOUND" in counts:
        cures.append(
            "Paths are relative to the list. If they are to another folder: "
            f"{command_for(['FOLDER'])}"
        )
    return {"rejects": dict(counts.most_common()), "first_rejects": firsts, "cures": cures}


def _plan_rows(conversion: Conversion, steps: RowConversion) -> ConversionPlan:
    with tempfile.TemporaryDirectory(prefix="tfx-shards-") as folder:
        plan = steps.plan(folder)
    counts = {split.name: split.num_records for split in plan.split_shards}
    sizes = {name: int(count * plan.row_bytes) for name, count in counts.items()}
    return ConversionPlan(
        source=conversion.source,
        kind=conversion.kind,
        seen=conversion.seen,
        layout=", ".join(sorted({piece.layout for piece in steps.pieces})),
        found=plan.found,
        features={column.name: column.kind for column in plan.columns},
        classes={name: len(values) for name, values in plan.vocabularies.items()},
        splits=_estimate_splits(
            conversion, counts, sizes, [r.split for r in plan.rejects], plan.skipped
        ),
        **_describe_rejects(plan.rejects, steps.located.base),
    )


def _estimate_splits(
    conversion: Conversion,
    counts: Mapping[str, int],
    sizes: Mapping[str, int],
    rejected: Sequence[str],
    skipped: Mapping[str, int],
) -> dict[str, SplitEstimate]:
    settings = BalancerSettings(**conversion.balancer)
    settings.check_splits(list(counts))
    estimates = {}
    for split, records in counts.items():
        num_shards = settings.shards_of(split, num_records=records, num_bytes=sizes[split])
        bounds = shard_bounds(num_records=records, num_shards=num_shards).tolist()
        held = [stop - start for start, stop in itertools.pairwise(bounds)]
        estimates[split] = SplitEstimate(
            records=records,
            rejected=rejected.count(split),
            skipped=skipped.get(split, 0),
            bytes=sizes[split],
            num_shards=num_shards,
            shard_records=(min(held), max(held)),
        )
    return estimates
