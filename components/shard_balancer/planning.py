"""What balancing would do: how many shards, which records in which, how much at a time.

from components.shard_balancer import plan

print(plan("examples/", num_shards=8))        # reads lengths alone and writes nothing

split  records      bytes  shards  records/shard      bytes/shard  passes
train     3000   41234567       8        375-375  5150000-5160000       1
"""

import dataclasses
import itertools
import json
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from absl import logging

from components.common.progress import Work
from components.shard_balancer.changes import (
    Changes,
    Tally,
    check_changes,
    check_feature,
    read_changes,
)
from components.shard_balancer.inputs import Inputs, InputShard, open_inputs
from components.shard_balancer.kept_shards import plan_kept_split
from components.shard_balancer.layout import (
    Cells,
    SplitLayout,
    Task,
    plan_tasks,
)
from components.shard_balancer.partition import assign_places_by_class, equal_byte_bounds
from components.shard_balancer.records import OBJECT_BYTES
from components.shard_balancer.scatter_gather import ShardGroup
from components.shard_balancer.settings import BalancerSettings
from components.shard_balancer.survey import ShardSurvey, survey_shard
from trainer_utils.format import shard_bounds
from trainer_utils.format.framing import RECORD_OVERHEAD_BYTES
from trainer_utils.format.json_text import JsonObject
from trainer_utils.format.spelling import check_names
from trainer_utils.text_output import Part, Shown, make_table

__all__ = [
    "BalancePlan",
    "PlannedSplit",
    "SplitPlan",
    "changes_of",
    "needs_survey",
    "plan",
    "plan_split",
    "total_tally",
]

Ints = npt.NDArray[np.int64]

_AT_A_TIME = 1 << 16  # records, so that planning takes little memory

_COLUMNS = ("split", "records", "bytes", "shards", "records/shard", "bytes/shard", "passes")


@dataclasses.dataclass(frozen=True, kw_only=True)
class SplitPlan:
    """How one split is balanced.

    Args:
        layout: where records go.
        groups: what is read by one worker at a time.
        tasks: what is written by one worker at a time.
        table: of all places, where they do not follow from the seed; it is kept as a file.
    """

    layout: SplitLayout
    groups: tuple[ShardGroup, ...]
    tasks: tuple[Task, ...]
    table: Ints | None = dataclasses.field(default=None, repr=False)

    @property
    def split(self) -> str:
        """The split's name."""
        return self.layout.split

    @property
    def num_records(self) -> int:
        """Records that are written."""
        return self.layout.num_records

    @property
    def items(self) -> list[InputShard]:
        """The input shards, in order."""
        return [item for group in self.groups for _, _, item in group.shards]

    @property
    def num_bytes(self) -> int:
        """Of the input shards."""
        return sum(item.shard.bytes for item in self.items)

    @property
    def work(self) -> dict[str, Work]:
        """What each summary stands for; bytes are counted where they are read from the inputs."""
        work: dict[str, Work] = {}
        if not self.is_one_pass:
            for group in self.groups:
                size = sum(item.shard.bytes for _, _, item in group.shards)
                work[f"scatter-{group.key}"] = Work(0, size)
        read = self.num_bytes if self.is_one_pass else 0
        for task in self.tasks:
            work[f"gather-{task.key}"] = Work(task.bounds[-1] - task.bounds[0], read)
        return work

    @property
    def is_one_pass(self) -> bool:
        """Whether the split fits into memory, so that it needs no temporary files."""
        return len(self.tasks) == 1 and len(self.tasks[0].bounds) == 2


def needs_survey(inputs: Inputs, split: str, settings: BalancerSettings) -> bool:
    """Whether planning a split takes more than what the datasets say of themselves."""
    shards = [item.shard for item in inputs.shards[split]]
    if settings.changes_records:
        return True
    if settings.keep_shards:
        return any(shard.records is None for shard in shards)
    if settings.balance == "bytes" or settings.stratify_by is not None:
        return True
    if any(shard.records is None or shard.is_gzip for shard in shards):
        return True
    held = sum(shard.bytes + OBJECT_BYTES * (shard.records or 0) for shard in shards)
    return held > settings.held_bytes


