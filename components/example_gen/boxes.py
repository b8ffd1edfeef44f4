"""Boxes round objects, relative to the image, by Datum's names, and whether they fit their image.

Source: `datum/generator/image.py` (DetDatumGenerator).
"""

import dataclasses
from collections.abc import Sequence
from typing import Any, cast

from components.common.entry import Column, Value
from components.common.rejects import RejectedInputError
from components.media.images import open_image
from components.media.options import ImageOptions

BOX_COLUMNS = (
    *(Column(name, "float", is_list=True) for name in ("xmin", "xmax", "ymin", "ymax", "area")),
    Column("labels", "label", is_list=True),
)
# What an annotation in pixels says of its image, where it has boxes. It is compared with the image
# when that is read; the features of these names are the image's own.
SIZE_COLUMNS = (Column("height", "int"), Column("width", "int"))
_EDGES = frozenset(column.name for column in SIZE_COLUMNS)
_MOST_PIXELS = 1 << 31  # of an edge: beyond is no image


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


def relative_box(
    xmin: float, xmax: float, ymin: float, ymax: float, *, width: float, height: float, label: str
) -> Box:
    """A box of pixels relative to its image; up to a pixel outside is cut off, more is rejected."""
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


def check_annotation(
    media: dict[str, Any],
    blob: bytes,
    columns: Sequence[Column],
    values: Sequence[Value],
    options: ImageOptions,
) -> dict[str, Any]:
    """Compares an image with the size, if there is one, that its annotation has scaled boxes by.

    Boxes fit an image that was scaled since, which is counted as BOXES_SCALED; of an image that has
    been cut or turned, or is another one, nobody knows where they are: BAD_ANNOTATION.
    """
    said = {c.name: v for c, v in zip(columns, values, strict=True) if c.name in _EDGES}
    if not any(said.values()):
        return media
    ((name, stored),) = media.items()
    said_height, said_width = cast(int, said["height"]), cast(int, said["width"])
    if (stored.height, stored.width) == (said_height, said_width):
        return media
    # It may be we who have scaled it.
    width, height = open_image(blob, max_pixels=options.max_pixels).size
    if (height, width) == (said_height, said_width):
        return media
    if abs(said_width * height - said_height * width) > max(width, height, said_width, said_height):
        is_turned = (said_height, said_width) == (width, height)
        raise RejectedInputError(
            "BAD_ANNOTATION",
            f"expected the size of its image, {width} x {height}, got {said_width} x {said_height}"
            + (": the image turned by a quarter. Save it upright" if is_turned else ""),
        )
    return {name: stored._replace(conversions=(*stored.conversions, "BOXES_SCALED"))}
