"""Beam's part: one element is some pieces of the inputs, or one bucket of the shards.

pipeline | InspectPieces(pieces, base=base, uri=uri, options=options, rules=rules)
pipeline | WriteRows(plan, len(pieces), uri=uri, settings=settings)
"""

import concurrent.futures
import dataclasses
import json
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import apache_beam as beam
import pyarrow as pa
from apache_beam.pvalue import PBegin, PCollection

from components.common.summaries import check_shared, working_folder, write_summary
from components.common.worker_errors import report_errors
from components.example_gen.row_encoding import encode_piece
from components.example_gen.row_inspection import inspect_piece
from components.example_gen.row_plan import RowPlan
from components.example_gen.row_shards import gather_bucket
from components.example_gen.settings import ExampleGenSettings
from components.tables.options import TableOptions
from components.tables.pieces import Piece
from components.tables.texts import TextRules
from trainer_utils.storage.files import read_text, write_text
from trainer_utils.storage.paths import join

__all__ = ["InspectPieces", "WriteRows", "summary_name"]

_GROUP = 4  # pieces that one element stands for; as many threads at the most


def summary_name(step: str, number: int) -> str:
    """What the report of a piece or a bucket is called."""
    return f"{step}-{number:06d}"


def _grouped(count: int) -> list[list[int]]:
    """The numbers of some pieces, in the groups that one worker takes at a time."""
    return [[*range(start, min(start + _GROUP, count))] for start in range(0, count, _GROUP)]


def _side_by_side(work: Callable[[int], None], numbers: Sequence[int]) -> None:
    """Works on pieces in threads: Arrow lets go of the interpreter's lock."""
    with concurrent.futures.ThreadPoolExecutor(min(pa.cpu_count(), _GROUP)) as pool:
        for _ in pool.map(work, numbers):
            pass


def _write_pieces(uri: str, pieces: Sequence[Piece]) -> None:
    """Keeps each piece as a file: thousands of them are too many for the graphs of runners."""
    for number, piece in enumerate(pieces):
        write_text(
            join(working_folder(uri), f"pieces/{number:06d}.json"),
            json.dumps(dataclasses.asdict(piece)),
            temporary_folder=working_folder(uri),
        )


def _read_piece(uri: str, number: int) -> Piece:
    return Piece(**json.loads(read_text(join(working_folder(uri), f"pieces/{number:06d}.json"))))


class InspectPieces(beam.PTransform[PBegin, PCollection[None]]):
    """Reads every piece, and leaves its rows and a report of them in the working folder."""

    def __init__(
        self,
        pieces: Sequence[Piece],
        *,
        base: str,
        uri: str,
        options: TableOptions,
        rules: TextRules,
    ) -> None:
        super().__init__()
        self._groups = _grouped(len(pieces))
        self._fn = _InspectFn(base, uri, options, rules)
        _write_pieces(uri, pieces)

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
    def __init__(self, base: str, uri: str, options: TableOptions, rules: TextRules) -> None:
        self._base, self._uri = base, uri
        self._options, self._rules = options, rules

    def process(self, numbers: list[int]) -> None:
        check_shared(self._uri)
        _side_by_side(self._inspect, numbers)

    def _inspect(self, number: int) -> None:
        name = summary_name("inspect", number)
        folder = working_folder(self._uri)
        with report_errors(self._uri, name):
            report = inspect_piece(
                self._base,
                _read_piece(self._uri, number),
                number=number,
                options=self._options,
                rules=self._rules,
                folder=folder,
            )
            write_summary(folder, name, dataclasses.asdict(report))


class WriteRows(beam.PTransform[PBegin, PCollection[None]]):
    """Encodes every piece, and when all are, writes every bucket's shards."""

    def __init__(
        self, plan: RowPlan, pieces: int, *, uri: str, settings: ExampleGenSettings
    ) -> None:
        super().__init__()
        plan = dataclasses.replace(plan, rejects=(), excluded=())
        self._groups, self._buckets = _grouped(pieces), range(len(plan.buckets))
        self._encode = _EncodeFn(plan, uri, settings)
        self._gather = _GatherFn(plan, pieces, uri, settings)

    def expand(self, begin: PBegin) -> PCollection[None]:
        """Shards and reports are side effects; the output holds nothing."""
        encoded = (
            begin
            | "CreatePieces" >> beam.Create(self._groups)
            | "EncodePieces" >> beam.ParDo(self._encode)
        )
        done: PCollection[None] = (
            begin
            | "CreateBuckets" >> beam.Create(self._buckets)
            # The side input makes this wait until every piece has been encoded.
            | "GatherBuckets" >> beam.ParDo(self._gather, encoded=beam.pvalue.AsList(encoded))
        )
        return done


@beam.typehints.with_input_types(list[int])
@beam.typehints.with_output_types(int)
class _EncodeFn(beam.DoFn):
    def __init__(self, plan: RowPlan, uri: str, settings: ExampleGenSettings) -> None:
        self._plan, self._uri, self._settings = plan, uri, settings

    def process(self, numbers: list[int]) -> Iterator[int]:
        check_shared(self._uri)
        _side_by_side(self._encode, numbers)
        yield len(numbers)

    def _encode(self, number: int) -> None:
        folder = working_folder(self._uri)
        inspected = json.loads(
            read_text(join(folder, f"summaries/{summary_name('inspect', number)}.json"))
        )
        report = encode_piece(
            _read_piece(self._uri, number),
            number=number,
            names=inspected["names"],
            plan=self._plan,
            seed=self._settings.seed,
            folder=folder,
        )
        write_summary(folder, summary_name("encode", number), dataclasses.asdict(report))


class _GatherFn(beam.DoFn):
    def __init__(self, plan: RowPlan, pieces: int, uri: str, settings: ExampleGenSettings) -> None:
        self._plan, self._pieces, self._uri, self._settings = plan, pieces, uri, settings
        self._rows = beam.metrics.Metrics.counter("tfx_shards", "records_written")

    def process(self, number: int, encoded: Any) -> None:
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