def plan_split(
    split: str,
    shards: Sequence[InputShard],
    surveys: Sequence[ShardSurvey] | None,
    settings: BalancerSettings,
    *,
    places_path: str = "",
) -> SplitPlan:
    """Plans one split.

    Args:
        surveys: of each of them; None where what the dataset says is enough.
        places_path: where the table of places, if there is one, will be kept.
    """
    counts, sizes = _sizes(shards, surveys)
    num_records = sum(counts)
    num_shards = settings.shards_of(split, num_records=num_records, num_bytes=sum(sizes))
    asked = settings.asked_shards(split)
    if asked is not None and num_shards < asked:
        logging.warning(
            "split %r: %d shards, not %d: no more than one a record", split, num_shards, asked
        )
    bounds = shard_bounds(num_records=num_records, num_shards=num_shards)
    layout = SplitLayout(
        split=split,
        num_records=num_records,
        bounds=tuple(bounds.tolist()),
        seed=settings.seed,
        shuffle=settings.shuffle,
    )
    table = None
    by_record = settings.stratify_by is None and settings.balance == "records"
    if surveys is not None and num_records and not by_record:
        layout, table = _arranged(layout, surveys, settings, places_path)
    firsts = list(itertools.accumulate(counts, initial=0))
    cells = Cells.of_layout(layout)
    if surveys is None:
        cells.fill(sum(sizes) + OBJECT_BYTES * num_records)
    else:
        for first, survey in zip(firsts, surveys, strict=False):
            _add_shard(cells, layout, table, first, survey)
    tasks = tuple(plan_tasks(layout, cells, memory_bytes=settings.held_bytes))
    items = list(zip(firsts, counts, shards, strict=False))
    groups = tuple(_groups(layout, items, sizes, settings.held_bytes))
    return SplitPlan(layout=layout, groups=groups, tasks=tasks, table=table)


def _add_shard(
    cells: Cells, layout: SplitLayout, table: Ints | None, first: int, survey: ShardSurvey
) -> None:
    lengths = survey.index.lengths
    for start in range(0, len(lengths), _AT_A_TIME):
        held = lengths[start : start + _AT_A_TIME].astype(np.int64)
        begin, end = first + start, first + start + len(held)
        places = layout.places(begin, end) if table is None else table[begin:end]
        cells.add(places, held + (RECORD_OVERHEAD_BYTES + OBJECT_BYTES))


def _sizes(
    shards: Sequence[InputShard], surveys: Sequence[ShardSurvey] | None
) -> tuple[list[int], list[int]]:
    """Records and framed bytes of each shard."""
    if surveys is not None:
        counts = [(len(survey.index), survey.index.framed_bytes) for survey in surveys]
        return [records for records, _ in counts], [size for _, size in counts]
    return [item.shard.records or 0 for item in shards], [item.shard.bytes for item in shards]


def _arranged(
    layout: SplitLayout,
    surveys: Sequence[ShardSurvey],
    settings: BalancerSettings,
    places_path: str,
) -> tuple[SplitLayout, Ints | None]:
    """The layout by class or by bytes, and the table of places that does not follow from it."""
    num_shards, order = layout.num_shards, layout.places(0, layout.num_records)
    if settings.stratify_by is not None:
        places, bounds = assign_places_by_class(
            _classes(surveys), num_shards=num_shards, order=order, seed=settings.seed
        )
        bounds_of_shards = tuple(bounds.tolist())
        layout = dataclasses.replace(layout, bounds=bounds_of_shards, places_path=places_path)
        return layout, places
    sizes = np.empty(layout.num_records, np.int64)
    sizes[order] = np.concatenate([survey.index.lengths for survey in surveys])
    bounds = equal_byte_bounds(sizes + RECORD_OVERHEAD_BYTES, num_shards=num_shards)
    return dataclasses.replace(layout, bounds=tuple(bounds.tolist())), None


def _classes(surveys: Sequence[ShardSurvey]) -> Ints:
    """The class of every record, numbered alike in all shards."""
    codes: dict[str, int] = {}
    found = []
    for survey in surveys:
        assert survey.classes is not None
        own = [codes.setdefault(value, len(codes)) for value in survey.values]
        found.append(np.array(own, np.int64)[survey.classes] if own else survey.classes)
    return np.concatenate(found)


def _groups(
    layout: SplitLayout,
    items: Sequence[tuple[int, int, InputShard]],
    sizes: Sequence[int],
    memory_bytes: int,
) -> list[ShardGroup]:
    """Neighbouring shards, as many as fill one run, so that small files make no small runs."""
    groups: list[list[tuple[int, int, InputShard]]] = []
    held = memory_bytes + 1
    for item, size in zip(items, sizes, strict=True):
        size += OBJECT_BYTES * item[1]
        if held + size > memory_bytes:
            groups.append([])
            held = 0
        groups[-1].append(item)
        held += size
    return [ShardGroup(layout, tuple(group)) for group in groups]


@dataclasses.dataclass(frozen=True, kw_only=True)
class PlannedSplit:
    """What would become of one split.

    Args:
        split: its name.
        records: examples.
        bytes: of them with their frames, not compressed.
        shard_records: of each new shard.
        shard_bytes: of each new shard, not compressed.
        passes: 1: the split is read once and held in memory; 2: by way of temporary files, unless
            its records can be picked on this machine (see `picked_splits`).
        temporary_bytes: of those files.
    """

    split: str
    records: int
    bytes: int
    shard_records: tuple[int, ...]
    shard_bytes: tuple[int, ...]
    passes: int
    temporary_bytes: int

    @property
    def num_shards(self) -> int:
        """How many shards there would be."""
        return len(self.shard_records)


