"""Decide the columns of rows, from the reports about all pieces."""

import collections
import dataclasses
from collections.abc import Collection, Mapping, Sequence

from absl import logging

from components.example_gen.row_pieces import PieceReport
from components.example_gen.settings import TextSettings
from components.inputs.advice import how_to_set
from components.inputs.input_table import Column, label_column
from components.tables.column_roles import make_vocabularies, split_column, text_columns
from components.tables.column_types import check_columns, decide_column, list_of_text
from components.tables.hub import check_class_names
from components.tables.json_rows import cure_by_json
from components.tables.pieces import MAX_COLUMNS, Piece
from components.tables.several_labels import find_several_labels
from trainer_utils.core.errors import InputError
from trainer_utils.format.naming import check_feature_names
from trainer_utils.storage import display_path


@dataclasses.dataclass(frozen=True, kw_only=True)
class InspectedPieces:
    """All pieces of a run with the reports about them, and sums over earlier pieces."""

    pieces: Sequence[Piece]
    reports: Sequence[PieceReport]
    first_records: Sequence[int]  # number of rows of the same source before each piece
    lines_before: Sequence[int]  # number of line ends of the same source before each piece

    @classmethod
    def of(cls, pieces: Sequence[Piece], reports: Sequence[PieceReport]) -> "InspectedPieces":
        """Add up the rows and lines of the pieces."""
        return cls(
            pieces=pieces,
            reports=reports,
            first_records=_count_before([report.found for report in reports], pieces),
            lines_before=_count_before([report.lines for report in reports], pieces),
        )

    @property
    def names(self) -> list[str]:
        """The names of all columns, in the order of the inputs."""
        return [*dict.fromkeys(name for report in self.reports for name in report.facts)]

    @property
    def chats(self) -> set[str]:
        """The names of columns with chats."""
        return {name for report in self.reports for name in report.chats}

    def words(self) -> dict[str, set[str]]:
        """Return the distinct values of columns that may be labels or splits, by column."""
        words: dict[str, set[str]] = collections.defaultdict(set)
        for report in self.reports:
            for name, values in report.labels.items():
                words[name].update(values)
        return words


_LIKE = 0.5  # tables of one kind have at least this share of their columns in common


def warn_of_unlike_tables(inspected: InspectedPieces) -> None:
    """Log a warning if tables of one split mostly have different columns.

    Examples are `test.csv` and `test_labels.csv`, and reviews next to the businesses they are of.
    """
    columns: dict[tuple[str | None, str], set[str]] = collections.defaultdict(set)
    for piece, report in zip(inspected.pieces, inspected.reports, strict=True):
        columns[piece.split, piece.source].update(report.facts)
    first_of: dict[str | None, str] = {}
    for (split, source), names in columns.items():
        first = first_of.setdefault(split, source)
        others = columns[split, first]
        mine, theirs = sorted(names - others), sorted(others - names)
        if not mine or not theirs or len(names & others) >= _LIKE * len(names | others):
            continue
        shared = sorted(names & others)
        join = f"join them first (both have {shared[0]!r})" if shared else "join them first"
        logging.warning(
            "%r and %r are read as one table%s, but only the first has %r and only the second %r: "
            "the examples of each lack the columns of the other. If their rows describe the same "
            "things, %s. To leave one out: %s",
            *(display_path(first), display_path(source)),
            *(f" of the split {split!r}" if split else "", theirs[0], mine[0], join),
            how_to_set(ignore=[display_path(source)]),
        )
        return


@dataclasses.dataclass(frozen=True, kw_only=True)
class RowColumns:
    """The columns of rows, and their roles."""

    names: Sequence[str]  # all columns, in the order of the inputs
    texts: Sequence[str]  # columns with the texts
    split_column: str | None  # the column that names the split of each row, if any
    features: tuple[Column, ...]  # columns that become features
    vocabularies: dict[str, tuple[str, ...]]  # by feature; a value's index is its id

    @property
    def labels(self) -> list[Column]:
        """The features whose values become ids of a vocabulary."""
        return [column for column in self.features if column.kind == "label"]

    @property
    def label(self) -> Column | None:
        """The label whose classes are counted and kept in proportion, if any."""
        place = label_column(self.features)
        return None if place is None else self.features[place]


