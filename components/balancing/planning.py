"""What balancing would do: how many shards, which records in which, how much at a time."""

import dataclasses
import functools
import itertools
import os
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from absl import logging

from components.balancing import parts
from components.balancing.context import JobContext, ShardSurvey, classes_of, survey_shard
from components.balancing.inputs import Inputs, InputShard, open_inputs
from components.balancing.partition import assign_positions_by_class, equal_byte_bounds
from components.balancing.parts import OBJECT_BYTES, NumberedShard
from components.balancing.settings import BalancerSettings
from components.common.tasks import Task
from components.shuffle.edits import Edits, check_edits, check_feature, read_edits, total_counts
from components.shuffle.external import HELD_TIMES, ExternalShuffle
from components.shuffle.layout import Cells, SplitLayout, plan_tasks, shuffle_seed
from components.shuffle.picking import GatherIndices
from trainer_utils import text_output
from trainer_utils.dataset import read_index
from trainer_utils.format import ShardName, shard_bounds
from trainer_utils.format.json_text import JsonObject
from trainer_utils.format.settings import check_names
from trainer_utils.format.tfrecord import RECORD_OVERHEAD_BYTES, compact
from trainer_utils.machine import free_memory
from trainer_utils.storage import file_size, is_remote

Ints = npt.NDArray[np.int64]

_AT_A_TIME = 1 << 16  # records, so that planning takes little memory

# What is picked record by record: the system keeps the input in so much of the free memory
# meanwhile; each process opens all files; a read for each shorter record costs more than copying.
_MEMORY_SHARE = 0.5
_MOST_FILES = 200
_LEAST_BYTES = 4 << 10

_TOLD = ("num_shards", "target_shard_bytes", "shard_multiple", "seed", "compression")
_COLUMNS = ("split", "records", "bytes", "shards", "records/shard", "bytes/shard", "passes")


@dataclasses.dataclass(frozen=True, kw_only=True)
class SplitPlan:
    """How one split is written."""

    split: str
    counts: tuple[int, ...]  # of the records of each new shard
    tasks: tuple[Task, ...]  # what is done; with two passes, what is done when `scatters` are
    scatters: tuple[Task, ...] = ()  # what writes the runs
    shuffle: ExternalShuffle | None = None  # where records go; None where shards stay
    shards: tuple[InputShard, ...]
    is_picked: bool = False  # whether records are picked where they lie

    @property
    def num_bytes(self) -> int:
        """Of the input shards."""
        return sum(given.shard.bytes for given in self.shards)


def is_made_so(inputs: Inputs, split: str, settings: BalancerSettings) -> bool:
    """Whether the ExampleGen has made the shards of a split as these settings have them.

    It was told the same of them and laid out as many, of equal size, in the order of a hash with
    the same seed. Where it rejected inputs only while it wrote them, sizes may differ.
    """
    manifest = inputs.sources[0].manifest
    if (
        len(inputs.sources) > 1
        or manifest is None
        or not manifest.producer.endswith("ExampleGen")
        or settings.changes_records
        or (settings.balance, settings.stratify_by) != ("records", None)
    ):
        return False
    told = {"num_shards": None, "shard_multiple": 1, **manifest.config}
    counts = [given.shard.num_records for given in inputs.shards[split]]
    return (
        all(told.get(name) == getattr(settings, name) for name in _TOLD)
        and told.get("shuffled", True)
        and "update" not in told
        and max(counts) - min(counts) <= 1
    )


def needs_survey(inputs: Inputs, split: str, settings: BalancerSettings) -> bool:
    """Whether planning a split takes more than what the datasets say of themselves."""
    shards = [item.shard for item in inputs.shards[split]]
    if settings.changes_records:
        return True
    if settings.keep_shards or is_made_so(inputs, split, settings):
        return any(shard.records is None for shard in shards)
    if settings.balance == "bytes" or settings.stratify_by is not None:
        return True
    if any(shard.records is None or shard.is_gzip for shard in shards):
        return True
    held = sum(shard.bytes + OBJECT_BYTES * (shard.records or 0) for shard in shards)
    return held > settings.held_bytes // HELD_TIMES


