"""Plan a balancing: the number of shards, their records, and the memory that it takes."""

import collections
import dataclasses
import functools
import itertools
import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from absl import logging

from components.balancing import parts
from components.balancing.inputs import Inputs, InputShard, open_inputs
from components.balancing.partition import assign_positions_by_class, equal_byte_bounds
from components.balancing.parts import OBJECT_BYTES, JobContext, ShardSurvey, survey_shard
from components.balancing.settings import BalancerSettings
from components.runtime.tasks import Task
from components.shuffle.edits import (
    LABEL,
    EditCounts,
    Edits,
    check_edits,
    check_feature,
    names_to_exclude,
    table_of_labels,
    total_counts,
    values_by_name,
)
from components.shuffle.external import HELD_TIMES, ExternalShuffle, plan_tasks
from components.shuffle.split_layout import SplitLayout, shuffle_seed
from trainer_utils.core import text_output
from trainer_utils.core.json_text import JsonObject
from trainer_utils.core.settings import check_names
from trainer_utils.format import ShardName, shard_bounds
from trainer_utils.format.condition import parse_condition
from trainer_utils.format.input_listing import InputListing
from trainer_utils.format.naming import LABEL_FEATURES
from trainer_utils.format.tfrecord import RECORD_OVERHEAD_BYTES, compact
from trainer_utils.runtime.machine import free_memory
from trainer_utils.storage import file_size, is_remote, join, path_of, write_atomically
from trainer_utils.writing.working_folder import working_folder

Ints = npt.NDArray[np.int64]

_AT_A_TIME = 1 << 16  # records planned at a time, to bound memory
_BESIDE_BYTES = RECORD_OVERHEAD_BYTES + OBJECT_BYTES

# Limits of picking: the share of free memory that may cache the input; the number of files, which
# each process opens; the size of a record, since reading short ones costs more than copying.
_MEMORY_SHARE = 0.5
_MAX_FILES = 200
_MIN_BYTES = 4 << 10

_SHARD_SETTINGS = ("num_shards", "target_shard_bytes", "shard_multiple", "seed", "compression")
_COLUMNS = ("split", "records", "bytes", "shards", "records/shard", "bytes/shard", "passes")


@dataclasses.dataclass(frozen=True, kw_only=True)
class SplitPlan:
    """The plan of writing one split."""

    split: str
    shards: tuple[InputShard, ...]
    counts: tuple[int, ...]  # records of each new shard
    tasks: tuple[Task[parts.Part], ...]  # the tasks; with two passes, the second one's
    scatters: tuple[Task[parts.Part], ...] = ()  # the tasks that write runs, in the first pass
    divisions: tuple[
        tuple[Task[parts.Part], ...], ...
    ] = ()  # further passes over runs, for large splits
    shuffle: ExternalShuffle | None = None  # the order of records; None if shards stay
    is_picked: bool = False  # whether records are picked from the input files

    @property
    def num_bytes(self) -> int:
        """Bytes of the input shards."""
        return sum(input_shard.shard.bytes for input_shard in self.shards)


def is_already_balanced(inputs: Inputs, split: str, settings: BalancerSettings) -> bool:
    """Return whether the ExampleGen has already written the shards that these settings ask for.

    That is so if it had the same settings of shards, and planned the same number of equal shards in
    the order of a hash with the same seed. If it rejected inputs while writing, sizes may differ.
    """
    manifest = inputs.sources[0].manifest
    if (
        len(inputs.sources) > 1
        or manifest is None
        or not manifest.producer.endswith("ExampleGen")
        or not has_same_shards(manifest.config, settings)
    ):
        return False
    counts = [input_shard.shard.num_records for input_shard in inputs.shards[split]]
    return max(counts) - min(counts) <= 1


def has_same_shards(config: Mapping[str, Any], settings: BalancerSettings) -> bool:
    """Return whether an ExampleGen plans the shards that a balancing asks for.

    Args:
        config: the settings of the ExampleGen, as in a manifest.
        settings: the settings of the balancing.
    """
    if settings.changes_records or (settings.balance, settings.stratify_by) != ("records", None):
        return False
    planned = {"num_shards": None, "shard_multiple": 1, **config}
    return (
        all(planned.get(name) == getattr(settings, name) for name in _SHARD_SETTINGS)
        and planned.get("shuffled", True)
        and "update" not in planned
    )


