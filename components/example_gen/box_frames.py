"""Boxes, keypoints and label maps of images that EXIF rotates.

    values, words = fit_boxes(columns, values, data, options, box_frame=None)

An annotation refers to the stored pixels or to the displayed image. If the two sizes differ and the
annotation has the displayed one, it refers to the displayed image. The stored size proves nothing:
labelling tools write it although people draw on the displayed image. All other cases need
`box_frame`.

Boxes are relative to the size that their annotation gives, or in pixels if it gives none. They are
returned relative to the image that the dataset stores.
"""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

from components.inputs.input_table import Column, Value
from components.inputs.rejects import RejectedInputError
from components.layouts.boxes import IN_PIXELS, relative_box
from components.media.images import UPRIGHT, read_frame
from components.media.options import ImageOptions

_EDGES = ("xmin", "xmax", "ymin", "ymax")
_SIZE = ("width", "height")
KEYPOINTS = "keypoints"
_Point = tuple[float, float]
# From the stored pixels to the displayed image, both relative, by the EXIF orientation.
_TURNS: dict[int, Callable[[float, float], _Point]] = {
    1: lambda x, y: (x, y),
    2: lambda x, y: (1 - x, y),
    3: lambda x, y: (1 - x, 1 - y),
    4: lambda x, y: (x, 1 - y),
    5: lambda x, y: (y, x),
    6: lambda x, y: (1 - y, x),
    7: lambda x, y: (1 - y, 1 - x),
    8: lambda x, y: (y, 1 - x),
}
_BACK = {6: 8, 8: 6}
_NO_NAMES: Mapping[str, str] = {}


@dataclasses.dataclass(frozen=True)
class Fitted:
    """Values of an entry that fit its stored image, and the names of the conversions done."""

    values: tuple[Value, ...]
    conversions: tuple[str, ...] = ()


def fit_boxes(
    columns: Sequence[Column],
    values: Sequence[Value],
    data: bytes,
    options: ImageOptions,
    *,
    box_frame: str | None,
    renamed: Mapping[str, str] = _NO_NAMES,
) -> Fitted:
    """Return values whose boxes are relative to the image that the dataset stores.

    Args:
        columns: the features of the entry.
        values: the value of each feature.
        data: the content of the image file.
        options: the image options, which decide whether pixels are rotated.
        box_frame: the setting: the frame to assume if the annotation does not decide it.
        renamed: new names of features, by the names from the layout.

    Raises:
        RejectedInputError: BAD_ANNOTATION, or BOX_FRAME if the frame of the boxes is unknown.
    """
    old_names = {new: name for name, new in renamed.items()}
    places = {
        old_names.get(column.name, column.name): place for place, column in enumerate(columns)
    }
    if not all(name in places and columns[places[name]].is_list for name in _EDGES):
        return Fitted(tuple(values))
    edges: list[Any] = [values[places[name]] or () for name in _EDGES]
    boxes = [*zip(*edges, strict=True)]
    points: Any = values[places[KEYPOINTS]] if KEYPOINTS in places else ()
    if not boxes and not points:
        return Fitted(tuple(values))
    claimed: tuple[Any, Any] = (None, None)
    if all(name in places for name in _SIZE):
        claimed = (values[places["width"]], values[places["height"]])
    stored, orientation = read_frame(data, options)
    words: list[str] = []
    is_turned = orientation > 4
    shown = stored[::-1] if is_turned else stored
    is_shown, frame = False, stored  # whether boxes refer to the displayed image; the frame's size
    if orientation != UPRIGHT:
        is_shown, is_sure = _find_frame(claimed, boxes, stored, shown, orientation, box_frame)
        frame = shown if is_shown else stored
        if not is_sure:
            words.append("BOX_FRAME_GIVEN")
    scale = (1.0, 1.0)
    if claimed == (IN_PIXELS, IN_PIXELS):
        scale = (1 / frame[0], 1 / frame[1])
    elif claimed[0] and claimed[1]:
        if orientation != UPRIGHT and _agree(claimed, stored) and not _agree(claimed, frame):
            scale = (claimed[0] / frame[0], claimed[1] / frame[1])  # pixels of the other frame
        elif not _agree(claimed, frame):
            _refuse_size(claimed, frame)
        elif claimed != frame:
            words.append("BOXES_SCALED")
    width, height = frame
    fitted = []
    for left, right, top, bottom in boxes:
        pixels = (left * scale[0], right * scale[0], top * scale[1], bottom * scale[1])
        whole = (pixels[0] * width, pixels[1] * width, pixels[2] * height, pixels[3] * height)
        if scale == (1.0, 1.0) and min(pixels) >= 0 and max(pixels) <= 1:
            box = pixels  # unchanged, to the last bit
        else:
            box = relative_box(*whole, width=width, height=height, label="")[:4]
        fitted.append(box)
    triples = [(x * scale[0], y * scale[1]) for x, y in zip(points[::3], points[1::3], strict=True)]
    turn = _turn_of(orientation, is_shown=is_shown, is_applied=options.orientation == "apply")
    if turn is not None:
        fitted = [_turned(box, turn) for box in fitted]
        seen = points[2::3]  # an unlabelled point is at (0, 0)
        triples = [turn(*at) if v > 0 else at for at, v in zip(triples, seen, strict=True)]
        words.append("BOXES_ROTATED")
    return Fitted(_with_boxes(values, places, fitted, triples), tuple(words))


