"""The runner's part of rows: a call is some pieces of the inputs, or one bucket of the shards.

inspect_pieces(make_pipeline, inspect, pieces)
write_rows(make_pipeline, encode, gather, pieces, base="reviews/")
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import apache_beam as beam
from apache_beam.pvalue import PBegin, PCollection

from components.common.side_by_side import (
    ByElement,
    CallFn,
    Cost,
    InProcessPipeline,
    run_elements,
)
from components.common.worker_pool import run_all
from components.example_gen.row_encoding import EncodePieces
from components.example_gen.row_inspection import InspectPieces
from components.example_gen.row_pieces import PieceWork, group_pieces
from components.example_gen.row_plan import BUCKET_BYTES
from components.example_gen.row_shards import GatherBucket
from components.tables.pieces import Piece

__all__ = ["inspect_pieces", "write_rows"]

# An encoding adds to each: a terabyte in pieces of 16 MiB comes to a million of tiny elements.
_MOST_GATES = 64
# What one core takes for a byte of the inputs in each of the steps, about.
_INSPECT_SECONDS, _ENCODE_SECONDS, _GATHER_SECONDS = 1 / 150e6, 1 / 100e6, 1 / 400e6
_PIECE_MEMORY, _BUCKET_MEMORY = 1 << 29, 4 * BUCKET_BYTES  # of one call


def inspect_pieces(make_pipeline: Any, inspect: InspectPieces, pieces: Sequence[Piece]) -> None:
    """Reads every piece, which `write_pieces` has kept; its rows and a report of them are left."""
    pipeline = make_pipeline()
    if isinstance(pipeline, InProcessPipeline):
        _call_here(pipeline, inspect, pieces, inspect.base, seconds=_INSPECT_SECONDS)
    else:
        run_elements(pipeline, ByElement(inspect, group_pieces(len(pieces))))


def _call_here(
    pipeline: InProcessPipeline,
    work: PieceWork,
    pieces: Sequence[Piece],
    base: str,
    *,
    seconds: float,
) -> None:
    """Works on all pieces in this process by threads, or in several, each on a piece at a time."""
    cost = Cost(len(pieces), seconds * _total_bytes(pieces), _PIECE_MEMORY)
    processes = pipeline.count_processes(cost, (base, work.uri))
    groups = [[number] for number in range(len(pieces))]
    if processes == 1:
        groups = group_pieces(len(pieces))
    run_all(work, groups, processes=processes)


def write_rows(
    make_pipeline: Any,
    encode: EncodePieces,
    gather: GatherBucket,
    pieces: Sequence[Piece],
    *,
    base: str,
) -> None:
    """Encodes every piece, and when all are, writes every bucket's shards: side effects."""
    pipeline = make_pipeline()
    if not isinstance(pipeline, InProcessPipeline):
        with pipeline:
            _ = pipeline | _WriteRows(encode, gather)
        return
    _call_here(pipeline, encode, pieces, base, seconds=_ENCODE_SECONDS)
    buckets = range(len(gather.plan.buckets))
    cost = Cost(len(buckets), _GATHER_SECONDS * _total_bytes(pieces), _BUCKET_MEMORY)
    run_all(gather, buckets, processes=pipeline.count_processes(cost, (base, gather.uri)))


def _total_bytes(pieces: Sequence[Piece]) -> int:
    return sum(piece.size for piece in pieces)


class _WriteRows(beam.PTransform[PBegin, PCollection[None]]):
    """Buckets wait behind a few gates, each a key that every encoding adds to.

    It is grouped when all are done. A side input would make them wait as well, but DaskRunner
    works that out anew for every bucket.
    """

    def __init__(self, encode: EncodePieces, gather: GatherBucket) -> None:
        super().__init__()
        self._groups, self._gates = group_pieces(gather.pieces), _gates(len(gather.plan.buckets))
        self._encode, self._gather = _EncodeFn(encode, gates=len(self._gates)), CallFn(gather)

    def expand(self, begin: PBegin) -> PCollection[None]:
        """The output holds nothing."""
        encoded = (
            begin
            | "CreatePieces" >> beam.Create(self._groups)
            | "EncodePieces" >> beam.ParDo(self._encode)
        )
        waiting = begin | "CreateBuckets" >> beam.Create(self._gates)
        done: PCollection[None] = (
            (encoded, waiting)
            | "Wait" >> beam.Flatten()
            | "WaitForPieces" >> beam.GroupByKey()
            | "OpenGates" >> beam.ParDo(_OpenGateFn())  # type: ignore[no-untyped-call]
            | "SpreadBuckets" >> beam.Reshuffle()
            | "GatherBuckets" >> beam.ParDo(self._gather)
        )
        return done


def _gates(buckets: int) -> list[tuple[int, list[int]]]:
    """The numbers of all buckets, each behind one of the gates."""
    gates = min(buckets, _MOST_GATES)
    return [(gate, [*range(gate, buckets, gates)]) for gate in range(gates)]


@beam.typehints.with_input_types(list[int])
@beam.typehints.with_output_types(tuple[int, list[int]])
class _EncodeFn(beam.DoFn):
    def __init__(self, encode: EncodePieces, *, gates: int) -> None:
        self._encode, self._gates = encode, gates

    def process(self, numbers: list[int]) -> Iterator[tuple[int, list[int]]]:
        self._encode(numbers)
        for gate in range(self._gates):
            yield gate, []


@beam.typehints.with_input_types(tuple[int, Iterable[list[int]]])
@beam.typehints.with_output_types(int)
class _OpenGateFn(beam.DoFn):
    def process(self, element: tuple[int, Iterable[list[int]]]) -> Iterator[int]:
        for buckets in element[1]:
            yield from buckets
