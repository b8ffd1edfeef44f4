"""Boxes round objects, relative to the image, by Datum's names.

Source: `datum/generator/image.py` (DetDatumGenerator).
"""

import functools
from collections.abc import Sequence
from typing import Any

from components.common.entry import Column, Scalar, Value
from components.common.rejects import RejectedInputError

_NUMBERS = ("xmin", "xmax", "ymin", "ymax", "area")
BOX_COLUMNS = (
    *map(functools.partial(Column, kind="float", is_list=True), _NUMBERS),
    Column("labels", "label", is_list=True),
)
# What an annotation in pixels says of its image, where it has boxes. It is compared with the image
# when that is read; the features of these names are the image's own.
SIZE_COLUMNS = (Column("height", "int"), Column("width", "int"))
_MOST_PIXELS = 1 << 31  # of an edge: beyond is no image
# The height and width of an image whose boxes are in pixels still, as no size was given.
IN_PIXELS = 0
_MOST_OUTSIDE = 0.01  # of a relative box, by which rounding may move an edge


def relative_box(
    xmin: float,
    xmax: float,
    ymin: float,
    ymax: float,
    *,
    width: float,
    height: float,
    label: Any,
    may_be_turned: bool = False,
) -> tuple[Any, ...]:
    """Return a box of pixels relative to its image, as `BOX_COLUMNS` has it.

    Up to a pixel outside is cut off, more is rejected. The area is the share of the image.

    Args:
        may_be_turned: whether the image may be rotated by EXIF, so that a box that fits height x
            width only is returned as it is, for `fit_boxes` to decide.
    """
    if not (width > 0 and height > 0):
        detail = f"expected an image of some size, got {width:g} x {height:g}"
        raise RejectedInputError("BAD_ANNOTATION", detail)
    is_ordered = -1 <= xmin <= xmax and -1 <= ymin <= ymax
    fits = is_ordered and xmax <= width + 1 and ymax <= height + 1
    if not fits and may_be_turned and is_ordered and xmax <= height + 1 and ymax <= width + 1:
        area = (xmax - xmin) * (ymax - ymin) / width / height
        return xmin / width, xmax / width, ymin / height, ymax / height, area, label
    if not fits:
        detail = (
            f"expected a box in {width:g} x {height:g} pixels, "
            f"got x {xmin:g} to {xmax:g}, y {ymin:g} to {ymax:g}"
        )
        raise RejectedInputError("BAD_ANNOTATION", detail)
    left, right = (min(max(x / width, 0.0), 1.0) for x in (xmin, xmax))
    top, bottom = (min(max(y / height, 0.0), 1.0) for y in (ymin, ymax))
    return left, right, top, bottom, (right - left) * (bottom - top), label


def check_relative_box(
    xmin: float, xmax: float, ymin: float, ymax: float, *, label: Any
) -> tuple[Any, ...]:
    """Return a box that is relative to its image already, as `BOX_COLUMNS` has it.

    Up to a hundredth outside is cut off, more is rejected.
    """
    low, high = -_MOST_OUTSIDE, 1 + _MOST_OUTSIDE
    if not (low <= xmin <= xmax <= high and low <= ymin <= ymax <= high):
        detail = (
            "expected a box relative to its image, in [0, 1], "
            f"got x {xmin:g} to {xmax:g}, y {ymin:g} to {ymax:g}"
        )
        raise RejectedInputError("BAD_ANNOTATION", detail)
    left, right, top, bottom = (min(max(edge, 0.0), 1.0) for edge in (xmin, xmax, ymin, ymax))
    return left, right, top, bottom, (right - left) * (bottom - top), label


def box_values(boxes: Sequence[tuple[Scalar, ...]]) -> tuple[Value, ...]:
    """The values of `BOX_COLUMNS`."""
    return tuple(zip(*boxes, strict=True)) if boxes else ((),) * len(BOX_COLUMNS)


def claimed_size(*, width: float, height: float) -> tuple[int, int]:
    """The values of `SIZE_COLUMNS`; both are None where there is no box."""
    return min(round(height), _MOST_PIXELS), min(round(width), _MOST_PIXELS)
