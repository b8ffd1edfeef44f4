"""Convert the rows of a list to examples: labels, boxes, captions, and several rows per file.

rows = ListRows.of(table, roles, inputs)      # columns and a value for each row
rows = rows.grouped(keys, how="auto")         # a row for each file
"""

import dataclasses
import re
from collections.abc import Hashable, Mapping, Sequence
from typing import Any

from absl import logging

from components.inputs.advice import how_to_set
from components.inputs.input_table import Column, Value
from components.inputs.listing import LayoutInputs
from components.inputs.rejects import RejectedInputError
from components.layouts.boxes import (
    BOX_COLUMNS,
    IN_PIXELS,
    SIZE_COLUMNS,
    box_values,
    check_relative_box,
    claimed_size,
    relative_box,
)
from components.layouts.list_boxes import BoxColumns, RowBoxes, find_box_columns, read_boxes
from components.layouts.list_table import ListTable
from components.tables.column_types import LABEL_NAMES
from components.tables.several_labels import find_several_labels
from trainer_utils.core.errors import InputError

_MISSING_CLASS = "-1"
_WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
_WHOLE_FLOAT = re.compile(r"[+-]?\d+\.0*")
_WHOLE = re.compile(r"[+-]?\d+(\.0*)?")
_BOX_LABELS = ("name", "object", "species", "type", "tag")


def is_label_name(name: str) -> bool:
    """Return whether a column is named after labels, such as `label` or `Finding Labels`."""
    words = [word.lower() for word in _WORDS.findall(name)]
    if words and words[-1] in ("name", "names", "text"):
        words = words[:-1]
    return bool(words) and words[-1] in LABEL_NAMES


def label_name_of(names: Sequence[str], roles: Mapping[str, str | None]) -> str | None:
    """Return the column with the labels: as set by the user, or by its name; else None.

    Args:
        names: the columns.
        roles: the role of each column, or None.
    """
    declared = [name for name in names if roles.get(name) == "label"]
    free = [name for name in names if roles.get(name) is None]
    exact = [name for name in free if name.lower() in LABEL_NAMES]
    alike = [name for name in free if is_label_name(name)]
    return next(iter([*declared, *exact, *alike]), None)


@dataclasses.dataclass(frozen=True)
class RowProblem:
    """The reason why a row is not an example: a reject's code and detail."""

    code: str
    detail: str