def plan_split(
    inputs: Inputs,
    split: str,
    surveys: Sequence[ShardSurvey] | None,
    settings: BalancerSettings,
    *,
    uri: str,
    keep: Callable[[Ints], Ints | str] = lambda table: table,
) -> SplitPlan:
    """Plans one split.

    Args:
        surveys: of each shard; None where what the datasets say is enough.
        uri: of the dataset that is written.
        keep: puts a table of output positions where workers find it.
    """
    shards = inputs.shards[split]
    if settings.keep_shards or is_made_so(inputs, split, settings):
        return _plan_kept(split, shards, surveys, settings)
    if surveys is not None:
        counts = [len(survey.index) for survey in surveys]
        sizes = [survey.index.framed_bytes for survey in surveys]
    else:
        counts, sizes = [s.shard.records or 0 for s in shards], [s.shard.bytes for s in shards]
    layout = _layout_of(split, sum(counts), sum(sizes), surveys, settings)
    cells = Cells(layout)
    firsts = [*itertools.accumulate(counts, initial=0)]
    if surveys is None:
        cells = Cells(layout, sum(sizes) + OBJECT_BYTES * layout.num_records)
    for first, survey in zip(firsts, surveys or (), strict=False):
        lengths = survey.index.lengths
        for start in range(0, len(lengths), _AT_A_TIME):
            held = lengths[start : start + _AT_A_TIME].astype(np.int64)
            positions = layout.positions(first + start, first + start + len(held))
            cells.add(positions, held + (RECORD_OVERHEAD_BYTES + OBJECT_BYTES))
    run_bytes = settings.held_bytes // HELD_TIMES
    shard_tasks = plan_tasks(layout, cells, memory_bytes=run_bytes)
    if isinstance(layout.table, np.ndarray):
        layout = dataclasses.replace(layout, table=keep(layout.table))
    numbered = [*zip(firsts, counts, shards, strict=False)]
    scatters: list[Task] = []
    if len(shard_tasks) == 1 and len(shard_tasks[0].cuts) <= 2:
        whole = parts.Part(parts.write_whole, split, (numbered,))
        tasks = [Task(f"whole-{split}", whole, layout.num_records, sum(sizes))]
    else:
        for number, group in enumerate(_groups(numbered, sizes, run_bytes)):
            part = parts.Part(parts.scatter, split, (number, group))
            size = sum(given.shard.bytes for *_, given in group)
            scatters.append(Task(f"scatter-{split}-{number:06d}", part, 0, size))
        tasks = []
        for number, one in enumerate(shard_tasks):
            part = parts.Part(parts.gather, split, (number,))
            name = f"gather-{split}-{number:06d}"
            tasks.append(Task(name, part, one.cuts[-1] - one.cuts[0]))
    return SplitPlan(
        split=split,
        counts=tuple(np.diff(layout.bounds).tolist()),
        tasks=tuple(tasks),
        scatters=tuple(scatters),
        shuffle=ExternalShuffle(
            uri=uri, layout=layout, tasks=shard_tasks, block_bytes=settings.block_bytes
        ),
        shards=tuple(shards),
    )


def _layout_of(
    split: str,
    num_records: int,
    num_bytes: int,
    surveys: Sequence[ShardSurvey] | None,
    settings: BalancerSettings,
) -> SplitLayout:
    num_shards = settings.shards_of(split, num_records=num_records, num_bytes=num_bytes)
    asked = settings.asked_shards(split)
    if asked is not None and num_shards < asked:
        logging.warning(
            "split %r: %d shards, not %d: no more than one a record", split, num_shards, asked
        )
    layout = SplitLayout(
        split=split,
        bounds=tuple(shard_bounds(num_records=num_records, num_shards=num_shards).tolist()),
        seed=shuffle_seed(split, settings.seed) if settings.shuffle else None,
        gzip=settings.gzip,
    )
    if not num_records or not surveys:
        return layout
    if settings.stratify_by is not None:
        table, bounds = assign_positions_by_class(
            classes_of(surveys),
            num_shards=num_shards,
            order=layout.positions(0, num_records),
            seed=settings.seed,
        )
        return dataclasses.replace(layout, bounds=tuple(bounds.tolist()), table=table)
    if settings.balance == "bytes":
        sizes = np.empty(num_records, np.int64)
        order = layout.positions(0, num_records)
        sizes[order] = np.concatenate([survey.index.lengths for survey in surveys])
        bounds = equal_byte_bounds(sizes + RECORD_OVERHEAD_BYTES, num_shards=num_shards)
        return dataclasses.replace(layout, bounds=tuple(bounds.tolist()))
    return layout


