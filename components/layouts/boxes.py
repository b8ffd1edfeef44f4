"""Bounding boxes relative to the image, with Datum's feature names.

Source: `datum/generator/image.py` (DetDatumGenerator).
"""

import functools
from collections.abc import Sequence
from typing import Any

from components.inputs.input_table import Column, Scalar, Value
from components.inputs.rejects import RejectedInputError

_NUMBERS = ("xmin", "xmax", "ymin", "ymax", "area")
BOX_COLUMNS = (
    *map(functools.partial(Column, kind="float", is_list=True), _NUMBERS),
    Column("labels", "label", is_list=True),
)
# The image size in an annotation with boxes in pixels. It is compared with the actual size when the
# image is read. The features of these names always have the actual size.
SIZE_COLUMNS = (Column("height", "int"), Column("width", "int"))
_MAX_PIXELS = 1 << 31  # no image has a longer edge
# The height and width of an image whose boxes are still in pixels, since no size was given.
IN_PIXELS = 0
_MAX_OUTSIDE = 0.01  # rounding may move an edge of a relative box by this much


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
    """Convert a box from pixels to values relative to its image, in the order of `BOX_COLUMNS`.

    A box that is up to one pixel outside the image is clipped. The area is a fraction of the image.

    Args:
        xmin: left edge in pixels.
        xmax: right edge in pixels.
        ymin: top edge in pixels.
        ymax: bottom edge in pixels.
        width: width of the image in pixels.
        height: height of the image in pixels.
        label: label of the box.
        may_be_turned: whether EXIF may rotate the image. A box that only fits the rotated image is
            then not clipped, and `fit_boxes` decides about it later.

    Raises:
        RejectedInputError: the box is further outside, its edges are out of order, or the image
            has no size.
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
    """Check and clip a box that is already relative, and return it in the order of `BOX_COLUMNS`.

    Args:
        xmin: left edge in [0, 1]. Like the other edges, it may be 0.01 outside.
        xmax: right edge.
        ymin: top edge.
        ymax: bottom edge.
        label: label of the box.

    Raises:
        RejectedInputError: an edge is further outside, or the edges are out of order.
    """
    low, high = -_MAX_OUTSIDE, 1 + _MAX_OUTSIDE
    if not (low <= xmin <= xmax <= high and low <= ymin <= ymax <= high):
        detail = (
            "expected a box relative to its image, in [0, 1], "
            f"got x {xmin:g} to {xmax:g}, y {ymin:g} to {ymax:g}"
        )
        raise RejectedInputError("BAD_ANNOTATION", detail)
    left, right, top, bottom = (min(max(edge, 0.0), 1.0) for edge in (xmin, xmax, ymin, ymax))
    return left, right, top, bottom, (right - left) * (bottom - top), label


def box_values(boxes: Sequence[tuple[Scalar, ...]]) -> tuple[Value, ...]:
    """Return the values of `BOX_COLUMNS` for the boxes of an image."""
    return tuple(zip(*boxes, strict=True)) if boxes else ((),) * len(BOX_COLUMNS)


def claimed_size(*, width: float, height: float) -> tuple[int, int]:
    """Return the values of `SIZE_COLUMNS` for an image with boxes; other images have nulls."""
    return min(round(height), _MAX_PIXELS), min(round(width), _MAX_PIXELS)
