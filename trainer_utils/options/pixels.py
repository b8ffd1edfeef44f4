"""Declare how pixels may be normalized, and the largest image."""

from collections.abc import Mapping
from typing import Any

MAX_VALUES = 1 << 29
"""The maximum number of values of an image, as in TensorFlow."""
# Mean and standard deviation by name, for all channels or for each.
NORMALIZATIONS: Mapping[str, tuple[Any, Any]] = {
    "unit": (0.0, 255.0),
    "symmetric": (127.5, 127.5),
    # Source: torchvision's constants for ImageNet, times 255.
    "imagenet": ((123.675, 116.28, 103.53), (58.395, 57.12, 57.375)),
}
