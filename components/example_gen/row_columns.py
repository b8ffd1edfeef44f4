"""Decides what the columns of all pieces are, and the ids of their labels.

columns = decide_columns(pieces, reports, settings)     # (Column(name='stars', kind='float'), …)
"""

import collections
from collections.abc import Mapping, Sequence

from absl import logging

from components.common.entry import Column
from components.example_gen.row_inspection import PieceReport
from components.example_gen.settings import ExampleGenSettings
from components.tables.kinds import check_columns, decide_column
from components.tables.pieces import MAX_COLUMNS, Piece
from components.tables.splits import split_column
from components.tables.texts import text_columns
from trainer_utils.format import InputError
from trainer_utils.format.errors import did_you_mean


def decide_columns(
    pieces: Sequence[Piece], reports: Sequence[PieceReport], settings: ExampleGenSettings
) -> tuple[Column, ...]:
    """What becomes a feature, in the order of the inputs.

    Raises:
        ConfigError: `columns` names one that is not there.
        InputError: a value is not of its column's kind, with column and row in the message, or
            there are too many columns.
    """
    names = _names(reports)
    if len(names) > MAX_COLUMNS:
        raise InputError(
            f"columns: expected at most {MAX_COLUMNS}, got {len(names)}, such as "
            f"{', '.join(map(repr, names[-3:]))}. Objects whose keys are values should be lists, "
            "or be left out: columns={'<name>': 'ignore'}."
        )
    check_columns(settings.columns, names, of="the inputs")
    _warn_of_ignored(settings.columns, pieces)
    texts = text_columns(names, settings.columns)
    split = own_split_column(reports, settings.columns)
    firsts = count_before([report.found for report in reports], pieces)

    def place(number: int, record: int) -> str:
        return f"{pieces[number].source}, row {firsts[number] + record + 1}"

    decided = [
        decide_column(
            name,
            [(n, report.facts[name]) for n, report in enumerate(reports) if name in report.facts],
            given=settings.columns.get(name),
            is_text=name in texts,
            place=place,
        )
        for name in names
        if name != split
    ]
    return tuple(column for column in decided if column is not None)


def _warn_of_ignored(given: Mapping[str, str], pieces: Sequence[Piece]) -> None:
    """Names columns that were to be left out and are not there, so that another may still be.

    Only headers are known: of other tables nothing is read of a column that is ignored.
    """
    if not all("names" in piece.details for piece in pieces):
        return
    there = dict.fromkeys(name for piece in pieces for name in piece.details["names"])
    for name, kind in given.items():
        if kind == "ignore" and name not in there:
            logging.warning(
                "columns names %r to be ignored, and no table has such a column: it changed "
                "nothing.%s",
                name,
                did_you_mean(name, there),
            )


def _names(reports: Sequence[PieceReport]) -> list[str]:
    return list(dict.fromkeys(name for report in reports for name in report.facts))


def own_split_column(reports: Sequence[PieceReport], given: Mapping[str, str]) -> str | None:
    """The column that says each row's split, if there is one.

    Raises:
        ConfigError: `given` names two.
    """

    def words_of(name: str) -> set[str]:
        return {value for report in reports for value in report.labels.get(name, ())}

    return split_column(_names(reports), given=given, words_of=words_of)


def count_before(counts: Sequence[int], pieces: Sequence[Piece]) -> list[int]:
    """How much of its source comes before each piece."""
    before: collections.Counter[str] = collections.Counter()
    sums = []
    for count, piece in zip(counts, pieces, strict=True):
        sums.append(before[piece.source])
        before[piece.source] += count
    return sums


def labels_of(columns: Sequence[Column], reports: Sequence[PieceReport]) -> dict[str, set[str]]:
    """The labels that occur, by column of labels."""
    names = sorted(column.name for column in columns if column.kind == "label")
    return {
        name: {value for report in reports for value in report.labels.get(name, ())}
        for name in names
    }
