"""Lays out the shards: what the columns are, and the split and place of every row.

plan = plan_rows(
    pieces, reports, [], folder=folder, partition=None, settings=settings, deduplicate=False
)
plan.buckets[0]          # the shards that one worker writes together
"""

import dataclasses
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from components.common.entry import Column, ExcludedInput
from components.example_gen.assignment import EXCLUDED, Numbers
from components.example_gen.partition import Partition
from components.example_gen.plan import Plan, SplitShards, lay_out_shards
from components.example_gen.row_assignment import RowAssignment
from components.example_gen.row_columns import decide_columns, labels_of
from components.example_gen.row_inspection import PieceReport
from components.example_gen.settings import ExampleGenSettings
from components.tables.pieces import Piece
from components.tables.vocabularies import make_vocabularies
from trainer_utils.format.framing import RECORD_OVERHEAD_BYTES
from trainer_utils.format.naming import check_feature_names
from trainer_utils.storage import join, make_folder, read_bytes, write_atomically

__all__ = ["BUCKET_BYTES", "Bucket", "RowPlan", "plan_rows", "read_assignment"]

BUCKET_BYTES = 128 << 20  # that are put in order at a time; about three times that in memory
_ENTRY_BYTES = 14  # of a feature beside its name and its values
_ID_BYTES = 40


@dataclasses.dataclass(frozen=True)
class Bucket:
    """Consecutive shards of a split, `first_shard` to before `stop_shard`, put in order at once."""

    split: int
    first_shard: int
    stop_shard: int


@dataclasses.dataclass(frozen=True, kw_only=True)
class RowPlan(Plan):
    """The whole of the work on rows.

    Args:
        buckets: by split and shard.
        first_records: of each piece, the number of its first row in its source.
        row_bytes: about how long a record is.
        excluded: files that are not read.
    """

    buckets: tuple[Bucket, ...]
    first_records: tuple[int, ...]
    row_bytes: float
    excluded: tuple[ExcludedInput, ...] = ()


def plan_rows(
    pieces: Sequence[Piece],
    reports: Sequence[PieceReport],
    excluded: Sequence[ExcludedInput],
    *,
    folder: str,
    partition: Partition | None,
    settings: ExampleGenSettings,
    deduplicate: bool,
) -> RowPlan:
    """Lays out all shards, and keeps each piece's splits as a file for the workers.

    Args:
        partition: the splits that output_config asks for, or None for those that the inputs name,
            or else train and eval, 2:1.
        deduplicate: whether rows whose text came before are skipped.

    Raises:
        InputError: a value is not what its column holds, or a row names a split that is none.
        ConfigError: a setting names no column, or contradicts the inputs.
    """
    columns = decide_columns(pieces, reports, settings)
    check_feature_names(column.name for column in columns)
    vocabularies = make_vocabularies(labels_of(columns, reports), given=settings.vocabularies)
    assignment = RowAssignment(
        pieces,
        reports,
        columns,
        vocabularies,
        folder=folder,
        partition=partition,
        settings=settings,
        deduplicate=deduplicate,
    )
    rules = assignment.rules
    counts = np.zeros(len(rules.splits), np.int64)
    make_folder(join(folder, "splits"))
    for number, splits in enumerate(assignment.of_pieces()):
        _write_assignment(folder, number, counts, splits)
        counts += np.bincount(splits, minlength=EXCLUDED)[: len(counts)]
    rejects, skipped = rules.count_excluded(excluded)
    row_bytes = _bytes_per_row(reports, columns)
    shards = lay_out_shards(
        (
            (name, count, int(row_bytes * count))
            for name, count in zip(rules.splits, counts.tolist(), strict=True)
        ),
        target_shard_bytes=settings.target_shard_bytes,
    )
    return RowPlan(
        columns=columns,
        vocabularies=vocabularies,
        split_shards=shards,
        buckets=tuple(b for n, s in enumerate(shards) for b in _buckets(n, s, row_bytes)),
        rejects=(*assignment.rejects, *rejects),
        skipped=dict(assignment.skipped + skipped),
        found=sum(report.found for report in reports) + len(excluded),
        first_records=tuple(assignment.first_records),
        row_bytes=row_bytes,
        excluded=tuple(excluded),
    )


def _bytes_per_row(reports: Sequence[PieceReport], columns: Sequence[Column]) -> float:
    """About how long a record is: its values, the names of its features, its frame; in bytes."""
    rows = sum(report.kept for report in reports)
    values = sum(facts.bytes for report in reports for facts in report.facts.values())
    names = sum(len(column.name) + _ENTRY_BYTES for column in columns)
    return values / max(1, rows) + names + _ID_BYTES + RECORD_OVERHEAD_BYTES


def _buckets(number: int, split: SplitShards, bytes_per_row: float) -> list[Bucket]:
    """Groups shards as long as they fit; a larger shard is a bucket by itself."""
    buckets, first = [], 0
    for stop in range(1, split.num_shards + 1):
        with_next = split.bounds[min(stop + 1, split.num_shards)] - split.bounds[first]
        if stop == split.num_shards or with_next * bytes_per_row > BUCKET_BYTES:
            buckets.append(Bucket(number, first, stop))
            first = stop
    return buckets


def _write_assignment(
    folder: str,
    number: int,
    firsts: npt.NDArray[np.int64],
    splits: Numbers,
) -> None:
    path = join(folder, f"splits/{number:06d}")
    with write_atomically(path, temporary_folder=folder) as stream:
        stream.write(len(firsts).to_bytes(2, "little") + firsts.astype("<i8").tobytes())
        stream.write(splits.astype("<u2").tobytes())


def read_assignment(folder: str, number: int) -> tuple[npt.NDArray[np.int64], Numbers]:
    """Of a piece: how many rows each split has before it, and the number of each row's split."""
    data = read_bytes(join(folder, f"splits/{number:06d}"))
    stop = 2 + 8 * int.from_bytes(data[:2], "little")
    return np.frombuffer(data[2:stop], "<i8"), np.frombuffer(data[stop:], "<u2")
