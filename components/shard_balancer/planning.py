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
from itertools import chain
from typing import Any

import numpy as np
import numpy.typing as npt
from absl import logging

from components.shard_balancer.changes import (
    Changes,
    Tally,
    check_feature,
    check_matches,
    check_rest,
    read_changes,
)
from components.shard_balancer.inputs import Inputs, InputShard, open_inputs
from components.shard_balancer.kept_shards import plan_kept_split
from components.shard_balancer.layout import (
    Cells,
    SplitLayout,
    Task,
    permute_places,
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
    def parts(self) -> list[str]:
        """The names of the parts of the work, each of which leaves a summary."""
        return [f"gather-{task.key}" for task in self.tasks]

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
        split: its name.
        shards: of the input, in order.
        surveys: of each of them; None where what the dataset says is enough.
        settings: of the component.
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
    bounds, table = _arrangement(split, num_records, num_shards, surveys, settings)
    layout = SplitLayout(
        split=split,
        num_records=num_records,
        bounds=tuple(bounds.tolist()),
        seed=settings.seed,
        shuffle=settings.shuffle,
        places_path=None if table is None else places_path,
    )
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


def _arrangement(
    split: str,
    num_records: int,
    num_shards: int,
    surveys: Sequence[ShardSurvey] | None,
    settings: BalancerSettings,
) -> tuple[Ints, Ints | None]:
    """The bounds of the shards, and the table of places where it does not follow from the seed."""
    by_class, by_bytes = settings.stratify_by is not None, settings.balance == "bytes"
    if surveys is None or not num_records or not (by_class or by_bytes):
        return shard_bounds(num_records=num_records, num_shards=num_shards), None
    order = permute_places(
        split,
        np.arange(num_records, dtype=np.int64),
        num_records=num_records,
        seed=settings.seed,
        shuffle=settings.shuffle,
    )
    if by_class:
        places, bounds = assign_places_by_class(
            _classes(surveys), num_shards=num_shards, order=order, seed=settings.seed
        )
        return bounds, places
    sizes = np.empty(num_records, np.int64)
    sizes[order] = np.concatenate([survey.index.lengths for survey in surveys])
    return equal_byte_bounds(sizes + RECORD_OVERHEAD_BYTES, num_shards=num_shards), None


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
    if changes is not None:
        check_matches(changes, total_tally(chain.from_iterable(surveys.values())))
        check_rest({split: total_tally(found) for split, found in surveys.items()})
    planned = (_planned(inputs, split, surveys[split], made) for split in inputs.shards)
    return BalancePlan(splits=tuple(planned))


def _planned(
    inputs: Inputs, split: str, surveys: Sequence[ShardSurvey], settings: BalancerSettings
) -> PlannedSplit:
    shards = inputs.shards[split]
    if settings.keep_shards:
        return _planned_as_kept(split, shards, surveys, settings)
    needed = surveys if needs_survey(inputs, split, settings) else None
    made = plan_split(split, shards, needed, settings)
    layout = made.layout
    sizes = np.concatenate([np.zeros(0, np.int64), *(s.index.lengths for s in surveys)])
    sizes = sizes.astype(np.int64)
    sizes += RECORD_OVERHEAD_BYTES
    places = layout.places(0, len(sizes)) if made.table is None else made.table
    owners = np.searchsorted(layout.bounds, places, side="right") - 1
    shard_bytes = np.bincount(owners, weights=sizes, minlength=layout.num_shards)
    num_bytes = int(sizes.sum())
    return PlannedSplit(
        split=split,
        records=layout.num_records,
        bytes=num_bytes,
        shard_records=tuple(np.diff(layout.bounds).tolist()),
        shard_bytes=tuple(shard_bytes.astype(np.int64).tolist()),
        passes=1 if made.is_one_pass else 2,
        temporary_bytes=0 if made.is_one_pass else num_bytes + 8 * layout.num_records,
    )


def _planned_as_kept(
    split: str,
    shards: Sequence[InputShard],
    surveys: Sequence[ShardSurvey],
    settings: BalancerSettings,
) -> PlannedSplit:
    made = plan_kept_split(split, shards, surveys, settings)
    sizes = {survey_of: survey.index.framed_bytes for survey_of, survey in enumerate(surveys)}
    written = [step for step in made.steps if step.name is not None]
    shard_bytes = tuple(sizes.get(step.number, 0) for step in written)
    return PlannedSplit(
        split=split,
        records=made.num_records,
        bytes=sum(shard_bytes),
        shard_records=tuple(step.records for step in written),
        shard_bytes=shard_bytes,
        passes=1,
        temporary_bytes=0,
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
    total = Tally()
    for survey in surveys:
        if survey.tally is not None:
            total.merge(survey.tally)
    return total
