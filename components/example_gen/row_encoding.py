"""The second look at a piece: its rows as framed examples, each for the bucket it belongs to.

EncodePieces(uri=uri, plan=plan, seed=0)([3])
read_frames(working_folder(uri), 3, bucket=0)
"""

import dataclasses
import itertools
import os
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from components.common.entry import label_column
from components.common.example_batch import encode_batch, frame_batch
from components.common.summaries import read_summary
from components.example_gen.assignment import EXCLUDED, Numbers
from components.example_gen.row_inspection import read_columns
from components.example_gen.row_pieces import (
    PieceWork,
    open_batches,
    summary_name,
    write_batches,
)
from components.example_gen.row_plan import RowPlan, read_assignment
from components.tables.casting import cast_column
from components.tables.pieces import Piece
from components.tables.vocabularies import label_ids
from trainer_utils.format import permute
from trainer_utils.format.json_text import JsonObject
from trainer_utils.format.naming import NAME_FEATURES
from trainer_utils.storage.paths import join

__all__ = ["ID_FEATURES", "EncodePieces", "EncodingReport", "id_feature", "read_frames"]

ID_FEATURES = ("id", "record_id")  # of the lineage: the second where the inputs have the first
_BATCH_ROWS = 32 << 10  # past it, columns leave the processor's cache


@dataclasses.dataclass
class EncodingReport:
    """What one piece gave.

    Args:
        labels: examples by split and class, an id or a number.
        missing: columns that an example lacks.
        lengths: of each list column, the least and the most values.
    """

    labels: dict[str, dict[int, int]]
    missing: list[str]
    lengths: dict[str, tuple[int, int]]

    @classmethod
    def from_json(cls, value: JsonObject) -> "EncodingReport":
        """From what `dataclasses.asdict` and JSON made of one."""
        labels = {
            split: {int(label): count for label, count in counts.items()}
            for split, counts in value["labels"].items()
        }
        return cls(**{**value, "labels": labels})


def id_feature(names: Any) -> str:
    """The feature that says where an example is from."""
    return next(name for name in ID_FEATURES if name not in names)


@dataclasses.dataclass(frozen=True, kw_only=True)
class EncodePieces(PieceWork):
    """Makes the rows of pieces into framed examples, sorted by the place that each will have."""

    step = "encode"
    plan: RowPlan
    seed: int

    def report(self, number: int, piece: Piece) -> EncodingReport:
        """Encodes the rows of a piece that was inspected."""
        plan, folder = self.plan, self.folder
        columns, records = read_columns(folder, number, [column.name for column in plan.columns])
        names = read_summary(folder, summary_name("inspect", number))["names"]
        firsts, splits = read_assignment(folder, number)
        features = {}
        for column in plan.columns:
            array = cast_column(columns.get(column.name, pa.nulls(len(records))), column)
            is_label = column.kind == "label"
            labels = plan.vocabularies[column.name] if is_label else ()
            features[column.name] = label_ids(array, labels) if is_label else array
        own_id = id_feature(features)
        features[own_id] = _ids(piece, records, names, plan.first_records[number])
        kept = splits != EXCLUDED
        if not kept.all():
            features = {name: array.filter(pa.array(kept)) for name, array in features.items()}
            splits = splits[kept]
        frames = _frames(features, len(splits))
        own_names = _names_of(features, len(splits))
        places = _places(plan, splits, firsts, self.seed)
        _write_frames(folder, number, frames, own_names, *places)
        return EncodingReport(
            labels=_label_counts(plan, features, splits),
            missing=[name for name, array in features.items() if array.null_count],
            lengths=_lengths(features),
        )


def _ids(
    piece: Piece, records: npt.NDArray[np.int64], names: list[str] | None, first: int
) -> pa.Array:
    if names is not None:
        return pa.array([os.fsencode(names[record]) for record in records.tolist()], pa.binary())
    numbers = pc.cast(pa.array(records + (first + 1)), pa.string())
    source = pa.scalar(os.fsencode(f"{piece.source}:"), pa.binary())
    return pc.binary_join_element_wise(source, numbers.cast(pa.binary()), b"")


def _names_of(features: Mapping[str, pa.Array], rows: int) -> pa.Array:
    """What each example is called (`NAME_FEATURES`); null where that is to be found in it."""
    named = [features[name] for name in NAME_FEATURES if name in features]
    if any(pa.types.is_list(array.type) for array in named):
        return pa.nulls(rows, pa.binary())
    texts = [array.cast(pa.binary()) for array in named if _is_text(array.type)]
    return pc.coalesce(*texts) if texts else pa.nulls(rows, pa.binary())


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


def _places(
    plan: RowPlan, splits: Numbers, firsts: npt.NDArray[np.int64], seed: int
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Each row's bucket, and its place in its split."""
    places = np.zeros(len(splits), np.int64)
    buckets = np.zeros(len(splits), np.int64)
    for split, shards in enumerate(plan.split_shards):
        mine = np.flatnonzero(splits == split)
        numbers = firsts[split] + np.arange(len(mine))
        places[mine] = permute(numbers, num_records=shards.num_records, seed=seed)
        stops = [shards.bounds[b.stop_shard] for b in plan.buckets if b.split == split]
        first_bucket = next(n for n, b in enumerate(plan.buckets) if b.split == split)
        buckets[mine] = first_bucket + np.searchsorted(stops, places[mine], side="right")
    return buckets, places


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


def _path(folder: str, number: int) -> str:
    return join(folder, f"frames/{number:06d}.arrow")


def _write_frames(
    folder: str,
    number: int,
    frames: pa.Array,
    names: pa.Array,
    buckets: npt.NDArray[np.int64],
    places: npt.NDArray[np.int64],
) -> None:
    """One record batch a bucket, from the first to the last that the piece has rows for."""
    order = np.lexsort((places, buckets))
    bounds = np.searchsorted(buckets[order], np.arange(buckets.max(initial=0) + 2))
    frames, names = (array.take(pa.array(order)) for array in (frames, names))
    schema = pa.schema([("place", pa.int64()), ("frame", pa.binary()), ("name", pa.binary())])
    batches = [
        pa.RecordBatch.from_arrays(
            [
                pa.array(places[order[start:stop]]),
                *(array.slice(start, stop - start) for array in (frames, names)),
            ],
            schema=schema,
        )
        for start, stop in itertools.pairwise(bounds.tolist())
    ]
    write_batches(_path(folder, number), folder, batches)


def read_frames(folder: str, number: int, bucket: int) -> pa.Array:
    """The batch of a bucket, or None."""
    with open_batches(_path(folder, number)) as reader:
        return reader.get_batch(bucket) if bucket < reader.num_record_batches else None
