"""Boxes round objects, relative to the image, by Datum's names; and AutoML Vision's rows of them.

Source: `datum/generator/image.py` (DetDatumGenerator); AutoML's "Formatting a training data CSV".
"""

import dataclasses
from collections.abc import Sequence
from typing import Any

from components.common.entry import Column, Value
from components.common.rejects import RejectedInputError
from trainer_utils.format import InputError

BOX_COLUMNS = (
    *(Column(name, "float", is_list=True) for name in ("xmin", "xmax", "ymin", "ymax", "area")),
    Column("labels", "label", is_list=True),
)
# What an annotation in pixels says of its image, where it has boxes. It is compared with the image
# when that is read; the features of these names are the image's own.
SIZE_COLUMNS = (Column("height", "int"), Column("width", "int"))
_MOST_PIXELS = 1 << 31  # of an edge: beyond is no image
_ROW_FIELDS = 11  # set, path, label, four corners


@dataclasses.dataclass(frozen=True, kw_only=True)
class Box:
    """One box: edges in [0, 1], and what is in it."""

    xmin: float
    xmax: float
    ymin: float
    ymax: float
    label: str

    @property
    def area(self) -> float:
        """The share of the image that it takes."""
        return (self.xmax - self.xmin) * (self.ymax - self.ymin)


@dataclasses.dataclass
class BoxRow:
    """An image of a list of boxes: its first row's position, and split as it is written."""

    position: int
    uri: str
    split: str
    boxes: list[Box]


def relative_box(
    xmin: float, xmax: float, ymin: float, ymax: float, *, width: float, height: float, label: str
) -> Box:
    """A box of pixels relative to its image; up to a pixel outside is cut off.

    Raises:
        RejectedInputError: BAD_ANNOTATION: the image has no size, or the box is not in it.
    """
    if not (width > 0 and height > 0):
        detail = f"expected an image of some size, got {width:g} x {height:g}"
        raise RejectedInputError("BAD_ANNOTATION", detail)
    if not (-1 <= xmin <= xmax <= width + 1 and -1 <= ymin <= ymax <= height + 1):
        detail = (
            f"expected a box in {width:g} x {height:g} pixels, "
            f"got x {xmin:g} to {xmax:g}, y {ymin:g} to {ymax:g}"
        )
        raise RejectedInputError("BAD_ANNOTATION", detail)
    xs = [min(max(x / width, 0.0), 1.0) for x in (xmin, xmax)]
    ys = [min(max(y / height, 0.0), 1.0) for y in (ymin, ymax)]
    return Box(xmin=xs[0], xmax=xs[1], ymin=ys[0], ymax=ys[1], label=label)


def box_values(boxes: Sequence[Box]) -> tuple[Value, ...]:
    """The values of `BOX_COLUMNS`."""
    names = ("xmin", "xmax", "ymin", "ymax", "area", "label")
    return tuple(tuple(getattr(box, name) for box in boxes) for name in names)


def claimed_size(*, width: float, height: float) -> tuple[int, int]:
    """The values of `SIZE_COLUMNS`; both are None where there is no box."""
    return min(round(height), _MOST_PIXELS), min(round(width), _MOST_PIXELS)


def are_boxes(rows: Sequence[tuple[int, Sequence[Any]]]) -> bool:
    """Whether the rows of a CSV without a header are AutoML Vision's boxes."""
    return any(any(row[3:]) for _, row in rows) and all(
        len(row) == _ROW_FIELDS and all(map(_is_empty_or_number, row[3:])) for _, row in rows
    )


def boxes_of_rows(path: str, rows: Sequence[tuple[int, Sequence[str]]]) -> list[BoxRow]:
    """Puts the rows of each image together, in the order of their first ones; each has its line."""
    images: dict[str, BoxRow] = {}
    for position, (split, uri, label, *corners) in rows:
        image = images.setdefault(uri, BoxRow(position, uri, split, []))
        if split.lower() != image.split.lower():
            got = f"{image.split!r} (line {image.position}) and {split!r} (line {position})"
            raise InputError.at(path, expected=f"one split for {uri!r}", got=got)
        xs = [float(value) for value in corners[::2] if value]
        ys = [float(value) for value in corners[1::2] if value]
        if not xs and not ys:
            continue  # an image without anything to find
        is_box = bool(label) and len(xs) == len(ys) and len(xs) in (2, 4)
        for edges in (xs, ys):
            is_box = is_box and all(0 <= edge <= 1 for edge in edges) and min(edges) < max(edges)
            is_box = is_box and (len(edges) == 4 or edges[0] < edges[1])
        if not is_box:
            rule = "a label and two or four corners in [0, 1]"
            got = f"{','.join([label, *corners])!r} (line {position})"
            raise InputError.at(path, expected=rule, got=got)
        image.boxes.append(Box(xmin=min(xs), xmax=max(xs), ymin=min(ys), ymax=max(ys), label=label))
    return list(images.values())


def _is_empty_or_number(field: str) -> bool:
    try:
        float(field or 0)
    except ValueError:
        return False
    return True
