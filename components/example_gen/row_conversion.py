"""Examples that are rows of tables, or texts: read once, and laid out a batch at a time."""

import abc
import functools
from collections.abc import Sequence

import numpy as np

from components.common.entry import ExcludedInput
from components.common.layout_inputs import LayoutInputs
from components.common.tasks import Cost, Runner, Task, map_tasks
from components.common.workspace import remove_dataset, start_working
from components.example_gen.conversion import Conversion
from components.example_gen.fingerprint import fingerprint_of_rows
from components.example_gen.inputs import InputSelection, layout_inputs, refuse_overlap
from components.example_gen.plan import EXCLUDED, Written
from components.example_gen.row_pieces import (
    PieceReport,
    PieceRows,
    encode_piece,
    gather_shards,
    inspect_piece,
)
from components.example_gen.row_plan import RowPlan, plan_rows
from components.example_gen.settings import ExampleGenSettings
from components.shuffle.external import ExternalShuffle
from components.shuffle.layout import plan_tasks
from components.tables.headers import check_agreement
from components.tables.pieces import Piece, TableOptions, select_settings
from components.tables.texts import TextRules
from components.tables.tokenizing import load_tokenizer
from trainer_utils.format import Shard
from trainer_utils.writing.publishing import working_folder
from trainer_utils.writing.shards import verify_shard

BUCKET_BYTES = 128 << 20  # that are put in order at a time; about twice that in memory
# What one core takes for a byte of the inputs in each of the steps, about.
_INSPECT_SECONDS, _ENCODE_SECONDS, _GATHER_SECONDS = 1 / 150e6, 1 / 100e6, 1 / 400e6
_PIECE_MEMORY, _BUCKET_MEMORY = 1 << 29, 4 * BUCKET_BYTES  # of one call


class RowConversion(Conversion[RowPlan]):
    """The conversion of rows. No Python object is made for one.

    Without a runner rows are read in this process, and nothing is written but a plan.
    """

    workers_module = "example_gen.row_pieces"
    sees_siblings = False
    pieces: list[Piece]

    def __init__(
        self, settings: ExampleGenSettings, selection: InputSelection, runner: Runner | None
    ) -> None:
        named = getattr(settings, "tokenizer", None)  # which is there, or nothing is read
        self.digest_of_files = load_tokenizer(named).spec.tokenizer if named else ""
        super().__init__(settings, selection, runner)
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
        # A setting may be for other columns: what is there stays.
        start_working(uri, key=self.key(), keeps_dataset=True)
        self.pieces, excluded = self._find_all_pieces(uri)
        self._num_bytes = sum(piece.size for piece in self.pieces)
        folder, base = working_folder(uri), self.located.base
        self._reports = map_tasks(
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
        return plan_rows(
            self.pieces,
            self._reports,
            excluded,
            folder=folder,
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

    def check(self, plan: RowPlan, uri: str) -> None:
        """Refuses too many rejects: all are known before anything is written."""
        self.check_outcome(plan, plan.rejects, written=plan.num_records, uri=uri)

    def write(self, plan: RowPlan, uri: str) -> Written:
        """Encodes all rows, puts them in order, writes the shards and reads them back."""
        remove_dataset(uri)
        shuffles = []
        for layout in plan.layouts:
            tasks = plan_tasks(layout, plan.row_bytes, memory_bytes=BUCKET_BYTES)
            shuffles.append(ExternalShuffle(uri=uri, layout=layout, tasks=tasks))
        folder, encodings, firsts = working_folder(uri), [], np.zeros(len(plan.splits), np.int64)
        of_pieces = zip(self.pieces, self._reports, plan.first_records, plan.assigned, strict=True)
        for number, (piece, report, first, splits) in enumerate(of_pieces):
            before = tuple(firsts.tolist())
            rows = PieceRows(number, piece.source, report.names, first, splits, before)
            encodings.append(Task(f"encode-{number:06d}", rows, report.kept, piece.size))
            firsts += np.bincount(splits, minlength=EXCLUDED)[: len(firsts)]
        how = plan.columns, plan.vocabularies, plan.tokens
        encoded = map_tasks(
            functools.partial(encode_piece, folder, *how, shuffles),
            encodings,
            workspace=folder,
            runner=self._runner,
            cost=Cost(_ENCODE_SECONDS * self._num_bytes, _PIECE_MEMORY),
            unit="rows",
        )
        gathered: list[list[Shard]] = map_tasks(
            functools.partial(gather_shards, shuffles),
            [
                Task(f"gather-{split}-{n:06d}", (split, n))
                for split, one in enumerate(shuffles)
                for n in range(len(one.tasks))
            ],
            workspace=folder,
            runner=self._runner,
            cost=Cost(_GATHER_SECONDS * self._num_bytes, _BUCKET_MEMORY),
            check=functools.partial(_check_shards, uri),
        )
        return Written(
            shards=tuple(shard for shards in gathered for shard in shards),
            features=plan.features(encoded),
            label_counts=[counts for report in encoded for counts in report.labels],
            fingerprint=fingerprint_of_rows(
                self.located, self.pieces, self._reports, plan.excluded
            ),
        )


def _check_shards(uri: str, shards: Sequence[Shard]) -> None:
    for shard in shards:
        verify_shard(shard, uri=uri)


def _sources(pieces: Sequence[Piece]) -> list[str]:
    return sorted({piece.source for piece in pieces if piece.source})