def _groups(
    shards: Sequence[NumberedShard], sizes: Sequence[int], run_bytes: int
) -> list[list[NumberedShard]]:
    """Neighbouring shards, as many as fill one run, so that small files make no small runs."""
    groups: list[list[NumberedShard]] = []
    held = run_bytes + 1
    for numbered, size in zip(shards, sizes, strict=True):
        if held + size > run_bytes:
            groups.append([])
            held = 0
        groups[-1].append(numbered)
        held += size
    return groups


def _plan_kept(
    split: str,
    shards: Sequence[InputShard],
    surveys: Sequence[ShardSurvey] | None,
    settings: BalancerSettings,
) -> SplitPlan:
    """Shards that stay, in the order of the inputs, but for those that lose all records."""
    if surveys is None:
        counts = [given.shard.num_records for given in shards]
    else:
        counts = [len(survey.index) for survey in surveys]
    staying = [number for number, count in enumerate(counts) if count] or [0]
    name = functools.partial(ShardName, split=split, num_shards=len(staying), gzip=settings.gzip)
    names = {number: name(shard_index=index) for index, number in enumerate(staying)}
    tasks = []
    given_shards: Sequence[InputShard | None] = shards or [None]
    for number, (given, count) in enumerate(zip(given_shards, counts or [0], strict=True)):
        is_kept = (
            given is not None
            and count > 0
            and (surveys is None or surveys[number].counts.changes_nothing)
            and given.shard.entry is not None
            and None not in (given.shard.entry.content, given.shard.entry.index_crc32c)
            and given.shard.is_gzip == settings.gzip
        )
        part = parts.Part(parts.keep, split, (given, names.get(number), is_kept))
        size = 0 if given is None else given.shard.bytes
        tasks.append(Task(f"keep-{split}-{number:06d}", part, count, size))
    left = tuple(counts[number] for number in staying) if counts else (0,)
    return SplitPlan(split=split, counts=left, tasks=tuple(tasks), shards=tuple(shards))


def pick_split(
    plan: SplitPlan, inputs: Inputs, surveys: Sequence[ShardSurvey] | None
) -> SplitPlan | None:
    """The plan that writes each shard by picking its records where they lie; None: it cannot.

    Its records are large, lie in a few files on this machine that are not compressed, and it is
    known what their features are. The input is a run as it is: nothing is held or written beside.
    """
    num_records = sum(plan.counts)
    if (
        plan.shuffle is None
        or not hasattr(os, "preadv")
        or not 0 < len(plan.shards) <= _MOST_FILES
        or any(item.source in inputs.without_features for item in plan.shards)
        or any(is_remote(item.shard.path) or item.shard.is_gzip for item in plan.shards)
        or not num_records * _LEAST_BYTES <= plan.num_bytes <= _MEMORY_SHARE * free_memory()
    ):
        return None
    indices = [survey.index for survey in surveys or ()]
    indices = indices or [read_index(given.shard) for given in plan.shards]
    sizes = [file_size(given.shard.path) for given in plan.shards]
    if sizes != [index.framed_bytes for index in indices]:  # whoever reads it in order says why
        return None
    layout = plan.shuffle.layout
    order = np.argsort(layout.positions(0, num_records), kind="stable")
    files = np.repeat(np.arange(len(indices)), [*map(len, indices)])
    offsets = _joined([index.offsets[:-1] for index in indices])
    lengths = _joined([index.lengths for index in indices])
    paths = tuple((given.shard.path, given.source) for given in plan.shards)
    tasks = []
    for number, (start, stop) in enumerate(itertools.pairwise(layout.bounds)):
        own = order[start:stop]
        gather = GatherIndices(
            shard=layout.shard_name(number),
            files=compact(files[own]),
            offsets=offsets[own],
            lengths=compact(lengths[own]),
        )
        size = int(lengths[own].sum())
        name = f"pick-{plan.split}-{number:06d}"
        part = parts.Part(parts.pick, plan.split, (gather, paths))
        tasks.append(Task(name, part, stop - start, size))
    return dataclasses.replace(plan, tasks=tuple(tasks), scatters=(), is_picked=True)