@dataclasses.dataclass
class ListRows:
    """The rows of a list, or one row per file: columns, and their values for every row."""

    columns: list[Column]
    values: list[list[Value]]  # the values of each column
    places: list[str]  # the place of each row in the list, for messages
    path: str
    label: str | None = None  # the column whose values must not be missing
    boxes: RowBoxes | None = None
    box_labels: list[Value] | None = None  # the label, or labels, of each row's boxes
    problems: dict[int, RowProblem] = dataclasses.field(default_factory=dict)  # by row
    box_label_kind: str = "label"

    @classmethod
    def of(
        cls, table: ListTable, roles: Mapping[str, str | None], inputs: LayoutInputs, *, files: int
    ) -> "ListRows":
        """Return the typed values of all columns except files and splits.

        Args:
            table: the list.
            roles: the role of each column, as set by the user or recognised.
            inputs: the inputs that the list is one of.
            files: the number of columns with files.
        """
        names = [n for n in table.columns if roles[n] not in ("image", "audio", "split", "ignore")]
        places = [table.place(position) for position in table.positions]
        rows = cls([], [], places, table.path)
        free = [name for name in names if inputs.columns.get(name) is None]
        box_columns = find_box_columns(free) if inputs.media == "image" and files == 1 else None
        if table.known:
            box_columns = None
        label = label_name_of(names, roles)
        if box_columns is not None:
            rows.boxes = read_boxes(table, box_columns, box_format=inputs.box_format)
            if label is None:
                label = next((n for n in names if n.lower() in _BOX_LABELS), None)
        used = () if box_columns is None else box_columns.all
        others = [name for name in names if name not in used]
        if label is None and len(others) == 1 and box_columns is None and roles[others[0]] is None:
            label = _label_of_two_columns(table, others[0])
        for name in others:
            is_label = name == label or roles[name] == "label" or name.lower() in LABEL_NAMES
            cast = table.cast_column(name, roles[name], trim=is_label)
            if cast is None:
                continue
            column, values = cast
            if is_label and name not in table.known:
                column, values = _as_labels(table, inputs, column, values, roles[name])
            if name == label and box_columns is not None:
                rows.box_labels, rows.box_label_kind = values, column.kind
                continue
            if name == label and (not cast[0].is_list):
                rows.label = name
            rows.columns.append(column)
            rows.values.append(values)
        return rows

    def grouped(self, keys: Sequence[Hashable], *, how: str) -> tuple["ListRows", list[list[int]]]:
        """Merge the rows with the same key.

        Args:
            keys: the file of each row.
            how: the setting `rows`.

        Returns:
            One row per key, and the numbers of the rows that were merged into each.

        Raises:
            InputError: rows of a file differ in a way that may be a mistake.
        """
        groups: dict[Hashable, list[int]] = {}
        for row, key in enumerate(keys):
            groups.setdefault((key, row) if how == "each" else key, []).append(row)
        members = [*groups.values()]
        varying = {
            place
            for place, values in enumerate(self.values)
            if any(len({values[row] for row in rows}) > 1 for rows in members if len(rows) > 1)
        }
        repeated = next((rows for rows in members if len(rows) > 1), None)
        if how == "auto" and repeated is not None:
            self._check_repeats(keys, members, varying)
        selected = ListRows(
            [], [], [self.places[rows[0]] for rows in members], self.path, self.label
        )
        for place, (column, values) in enumerate(zip(self.columns, self.values, strict=True)):
            if place not in varying:
                selected.columns.append(column)
                selected.values.append([values[rows[0]] for rows in members])
                continue
            if column.is_list:
                raise InputError(
                    f"{self.path!r}, column {column.name!r}: rows of one file have different "
                    f"lists, but an example has only one ({self._shown(members, place)}). Make an "
                    f"example of each row: {how_to_set(rows='each')}."
                )
            lists: list[Value] = []
            for number, rows in enumerate(members):
                known = [values[row] for row in rows if values[row] is not None]
                if len(known) < len(rows) and known:
                    selected.problems[number] = RowProblem(
                        "BAD_ANNOTATION",
                        f"{self.places[rows[0]]}: some of its rows have no {column.name!r}",
                    )
                lists.append(tuple(known))  # type: ignore[arg-type]
            selected.columns.append(dataclasses.replace(column, is_list=True, length=None))
            selected.values.append(lists)
            if column.name == self.label:
                selected.label = None
        if self.boxes is not None:
            selected._add_boxes(self, members)
        return selected, members

    def _check_repeats(
        self, keys: Sequence[Hashable], members: Sequence[Sequence[int]], varying: set[int]
    ) -> None:
        """Raise an InputError for several rows of a file that are neither boxes nor captions."""
        if self.boxes is not None:
            return
        kinds = {self.columns[place].kind for place in varying}
        names = [self.columns[place].name for place in sorted(varying)]
        if "string" in kinds and "label" not in kinds and self.label not in names:
            return
        rows = next(rows for rows in members if len(rows) > 1)
        first, second = (self.places[row] for row in rows[:2])
        if varying:
            place = min(varying)
            what = f"differ in {', '.join(map(repr, names))} ({self._shown(members, place)})"
        else:
            what = f"are duplicates ({first} and {second})"
        raise InputError(
            f"{self.path!r}: expected each file once, got rows of {keys[rows[0]]!r} that {what}. "
            f"Put the rows of a file into one example: {how_to_set(rows='grouped')}; or make an "
            f"example of each row: {how_to_set(rows='each')}.",
            path=self.path,
        )

    def _shown(self, members: Sequence[Sequence[int]], place: int) -> str:
        values = self.values[place]
        rows = next(r for r in members if len({values[row] for row in r}) > 1)
        other = next(row for row in rows if values[row] != values[rows[0]])
        return (
            f"{values[rows[0]]!r:.40} in {self.places[rows[0]]}, "
            f"{values[other]!r:.40} in {self.places[other]}"
        )

    def _add_boxes(self, source: "ListRows", members: Sequence[Sequence[int]]) -> None:
        """Add the columns that all layouts with boxes have."""
        assert source.boxes is not None
        boxes, labels = source.boxes, source.box_labels
        columns = [column for column in BOX_COLUMNS if column.kind == "float"]
        if labels is not None:
            columns.append(Column("labels", source.box_label_kind, is_list=True))
        taken = {column.name for column in (*columns, *SIZE_COLUMNS)}
        for place in reversed(range(len(self.columns))):
            if self.columns[place].name in taken:
                logging.warning(
                    "column %r is left out: boxes have a feature with that name",
                    self.columns[place].name,
                )
                del self.columns[place], self.values[place]
        values: list[list[Value]] = [[] for _ in (*columns, *SIZE_COLUMNS)]
        unlabelled = 0
        for number, rows in enumerate(members):
            row_boxes: list[tuple[Any, ...]] = []
            size: tuple[Value, Value] = (None, None)
            try:
                for row in rows:
                    if boxes.is_lost[row]:
                        detail = f"{source.places[row]}: a box without all of its numbers"
                        raise RejectedInputError("BAD_ANNOTATION", detail)
                    label = None if labels is None else labels[row]
                    of_boxes = boxes.boxes[row]
                    if not of_boxes and label not in (None, ()):
                        unlabelled += 1
                    own_labels = label if isinstance(label, tuple) else (label,) * len(of_boxes)
                    if len(own_labels) != len(of_boxes):
                        detail = (
                            f"{source.places[row]}: {len(of_boxes)} boxes, but "
                            f"{len(own_labels)} labels"
                        )
                        raise RejectedInputError("BAD_ANNOTATION", detail)
                    for (left, right, top, bottom), label in zip(of_boxes, own_labels, strict=True):
                        if labels is not None and label is None:
                            detail = f"{source.places[row]}: a box without a label"
                            raise RejectedInputError("NO_LABEL", detail)
                        box, size = self._box(boxes, row, (left, right, top, bottom), label)
                        row_boxes.append(box)
            except RejectedInputError as error:
                self.problems.setdefault(number, RowProblem(error.code, error.detail))
                row_boxes, size = [], (None, None)
            all_values = box_values(row_boxes) if row_boxes else ((),) * len(BOX_COLUMNS)
            row_values = all_values if labels is not None else all_values[:-1]
            for one_column, value in zip(values, (*row_values, *size), strict=True):
                one_column.append(value)
        if unlabelled:
            logging.warning(
                "%r: %d rows have a label but no box; their labels are not kept",
                *(source.path, unlabelled),
            )
        self.columns += [*columns, *SIZE_COLUMNS]
        self.values += values

    @staticmethod
    def _box(
        boxes: RowBoxes, row: int, edges: tuple[float, float, float, float], label: Value
    ) -> tuple[tuple[Any, ...], tuple[Value, Value]]:
        """Return a box relative to its image, or in pixels if the size of the image is unknown."""
        if boxes.are_relative:
            return check_relative_box(*edges, label=label), (None, None)
        size = boxes.sizes[row]
        if size is None:
            left, right, top, bottom = edges
            return (*edges, (right - left) * (bottom - top), label), (IN_PIXELS, IN_PIXELS)
        width, height = size
        box = relative_box(*edges, width=width, height=height, label=label, may_be_turned=True)
        return box, claimed_size(width=width, height=height)


