"""The steps of TextExampleGen: inspect the rows, put them in order, and write them as shards."""

import concurrent.futures
import functools
from collections.abc import Sequence

import numpy as np

from components.common.entry import Blob, ExcludedInput, sum_blobs
from components.common.layout_inputs import LayoutInputs
from components.common.tasks import Cost, Runner, Task, map_tasks
from components.common.workspace import prepare_workspace, remove_dataset
from components.example_gen.conversion import READERS, Conversion
from components.example_gen.inputs import InputSelection, layout_inputs, refuse_overlap
from components.example_gen.plan import EXCLUDED, Written
from components.example_gen.row_pieces import (
    PieceReport,
    PieceRows,
    divide_runs,
    encode_pieces,
    gather_shards,
    inspect_piece,
)
from components.example_gen.row_plan import RowPlan, RowPlanner
from components.example_gen.settings import TextSettings
from components.layouts import texts
from components.layouts.registry import all_layouts, find_layout
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
from trainer_utils.storage.file_system import join, problem_of
from trainer_utils.writing.publishing import verify_shard, working_folder

BUCKET_BYTES = 144 << 20  # sorted at once: more than a shard of the default size
_RUNS = 32  # for conversions of up to 4 GiB, so that pieces of runs have at least 1 MiB
# Approximate time of one core per input byte, and per row, in each of the steps.
_INSPECT_SECONDS, _ENCODE_SECONDS, _GATHER_SECONDS = 1 / 150e6, 1 / 100e6, 1 / 400e6
_INSPECT_ROW_SECONDS, _ENCODE_ROW_SECONDS, _GATHER_ROW_SECONDS = 0.8e-6, 1.6e-6, 0.6e-6
_PIECE_MEMORY, _BUCKET_MEMORY = 1 << 29, 4 * BUCKET_BYTES  # bytes, for one call
_BLOCK_BYTES = 4 << 20