def permutation_seeds(splits: Iterable[str], settings: BalancerSettings) -> dict[str, int]:
    """Return the seeds of the permutations of splits that are not balanced already.

    Args:
        splits: the splits.
        settings: the settings of the balancing, which neither change nor stratify records.
    """
    if settings.keep_shards or not settings.shuffle:
        return {}
    return {split: shuffle_seed(split, settings.seed) for split in splits}


def listing_after(inputs: Inputs, settings: BalancerSettings) -> InputListing | None:
    """Return the listing of the balanced dataset, or None if its order needs the records."""
    listing = inputs.sources[0].listing
    if (
        listing is None
        or len(inputs.sources) > 1
        or settings.changes_records
        or settings.stratify_by is not None
    ):
        return None
    moved = [s for s in inputs.shards if not is_already_balanced(inputs, s, settings)]
    return listing.with_permutation(permutation_seeds(moved, settings))


def plan_split(
    inputs: Inputs,
    split: str,
    surveys: Sequence[ShardSurvey],
    settings: BalancerSettings,
    *,
    uri: str | None,
) -> SplitPlan:
    """Plan one split.

    Args:
        inputs: the datasets.
        split: the name of the split.
        surveys: the surveys of its shards.
        settings: the settings of the balancing.
        uri: the folder of the new dataset; None to plan without writing.
    """
    shards = inputs.shards[split]
    if shards and (settings.keep_shards or is_already_balanced(inputs, split, settings)):
        return _plan_kept(split, shards, surveys, settings)
    layout = _layout_of(split, surveys, settings)
    run_bytes = settings.held_bytes // HELD_TIMES
    held = (
        survey.index.lengths[start : start + _AT_A_TIME].astype(np.int64) + _BESIDE_BYTES
        for survey in surveys
        for start in range(0, len(survey.index), _AT_A_TIME)
    )
    shard_tasks = plan_tasks(layout, held, memory_bytes=run_bytes)
    if uri is not None and layout.table is not None:
        layout = dataclasses.replace(layout, table=_write_table(uri, split, layout.table))
    counts = [len(survey.index) for survey in surveys]
    firsts = itertools.accumulate(counts, initial=0)
    numbered = [*zip(firsts, counts, shards, strict=False)]
    ends = np.cumsum([survey.index.framed_bytes for survey in surveys], dtype=np.int64)
    scatters: list[Task[parts.Part]] = []
    if len(shard_tasks) == 1 and len(shard_tasks[0].cuts) <= 2:  # all records fit into memory
        whole = functools.partial(parts.write_whole, split=split, shards=numbered)
        tasks = [Task(f"whole-{split}", whole, layout.num_records, int(ends[-1:].sum()))]
    else:
        scatters = _scatter_tasks(split, numbered, ends, run_bytes)
        tasks = [
            Task(
                f"gather-{split}-{number:06d}",
                functools.partial(parts.gather, split=split, number=number),
                shard_task.cuts[-1] - shard_task.cuts[0],
            )
            for number, shard_task in enumerate(shard_tasks)
        ]
    shuffle = ExternalShuffle(
        uri=uri or "",
        layout=layout,
        tasks=shard_tasks,
        run_bytes=run_bytes,
        block_bytes=settings.block_bytes,
    )
    return SplitPlan(
        split=split,
        shards=tuple(shards),
        counts=tuple(np.diff(layout.bounds).tolist()),
        tasks=tuple(tasks),
        scatters=tuple(scatters),
        divisions=_division_tasks(split, shuffle) if scatters else (),
        shuffle=shuffle,
    )