def _label_of_two_columns(table: ListTable, name: str) -> str | None:
    """Return the only column next to the files if its whole numbers look like classes."""
    values = [value for value in table.values(name) if value not in (None, "")]
    is_whole = [
        isinstance(value, (int, float)) and float(value).is_integer()
        if not isinstance(value, str)
        else bool(_WHOLE_FLOAT.fullmatch(value.strip()))
        for value in values
    ]
    if not values or not all(is_whole) or len(set(values)) > max(2, len(values) // 2 + 1):
        return None
    return name if any(isinstance(value, (str, float)) for value in values) else None


def _as_labels(
    table: ListTable,
    inputs: LayoutInputs,
    column: Column,
    values: list[Value],
    kind: str | None,
) -> tuple[Column, list[Value]]:
    """Convert labels: whole floats to ids, several labels in a field to lists, -1 to None."""
    name = column.name
    if column.is_list:
        return column, values
    known = [value for value in values if value is not None]
    if column.kind in ("float", "int"):
        if column.kind == "float" and all(float(value).is_integer() for value in known):  # type: ignore[arg-type]
            column = dataclasses.replace(column, kind="int")
            values = [None if value is None else int(value) for value in values]  # type: ignore[arg-type]
        return column, values
    texts = [str(value).strip() for value in known]
    are_floats = any(map(_WHOLE_FLOAT.fullmatch, texts)) and all(map(_WHOLE.fullmatch, texts))
    if kind == "label" and are_floats and name not in inputs.vocabularies:
        ids = [None if value is None else int(float(str(value))) for value in values]
        return Column(name, "int"), [*ids]
    column = dataclasses.replace(column, kind="label")
    if any(not _WHOLE.fullmatch(text) for text in texts) or name in inputs.vocabularies:
        values = [None if value == _MISSING_CLASS else value for value in values]
    if (separator := inputs.label_separator) is not None:
        lists: list[Value] = []
        for value in values:
            parts = () if value is None else tuple(map(str.strip, str(value).split(separator)))
            lists.append(tuple(part for part in parts if part) or None)
        return dataclasses.replace(column, is_list=True), lists
    if kind is None:
        _refuse_several_labels(table, name, texts)
    return column, values


def _refuse_several_labels(table: ListTable, name: str, texts: Sequence[str]) -> None:
    """Raise an InputError for a field that looks like several labels instead of one class."""
    if (label_and_separator := find_several_labels(dict.fromkeys(texts))) is None:
        return
    several, separator = label_and_separator
    as_one = f"read each value as one label: {how_to_set(columns={name: 'label'})}"
    cure = f"Name the character between them: {how_to_set(label_separator=separator)}; or {as_one}"
    if not separator:
        cure = (
            'Write it as JSON, such as ["a", "b"], in all rows; keep the text: '
            f"{how_to_set(columns={name: 'string'})}; or {as_one}"
        )
    raise InputError(
        f"{table.path!r}, column {name!r}: {several!r} looks like several labels. {cure}.",
        path=table.path,
    )


__all__ = ["BoxColumns", "ListRows", "RowProblem", "is_label_name", "label_name_of"]