def _joined(arrays: Sequence[npt.NDArray[Any]]) -> Ints:
    return np.concatenate([np.zeros(0, np.int64), *arrays])


@dataclasses.dataclass(frozen=True, kw_only=True)
class PlannedSplit:
    """What would become of one split."""

    split: str
    records: int
    bytes: int  # of its records with their frames, not compressed
    # shard_records, shard_bytes: of each new shard, not compressed
    shard_records: tuple[int, ...]
    shard_bytes: tuple[int, ...]
    # 1: the split is read once and held in memory; 2: by way of temporary files, unless its
    # records can be picked on this machine
    passes: int


@dataclasses.dataclass(frozen=True, kw_only=True)
class BalancePlan(text_output.Shown):
    """What a run would do, by split; `str()` makes a table of it."""

    splits: tuple[PlannedSplit, ...]

    def to_dict(self) -> JsonObject:
        """The same as plain JSON types."""
        return dataclasses.asdict(self)

    def parts(self) -> list[text_output.Part]:
        """A table."""
        rows = []
        for split in self.splits:
            both = (split.shard_records, split.shard_bytes)
            ranges = [f"{min(values)}-{max(values)}" for values in both]
            numbers = (split.records, split.bytes, len(split.shard_bytes), *ranges, split.passes)
            rows.append([split.split, *map(str, numbers)])
        return [text_output.make_table(_COLUMNS, rows, right=_COLUMNS[1:])]


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
    edits = edits_of(inputs, made)
    context = JobContext(uri="", block_bytes=made.block_bytes, run_bytes=0, edits=edits)
    surveys = {
        split: [survey_shard(context, made.stratify_by, item) for item in shards]
        for split, shards in inputs.shards.items()
    }
    counts = {s: total_counts([one.counts for one in found]) for s, found in surveys.items()}
    check_edits(edits, counts)
    planned = (_planned(inputs, split, surveys[split], made) for split in inputs.shards)
    return BalancePlan(splits=tuple(planned))


def _planned(
    inputs: Inputs, split: str, surveys: Sequence[ShardSurvey], settings: BalancerSettings
) -> PlannedSplit:
    needed = surveys if needs_survey(inputs, split, settings) else None
    made = plan_split(inputs, split, needed, settings, uri="")
    framed = _joined([survey.index.lengths for survey in surveys]) + RECORD_OVERHEAD_BYTES
    positions = np.arange(len(framed))
    if made.shuffle is not None:
        positions = made.shuffle.layout.positions(0, len(framed))
    bounds = np.cumsum([0, *made.counts])
    owners = np.searchsorted(bounds, positions, side="right") - 1
    sizes = np.bincount(owners, weights=framed, minlength=len(made.counts)).astype(np.int64)
    return PlannedSplit(
        split=split,
        records=sum(made.counts),
        bytes=int(framed.sum()),
        shard_records=made.counts,
        shard_bytes=tuple(sizes.tolist()),
        passes=2 if made.scatters else 1,
    )


def edits_of(inputs: Inputs, settings: BalancerSettings) -> Edits:
    """What the settings change of these inputs' records; ConfigError of what is not there."""
    features, knows_all = inputs.known_features, not inputs.without_features
    if settings.stratify_by is not None:
        check_feature("stratify_by", settings.stratify_by, features, knows_all)
    return read_edits(
        exclude=settings.exclude,
        relabel=settings.relabel,
        where=settings.where,
        features=features,
        knows_all=knows_all,
        vocabularies=inputs.vocabularies,
        counts_labels=bool(inputs.label_counts),
        first_added=len(inputs.sources) - len(settings.add),
    )
