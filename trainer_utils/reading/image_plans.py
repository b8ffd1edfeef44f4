"""What is decoded of each JPEG of a batch, at what scale, and what that is resized to.

    plans = Planner(reading).of(images, seeds)      # a Plan for each

The geometry is that of `trainer_utils.reading.crops`, of a whole batch at once.
"""

import dataclasses
import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from trainer_utils.reading.crops import (
    CropBox,
    are_mirrored,
    centre_box,
    dct_ratio_index,
    inner_extent,
    random_boxes,
)
from trainer_utils.reading.jpeg_head import JpegHead

if TYPE_CHECKING:
    from trainer_utils.reading.image_settings import ImageSettings

__all__ = ["DecodePlan", "Planner", "decode_part"]

_COLOURS = {1: "GRAY", 3: "RGB"}
_SMALLEST_SCALED = 16  # pixels; of less, simplejpeg's choice of a scale is not clear
_MARGIN = 2  # rows below a part that smoothing of colours looks at
_COLOUR_SPACES = ("YCbCr", "Gray")  # in simplejpeg's words
_DRAWN_AT_ONCE = 32  # images; a call takes some 200 us, and more would take long to trace


@dataclasses.dataclass(frozen=True)
class DecodePlan:
    """What becomes of one image.

    Args:
        head: None: it is no plain JPEG, and nothing else here is meant.
        ratio: it is decoded at 1 / `ratio`.
        window: what is kept at that scale: top, left, height, width; None: all of it.
        target: height and width to resize that to.
        is_mirrored: whether that is then mirrored.
    """

    head: JpegHead | None
    ratio: int
    window: tuple[int, int, int, int] | None
    target: tuple[int, int]
    is_mirrored: bool


class Planner:
    """Makes plans as `reading` says."""

    def __init__(self, reading: "ImageSettings") -> None:
        self._reading: Any = reading  # an `ImageReading`, where it is random

    def of(self, images: list[bytes], seeds: npt.NDArray[np.int64] | None) -> list[DecodePlan]:
        """A plan for each of `(batch,)` images; `seeds` are `(batch, 2)`, where it is random."""
        reading = self._reading
        heads = [_plain_head(data) for data in images]
        sizes = [(head.height, head.width) if head else (1, 1) for head in heads]
        whole = np.array(sizes, np.int32).reshape(-1, 2)
        mirrored = np.zeros(len(images), bool)
        box = CropBox(np.zeros_like(whole), whole)
        if reading.is_random:
            assert seeds is not None
            drawn, mirrored = self._drawn(whole, seeds)
        if reading.augment:
            box = drawn
        elif reading.resize == "crop" and reading.size is not None:
            box = centre_box(whole, reading.size)
        ratios = np.ones_like(whole)
        if reading.size is None:
            targets = whole
        elif reading.pads:
            targets = inner_extent(box.extent, reading.size)
        else:
            targets = np.broadcast_to(np.array(reading.size, np.int32), whole.shape)
        if reading.size is not None and reading.dct_scaling:
            ratios = 1 << dct_ratio_index(box.extent, targets)[:, np.newaxis]
        scaled = np.concatenate(box.at_scale(ratios), axis=1).tolist()
        return [
            DecodePlan(
                head, ratio, None if reading.keeps_whole else tuple(window), tuple(target), flip
            )
            for head, ratio, window, target, flip in zip(
                heads, ratios[:, 0].tolist(), scaled, targets.tolist(), mirrored, strict=True
            )
        ]

    def _drawn(
        self, extents: npt.NDArray[np.int32], seeds: npt.NDArray[np.int64]
    ) -> tuple[CropBox, npt.NDArray[np.bool_]]:
        """What is random of images of these sizes and seeds: the box, and whether it is mirrored.

        TensorFlow draws, as it does for its own decoder: many at once, since calls cost the most.
        """
        import tensorflow as tf  # what is not random is planned without it

        if not len(extents):  # of a replica that has no row of the last batch
            return CropBox(extents, extents), np.zeros(0, bool)
        fill = [(0, -len(extents) % _DRAWN_AT_ONCE), (0, 0)]
        shapes = np.pad(extents, [fill[0], (0, 1)], constant_values=3)
        seeds = np.pad(seeds, fill)
        parts = [
            self._draw(*map(tf.constant, (shapes[some], seeds[some])))
            for first in range(0, len(shapes), _DRAWN_AT_ONCE)
            for some in [slice(first, first + _DRAWN_AT_ONCE)]
        ]
        begin, extent, mirrored = (
            np.concatenate(part)[: len(extents)] for part in zip(*parts, strict=True)
        )
        return CropBox(begin, extent), mirrored

    @functools.cached_property
    def _draw(self) -> Any:
        import tensorflow as tf

        reading = self._reading

        def draw(shapes: tf.Tensor, seeds: tf.Tensor) -> list[tf.Tensor]:
            whole = shapes[:, :2]
            box = CropBox(whole, whole)  # of what is only mirrored, none is looked at
            if reading.augment:
                box = random_boxes(shapes, seeds, reading.crop_area, reading.crop_aspect)
            none = tf.zeros(_DRAWN_AT_ONCE, tf.bool)
            return [*box, are_mirrored(seeds) if reading.flips else none]

        signature = [
            tf.TensorSpec((_DRAWN_AT_ONCE, columns), dtype)
            for columns, dtype in ((3, tf.int32), (2, tf.int64))
        ]
        drawing = tf.function(draw, input_signature=signature, autograph=False)
        return drawing.get_concrete_function()


def _plain_head(data: bytes) -> JpegHead | None:
    """The head of a JPEG that both decoders read alike."""
    import simplejpeg

    head = JpegHead.of(data)
    try:
        known = head and simplejpeg.decode_jpeg_header(data)
    except ValueError:
        return None
    return head if known and known[2] in _COLOUR_SPACES else None


def decode_part(
    data: bytes,
    plan: DecodePlan,
    *,
    channels: int,
    fast: bool = False,
    memory: Callable[[int], npt.NDArray[np.uint8]] | None = None,
) -> npt.NDArray[np.uint8] | None:
    """What is kept of a plain JPEG, at the scale that is enough; None: another decoder is to say.

    Args:
        data: of the image.
        plan: for it.
        channels: 1 or 3.
        fast: whether libjpeg's arithmetic may be the fast one.
        memory: gives an array of at least so many bytes to decode into; None: a new one.
    """
    import simplejpeg

    head, ratio = plan.head, plan.ratio
    if head is None or (ratio > 1 and max(head.height, head.width) < _SMALLEST_SCALED):
        return None
    given: bytes | bytearray = data
    height, width = head.height, head.width
    if plan.window is not None:
        top, left, rows, columns = plan.window
        given = head.cut_to(data, (top + rows + _MARGIN) * ratio)
        height = height if given is data else (top + rows + _MARGIN) * ratio
    height, width = -(-height // ratio), -(-width // ratio)
    try:
        pixels: npt.NDArray[np.uint8] = simplejpeg.decode_jpeg(
            given,
            _COLOURS[channels],
            fastdct=fast,
            min_height=height if ratio > 1 else 0,
            min_width=width if ratio > 1 else 0,
            buffer=None if memory is None else memory(height * width * channels),
            strict=given is data,
        )
    except ValueError:
        return None
    return pixels if plan.window is None else pixels[top : top + rows, left : left + columns]
