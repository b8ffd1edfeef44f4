"""Find the pieces of text inputs: recognise their layout, and have workers cut the tables."""

import dataclasses
import functools
from collections.abc import Sequence

from components.example_gen.input_selection import refuse_overlap
from components.example_gen.settings import TextSettings
from components.inputs.input_table import ExcludedInput
from components.inputs.listing import LayoutInputs
from components.layouts import texts
from components.runtime.runners import Runner, map_tasks
from components.runtime.tasks import Cost, Task
from components.tables.cutting import (
    check_copy,
    copy_path,
    copy_table,
    cut_parts,
    join_parts,
    needs_copy,
    plan_parts,
)
from components.tables.pieces import Piece, TableOptions, select_settings
from components.tables.reading import TableFolder

# Approximate time of one core per byte of a file.
_COPY_SECONDS = 1 / 30e6  # a compressed byte unpacks to several
_CUT_SECONDS = {"parquet": 1 / 2e9, "json": 1 / 10e9}
_CUT_SECONDS_BY_ROWS = 1 / 500e6
_COPY_MEMORY, _CUT_MEMORY = 128 << 20, 256 << 20


def find_pieces(
    inputs: Sequence[LayoutInputs], settings: TextSettings, *, workspace: str, runner: Runner
) -> tuple[list[Piece], list[ExcludedInput]]:
    """Return the pieces of all inputs in order, and the excluded files.

    Args:
        inputs: the inputs, one for each pattern of `input_config`.
        settings: the settings of TextExampleGen.
        workspace: the working folder, where compressed tables are unpacked.
        runner: makes the calls.

    Raises:
        InputError: there are no files of a layout, or a table is malformed.
        ConfigError: a setting does not apply to the layout.
    """
    pieces, excluded = list[Piece](), list[ExcludedInput]()
    files_of_patterns = [texts.find_files(part, settings) for part in inputs]
    names = [
        file.name for files in files_of_patterns for piece in files.pieces for file in piece.files
    ]
    refuse_overlap(
        [*names, *(table.source for files in files_of_patterns for table in files.tables)]
    )
    tables = [table for files in files_of_patterns for table in files.tables]
    sizes = [size for files in files_of_patterns for size in files.sizes]
    cutter = _TableCutter(inputs[0].base, settings, workspace, runner)
    pieces_of = cutter.cut(tables, sizes)
    for files in files_of_patterns:
        pieces += files.pieces
        excluded += files.excluded
        for table in files.tables:
            cut = pieces_of[table.source]
            if isinstance(cut, tuple):
                excluded.append(ExcludedInput(table.source, table.split, *cut))
            else:
                pieces += cut
    return pieces, excluded


class _TableCutter:
    """Cuts tables in the processes of a runner."""

    def __init__(self, base: str, settings: TextSettings, workspace: str, runner: Runner) -> None:
        self._options = select_settings(TableOptions, settings)
        self._place = TableFolder(base, settings.follow_links)
        self._workspace, self._runner = workspace, runner

    def cut(
        self, tables: Sequence[Piece], sizes: Sequence[int]
    ) -> dict[str, list[Piece] | tuple[str, str]]:
        """Return the pieces of each table, or its problem if it cannot be read."""
        copied = self._copy(tables, sizes)
        pieces_by_source: dict[str, list[Piece] | tuple[str, str]] = {}
        wholes, whole_sizes = list[Piece](), list[int]()
        for number, (table, size) in enumerate(zip(tables, sizes, strict=True)):
            size_of_copy = copied.get(number, size)
            if isinstance(size_of_copy, tuple):
                pieces_by_source[table.source] = size_of_copy
                continue
            path = copy_path(self._workspace, number) if number in copied else table.path
            wholes.append(dataclasses.replace(table, path=path))
            whole_sizes.append(size_of_copy)
        tasks = plan_parts(wholes, whole_sizes)
        seconds = sum(
            size * _CUT_SECONDS.get(table.layout, _CUT_SECONDS_BY_ROWS)
            for table, size in zip(wholes, whole_sizes, strict=True)
        )
        cuts = map_tasks(
            functools.partial(cut_parts, self._place, self._options),
            [Task(f"cut-{number:06d}", parts) for number, parts in enumerate(tasks)],
            workspace=self._workspace,
            runner=self._runner.for_preparation(seconds),
            cost=Cost(seconds, _CUT_MEMORY),
            paths=[self._place.base],
            noun="groups of tables",
        )
        for table, pieces in join_parts(self._place, self._options, tasks, cuts):
            pieces_by_source[table.source] = pieces
        return pieces_by_source

    def _copy(
        self, tables: Sequence[Piece], sizes: Sequence[int]
    ) -> dict[int, int | tuple[str, str]]:
        """Copy tables that are compressed or in another encoding; return the copies' sizes."""
        numbers = [
            number
            for number, table in enumerate(tables)
            if needs_copy(table.path, table.layout, self._options)
        ]
        seconds = sum(sizes[number] for number in numbers) * _COPY_SECONDS
        copied = map_tasks(
            functools.partial(copy_table, self._place, self._options, self._workspace),
            [
                Task(f"copy-{number:06d}", (number, tables[number].path, tables[number].layout))
                for number in numbers
            ],
            workspace=self._workspace,
            runner=self._runner.for_preparation(seconds),
            cost=Cost(seconds, _COPY_MEMORY),
            paths=[self._place.base],
            noun="copies of tables",
            check=functools.partial(check_copy, self._workspace),
        )
        return dict(copied)
