"""The steps of TextExampleGen: inspect the rows, put them in order, and write them as shards."""

import concurrent.futures
import functools
from collections.abc import Callable, Sequence

import numpy as np

from components.example_gen.conversion import READERS, Conversion
from components.example_gen.input_selection import InputSelection, layout_inputs
from components.example_gen.plan import Written
from components.example_gen.row_columns import (
    InspectedPieces,
    decide_columns,
    warn_of_unlike_tables,
)
from components.example_gen.row_pieces import (
    PieceReport,
    PieceRows,
    divide_runs,
    encode_pieces,
    gather_shards,
    inspect_pieces,
)
from components.example_gen.row_plan import RowPlan, RowPlanner, decide_splits
from components.example_gen.row_splits import (
    PieceToAssign,
    assign_pieces,
)
from components.example_gen.settings import TextSettings
from components.example_gen.text_pieces import find_pieces
from components.inputs.fingerprint import sum_blobs
from components.inputs.input_table import Blob, ExcludedInput
from components.inputs.listing import LayoutInputs
from components.layouts.registry import all_layouts, find_layout
from components.runtime.runners import Runner, map_tasks
from components.runtime.tasks import Cost, Result, Task
from components.runtime.workspace import prepare_workspace, remove_dataset
from components.shuffle.external import HELD_TIMES, ExternalShuffle, plan_tasks
from components.tables.chats import load_template
from components.tables.column_roles import TextRules
from components.tables.delimited import check_agreement
from components.tables.pieces import PIECE_BYTES, Piece, TableOptions, select_settings
from components.tables.tokenizing import load_tokenizer, tokenizer_package
from trainer_utils.format import Shard
from trainer_utils.format.tensors import TokenSpec
from trainer_utils.format.tfrecord import combine_crc32c, extend_crc32c
from trainer_utils.storage import open_for_reading
from trainer_utils.storage.host_errors import raise_host_error
from trainer_utils.storage.paths import join
from trainer_utils.writing.shards import verify_shard
from trainer_utils.writing.working_folder import working_folder

BUCKET_BYTES = 144 << 20  # sorted at once: more than a shard of the default size
_RUNS = 32  # for conversions of up to 4 GiB, so that pieces of runs have at least 1 MiB
# Approximate time of one core per input byte, and per row, in each of the steps.
_INSPECT_SECONDS, _ENCODE_SECONDS, _GATHER_SECONDS = 1 / 150e6, 1 / 100e6, 1 / 400e6
_INSPECT_ROW_SECONDS, _ENCODE_ROW_SECONDS, _GATHER_ROW_SECONDS = 0.8e-6, 1.6e-6, 0.6e-6
_ASSIGN_SECONDS, _ASSIGN_ROW_SECONDS = 0.5e-3, 0.1e-6  # per piece and per row
# Neighbouring parts of a row group that are read together. More of them would read fewer bytes, as
# each task reads from the beginning of the row group, but keep other processes waiting.
_PARTS_OF_TASK = 8
_PIECES_OF_TASK = 64  # whose rows are assigned to splits together
_PIECE_MEMORY, _BUCKET_MEMORY = 1 << 29, 4 * BUCKET_BYTES  # bytes, for one call
_BLOCK_BYTES = 4 << 20


