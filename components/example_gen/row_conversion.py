"""Examples that are rows of tables, or texts: read once, and laid out a batch at a time."""

import abc
import dataclasses
import functools
from collections.abc import Sequence

import numpy as np

from components.common.entry import ExcludedInput
from components.common.layout_inputs import LayoutInputs
from components.common.tasks import Cost, Runner, Task, map_tasks
from components.common.workspace import remove_dataset, start_working
from components.example_gen.conversion import Conversion, check_outcome
from components.example_gen.features import features_of_rows
from components.example_gen.fingerprint import fingerprint_of_rows
from components.example_gen.inputs import InputSelection, layout_inputs, refuse_overlap
from components.example_gen.partition import EXCLUDED
from components.example_gen.plan import Written, sum_label_counts
from components.example_gen.row_encoding import PieceRows, encode_piece, gather_shards
from components.example_gen.row_inspection import PieceReport, inspect_piece
from components.example_gen.row_plan import BUCKET_BYTES, RowPlan, plan_rows
from components.example_gen.settings import ExampleGenSettings
from components.shuffle.external import ExternalShuffle
from components.shuffle.layout import Cells, plan_tasks
from components.tables.delimited import check_agreement
from components.tables.pieces import Piece, TableOptions, select_settings
from components.tables.texts import TextRules
from components.tables.tokenizing import load_tokenizer
from trainer_utils.format import Shard
from trainer_utils.writing.publishing import working_folder
from trainer_utils.writing.shards import verify_shard

# What one core takes for a byte of the inputs in each of the steps, about.
_INSPECT_SECONDS, _ENCODE_SECONDS, _GATHER_SECONDS = 1 / 150e6, 1 / 100e6, 1 / 400e6
_PIECE_MEMORY, _BUCKET_MEMORY = 1 << 29, 4 * BUCKET_BYTES  # of one call


class RowConversion(Conversion[RowPlan]):
    """The conversion of rows. No Python object is made for one.

    Without a runner rows are read in this process, and nothing is written but a plan.
    """

    workers_module = "example_gen.row_encoding"
    sees_siblings = False
    pieces: list[Piece]

    def __init__(
        self, settings: ExampleGenSettings, selection: InputSelection, runner: Runner | None
    ) -> None:
        named = getattr(settings, "tokenizer", None)  # which is there, or nothing is read
        self._tokenizer_digest = load_tokenizer(named).spec.tokenizer if named else ""
        super().__init__(settings, selection, runner)
        self._options = select_settings(TableOptions, settings)
        self._rules = select_settings(TextRules, settings)
        self._reports: list[PieceReport] = []

    @abc.abstractmethod
    def find_pieces(
        self, inputs: LayoutInputs, *, folder: str
    ) -> tuple[list[Piece], list[ExcludedInput]]:
        """Recognises the layout and cuts the files into pieces; `folder` is for copies in UTF-8."""

    @property
    def digest_of_files(self) -> str:
        """Of the tokenizer, where there is one."""
        return self._tokenizer_digest

    def plan(self, uri: str) -> RowPlan:
        """Reads every row once, and lays out the shards."""
        # A setting may be for other columns: what is there stays.
        start_working(uri, key=self.key(), keeps_dataset=True)
        self.pieces, excluded = self._find_all_pieces(uri)
        self._num_bytes = sum(piece.size for piece in self.pieces)
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
        folder, base = working_folder(uri), self.located.base
        return map_tasks(
            functools.partial(inspect_piece, base, folder, self._options, self._rules),
            [
                Task(f"inspect-{number:06d}", (number, piece), 1, piece.size)
                for number, piece in enumerate(self.pieces)
            ],
            workspace=folder,
            runner=self._runner,
            cost=Cost(_INSPECT_SECONDS * self._num_bytes, _PIECE_MEMORY),
            paths=[base],
            unit="pieces",
        )

    def check(self, plan: RowPlan, uri: str) -> None:
        """Refuses too many rejects: all are known before anything is written."""
        check_outcome(self, plan, plan.rejects, written=plan.num_records, uri=uri)

    def write(self, plan: RowPlan, uri: str) -> Written:
        """Encodes all rows, puts them in order, writes the shards and reads them back."""
        remove_dataset(uri)
        shuffles = []
        for layout in plan.layouts:
            cells = Cells(layout, int(plan.row_bytes * layout.num_records))
            tasks = plan_tasks(layout, cells, memory_bytes=BUCKET_BYTES)
            shuffles.append(ExternalShuffle(uri=uri, layout=layout, tasks=tasks))
        light = dataclasses.replace(plan, rejects=(), excluded=(), assigned=())
        buckets = [(split, n) for split, one in enumerate(shuffles) for n in range(len(one.tasks))]
        encoded = map_tasks(
            functools.partial(encode_piece, working_folder(uri), light, shuffles),
            self._encoding_tasks(plan),
            workspace=working_folder(uri),
            runner=self._runner,
            cost=Cost(_ENCODE_SECONDS * self._num_bytes, _PIECE_MEMORY),
            unit="rows",
        )
        gathered: list[list[Shard]] = map_tasks(
            functools.partial(gather_shards, shuffles),
            [Task(f"gather-{split}-{n:06d}", (split, n)) for split, n in buckets],
            workspace=working_folder(uri),
            runner=self._runner,
            cost=Cost(_GATHER_SECONDS * self._num_bytes, _BUCKET_MEMORY),
            check=functools.partial(_check_shards, uri),
        )
        return Written(
            shards=tuple(shard for shards in gathered for shard in shards),
            features=features_of_rows(plan, encoded),
            label_counts=sum_label_counts(
                (split, labels) for report in encoded for split, labels in report.labels.items()
            ),
            fingerprint=fingerprint_of_rows(
                self.located, self.pieces, self._reports, plan.excluded
            ),
        )

    def _encoding_tasks(self, plan: RowPlan) -> list[Task]:
        tasks, firsts = [], np.zeros(len(plan.splits), np.int64)
        of_pieces = zip(self.pieces, self._reports, plan.assigned, strict=True)
        for number, (piece, report, splits) in enumerate(of_pieces):
            rows = PieceRows(number, piece, report.names, splits, tuple(firsts.tolist()))
            tasks.append(Task(f"encode-{number:06d}", rows, report.kept, piece.size))
            firsts += np.bincount(splits, minlength=EXCLUDED)[: len(firsts)]
        return tasks


def _check_shards(uri: str, shards: Sequence[Shard]) -> None:
    for shard in shards:
        verify_shard(shard, uri=uri)


def _sources(pieces: Sequence[Piece]) -> list[str]:
    return sorted({piece.source for piece in pieces if piece.source})
