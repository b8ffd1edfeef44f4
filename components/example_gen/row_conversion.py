"""Examples that are rows of tables, or texts: read once, and laid out a batch at a time.

class TextConversion(RowConversion):
    unit = "texts"
"""

import abc
import dataclasses
from collections.abc import Sequence

from components.common.entry import ExcludedInput
from components.common.layout_inputs import LayoutInputs
from components.common.progress import Work, show_progress
from components.common.summaries import (
    read_finished,
    remove_dataset,
    start_working,
    working_folder,
)
from components.common.tasks import Runner
from components.common.worker_errors import raising_reported
from components.example_gen.conversion import Conversion
from components.example_gen.features import features_of_rows
from components.example_gen.fingerprint import fingerprint_of_rows
from components.example_gen.inputs import InputSelection, layout_inputs, refuse_overlap
from components.example_gen.outcome import check_outcome
from components.example_gen.plan import Written, sum_label_counts
from components.example_gen.row_encoding import EncodePieces, EncodingReport
from components.example_gen.row_inspection import InspectPieces, PieceReport
from components.example_gen.row_pieces import group_pieces, summary_name, write_pieces
from components.example_gen.row_plan import RowPlan, plan_rows
from components.example_gen.row_shards import GatherBucket
from components.example_gen.settings import ExampleGenSettings
from components.tables.headers import check_agreement
from components.tables.options import TableOptions, select_settings
from components.tables.pieces import Piece
from components.tables.texts import TextRules
from trainer_utils.format import Shard

__all__ = ["RowConversion"]


class RowConversion(Conversion[RowPlan]):
    """The conversion of rows. No Python object is made for one.

    Without a Beam pipeline rows are read in this process, and nothing is written but a plan.

    Attributes:
        pieces: of the inputs, once they are planned.
    """

    workers_module = "example_gen.row_shards"
    sees_siblings = False
    pieces: list[Piece]

    def __init__(
        self,
        settings: ExampleGenSettings,
        selection: InputSelection,
        runner: Runner | None,
    ) -> None:
        super().__init__(settings, selection, runner)
        self._make_pipeline = getattr(runner, "make_any", None)
        self._options = select_settings(TableOptions, settings)
        self._rules = select_settings(TextRules, settings)
        self._reports: list[PieceReport] = []

    @abc.abstractmethod
    def find_pieces(
        self, inputs: LayoutInputs, *, folder: str
    ) -> tuple[list[Piece], list[ExcludedInput]]:
        """Recognises the layout and cuts the files into pieces; `folder` is for copies in UTF-8."""

    def plan(self, uri: str) -> RowPlan:
        """Reads every row once, and lays out the shards."""
        start_working(uri, keeps_dataset=True)  # a setting may be for other columns
        self.pieces, excluded = self._find_all_pieces(uri)
        self._reports = self._inspect(uri)
        return plan_rows(
            self.pieces,
            self._reports,
            excluded,
            folder=working_folder(uri),
            partition=self.selection.partition,
            settings=self.settings,
            deduplicate=self._rules.deduplicate,
        )

    def _find_all_pieces(self, uri: str) -> tuple[list[Piece], list[ExcludedInput]]:
        pieces: list[Piece] = []
        excluded: list[ExcludedInput] = []
        for inputs in layout_inputs(self.located, columns=self.settings.columns):
            some, others = self.find_pieces(inputs, folder=working_folder(uri))
            if pieces:
                refuse_overlap([*_sources(pieces), *_sources(some)])
            pieces += some
            excluded += others
        if not self._options.header:
            headers = {p.source: p.details for p in pieces if p.details.get("header")}
            check_agreement(
                {source: details["names"] for source, details in headers.items()},
                shown=[s for s, details in headers.items() if details["header"] == "shown"],
            )
        return pieces, excluded

    def _inspect(self, uri: str) -> list[PieceReport]:
        work = {
            summary_name("inspect", number): Work(1, piece.size)
            for number, piece in enumerate(self.pieces)
        }
        write_pieces(uri, self.pieces)
        inspect = InspectPieces(
            base=self.located.base, uri=uri, options=self._options, rules=self._rules
        )
        with raising_reported(uri), show_progress(uri, work, unit="pieces"):
            self._run_inspection(inspect)
        return [PieceReport.from_json(summary) for summary in read_finished(uri, work)]

    def _run_inspection(self, inspect: InspectPieces) -> None:
        if self._make_pipeline is None:
            for numbers in group_pieces(len(self.pieces)):
                inspect(numbers)
            return
        from components.example_gen.row_transforms import inspect_pieces  # Beam: a plan has none

        inspect_pieces(self._make_pipeline, inspect, self.pieces)

    def check(self, plan: RowPlan, uri: str) -> None:
        """Refuses too many rejects: all are known before anything is written."""
        check_outcome(self, plan, plan.rejects, written=plan.num_records, uri=uri)

    def write(self, plan: RowPlan, uri: str) -> Written:
        """Encodes all rows, puts them in order, writes the shards and reads them back."""
        from components.example_gen.row_transforms import write_rows  # Beam: a plan has none

        assert self._make_pipeline is not None
        remove_dataset(uri)
        work = {
            summary_name("encode", number): Work(report.kept, self.pieces[number].size)
            for number, report in enumerate(self._reports)
        }
        settings, light = self.settings, dataclasses.replace(plan, rejects=(), excluded=())
        encode = EncodePieces(uri=uri, plan=light, seed=settings.seed)
        gather = GatherBucket(plan=light, pieces=len(self.pieces), uri=uri, gzip=settings.gzip)
        with show_progress(uri, work, unit="rows"):
            write_rows(self._make_pipeline, encode, gather, self.pieces, base=self.located.base)
        encoded = [EncodingReport.from_json(report) for report in read_finished(uri, work)]
        buckets = [summary_name("gather", number) for number in range(len(plan.buckets))]
        gathered = read_finished(uri, buckets)
        return Written(
            shards=tuple(Shard(**shard) for bucket in gathered for shard in bucket["shards"]),
            features=features_of_rows(plan, encoded),
            label_counts=sum_label_counts(
                (split, labels) for report in encoded for split, labels in report.labels.items()
            ),
            fingerprint=fingerprint_of_rows(
                self.located, self.pieces, self._reports, plan.excluded
            ),
        )


def _sources(pieces: Sequence[Piece]) -> list[str]:
    return sorted({piece.source for piece in pieces if piece.source})
