"""Plan the records and steps of each worker, and open and order every input.

print(plan(uri, "train", workers=8, batch_size=256, remainder="pad"))
"""

import dataclasses
import functools
import logging
import os
from collections.abc import Mapping, Sequence
from typing import Any

from trainer_utils.dataset.location import Inputs
from trainer_utils.dataset.opening import record_keys
from trainer_utils.dataset.selection import Source, digest_of, mean_bytes, open_sources
from trainer_utils.format import ConfigError, DatasetError, canonical_split
from trainer_utils.format.errors import did_you_mean
from trainer_utils.format.json_text import JsonObject
from trainer_utils.format.printable import printable
from trainer_utils.format.settings import number
from trainer_utils.options import Callback, InputOptions, choose_options
from trainer_utils.order import InputOrder, MixPart
from trainer_utils.order.mixing import Weights, WeightSchedule
from trainer_utils.order.recipe import Recipe
from trainer_utils.storage import exists, read_text
from trainer_utils.text_output import Part, TextReport, make_table, quantity

_logger = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True)
class WorkerPlan:
    """The records and steps of one worker in an epoch, and the rows of weight 0 that it adds."""

    worker: int
    records: int
    steps: int
    padded: int


@dataclasses.dataclass(frozen=True, kw_only=True)
class InputPlan(TextReport):
    """The plan of all workers for an epoch; `str()` returns a table.

    Attributes:
        records: the number of records.
        batch_size: the size of the global batch.
        steps: the number of steps.
        dropped: records that no worker yields; they differ in the next epoch.
        block_records: the least number of records that are shuffled together; 0 without shuffling.
        files: the number of files.
        workers: the plan of each worker.
    """

    records: int
    batch_size: int
    steps: int
    dropped: int
    block_records: int
    files: int
    workers: Sequence[WorkerPlan]

    @property
    def padded(self) -> int:
        """Number of rows of weight 0 in an epoch."""
        return sum(worker.padded for worker in self.workers)

    def to_dict(self) -> JsonObject:
        """Return the plan as plain JSON types."""
        return {**dataclasses.asdict(self), "padded": self.padded}

    def parts(self) -> list[Part]:
        """Return a sentence and a table to print."""
        header = ["worker", "records", "steps", "padded"]
        rows = [[one.worker, one.records, one.steps, one.padded] for one in self.workers]
        block = quantity(self.block_records, "record")
        shuffled = f"at least {block} shuffled together" if self.block_records else "not shuffled"
        return [
            f"{quantity(self.records, 'record')} of {quantity(self.files, 'file')} in global "
            f"batches of {self.batch_size:,}, {shuffled}: {quantity(self.steps, 'step')}, "
            f"{quantity(self.dropped, 'record')} dropped, {quantity(self.padded, 'row')} padded",
            make_table(header, rows),
        ]


def plan(
    artifact_uri: Inputs,
    split: str | None = None,
    *,
    workers: int = 1,
    replicas: int | None = None,
    options: InputOptions | None = None,
    **settings: Any,
) -> InputPlan:
    """Compute the plan of each worker.

    Args:
        artifact_uri: the dataset, as in `input_fn`.
        split: the split or slices to read, as in `input_fn`.
        workers: the number of workers.
        replicas: the number of replicas of all workers together, a multiple of the workers. None:
            one each.
        options: all settings, as in `input_fn`.
        settings: fields of `InputOptions`, as in `input_fn`.

    Raises:
        ConfigError: the plan is impossible, such as a batch that the workers cannot share; or
            `state` is not a token to resume from.
        DatasetError: as in `input_fn`.
    """
    chosen = choose_options(options, settings, of=plan)
    workers = number(1)("workers", workers)
    replicas = workers if replicas is None else number(1)("replicas", replicas)
    sources, chosen = open_input(artifact_uri, split, chosen)
    if chosen.pack is not None:
        from trainer_utils.reading.packing import packed_sources

        sources = packed_sources(sources, chosen)
    callbacks_of(sources, chosen)
    return plan_workers(order_of(sources, chosen, num_workers=workers, num_replicas=replicas))


def plan_workers(order: InputOrder) -> InputPlan:
    """Return the plan of every worker of an order."""
    layout, shuffle = order.layout, order.options.shuffle
    block = order.block_records() if shuffle else 0
    rows = layout.steps * layout.rows_per_worker if layout.remainder == "pad" else 0
    records = [layout.records_of(worker) for worker in range(layout.num_workers)]
    return InputPlan(
        records=layout.num_records,
        batch_size=layout.batch_size,
        steps=order.steps_per_epoch,
        dropped=layout.num_dropped,
        block_records=min(block, layout.num_records),
        files=len({part.path for part in order.ranges}),
        workers=[
            WorkerPlan(worker, own, order.steps_per_epoch, max(rows - own, 0))
            for worker, own in enumerate(records)
        ],
    )