@dataclasses.dataclass(frozen=True, kw_only=True)
class BalancePlan(Shown):
    """What a run would do, by split; `str()` makes a table of it."""

    splits: tuple[PlannedSplit, ...]

    def to_json(self) -> str:
        """The same as JSON, ending with a newline."""
        return json.dumps(self.to_dict(), indent=2) + "\n"

    def to_dict(self) -> JsonObject:
        """The same as plain JSON types."""
        return dataclasses.asdict(self)

    def parts(self) -> list[Part]:
        """A table."""
        rows = []
        for split in self.splits:
            ranges = [
                f"{min(values)}-{max(values)}"
                for values in (split.shard_records, split.shard_bytes)
            ]
            numbers = (split.records, split.bytes, split.num_shards, *ranges, split.passes)
            rows.append([split.split, *map(str, numbers)])
        return [make_table(_COLUMNS, rows, right=_COLUMNS[1:])]


def plan(examples: str | Sequence[str], **settings: Any) -> BalancePlan:
    """What ShardBalancer would do, without doing it: it reads lengths and writes nothing.

    Args:
        examples: the uri of a dataset, or of several.
        settings: as ShardBalancer takes.

    Raises:
        DatasetError: an input is no dataset, not whole, or damaged.
        ConfigError: a setting is not allowed.
    """
    check_names("plan", settings, [field.name for field in dataclasses.fields(BalancerSettings)])
    made = BalancerSettings(**settings)
    uris = [examples] if isinstance(examples, str) else examples
    inputs = open_inputs([*uris, *made.add])
    made.check_splits(list(inputs.shards))
    changes = changes_of(inputs, made)
    surveys = {
        split: [
            survey_shard(item, stratify_by=made.stratify_by, changes=changes) for item in shards
        ]
        for split, shards in inputs.shards.items()
    }
    check_changes(changes, {split: total_tally(found) for split, found in surveys.items()})
    planned = (_planned(inputs, split, surveys[split], made) for split in inputs.shards)
    return BalancePlan(splits=tuple(planned))


def _planned(
    inputs: Inputs, split: str, surveys: Sequence[ShardSurvey], settings: BalancerSettings
) -> PlannedSplit:
    shards, passes = inputs.shards[split], 1
    if settings.keep_shards:
        steps = plan_kept_split(split, shards, surveys, settings).steps
        written = [step for step in steps if step.name is not None]
        records = [step.records for step in written]
        sizes = [surveys[step.number].index.framed_bytes if shards else 0 for step in written]
    else:
        needed = surveys if needs_survey(inputs, split, settings) else None
        made = plan_split(split, shards, needed, settings)
        layout, passes = made.layout, 1 if made.is_one_pass else 2
        framed = np.concatenate([np.zeros(0, np.int64), *(s.index.lengths for s in surveys)])
        framed = framed.astype(np.int64) + RECORD_OVERHEAD_BYTES
        places = layout.places(0, len(framed)) if made.table is None else made.table
        owners = np.searchsorted(layout.bounds, places, side="right") - 1
        shard_bytes = np.bincount(owners, weights=framed, minlength=layout.num_shards)
        records, sizes = np.diff(layout.bounds).tolist(), shard_bytes.astype(np.int64).tolist()
    return PlannedSplit(
        split=split,
        records=sum(records),
        bytes=sum(sizes),
        shard_records=tuple(records),
        shard_bytes=tuple(sizes),
        passes=passes,
        temporary_bytes=0 if passes == 1 else sum(sizes) + 8 * sum(records),
    )


def changes_of(inputs: Inputs, settings: BalancerSettings) -> Changes | None:
    """What the settings change of these inputs' records; None: nothing.

    Raises:
        ConfigError: a file that they name cannot be read or is malformed, or names what the inputs
            do not have.
    """
    features, knows_all = inputs.known_features, not inputs.without_features
    if settings.stratify_by is not None:
        check_feature("stratify_by", settings.stratify_by, features, knows_all)
    return read_changes(
        settings,
        features=features,
        knows_all=knows_all,
        vocabularies=inputs.vocabularies,
        counts_labels=bool(inputs.label_counts),
        first_added=len(inputs.sources) - len(settings.add),
    )


def total_tally(surveys: Iterable[ShardSurvey]) -> Tally:
    """What becomes of the records of all shards that were surveyed."""
    return Tally.total(survey.tally for survey in surveys if survey.tally is not None)
