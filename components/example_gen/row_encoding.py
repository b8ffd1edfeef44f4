"""The second look at a piece: its rows as framed examples, in runs for the shards of each split."""

import dataclasses
import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from components.common.entry import label_column
from components.common.example_batch import encode_batch, frame_batch
from components.example_gen.partition import EXCLUDED, Numbers
from components.example_gen.row_inspection import read_columns
from components.example_gen.row_plan import RowPlan
from components.shuffle.external import ExternalShuffle, run_of
from components.tables.kinds import cast_column
from components.tables.pieces import Piece
from components.tables.vocabularies import label_ids
from trainer_utils.format import Shard
from trainer_utils.format.index import name_crc
from trainer_utils.format.naming import NAME_FEATURES

ID_FEATURES = ("id", "record_id")  # of the lineage: the second where the inputs have the first
_BATCH_ROWS = 32 << 10  # past it, columns leave the processor's cache


@dataclasses.dataclass
class EncodingReport:
    """What one piece gave."""

    labels: dict[str, dict[int, int]]  # examples by split and class, an id or a number
    missing: list[str]  # columns that an example lacks
    lengths: dict[str, tuple[int, int]]  # of each list column, the least and the most values


def id_feature(names: Any) -> str:
    """The feature that says where an example is from."""
    return next(name for name in ID_FEATURES if name not in names)


@dataclasses.dataclass(frozen=True)
class PieceRows:
    """A piece that was inspected, and what was decided of its rows."""

    number: int
    piece: Piece
    names: Sequence[str] | None  # of all rows found, where they have names of their own
    splits: Numbers  # the number of each kept row's split, or `EXCLUDED`
    firsts: tuple[int, ...]  # how many rows each split has before it


def encode_piece(
    folder: str, plan: RowPlan, shuffles: Sequence[ExternalShuffle], given: PieceRows
) -> EncodingReport:
    """Makes the rows of a piece into framed examples, and writes them as runs of the shuffles."""
    splits = given.splits
    wanted = [column.name for column in plan.columns]
    columns, records = read_columns(folder, given.number, wanted)
    features = {}
    for column in plan.columns:
        array = cast_column(columns.get(column.name, pa.nulls(len(records))), column)
        is_label = column.kind == "label"
        labels = plan.vocabularies[column.name] if is_label else ()
        features[column.name] = label_ids(array, labels) if is_label else array
    features[id_feature(features)] = _ids(given, records, plan.first_records[given.number])
    kept = splits != EXCLUDED
    if not kept.all():
        features = {name: array.filter(pa.array(kept)) for name, array in features.items()}
        splits = splits[kept]
    if plan.tokens is not None:
        plan.tokens.encode(features)
    frames, names = _frames(features, len(splits)), _names_of(features)
    for split, shuffle in enumerate(shuffles):
        mine = np.flatnonzero(splits == split)
        if not len(mine):
            continue
        first = given.firsts[split]
        positions = shuffle.layout.positions(first, first + len(mine))
        own = frames if len(mine) == len(splits) else frames.take(pa.array(mine))
        own_names = None if names is None else names[mine]
        shuffle.scatter(f"{given.number:06d}", run_of([own], [positions], own_names))
    return EncodingReport(
        labels=_label_counts(plan, features, splits),
        missing=[name for name, array in features.items() if array.null_count],
        lengths=_lengths(features),
    )


def gather_shards(shuffles: Sequence[ExternalShuffle], numbers: tuple[int, int]) -> list[Shard]:
    """Writes the shards of a task of the shuffle of a split, by the numbers of both."""
    split, task = numbers
    return shuffles[split].gather(task)


def _ids(given: PieceRows, records: npt.NDArray[np.int64], first: int) -> pa.Array:
    if (names := given.names) is not None:
        return pa.array([os.fsencode(names[record]) for record in records.tolist()], pa.binary())
    numbers = pc.cast(pa.array(records + (first + 1)), pa.string())
    source = pa.scalar(os.fsencode(f"{given.piece.source}:"), pa.binary())
    return pc.binary_join_element_wise(source, numbers.cast(pa.binary()), b"")


def _names_of(features: Mapping[str, pa.Array]) -> npt.NDArray[np.uint32] | None:
    """The sum of what each example is called (`NAME_FEATURES`); None: that is to be looked for."""
    named = [features[name] for name in NAME_FEATURES if name in features]
    texts = [array.cast(pa.binary()) for array in named if _is_text(array.type)]
    if not texts or any(pa.types.is_list(array.type) for array in named):
        return None
    return np.array([name_crc(name) for name in pc.coalesce(*texts).to_pylist()], np.uint32)


def _is_text(kind: pa.DataType) -> bool:
    return kind in (pa.string(), pa.binary(), pa.large_string(), pa.large_binary())


def _frames(features: Mapping[str, pa.Array], rows: int) -> pa.Array:
    batches = [
        frame_batch(
            encode_batch({n: array.slice(start, _BATCH_ROWS) for n, array in features.items()})
        )
        for start in range(0, rows, _BATCH_ROWS)
    ]
    return pa.concat_arrays(batches) if batches else pa.array([], pa.binary())


def _label_counts(
    plan: RowPlan, features: Mapping[str, pa.Array], splits: Numbers
) -> dict[str, dict[int, int]]:
    place = label_column(plan.columns)
    if place is None or plan.columns[place].kind not in ("int", "label"):
        return {}
    array = features[plan.columns[place].name]
    of_rows = splits
    if pa.types.is_list(array.type):
        lengths = pc.fill_null(pc.list_value_length(array), 0).to_numpy(zero_copy_only=False)
        of_rows, array = np.repeat(splits, lengths), array.flatten()
    counts: dict[str, dict[int, int]] = {}
    for split, shards in enumerate(plan.split_shards):
        values = pc.value_counts(array.filter(pa.array(of_rows == split)).drop_null())
        counts[shards.name] = {entry["values"]: entry["counts"] for entry in values.to_pylist()}
    return counts


def _lengths(features: Mapping[str, pa.Array]) -> dict[str, tuple[int, int]]:
    lengths = {}
    for name, array in features.items():
        if pa.types.is_list(array.type) and len(array):
            sizes = pc.fill_null(pc.list_value_length(array), 0).to_numpy(zero_copy_only=False)
            lengths[name] = (int(sizes.min()), int(sizes.max()))
    return lengths