def order_of(
    sources: Sequence[Source],
    options: InputOptions,
    *,
    num_workers: int = 1,
    num_replicas: int | None = None,
) -> InputOrder:
    """Return the order of the records of some sources; see `InputOrder` for the workers."""
    return InputOrder(
        [part for source in sources for part in source.ranges],
        options,
        num_workers=num_workers,
        num_replicas=num_replicas,
        mean_record_bytes=mean_bytes(sources),
        digest=digest_of(sources),
        parts=mix_parts(sources, options.weights),
    )


def mix_parts(sources: Sequence[Source], weights: Weights | None) -> list[MixPart]:
    """Return the parts that an order mixes; an empty list without weights."""
    if weights is None:
        return []
    schedule = WeightSchedule.of(weights)

    def part_of(name: str, source: Source) -> MixPart:
        after = None
        if name in schedule.older:
            from trainer_utils.reading.packing import PackedSource

            if isinstance(source, PackedSource):
                rule = f"None with part {name!r}, which has an older version, since packs have none"
                raise ConfigError.of("pack", source.packs.options, allowed=rule)
            old, place, split = schedule.older[name]
            after = old, part_of(old, _one_source(old, place, split))
        keys = functools.partial(record_keys, source.dataset, source.ranges)
        return MixPart(source.num_records, digest_of([source]), source.mean_bytes, keys, after)

    if len(schedule.names) != len(sources):
        rule = f"one for each of {len(sources)} datasets"
        raise ConfigError.of("weights", [*schedule.names], allowed=rule)
    return [part_of(*found) for found in zip(schedule.names, sources, strict=True)]


def _one_source(name: str | None, uri: Any, split: str | None) -> Source:
    found = open_sources(uri, split)
    if len(found) != 1:
        raise ConfigError.of("uri", uri, allowed=f"one dataset for part {name!r}")
    return found[0]


def open_input(
    artifact_uri: Inputs, split: str | None, options: InputOptions
) -> tuple[list[Source], InputOptions]:
    """Open the datasets to read, or the parts of a recipe with its weights.

    Args:
        artifact_uri: the dataset, as in `input_fn`, or a recipe or its file.
        split: the split or slices to read, as in `input_fn`; None with a recipe.
        options: the settings of the input.

    Returns:
        The splits to read, and the options with the recipe's weights.

    Raises:
        ConfigError: a split or weights were passed next to a recipe, or a part is several datasets.
        DatasetError: as in `input_fn`.
    """
    recipe = artifact_uri
    if isinstance(recipe, (str, os.PathLike)) and os.fspath(recipe).endswith((".yaml", ".yml")):
        path = os.fspath(recipe)
        if not exists(path):
            raise DatasetError.at(path, expected="a recipe", got="no such file")
        recipe = Recipe.from_yaml(read_text(path))
    if not isinstance(recipe, Recipe):
        return open_sources(recipe, split, apart=options.weights is not None), options
    for name, value in (("split", split), ("weights", options.weights)):
        if value is not None:
            raise ConfigError.of(name, value, allowed="None with a recipe, whose parts have them")
    sources = [_one_source(part.name, part.uri, part.split) for part in recipe.parts]
    return sources, options.replace(weights=recipe.weights)


def callbacks_of(sources: Sequence[Source], options: InputOptions) -> list[Callback | None]:
    """Return the callbacks before and after batching that apply to the splits read.

    Raises:
        ConfigError: a callback is for a split that no dataset has and that has no usual name, or
            the splits read together have different callbacks.
    """
    there = dict.fromkeys(split for source in sources for split in source.dataset.shards)
    read = dict.fromkeys(split for source in sources for split in source.split_names)
    chosen: list[Callback | None] = []
    for name in ("pre_batching_callback", "post_batching_callback"):
        given = getattr(options, name)
        if not isinstance(given, Mapping):
            chosen.append(given)
            continue
        for split in given:
            if split not in there and (not isinstance(split, str) or not canonical_split(split)):
                rule = f"one of the splits {', '.join(there)}.{did_you_mean(split, there)}"
                said = f"{name}[{split!r}]: expected {rule}".removesuffix(".")
                raise ConfigError(said, setting=name, value=split)
        same = {canonical_split(split): one for split, one in given.items()}
        found = {given.get(one, same.get(canonical_split(one) or one)) for one in read}
        if len(found) > 1:
            rule = f"one function for all of {', '.join(read)}, which are read together"
            raise ConfigError(f"{name}: expected {rule}, got different ones", setting=name)
        chosen.append(found.pop() if found else None)
    return chosen


def check_has_records(sources: Sequence[Source], options: InputOptions) -> None:
    """Warn of an input without records.

    Raises:
        DatasetError: such an input is to be repeated without end.
    """
    if any(source.num_records for source in sources):
        return
    splits = ", ".join(dict.fromkeys(repr(source.split) for source in sources))
    places = ", ".join(dict.fromkeys(str(source.place) for source in sources))
    if options.repeat is True:
        raise DatasetError(f"split {splits}: expected records to repeat, got none ({places})")
    _logger.warning("split %s has no records: there are no batches (%s)", splits, printable(places))