def _with_boxes(
    values: Sequence[Value],
    places: dict[str, int],
    boxes: Sequence[tuple[float, float, float, float]],
    points: Sequence[_Point],
) -> tuple[Value, ...]:
    """Return values with other boxes and keypoints; a keypoint keeps its visibility."""
    turned = [*values]
    if boxes:
        for name, edge in zip(_EDGES, zip(*boxes, strict=True), strict=True):
            turned[places[name]] = edge
        areas = tuple((right - left) * (bottom - top) for left, right, top, bottom in boxes)
        if "area" in places:
            turned[places["area"]] = areas
    if points:
        marks = cast(Any, values[places[KEYPOINTS]])[2::3]
        flat = (part for (x, y), mark in zip(points, marks, strict=True) for part in (x, y, mark))
        turned[places[KEYPOINTS]] = tuple(flat)
    return tuple(turned)


def _agree(first: tuple[int, int], second: tuple[int, int]) -> bool:
    """Return whether two sizes have the same proportions, to a pixel."""
    difference = abs(first[0] * second[1] - first[1] * second[0])
    return difference <= max(*first, *second)


def _find_frame(
    claimed: tuple[Any, Any],
    boxes: Sequence[tuple[float, ...]],
    stored: tuple[int, int],
    shown: tuple[int, int],
    orientation: int,
    box_frame: str | None,
) -> tuple[bool, bool]:
    """Return whether boxes refer to the displayed image, and whether that is certain."""
    has_size = bool(claimed[0] and claimed[1])
    if orientation > 4 and has_size and _agree(claimed, shown) != _agree(claimed, stored):
        if _agree(claimed, shown):
            return True, True
        low, high = 1 / min(claimed), 1 + 1 / min(claimed)
        if any(not low * -1 <= edge <= high for box in boxes for edge in box):
            return True, True  # outside of the stored image
    if box_frame is None:
        raise RejectedInputError(
            "BOX_FRAME",
            f"EXIF rotates the image (orientation {orientation}), and it is unclear whether its "
            "boxes refer to the displayed image, box_frame='displayed' (--box-frame displayed), or "
            "to the stored pixels, box_frame='stored' (--box-frame stored)",
        )
    return box_frame == "displayed", False


def _refuse_size(claimed: tuple[int, int], size: tuple[int, int]) -> None:
    is_turned = claimed == size[::-1]
    raise RejectedInputError(
        "BAD_ANNOTATION",
        f"expected the size of its image, {size[0]} x {size[1]}, got {claimed[0]} x {claimed[1]}"
        + (": the image is rotated by 90 degrees. Save it upright" if is_turned else ""),
    )


def _turn_of(
    orientation: int, *, is_shown: bool, is_applied: bool
) -> Callable[[float, float], _Point] | None:
    """Return the transform of points to the dataset's pixels, or None if they do not move."""
    if orientation == UPRIGHT or is_shown == is_applied:
        return None
    return _TURNS[orientation if is_applied else _BACK.get(orientation, orientation)]


def _turned(
    box: tuple[float, ...], turn: Callable[[float, float], _Point]
) -> tuple[float, float, float, float]:
    left, right, top, bottom = box
    (x1, y1), (x2, y2) = turn(left, top), turn(right, bottom)
    return min(x1, x2), max(x1, x2), min(y1, y2), max(y1, y2)