def _scatter_tasks(
    split: str, shards: Sequence[tuple[int, int, InputShard]], ends: Ints, run_bytes: int
) -> list[Task[parts.Part]]:
    """Return the tasks that scatter input shards into sorted runs.

    Args:
        split: the name of the split.
        shards: the first record, the number of records, and the input shard itself, for each.
        ends: `(shards,) int64`, the end of each shard in the framed bytes of all.
        run_bytes: the bytes of a run.
    """
    # Group neighbouring shards until they fill a run: small files would make small runs.
    runs: dict[int, list[tuple[int, int, InputShard]]] = collections.defaultdict(list)
    for shard, end in zip(shards, ends.tolist(), strict=True):
        runs[end // run_bytes].append(shard)
    tasks: list[Task[parts.Part]] = []
    for number, run_shards in enumerate(runs.values()):
        part = functools.partial(parts.scatter, split=split, number=number, shards=run_shards)
        size = sum(input_shard.shard.bytes for *_, input_shard in run_shards)
        tasks.append(Task(f"scatter-{split}-{number:06d}", part, 0, size))
    return tasks


def _division_tasks(
    split: str, shuffle: ExternalShuffle
) -> tuple[tuple[Task[parts.Part], ...], ...]:
    """Return the tasks that divide runs further, by level."""
    return tuple(
        tuple(
            Task(
                f"divide-{split}-{level}-{index:06d}",
                functools.partial(parts.divide, split=split, level=level, index=index),
            )
            for level, index in groups
        )
        for groups in shuffle.divisions
    )


def _layout_of(
    split: str, surveys: Sequence[ShardSurvey], settings: BalancerSettings
) -> SplitLayout:
    """Return the shards of a split, with a table of positions unless a seed decides them."""
    num_records = sum(len(survey.index) for survey in surveys)
    num_bytes = sum(survey.index.framed_bytes for survey in surveys)
    num_shards = settings.shards_of(split, num_records=num_records, num_bytes=num_bytes)
    asked = settings.asked_shards(split)
    if asked is not None and num_shards < asked:
        logging.warning(
            "split %r: %d shards, not %d: at most one per record", split, num_shards, asked
        )
    layout = SplitLayout(
        split=split,
        bounds=tuple(shard_bounds(num_records=num_records, num_shards=num_shards).tolist()),
        seed=shuffle_seed(split, settings.seed) if settings.shuffle else None,
        gzip=settings.gzip,
    )
    if not num_records or (settings.stratify_by is None and settings.balance == "records"):
        return layout
    table, order = None, layout.positions(0, num_records)
    if settings.stratify_by is not None:
        classes = _classes_of(surveys)
        table, bounds = assign_positions_by_class(
            classes, num_shards=num_shards, order=order, seed=settings.seed
        )
    else:
        sizes = np.empty(num_records, np.int64)
        sizes[order] = np.concatenate([survey.index.lengths for survey in surveys])
        bounds = equal_byte_bounds(sizes + RECORD_OVERHEAD_BYTES, num_shards=num_shards)
    return dataclasses.replace(layout, bounds=tuple(bounds.tolist()), table=table)


def _classes_of(surveys: Sequence[ShardSurvey]) -> Ints:
    """Return the class of every record, with the same numbers in all shards."""
    codes: dict[str, int] = {}
    record_classes = [np.zeros(0, np.int64)]
    for survey in surveys:
        shard_codes = [codes.setdefault(value, len(codes)) for value in survey.values]
        record_classes.append(np.array(shard_codes, np.int64)[survey.classes])
    return np.concatenate(record_classes)


def _write_table(uri: str, split: str, table: Ints | str) -> str:
    """Write a table of output positions to the working folder, for the workers."""
    folder = working_folder(uri)
    path = join(folder, f"positions-{split}")
    with write_atomically(path, temporary_folder=folder) as stream:
        stream.write(np.asarray(table).tobytes())
    return path


def _plan_kept(
    split: str,
    shards: Sequence[InputShard],
    surveys: Sequence[ShardSurvey],
    settings: BalancerSettings,
) -> SplitPlan:
    """Plan shards that stay, in the order of the inputs. A shard without records is dropped."""
    counts = [len(survey.index) for survey in surveys]
    staying = [number for number, count in enumerate(counts) if count] or [0]
    name = functools.partial(ShardName, split=split, num_shards=len(staying), gzip=settings.gzip)
    names = {number: name(shard_index=index) for index, number in enumerate(staying)}
    tasks = []
    for number, (input_shard, survey) in enumerate(zip(shards, surveys, strict=True)):
        entry = input_shard.shard.entry
        is_kept = (
            counts[number] > 0
            and survey.counts.changes_nothing
            and entry is not None
            and None not in (entry.content, entry.index_crc32c)
            and input_shard.shard.is_gzip == settings.gzip
        )
        part = functools.partial(
            parts.keep,
            split=split,
            input_shard=input_shard,
            name=names.get(number),
            is_kept=is_kept,
        )
        tasks.append(
            Task(f"keep-{split}-{number:06d}", part, counts[number], input_shard.shard.bytes)
        )
    left = tuple(counts[number] for number in staying)
    return SplitPlan(split=split, shards=tuple(shards), counts=left, tasks=tuple(tasks))


def pick_split(plan: SplitPlan, inputs: Inputs, surveys: Sequence[ShardSurvey]) -> SplitPlan | None:
    """Return a plan that picks the records of each shard from input files, or None.

    It needs large records in a few uncompressed local files, and known features. The input files
    serve as runs: nothing is held in memory or written temporarily.
    """
    num_records = sum(plan.counts)
    if (
        plan.shuffle is None
        or not 0 < len(plan.shards) <= _MAX_FILES
        or any(item.source in inputs.without_features for item in plan.shards)
        or any(is_remote(item.shard.path) or item.shard.is_gzip for item in plan.shards)
        or not num_records * _MIN_BYTES <= plan.num_bytes <= _MEMORY_SHARE * free_memory()
    ):
        return None
    indices = [survey.index for survey in surveys]
    sizes = [file_size(input_shard.shard.path) for input_shard in plan.shards]
    if sizes != [index.framed_bytes for index in indices]:  # reading in order will raise
        return None
    layout = plan.shuffle.layout
    order = np.argsort(layout.positions(0, num_records), kind="stable")
    files = np.repeat(np.arange(len(indices)), [*map(len, indices)])
    offsets = np.concatenate([index.offsets[:-1] for index in indices])
    lengths = np.concatenate([index.lengths for index in indices]).astype(np.int64)
    inputs_of = tuple((input_shard.shard.path, input_shard.source) for input_shard in plan.shards)
    tasks = []
    for number, (start, stop) in enumerate(itertools.pairwise(layout.bounds)):
        shard_records = order[start:stop]
        part = functools.partial(
            parts.pick,
            name=layout.shard_name(number),
            inputs=inputs_of,
            files=compact(files[shard_records]),
            offsets=offsets[shard_records],
            lengths=compact(lengths[shard_records]),
        )
        size = int(lengths[shard_records].sum())
        tasks.append(Task(f"pick-{plan.split}-{number:06d}", part, stop - start, size))
    return dataclasses.replace(plan, tasks=tuple(tasks), scatters=(), divisions=(), is_picked=True)


@dataclasses.dataclass(frozen=True, kw_only=True)
class PlannedSplit:
    """The planned outcome for one split."""

    split: str
    records: int
    bytes: int  # framed records, uncompressed
    # For each new shard, uncompressed
    shard_records: tuple[int, ...]
    shard_bytes: tuple[int, ...]
    # 1: the split is read once and held in memory. 2 or more: it goes through temporary files this
    # number of times less one, unless its records can be picked from files on this machine
    passes: int


@dataclasses.dataclass(frozen=True, kw_only=True)
class BalancePlan(text_output.TextReport):
    """The planned outcome by split; `str()` returns a table."""

    splits: tuple[PlannedSplit, ...]

    def to_dict(self) -> JsonObject:
        """Return the plan as plain JSON types."""
        return dataclasses.asdict(self)

    def parts(self) -> list[text_output.Part]:
        """Return the plan as a table."""
        rows = []
        for split in self.splits:
            both = (split.shard_records, split.shard_bytes)
            ranges = [f"{min(values)}-{max(values)}" for values in both]
            numbers = (split.records, split.bytes, len(split.shard_bytes), *ranges, split.passes)
            rows.append([split.split, *map(str, numbers)])
        return [text_output.make_table(_COLUMNS, rows, right=_COLUMNS[1:])]


def plan(
    examples: str | os.PathLike[str] | Sequence[str | os.PathLike[str]], **settings: Any
) -> BalancePlan:
    """Return what ShardBalancer would do. This reads record lengths and writes nothing.

    Args:
        examples: the uri of a dataset, or of several.
        settings: the settings of ShardBalancer.

    Raises:
        DatasetError: an input is not a dataset, incomplete, or damaged.
        ConfigError: a setting is not allowed.
    """
    check_names("plan", settings, [field.name for field in dataclasses.fields(BalancerSettings)])
    balancing = BalancerSettings(**settings)
    sources = [examples] if isinstance(examples, (str, os.PathLike)) else examples
    uris = [path_of("examples", uri) for uri in sources]
    inputs = open_inputs([*uris, *balancing.add])
    balancing.check_splits(list(inputs.shards))
    edits = edits_of(inputs, balancing)
    context = JobContext(uri="", block_bytes=balancing.block_bytes, run_bytes=0, edits=edits)
    surveys = {
        split: [survey_shard(context, balancing.stratify_by, item) for item in shards]
        for split, shards in inputs.shards.items()
    }
    check_edits(edits, counts_of(surveys))
    planned = (
        _planned(inputs, split, split_surveys, balancing)
        for split, split_surveys in surveys.items()
    )
    return BalancePlan(splits=tuple(planned))


def counts_of(surveys: Mapping[str, Sequence[ShardSurvey]]) -> dict[str, EditCounts]:
    """Return the effects of edits on each split."""
    return {
        s: total_counts(survey.counts for survey in split_surveys)
        for s, split_surveys in surveys.items()
    }


def _planned(
    inputs: Inputs, split: str, surveys: Sequence[ShardSurvey], settings: BalancerSettings
) -> PlannedSplit:
    """Plan one split, and work out the bytes of each of its shards."""
    split_plan = plan_split(inputs, split, surveys, settings, uri=None)
    lengths = np.concatenate([np.zeros(0, np.int64), *(survey.index.lengths for survey in surveys)])
    positions = np.arange(len(lengths))
    if split_plan.shuffle is not None:
        positions = split_plan.shuffle.layout.positions(0, len(lengths))
    framed = np.zeros(len(lengths) + 1, np.int64)
    framed[positions + 1] = lengths + RECORD_OVERHEAD_BYTES
    sizes = np.diff(np.cumsum(framed)[np.cumsum([0, *split_plan.counts])])
    return PlannedSplit(
        split=split,
        records=len(lengths),
        bytes=int(framed.sum()),
        shard_records=split_plan.counts,
        shard_bytes=tuple(sizes.tolist()),
        passes=2 + len(split_plan.shuffle.divisions)
        if split_plan.scatters and split_plan.shuffle
        else 1,
    )


def edits_of(inputs: Inputs, settings: BalancerSettings) -> Edits:
    """Return the edits that the settings ask for, reading the files that these name.

    Raises:
        ConfigError: a file cannot be read or is malformed, or a label or feature is unknown.
    """
    features, vocabularies = inputs.known_features, inputs.vocabularies
    exclude = names_to_exclude(settings.exclude) if settings.exclude else ()
    feature, table = table_of_labels(settings.relabel) if settings.relabel else (LABEL, {})
    condition = parse_condition(settings.where) if settings.where else None
    named = condition.features if condition else ()
    asked = [("where", name) for name in named] + ([("relabel", feature)] if table else [])
    if settings.stratify_by is not None:
        asked.append(("stratify_by", settings.stratify_by))
    for setting, name in asked:
        check_feature(setting, name, features, knows_all=not inputs.without_features)
    if condition:  # with no record: raises if its classes are unknown
        condition.mask({}, vocabularies)
    kind = features[feature].type if feature in features else ""
    labels = [
        name
        for name, feature in features.items()
        if feature.type == "int" and (name in LABEL_FEATURES or name in vocabularies)
    ]
    return Edits(
        exclude=exclude,
        relabel=values_by_name(table, feature, kind, vocabularies.get(feature)),
        feature=feature,
        kind=kind,
        where=settings.where or "",
        unknown=[name for name in named if name not in features],
        vocabularies={name: list(vocabularies[name]) for name in named if name in vocabularies},
        labels=labels if inputs.label_counts else (),
        first_added=len(inputs.sources) - len(settings.add),
    )