class TextConversion(Conversion[RowPlan]):
    """The conversion of text, and of tables without files, that creates no Python object per row.

    Without a runner, rows are read in this process, and the conversion only plans.
    """

    unit, media = "texts", "text"
    sees_siblings = False
    settings: TextSettings
    pieces: list[Piece]

    def __init__(
        self, settings: TextSettings, selection: InputSelection, runner: Runner | None
    ) -> None:
        self._token_spec: TokenSpec | None = None
        if settings.tokenizer:  # fail before reading anything if it is missing
            self._token_spec = load_tokenizer(settings.tokenizer).spec
            self.digest_of_files = (
                self._token_spec.tokenizer + load_template(settings.tokenizer).digest
            )
        super().__init__(settings, selection, runner)
        self._options = select_settings(TableOptions, settings)
        self._rules = select_settings(TextRules, settings)
        self._reports: list[PieceReport] = []

    @property
    def packages(self) -> set[str]:  # noqa: D102
        packages = super().packages | {"numpy", "pyarrow"}
        if self.settings.tokenizer:
            packages.add(tokenizer_package(self.settings.tokenizer))
        return packages

    def custom_layout(self) -> str | None:
        """Return the custom layout that the inputs have by its own detection, if any."""
        if self.settings.layout != "auto" or not any(one.custom for one in all_layouts("text")):
            return None
        layouts = {find_layout(inputs) for inputs in self.inputs()}
        names = {one.name for one in layouts if one.custom is not None}
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
        self._reports = map_tasks(
            functools.partial(inspect_piece, base, folder, self._options, self._rules),
            [
                Task(f"inspect-{number:06d}", (number, piece), 1, piece.size)
                for number, piece in enumerate(self.pieces)
            ],
            workspace=folder,
            runner=self._runner,
            cost=Cost(inspect_seconds, _PIECE_MEMORY),
            paths=[base],
            unit="pieces",
            noun="pieces",
        )
        partition = self.selection.partition
        planner = RowPlanner(
            self.pieces,
            self._reports,
            folder=folder,
            partition=partition,
            settings=self.settings,
            token_spec=self._token_spec,
        )
        return planner.plan(excluded)

    def _find_all_pieces(self, uri: str) -> tuple[list[Piece], list[ExcludedInput]]:
        pieces, excluded, sources = list[Piece](), list[ExcludedInput](), list[str]()
        for inputs in self.inputs():
            some, others = texts.find_pieces(inputs, self.settings, folder=working_folder(uri))
            sources += sorted({piece.source for piece in some if piece.source})
            sources += [name for piece in some for name, *_ in piece.details.get("files", ())]
            pieces += some
            excluded += others
        refuse_overlap(sources)
        excluded += self.skipped_files()
        if not self._options.header:
            headers = {p.source: p.details for p in pieces if p.details.get("header")}
            check_agreement(
                {source: details["names"] for source, details in headers.items()},
                shown=[s for s, details in headers.items() if details["header"] == "shown"],
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
        folder, encodings, firsts = working_folder(uri), [], np.zeros(len(plan.splits), np.int64)
        num_rows = plan.num_records
        of_pieces = zip(self.pieces, self._reports, plan.first_records, plan.assigned, strict=True)
        for number, (piece, report, first, splits) in enumerate(of_pieces):
            before = tuple(firsts.tolist())
            rows = PieceRows(number, piece.source, report.names, first, splits, before)
            encodings.append(Task(f"encode-{number:06d}", rows, report.kept, piece.size))
            firsts += np.bincount(splits, minlength=EXCLUDED)[: len(firsts)]
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
        gathered: list[list[Shard]] = map_tasks(
            functools.partial(gather_shards, shuffles),
            [
                Task(f"gather-{split}-{n:06d}", (split, n))
                for split, one in enumerate(shuffles)
                for n in range(len(one.tasks))
            ],
            workspace=folder,
            runner=self._runner,
            cost=Cost(
                _GATHER_SECONDS * self._num_bytes + _GATHER_ROW_SECONDS * num_rows, _BUCKET_MEMORY
            ),
            noun="groups of shards",
            check=functools.partial(_check_shards, uri),
        )
        reports = [report for some in encoded for report in some]
        return Written(
            shards=tuple(shard for shards in gathered for shard in shards),
            features=plan.features(reports),
            label_counts=[counts for report in reports for counts in report.labels],
            fingerprint=self._fingerprint(plan),
        )

    def _divide_runs(self, shuffles: Sequence[ExternalShuffle], folder: str) -> None:
        """Divide the runs of large splits until each piece is one cell."""
        for level in range(1, 1 + max((len(one.divisions) for one in shuffles), default=0)):
            deep = [n for n, one in enumerate(shuffles) if len(one.divisions) >= level]
            map_tasks(
                functools.partial(divide_runs, shuffles),
                [
                    Task(f"divide-{split}-{level}-{index:06d}", (split, level, index))
                    for split in deep
                    for _, index in shuffles[split].divisions[level - 1]
                ],
                workspace=folder,
                runner=self._runner,
                cost=Cost(_GATHER_SECONDS * self._num_bytes, _BUCKET_MEMORY),
                noun="groups of runs",
            )
            for split in deep:
                shuffles[split].remove_runs(level)

    def _fingerprint(self, plan: RowPlan) -> str:
        """Return the fingerprint of the source files, independent of how they were divided."""
        files: dict[Blob, int | None] = {}
        parts: dict[str, list[tuple[int, int, int]]] = {}  # first byte, bytes, CRC-32C
        for piece, report in zip(self.pieces, self._reports, strict=True):
            if piece.layout == "folder":
                names = [Blob(name, size) for name, size, _ in piece.details["files"]]
                files |= dict(zip(names, report.sums, strict=True))
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
                problem_of(error, path)  # raises if it is a fault of the machine
                return None
            return crc

        blobs = [Blob(path, self.size_of(path) or 0) for path in parts]
        with concurrent.futures.ThreadPoolExecutor(READERS) as pool:
            files |= dict(zip(blobs, pool.map(whole, blobs), strict=True))
        return f"{sum_blobs(files.items()):032x}"


def _grouped(encodings: Sequence[Task], *, row_bytes: float, run_bytes: int) -> list[Task]:
    """Join the encoding of neighbouring pieces into tasks that write about one run each."""
    groups: list[list[Task]] = []
    size = 0.0
    for task in encodings:
        if not groups or size >= run_bytes:
            groups.append([])
            size = 0.0
        groups[-1].append(task)
        size += task.records * row_bytes
    return [
        Task(
            some[0].name,
            [task.argument for task in some],
            sum(task.records for task in some),
            sum(task.bytes for task in some),
        )
        for some in groups
    ]


def _check_shards(uri: str, shards: Sequence[Shard]) -> None:
    for shard in shards:
        verify_shard(shard, uri=uri)
