"""RandAugment: some of fourteen operations, each as strong as one magnitude says.

    RandAugment(num_ops=2, magnitude=9).apply(pixels, uniforms)     # (4,) uniforms, 2 an operation

Source: Cubuk et al., "RandAugment: Practical automated data augmentation with a reduced search
space", 2019; the operations and their ranges are those of AutoAugment (Cubuk et al., 2018), whose
magnitudes go from 0 to 10. The paper's larger ones, up to 30, go on along the same lines.
"""

import dataclasses
from collections.abc import Callable

import tensorflow as tf

from trainer_utils.reading.augmentation import colours, filters, geometry

__all__ = ["NAMES", "RandAugment"]

_SCALE = 10  # of magnitudes
_Change = Callable[[tf.Tensor], tf.Tensor]
_MOVING = ("rotate", "shear_x", "shear_y", "translate_x", "translate_y")
NAMES = (
    "identity",
    "autocontrast",
    "equalize",
    "posterize",
    "solarize",
    "colour",
    "contrast",
    "brightness",
    "sharpness",
    *_MOVING,
)
"""The operations."""


@dataclasses.dataclass(frozen=True)
class RandAugment:
    """How many operations, one after the other, and how strong.

    Args:
        num_ops: chosen for each image, each from all fourteen.
        magnitude: 0 to 30.
    """

    num_ops: int
    magnitude: float

    @property
    def num_uniforms(self) -> int:
        """How many random numbers an image takes."""
        return 2 * self.num_ops

    def apply(
        self, pixels: tf.Tensor, uniforms: tf.Tensor, *, label_map: bool = False
    ) -> tf.Tensor:
        """Changes one image.

        Args:
            pixels: `(height, width, channels) uint8`.
            uniforms: `(num_uniforms,) float32`, which say what is chosen, and which way it goes.
            label_map: it is a map of class ids: it is moved alone, and none are mixed.

        Returns:
            The same shape and dtype.
        """
        for first in range(0, self.num_uniforms, 2):
            chosen = tf.cast(uniforms[first] * len(NAMES), tf.int32)
            sign = tf.where(uniforms[first + 1] < 0.5, -1.0, 1.0)
            changes = self._changes(sign, nearest=label_map)
            before = pixels
            branches = [
                (lambda change=changes[name], before=before: change(before))
                if name in _MOVING or not label_map
                else (lambda before=before: before)
                for name in NAMES
            ]
            pixels = tf.ensure_shape(tf.switch_case(chosen, branches), before.shape)
        return pixels

    def _changes(self, sign: tf.Tensor, *, nearest: bool) -> dict[str, _Change]:
        """By name, as strong as the magnitude says; `sign`, `() float32`, is the way it goes."""
        level = self.magnitude / _SCALE
        factor = tf.maximum(1 + sign * 0.9 * level, 0.0)
        turn, slope, shift = sign * 30 * level, sign * 0.3 * level, sign * 0.45 * level
        bits = max(8 - round(4 * level), 1)
        threshold = tf.constant(max(256 - 256 * level, 0), tf.float32)
        zero = tf.constant(0.0)
        return {
            "identity": lambda pixels: pixels,
            "autocontrast": colours.autocontrast,
            "equalize": colours.equalize,
            "posterize": lambda pixels: colours.posterize(pixels, tf.constant(bits)),
            "solarize": lambda pixels: colours.solarize(pixels, threshold),
            "colour": lambda pixels: colours.enhance_colour(pixels, factor),
            "contrast": lambda pixels: colours.enhance_contrast(pixels, factor),
            "brightness": lambda pixels: colours.enhance_brightness(pixels, factor),
            "sharpness": lambda pixels: filters.enhance_sharpness(pixels, factor),
            "rotate": lambda pixels: geometry.rotate(pixels, turn, nearest=nearest),
            "shear_x": lambda pixels: geometry.shear(pixels, slope, zero, nearest=nearest),
            "shear_y": lambda pixels: geometry.shear(pixels, zero, slope, nearest=nearest),
            "translate_x": lambda pixels: geometry.translate(pixels, shift, zero, nearest=nearest),
            "translate_y": lambda pixels: geometry.translate(pixels, zero, shift, nearest=nearest),
        }
