"""Decides what the columns of all pieces are, and the ids of their labels.

columns = decide_columns(pieces, reports, settings)     # (Column(name='stars', kind='float'), …)
"""

import collections
import os
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from components.common.listing import Column
from components.example_gen.inspection import PieceReport, text_columns
from components.example_gen.vocabularies import check_vocabulary
from components.tables.kinds import decide
from components.tables.pieces import MAX_COLUMNS, Piece
from components.text_example_gen.settings import TextSettings
from trainer_utils.format import ConfigError, InputError

__all__ = ["decide_columns", "label_ids", "running", "split_column", "vocabularies_of"]

_SPLIT_NAMES = ("split", "ml_use")


def decide_columns(
    pieces: Sequence[Piece], reports: Sequence[PieceReport], settings: TextSettings
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
    for name, kind in settings.columns.items():
        if name not in names and kind != "ignore":
            raise ConfigError(
                f"columns: expected columns of the inputs ({', '.join(names)}), got {name!r}"
            )
    texts = text_columns(names, settings)
    split = split_column(reports, settings)
    firsts = running([report.found for report in reports], pieces)

    def place(number: int, record: int) -> str:
        return f"{pieces[number].source}, row {firsts[number] + record + 1}"

    decided = [
        decide(
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


def _names(reports: Sequence[PieceReport]) -> list[str]:
    return list(dict.fromkeys(name for report in reports for name in report.facts))


def split_column(reports: Sequence[PieceReport], settings: TextSettings) -> str | None:
    """The column that says each row's split, if there is one.

    Raises:
        ConfigError: `columns` names two.
    """
    given = [name for name, kind in settings.columns.items() if kind == "split"]
    if len(given) > 1:
        raise ConfigError(f"columns: expected one 'split', got {', '.join(given)}")
    if given:
        return given[0]
    free = {n.lower(): n for n in reversed(_names(reports)) if n not in settings.columns}
    return next((free[name] for name in _SPLIT_NAMES if name in free), None)


def running(counts: Sequence[int], pieces: Sequence[Piece]) -> list[int]:
    """How much of its source comes before each piece."""
    before: collections.Counter[str] = collections.Counter()
    sums = []
    for count, piece in zip(counts, pieces, strict=True):
        sums.append(before[piece.source])
        before[piece.source] += count
    return sums


def vocabularies_of(
    columns: Sequence[Column], reports: Sequence[PieceReport], settings: TextSettings
) -> dict[str, tuple[str, ...]]:
    """The vocabulary of each column of labels: as given, or its values, sorted.

    Raises:
        ConfigError: one is given for no such column.
        InputError: a label cannot be a line of a file.
    """
    labels = sorted(column.name for column in columns if column.kind == "label")
    for name in settings.vocabularies:
        if name not in labels:
            raise ConfigError(
                f"vocabulary[{name!r}]: expected a feature of labels "
                f"({', '.join(labels) or 'there is none'})"
            )
    vocabularies = {}
    for name in labels:
        values = {value for report in reports for value in report.labels.get(name, ())}
        own = tuple(sorted(values, key=os.fsencode))
        vocabularies[name] = settings.vocabularies.get(name, own)
        check_vocabulary(name, vocabularies[name])
    return vocabularies


def label_ids(array: Any, vocabulary: Sequence[str]) -> Any:
    """Texts, or lists of them, as places in a vocabulary; null where it lacks one."""
    values = pa.array(vocabulary, pa.string())
    if pa.types.is_list(array.type):
        ids = pc.index_in(array.values, value_set=values).cast(pa.int64())
        return pa.ListArray.from_arrays(array.offsets, ids)
    return pc.index_in(array, value_set=values, skip_nulls=True).cast(pa.int64())
