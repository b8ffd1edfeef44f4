"""Find the columns of boxes in a list, and read the boxes of each row.

    found = find_box_columns(names)           # xmin, ymin, xmax, ymax, or x, y, w, h, or bbox
    boxes = read_boxes(table, found, box_format=None)

A list has corners, a corner and a size, a centre and a size, or a column of four numbers. They are
relative to the image if no number is above 1, else in pixels.
"""

import dataclasses
import json
import math
import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from components.inputs.advice import how_to_set
from components.layouts.list_table import ListTable, plain_name
from trainer_utils.core.errors import InputError

Box = tuple[float, float, float, float]
"""The left, right, top and bottom edges."""

_CORNERS = (
    ("xmin", "ymin", "xmax", "ymax"),
    ("x1", "y1", "x2", "y2"),
    ("x0", "y0", "x1", "y1"),
    ("left", "top", "right", "bottom"),
    ("minx", "miny", "maxx", "maxy"),
    ("xtl", "ytl", "xbr", "ybr"),
)
_SIZED = (
    ("x", "y", "w", "h"),
    ("xmin", "ymin", "w", "h"),
    ("left", "top", "width", "height"),
    ("x", "y", "width", "height"),
    ("xmin", "ymin", "width", "height"),
)
_CENTRED = (
    ("cx", "cy", "w", "h"),
    ("xcenter", "ycenter", "w", "h"),
    ("xcenter", "ycenter", "width", "height"),
    ("xc", "yc", "w", "h"),
)
_FORMS = {
    **dict.fromkeys(_CORNERS, "xyxy"),
    **dict.fromkeys(_SIZED, "xywh"),
    **dict.fromkeys(_CENTRED, "cxcywh"),
}
_PREFIXES = ("", "bbox", "box", "roi", "bndbox")
_WHOLE = ("bbox", "boundingbox", "box", "bndbox", "objectsbbox", "objectsboxes", "bboxes")
_WIDTHS = ("width", "imagewidth", "imgwidth", "imwidth", "originalwidth")
_HEIGHTS = ("height", "imageheight", "imgheight", "imheight", "originalheight")
_NUMBER = re.compile(r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?")
_MAX_RELATIVE = 1 + 1e-6


@dataclasses.dataclass(frozen=True)
class BoxColumns:
    """The columns with boxes."""

    names: tuple[str, ...]  # four columns, or one whose values have four numbers
    form: str | None  # `xyxy`, `xywh` or `cxcywh`; None: determined from the values
    width: str | None = None  # the columns with the size of the image, if there are any
    height: str | None = None

    @property
    def all(self) -> tuple[str, ...]:
        """All of these columns."""
        return (*self.names, *filter(None, (self.width, self.height)))


def find_box_columns(names: Collection[str]) -> BoxColumns | None:
    """Return the columns of boxes by their names, or None.

    Args:
        names: the columns without a kind set by the user.
    """
    plain = {plain_name(name): name for name in reversed([*names])}
    for prefix in _PREFIXES:
        for quad, form in _FORMS.items():
            quad_columns = [plain.get(prefix + part) for part in quad]
            if all(quad_columns):
                return _with_size(tuple(str(name) for name in quad_columns), form, plain)
    whole = next((plain[name] for name in _WHOLE if name in plain), None)
    return None if whole is None else _with_size((whole,), None, plain)


def _with_size(names: tuple[str, ...], form: str | None, plain: Mapping[str, str]) -> BoxColumns:
    free = {key: name for key, name in plain.items() if name not in names}
    width = next((free[name] for name in _WIDTHS if name in free), None)
    height = next((free[name] for name in _HEIGHTS if name in free), None)
    has_both = width is not None and height is not None
    return BoxColumns(names, form, width if has_both else None, height if has_both else None)


@dataclasses.dataclass(frozen=True)
class RowBoxes:
    """The boxes of each row, and the size of its image if the list has it."""

    boxes: Sequence[Sequence[Box]]
    sizes: Sequence[tuple[float, float] | None]  # width, height
    are_relative: bool
    is_lost: Sequence[bool]  # whether a number of the row is missing or not finite


def read_boxes(table: ListTable, columns: BoxColumns, *, box_format: str | None) -> RowBoxes:
    """Return the boxes of all rows.

    Args:
        table: the list.
        columns: the columns with boxes.
        box_format: `xywh` or `xyxy`, if the user sets it for a column of four numbers.

    Raises:
        InputError: a value is not a box, or the four numbers of a column are ambiguous.
    """
    rows = len(table.positions)
    raw: list[list[list[float]]] = [[] for _ in range(rows)]
    is_lost = [False] * rows
    if len(columns.names) == 4:
        numbers = [_numbers(table, name) for name in columns.names]
        for row, values in enumerate(zip(*numbers, strict=True)):
            if all(value is None for value in values):
                continue
            if any(value is None or not math.isfinite(value) for value in values):
                is_lost[row] = True
            else:
                raw[row] = [[float(value or 0) for value in values]]
    else:
        (name,) = columns.names
        for row, value in enumerate(table.values(name)):
            try:
                raw[row] = _four_numbers(value)
            except ValueError:
                place = table.place(table.positions[row])
                raise InputError(
                    f"{table.path!r}, {place}: column {name!r}: expected four numbers, got "
                    f"{value!r:.80}. If it contains no boxes: "
                    f"{how_to_set(columns={name: 'string'})}."
                ) from None
    sizes: list[tuple[float, float] | None] = [None] * rows
    if columns.width is not None and columns.height is not None:
        pairs = zip(_numbers(table, columns.width), _numbers(table, columns.height), strict=True)
        sizes = [(w, h) if w and h and w > 0 and h > 0 else None for w, h in pairs]
    are_relative = all(
        abs(number) <= _MAX_RELATIVE for boxes in raw for box in boxes for number in box
    )
    requested = box_format if box_format in ("xywh", "xyxy") else None
    form = columns.form or requested or _form_of(table, columns, raw, sizes, are_relative)
    boxes = [[_edges(box, form) for box in of_row] for of_row in raw]
    return RowBoxes(boxes, sizes, are_relative, is_lost)


def _numbers(table: ListTable, name: str) -> list[float | None]:
    cast = table.cast_column(name, "float")
    values: list[Any] = [None] * len(table.positions) if cast is None else cast[1]
    return [None if value is None or math.isnan(value) else value for value in values]


def _four_numbers(value: Any) -> list[list[float]]:
    """Return the boxes of a value with four numbers, a list of such values, or nothing."""
    if isinstance(value, bytes):
        value = value.decode("utf-8", "replace")
    if isinstance(value, str):
        text = value.strip()
        if text.lower() in ("", "[]", "none", "null", "nan", "no_box"):
            return []
        try:
            value = json.loads(text.replace("(", "[").replace(")", "]"))
        except ValueError:
            if not re.fullmatch(r"[\s\d\[\]().,;+\-eE]*", text):
                raise
            value = [float(number) for number in _NUMBER.findall(text)]
    if value is None:
        return []
    boxes = value if value and all(isinstance(part, (list, tuple)) for part in value) else [value]
    if value == []:
        return []
    if not all(len(box) == 4 for box in boxes):
        raise ValueError
    quads = [[float(number) for number in box] for box in boxes]
    if not all(map(math.isfinite, (number for box in quads for number in box))):
        raise ValueError
    return quads


def _form_of(
    table: ListTable,
    columns: BoxColumns,
    raw: Sequence[Sequence[Sequence[float]]],
    sizes: Sequence[tuple[float, float] | None],
    are_relative: bool,
) -> str:
    """Return the form of four numbers: `xywh` or `xyxy`, the one that fits every row."""
    fits = {"xywh": True, "xyxy": True}
    for boxes, size in zip(raw, sizes, strict=True):
        width, height = (1.0, 1.0) if are_relative else size or (math.inf, math.inf)
        margin = 0.01 if are_relative else 1
        for left, top, third, fourth in boxes:
            if third <= left or fourth <= top:
                fits["xyxy"] = False
            if left + third > width + margin or top + fourth > height + margin:
                fits["xywh"] = False
    if fits["xywh"] != fits["xyxy"]:
        return "xywh" if fits["xywh"] else "xyxy"
    if not any(raw):
        return "xywh"
    (name,) = columns.names
    first = next(box for boxes in raw for box in boxes)
    what = "both forms fit all rows" if fits["xywh"] else "neither form fits all rows"
    raise InputError(
        f"{table.path!r}, column {name!r}: four numbers are either left, top, width, height or "
        f"left, top, right, bottom, and {what} (the first: {first}). Choose one: "
        f"{how_to_set(box_format='xywh')} or {how_to_set(box_format='xyxy')}.",
        path=table.path,
    )


def _edges(numbers: Sequence[float], form: str) -> Box:
    a, b, c, d = numbers
    if form == "xyxy":
        return a, c, b, d
    if form == "xywh":
        return a, a + c, b, b + d
    return a - c / 2, a + c / 2, b - d / 2, b + d / 2