def decide_columns(inspected: InspectedPieces, settings: TextSettings) -> RowColumns:
    """Decide the columns and their types.

    Raises:
        ConfigError: a setting names no column, or does not fit one.
        InputError: a column has values that no feature can store.
    """
    names, words = inspected.names, inspected.words()
    texts = text_columns(names, settings.columns)
    split = split_column(names, given=settings.columns, words_of=words.__getitem__)
    class_names = _agreed_class_names(inspected)
    features = _decide_features(inspected, settings, texts, split, class_names)
    _check_chats(inspected, settings)
    labels = sorted(column.name for column in features if column.kind == "label")
    by_files = {name: class_names[name] for name in labels if name in class_names}
    declared = {*by_files, *settings.columns, *settings.vocabularies}
    for column in features:
        if column.kind == "label" and not column.is_list and column.name not in declared:
            _refuse_several_labels(column.name, words[column.name])
    are_lists = {column.name for column in features if column.is_list}
    vocabularies = make_vocabularies(
        {
            name: _labels_of_lists(words[name]) if name in are_lists else words[name]
            for name in labels
        },
        given=by_files | settings.vocabularies,
    )
    return RowColumns(
        names=names,
        texts=texts,
        split_column=split,
        features=features,
        vocabularies=vocabularies,
    )


def _labels_of_lists(words: Collection[str]) -> set[str]:
    """Return the labels in lists of labels, which a CSV has as JSON: `["cat", "dog"]`."""
    labels: set[str] = set()
    for word in words:
        values = list_of_text(word)
        labels.update([word] if values is None else map(str, values))
    return labels


def _refuse_several_labels(name: str, labels: Collection[str]) -> None:
    """Raise an InputError if a value looks like several labels instead of one class."""
    several = find_several_labels(sorted(labels))
    if several is not None:
        raise InputError(
            f"column {name!r}: {several[0]!r} looks like several labels. Write the labels of each "
            'row as a JSON list, such as ["a", "b"]; keep the text: '
            f"{how_to_set(columns={name: 'string'})}; or read each value as one label: "
            f"{how_to_set(columns={name: 'label'})}."
        )


def _agreed_class_names(inspected: InspectedPieces) -> dict[str, tuple[str, ...]]:
    """Return the names of classes by column, after checking that all files agree."""
    classes: dict[str, dict[str, tuple[str, ...]]] = {}
    columns: dict[str, set[str]] = collections.defaultdict(set)
    for report, piece in zip(inspected.reports, inspected.pieces, strict=True):
        classes.setdefault(piece.source, {}).update(report.class_names)
        columns[piece.source] |= report.facts.keys()
    check_class_names(classes, having=columns)
    return {name: names for of in classes.values() for name, names in of.items()}


def _check_chats(inspected: InspectedPieces, settings: TextSettings) -> None:
    """Raise InputError if a column has chats in some pieces and other values in others."""
    for name in inspected.chats - settings.columns.keys():
        for report, piece in zip(inspected.reports, inspected.pieces, strict=True):
            if name in report.facts and report.facts[name].values and name not in report.chats:
                rule = f"chats in column {name!r}, as in other files"
                cure = cure_by_json(name)
                raise InputError.at(piece.source, expected=rule, got="others", advice=cure)


def _decide_features(
    inspected: InspectedPieces,
    settings: TextSettings,
    texts: Sequence[str],
    split: str | None,
    class_names: Mapping[str, Sequence[str]],
) -> tuple[Column, ...]:
    """Return the columns that become features, in the order of the inputs."""
    names = inspected.names
    if len(names) > MAX_COLUMNS:
        raise InputError(
            f"columns: expected at most {MAX_COLUMNS}, got {len(names)}, such as "
            f"{', '.join(map(repr, names[-3:]))}. Keep an object with any number of keys as "
            f"JSON, such as {how_to_set(columns={names[-1].split('.')[0]: 'json'})}."
        )
    check_columns(settings.columns, names, of="the inputs")

    def place(number: int, record: int) -> str:
        first = inspected.first_records[number]
        return f"{inspected.pieces[number].source}, row {first + record + 1}"

    reports = [*enumerate(inspected.reports)]
    decided = [
        decide_column(
            name,
            [(n, report.facts[name]) for n, report in reports if name in report.facts],
            declared=settings.columns.get(name, "label" if name in class_names else None),
            is_text=name in texts,
            place=place,
        )
        for name in names
        if name != split
    ]
    columns = tuple(column for column in decided if column is not None)
    check_feature_names(column.name for column in columns)
    return columns


def _count_before(counts: Sequence[int], pieces: Sequence[Piece]) -> list[int]:
    """Return the sum of the counts of earlier pieces of the same source, for each piece."""
    before: collections.Counter[str] = collections.Counter()
    sums = []
    for count, piece in zip(counts, pieces, strict=True):
        sums.append(before[piece.source])
        before[piece.source] += count
    return sums
