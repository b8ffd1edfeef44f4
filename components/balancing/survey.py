"""A look at input shards before they are moved: where their records lie, and their classes.

    survey = survey_shard(context, "label", shard)
    survey.index.lengths, survey.classes

Needed where nothing says how many records a shard has, where shards are to be equal in bytes or in
classes, where records are edited, and where a split is larger than memory. Lengths come from a
record index or from the headers alone; only for classes and edits are records parsed.
"""

import dataclasses
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from components.balancing.context import JobContext, TaskResult
from components.balancing.inputs import InputShard
from components.shuffle.edits import EditCounts, parse_block
from trainer_utils.dataset import read_index
from trainer_utils.format import DatasetError, RecordBlock, RecordIndex
from trainer_utils.format.framing import Lengths
from trainer_utils.format.tfrecord import compact


@dataclasses.dataclass(frozen=True)
class ShardSurvey:
    """Of one input shard, with what is to be changed of it.

    Args:
        index: where its records lie, of those that stay.
        classes: `(records,)`, the place of each record's class in `values`; None where classes
            were not asked for.
        values: the classes that occur, as text, in order of occurrence.
        counts: what becomes of its records.
    """

    index: RecordIndex
    classes: Lengths | None = None
    values: tuple[str, ...] = ()
    counts: EditCounts = dataclasses.field(default_factory=EditCounts)


def survey_shard(context: JobContext, stratify_by: str | None, given: InputShard) -> ShardSurvey:
    """Looks at one shard.

    Args:
        stratify_by: the feature whose values are the classes.

    Raises:
        CorruptShardError: it is damaged.
        DatasetError: it has another number of records than the dataset says, or an example has
            several classes.
    """
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
