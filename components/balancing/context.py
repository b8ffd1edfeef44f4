"""What all workers of a job know, what each part of it gives, and a look at its input shards.

Lengths come from a record index or from headers; only for classes and edits are records parsed.
"""

import dataclasses
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import numpy.typing as npt

from components.balancing.inputs import InputShard
from components.shuffle.edits import EditCounts, Edits, parse_block
from components.shuffle.external import ExternalShuffle
from trainer_utils.dataset import read_index, read_shard_blocks
from trainer_utils.dataset.inspection import DatasetFacts
from trainer_utils.dataset.shards import check_count
from trainer_utils.format import (
    DatasetError,
    RecordBlock,
    RecordIndex,
    Shard,
    combine_checksums,
    multiset_checksum,
)
from trainer_utils.format.tfrecord import Lengths, compact


@dataclasses.dataclass
class TaskResult:
    """What was read and written of a part of a split."""

    split: str
    # The order-free checksum of the records, by number of the input they are of
    content: dict[int, int] = dataclasses.field(default_factory=dict)
    # The same of the records as they go on, of which some may be changed or left out
    kept: dict[int, int] = dataclasses.field(default_factory=dict)
    # What their features are, by number of an input that does not say
    facts: dict[int, DatasetFacts] = dataclasses.field(default_factory=dict)
    counts: EditCounts = dataclasses.field(default_factory=EditCounts)  # what was changed of them
    shards: list[Shard] = dataclasses.field(default_factory=list)

    def add(self, source: int, read: int, kept: int) -> None:
        """Takes in the checksums of some records of an input, as they were read and go on."""
        for sums, more in ((self.content, read), (self.kept, kept)):
            sums[source] = combine_checksums([sums.get(source, 0), more])


@dataclasses.dataclass(frozen=True, kw_only=True)
class JobContext:
    """What all workers of a job know."""

    uri: str
    block_bytes: int  # how much is read or read back at a time
    run_bytes: int  # how much is put in order at a time
    # The numbers of the inputs whose features are to be found out on the way
    infer: frozenset[int] = frozenset()
    edits: Edits = dataclasses.field(default_factory=Edits)
    shuffles: Mapping[str, ExternalShuffle] = dataclasses.field(default_factory=dict)  # by split

    def start(self, split: str) -> TaskResult:
        """Nothing yet, but which features are to be found out."""
        return TaskResult(split, facts={source: DatasetFacts() for source in self.infer})

    def read(self, given: InputShard, result: TaskResult) -> Iterator[RecordBlock]:
        """The verified blocks of a shard, edited; what was read is added to the result."""
        source, shard, records = given.source, given.shard, 0
        for block in read_shard_blocks(shard.path, block_bytes=self.block_bytes):
            records += len(block)
            kept = self.edits.apply(block, result.counts, path=shard.path, source=source)
            read = multiset_checksum(block.lengths, block.payload_crcs)
            is_same = kept is block
            going_on = read if is_same else multiset_checksum(kept.lengths, kept.payload_crcs)
            result.add(source, read, going_on)
            if not len(kept):
                continue
            if source in result.facts:
                result.facts[source].add(kept, path=shard.path, takes_lists=False)
            yield kept
        check_count(shard, records)


@dataclasses.dataclass(frozen=True)
class ShardSurvey:
    """Of one input shard, with what is to be changed of it."""

    index: RecordIndex  # where its records lie, of those that stay
    # `(records,)`, the place of each record's class in `values`; None where classes were not
    # asked for
    classes: Lengths | None = None
    values: tuple[str, ...] = ()  # the classes that occur, as text, in order of occurrence
    # What becomes of its records
    counts: EditCounts = dataclasses.field(default_factory=EditCounts)


def survey_shard(context: JobContext, stratify_by: str | None, given: InputShard) -> ShardSurvey:
    """Looks at one shard, and at the classes that are the values of `stratify_by`."""
    if stratify_by is None and not context.edits:
        return ShardSurvey(read_index(given.shard))
    lengths: list[Lengths] = [np.zeros(0, np.uint16)]
    classes: list[Lengths] = [np.zeros(0, np.uint16)]
    codes: dict[str, int] = {}
    result = TaskResult("")
    for block in context.read(given, result):
        lengths.append(compact(block.lengths))
        if stratify_by is not None:
            classes.append(compact(_classes(block, stratify_by, codes, given.shard.path)))
    found = None if stratify_by is None else np.concatenate(classes)
    return ShardSurvey(RecordIndex(np.concatenate(lengths)), found, tuple(codes), result.counts)


def _classes(
    block: RecordBlock, feature: str, codes: dict[str, int], path: str
) -> npt.NDArray[np.int64]:
    """Each example's value of a feature, as a number: `(records,)`."""
    column = parse_block(block, [feature], path=path)[feature]
    where = f"({path}, near byte {block.file_offset})"
    if (most := int(column.counts.max(initial=0))) > 1:
        raise DatasetError(
            f"stratify_by: expected one value of {feature!r} an example, got {most} {where}"
        )
    if column.kind == "float":
        raise DatasetError(
            f"stratify_by: expected a feature of integers or texts, got floats of {feature!r} "
            f"{where}"
        )
    names = [repr(value) for value in column.values.tolist()]
    is_missing = column.counts == 0
    for name in [*dict.fromkeys(names), *(["missing"] if is_missing.any() else [])]:
        codes.setdefault(name, len(codes))
    classes = np.full(len(block), codes.get("missing", 0), np.int64)
    classes[~is_missing] = [codes[name] for name in names]
    return classes


def classes_of(surveys: Sequence[ShardSurvey]) -> npt.NDArray[np.int64]:
    """The class of every record, numbered alike in all shards."""
    codes: dict[str, int] = {}
    found = []
    for survey in surveys:
        assert survey.classes is not None
        own = [codes.setdefault(value, len(codes)) for value in survey.values]
        found.append(np.array(own, np.int64)[survey.classes] if own else survey.classes)
    return np.concatenate(found)