class TextConversion(Conversion[RowPlan]):
    """The conversion of text, and of tables without files, that creates no Python object per row.

    Without a runner, rows are read in this process, and the conversion only plans.
    """

    unit, media = "texts", "text"
    sees_siblings = False
    byte_seconds = _INSPECT_SECONDS + _ENCODE_SECONDS
    settings: TextSettings
    pieces: list[Piece]

    def __init__(
        self, settings: TextSettings, selection: InputSelection, runner: Runner | None
    ) -> None:
        super().__init__(settings, selection, runner)
        self._options = select_settings(TableOptions, settings)
        self._rules = select_settings(TextRules, settings)
        self._reports: list[PieceReport] = []
        self._token_spec: TokenSpec | None = None  # set by `check_settings` if there is a tokenizer

    def check_settings(self) -> None:
        """Load the tokenizer, so that a missing one is reported before anything is read."""
        if self.settings.tokenizer:
            self._token_spec = load_tokenizer(self.settings.tokenizer).spec

    @functools.cached_property
    def digest_of_files(self) -> str:
        """Digest of the tokenizer, of its template for chats, and of custom layouts' code."""
        digest = super().digest_of_files
        if self.settings.tokenizer and self._token_spec:
            template = load_template(self.settings.tokenizer)
            digest = self._token_spec.tokenizer + template.digest + digest
        return digest

    @property
    def packages(self) -> set[str]:  # noqa: D102
        packages = super().packages | {"numpy", "pyarrow"}
        if self.settings.tokenizer:
            packages.add(tokenizer_package(self.settings.tokenizer))
        return packages

    def custom_layout(self) -> str | None:
        """Return the custom layout that the inputs have by its own detection, if any."""
        if self.settings.layout != "auto" or not any(
            layout.custom for layout in all_layouts("text")
        ):
            return None
        layouts = {find_layout(inputs) for inputs in self.inputs()}
        names = {layout.name for layout in layouts if layout.custom is not None}
        return names.pop() if len(names) == len(layouts) == 1 else None

    def inputs(self) -> list[LayoutInputs]:
        """Return the inputs of the layout, one for each pattern of `input_config`."""
        return layout_inputs(
            self.located,
            columns=self.settings.columns,
            media=self.media,
            follow_links=self.settings.follow_links,
            layout=self.settings.layout,
        )

    def is_source_file(self, path: str) -> bool:
        """Return whether a single file is a source of examples, which any file is."""
        return bool(path)

    def plan(self, uri: str) -> RowPlan:
        """Read every row once, and lay out the shards."""
        # Keep the existing dataset: a setting may turn out to be wrong for these columns.
        prepare_workspace(uri, key=self.key(), keeps_dataset=True)
        self.pieces, excluded = self._find_all_pieces(uri)
        self._num_bytes = sum(piece.size for piece in self.pieces)
        num_rows = sum(piece.rows for piece in self.pieces)
        inspect_seconds = _INSPECT_SECONDS * self._num_bytes + _INSPECT_ROW_SECONDS * num_rows
        folder, base = working_folder(uri), self.located.base
        inspected_in_tasks = map_tasks(
            functools.partial(inspect_pieces, base, folder, self._options, self._rules),
            [
                Task(
                    f"inspect-{group[0][0]:06d}",
                    group,
                    len(group),
                    sum(piece.size for _, piece in group),
                )
                for group in _with_neighbours(self.pieces)
            ],
            workspace=folder,
            runner=self._runner,
            cost=Cost(inspect_seconds, _PIECE_MEMORY),
            paths=[base],
            unit="pieces",
            noun="pieces",
        )
        self._reports = [report for reports in inspected_in_tasks for report in reports]
        inspected = InspectedPieces.of(self.pieces, self._reports)
        warn_of_unlike_tables(inspected)
        columns = decide_columns(inspected, self.settings)
        decisions = decide_splits(
            inspected,
            columns,
            folder=folder,
            partition=self.selection.partition,
            settings=self.settings,
        )
        planner = RowPlanner(
            inspected,
            columns,
            decisions,
            folder=folder,
            settings=self.settings,
            token_spec=self._token_spec,
        )
        pieces = planner.pieces_to_assign()
        map_pieces = functools.partial(self._map_pieces, folder)
        assign = functools.partial(assign_pieces, folder, decisions)
        assigned = [
            assignment for group in map_pieces("assign", assign, pieces) for assignment in group
        ]
        return planner.plan(excluded, pieces, assigned, map_pieces=map_pieces)

    def _map_pieces(
        self,
        folder: str,
        step: str,
        function: Callable[[Sequence[PieceToAssign]], Result],
        pieces: Sequence[PieceToAssign],
    ) -> list[Result]:
        """Call a function with groups of neighbouring pieces, and return the results in order."""
        num_rows = sum(report.found for report in self._reports)
        seconds = _ASSIGN_SECONDS * len(pieces) + _ASSIGN_ROW_SECONDS * num_rows
        groups = [
            [*pieces[first : first + _PIECES_OF_TASK]]
            for first in range(0, len(pieces), _PIECES_OF_TASK)
        ]
        return map_tasks(
            function,
            [Task(f"{step}-{number:06d}", group) for number, group in enumerate(groups)],
            workspace=folder,
            runner=self._runner.for_preparation(seconds),
            cost=Cost(seconds, _PIECE_MEMORY),
            noun="groups of pieces",
        )

    def _find_all_pieces(self, uri: str) -> tuple[list[Piece], list[ExcludedInput]]:
        """Return the pieces of all inputs, and the inputs left out; check that headers agree."""
        pieces, excluded = find_pieces(
            self.inputs(), self.settings, workspace=working_folder(uri), runner=self._runner
        )
        excluded += self.skipped_files()
        if not self._options.header:
            headers = {
                piece.source: piece.header
                for piece in pieces
                if piece.header and piece.header.certainty
            }
            check_agreement(
                {source: header.names for source, header in headers.items()},
                shown=[s for s, header in headers.items() if header.certainty == "shown"],
            )
        return pieces, excluded

    def write(self, plan: RowPlan, uri: str) -> Written:
        """Encode all rows, put them in order, write the shards and read them back."""
        # All rejects are known before anything is written.
        records = {layout.split: layout.num_records for layout in plan.layouts}
        self.check_outcome(plan, plan.rejects, written=records, uri=uri)
        remove_dataset(uri)
        shuffles = []
        for layout in plan.layouts:
            tasks = plan_tasks(layout, plan.row_bytes, memory_bytes=BUCKET_BYTES)
            shuffles.append(
                ExternalShuffle(uri=uri, layout=layout, tasks=tasks, run_bytes=BUCKET_BYTES)
            )
        folder, num_rows = working_folder(uri), plan.num_records
        encodings: list[Task[PieceRows]] = []
        before = np.cumsum(plan.counts, axis=0) - plan.counts
        of_pieces = zip(self.pieces, self._reports, plan.first_records, before, strict=True)
        for number, (piece, report, first, firsts) in enumerate(of_pieces):
            splits = plan.splits_of
            earlier = tuple(firsts.tolist())
            rows = PieceRows(number, piece.source, report.names, first, splits, earlier)
            encodings.append(Task(f"encode-{number:06d}", rows, report.kept, piece.size))
        how = plan.columns, plan.vocabularies, plan.tokens
        num_bytes = int(plan.row_bytes * plan.num_records)
        run_bytes = min(max(num_bytes // _RUNS, PIECE_BYTES), BUCKET_BYTES)
        encoded = map_tasks(
            functools.partial(encode_pieces, folder, *how, shuffles),
            _grouped(encodings, row_bytes=plan.row_bytes, run_bytes=run_bytes),
            workspace=folder,
            runner=self._runner,
            cost=Cost(
                _ENCODE_SECONDS * self._num_bytes + _ENCODE_ROW_SECONDS * num_rows,
                _PIECE_MEMORY + HELD_TIMES * run_bytes,
            ),
            unit="rows",
            noun="runs",
        )
        self._divide_runs(shuffles, folder)
        gathered = map_tasks(
            functools.partial(gather_shards, shuffles),
            [
                Task(f"gather-{split}-{n:06d}", (split, n))
                for split, shuffle in enumerate(shuffles)
                for n in range(len(shuffle.tasks))
            ],
            workspace=folder,
            runner=self._runner,
            cost=Cost(
                _GATHER_SECONDS * self._num_bytes + _GATHER_ROW_SECONDS * num_rows, _BUCKET_MEMORY
            ),
            noun="groups of shards",
            check=functools.partial(_check_shards, uri),
        )
        reports = [report for reports in encoded for report in reports]
        return Written(
            shards=tuple(shard for shards in gathered for shard in shards),
            features=plan.features(reports),
            label_counts=[counts for report in reports for counts in report.labels],
            fingerprint=self._fingerprint(plan),
        )

    def _divide_runs(self, shuffles: Sequence[ExternalShuffle], folder: str) -> None:
        """Divide the runs of large splits, level by level, until each piece fits into memory."""
        levels = [len(shuffle.divisions) for shuffle in shuffles]
        for level in range(1, 1 + max(levels, default=0)):
            splits = [split for split, depth in enumerate(levels) if depth >= level]
            map_tasks(
                functools.partial(divide_runs, shuffles),
                [
                    Task(f"divide-{split}-{level}-{index:06d}", (split, level, index))
                    for split in splits
                    for _, index in shuffles[split].divisions[level - 1]
                ],
                workspace=folder,
                runner=self._runner,
                cost=Cost(_GATHER_SECONDS * self._num_bytes, _BUCKET_MEMORY),
                noun="groups of runs",
            )
            for split in splits:
                shuffles[split].remove_runs(level)

    def _fingerprint(self, plan: RowPlan) -> str:
        """Return the fingerprint of the source files, independent of how they were divided."""
        files: dict[Blob, int | None] = {}
        parts: dict[str, list[tuple[int, int, int]]] = {}  # first byte, bytes, CRC-32C
        for piece, report in zip(self.pieces, self._reports, strict=True):
            if piece.layout == "folder":
                blobs = [Blob(file.name, file.size) for file in piece.files]
                files |= dict(zip(blobs, report.sums, strict=True))
            else:
                parts.setdefault(piece.source, []).extend(tuple(part) for part in report.sums)
        lost = [blob for blob, crc in files.items() if crc is None]
        unread = {blob: self.size_of(blob.path) is not None for blob in lost}
        files |= self.sums_of_unread(plan.excluded, unread)

        def whole(blob: Blob) -> int | None:
            """Return the CRC-32C of a file with known parts; None if the rest is unreadable."""
            crc = at = 0
            path = join(self.located.base, blob.path)
            try:
                for start, length, known in [*sorted(parts[blob.path]), (blob.size, 0, 0)]:
                    if start > at:  # for example a header
                        with open_for_reading(path) as stream:
                            stream.seek(at)
                            while at < start and (
                                block := stream.read(min(_BLOCK_BYTES, start - at))
                            ):
                                crc, at = extend_crc32c(crc, block), at + len(block)
                    crc, at = combine_crc32c(crc, known, length), start + length
            except OSError as error:
                raise_host_error(error, path)
                return None
            return crc

        blobs = [Blob(path, self.size_of(path) or 0) for path in parts]
        with concurrent.futures.ThreadPoolExecutor(READERS) as pool:
            files |= dict(zip(blobs, pool.map(whole, blobs), strict=True))
        return f"{sum_blobs(files.items()):032x}"


def _with_neighbours(pieces: Sequence[Piece]) -> list[list[tuple[int, Piece]]]:
    """Return numbered pieces by task: neighbouring parts of one row group share a task."""
    groups: list[list[tuple[int, Piece]]] = []
    for number, piece in enumerate(pieces):
        last = groups[-1][-1][1] if groups else None
        is_neighbour = (
            last is not None
            and last.row_range is not None
            and piece.row_range is not None
            and (last.source, last.start) == (piece.source, piece.start)
        )
        if not is_neighbour or len(groups[-1]) == _PARTS_OF_TASK:
            groups.append([])
        groups[-1].append((number, piece))
    return groups


def _grouped(
    encodings: Sequence[Task[PieceRows]], *, row_bytes: float, run_bytes: int
) -> list[Task[list[PieceRows]]]:
    """Join the encoding of neighbouring pieces into tasks that write about one run each."""
    groups: list[list[Task[PieceRows]]] = []
    size = 0.0
    for task in encodings:
        if not groups or size >= run_bytes:
            groups.append([])
            size = 0.0
        groups[-1].append(task)
        size += task.records * row_bytes
    return [
        Task(
            group[0].name,
            [task.argument for task in group],
            sum(task.records for task in group),
            sum(task.bytes for task in group),
        )
        for group in groups
    ]


def _check_shards(uri: str, shards: Sequence[Shard]) -> None:
    for shard in shards:
        verify_shard(shard, uri=uri)
