"""Beam's part: one element is some pieces of the inputs, or one bucket of the shards.

pipeline | InspectPieces(inspect, len(pieces))
pipeline | WriteRows(plan, len(pieces), uri=uri, settings=settings)
"""

import dataclasses
import json
from collections.abc import Iterable, Iterator

import apache_beam as beam
from apache_beam.pvalue import PBegin, PCollection

from components.common.summaries import check_shared, working_folder, write_summary
from components.example_gen.row_encoding import encode_piece
from components.example_gen.row_pieces import (
    InspectPieceGroup,
    group_pieces,
    read_piece_file,
    summary_name,
    work_on_pieces,
)
from components.example_gen.row_plan import RowPlan
from components.example_gen.row_shards import gather_bucket
from components.example_gen.settings import ExampleGenSettings
from trainer_utils.storage.files import read_text
from trainer_utils.storage.paths import join

__all__ = ["InspectPieces", "WriteRows"]

# An encoding adds to each: a terabyte in pieces of 16 MiB comes to a million of tiny elements.
_MOST_GATES = 64


class InspectPieces(beam.PTransform[PBegin, PCollection[None]]):
    """Reads every piece, and leaves its rows and a report of them in the working folder.

    Args:
        inspect: what reads some of them.
        count: of the pieces, which `write_pieces` has kept.
    """

    def __init__(self, inspect: InspectPieceGroup, count: int) -> None:
        super().__init__()
        self._groups, self._fn = group_pieces(count), _InspectFn(inspect)

    def expand(self, begin: PBegin) -> PCollection[None]:
        """Rows and reports are side effects; the output holds nothing."""
        done: PCollection[None] = (
            begin
            | "CreatePieces" >> beam.Create(self._groups)
            | "InspectPieces" >> beam.ParDo(self._fn)
        )
        return done


@beam.typehints.with_input_types(list[int])
class _InspectFn(beam.DoFn):
    def __init__(self, inspect: InspectPieceGroup) -> None:
        self._inspect = inspect

    def process(self, numbers: list[int]) -> None:
        self._inspect(numbers)


class WriteRows(beam.PTransform[PBegin, PCollection[None]]):
    """Encodes every piece, and when all are, writes every bucket's shards.

    Buckets wait behind a few gates, each a key that every encoding adds to: it is grouped when all
    are done. A side input would make them wait as well, but DaskRunner works that out anew for
    every bucket.
    """

    def __init__(
        self, plan: RowPlan, pieces: int, *, uri: str, settings: ExampleGenSettings
    ) -> None:
        super().__init__()
        plan = dataclasses.replace(plan, rejects=(), excluded=())
        self._groups, self._gates = group_pieces(pieces), _gates(len(plan.buckets))
        self._encode = _EncodeFn(plan, uri, settings, gates=len(self._gates))
        self._gather = _GatherFn(plan, pieces, uri, settings)

    def expand(self, begin: PBegin) -> PCollection[None]:
        """Shards and reports are side effects; the output holds nothing."""
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
    def __init__(
        self, plan: RowPlan, uri: str, settings: ExampleGenSettings, *, gates: int
    ) -> None:
        self._plan, self._uri, self._settings, self._gates = plan, uri, settings, gates

    def process(self, numbers: list[int]) -> Iterator[tuple[int, list[int]]]:
        check_shared(self._uri)
        work_on_pieces(self._encode, numbers)
        for gate in range(self._gates):
            yield gate, []

    def _encode(self, number: int) -> None:
        folder = working_folder(self._uri)
        inspected = json.loads(
            read_text(join(folder, f"summaries/{summary_name('inspect', number)}.json"))
        )
        report = encode_piece(
            read_piece_file(self._uri, number),
            number=number,
            names=inspected["names"],
            plan=self._plan,
            seed=self._settings.seed,
            folder=folder,
        )
        write_summary(folder, summary_name("encode", number), dataclasses.asdict(report))


@beam.typehints.with_input_types(tuple[int, Iterable[list[int]]])
@beam.typehints.with_output_types(int)
class _OpenGateFn(beam.DoFn):
    def process(self, element: tuple[int, Iterable[list[int]]]) -> Iterator[int]:
        for buckets in element[1]:
            yield from buckets


@beam.typehints.with_input_types(int)
class _GatherFn(beam.DoFn):
    def __init__(self, plan: RowPlan, pieces: int, uri: str, settings: ExampleGenSettings) -> None:
        self._plan, self._pieces, self._uri, self._settings = plan, pieces, uri, settings
        self._rows = beam.metrics.Metrics.counter("tfx_shards", "records_written")

    def process(self, number: int) -> None:
        check_shared(self._uri)
        shards = gather_bucket(
            number,
            plan=self._plan,
            pieces=self._pieces,
            uri=self._uri,
            gzip=self._settings.gzip,
        )
        self._rows.inc(sum(shard.records for shard in shards))
        summary = {"shards": [dataclasses.asdict(shard) for shard in shards]}
        write_summary(working_folder(self._uri), summary_name("gather", number), summary)
