"""Boxes and label maps beside images that are changed: what follows its image, what cannot.

check_followers(features, settings)                     # refuses what does not fit
left, right = mirror_boxes(left, right, is_mirrored)    # xmin becomes 1 - xmax
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from trainer_utils.format import ConfigError, Feature
from trainer_utils.reading.image_settings import ImageSettings

_BOXES = ("xmin", "xmax", "ymin", "ymax")  # shares of the whole image's width and height


def boxes_of(features: Mapping[str, Feature]) -> list[str]:
    """The features that are sides of boxes."""
    return [name for name in _BOXES if name in features]


def check_followers(features: Mapping[str, Feature], settings: ImageSettings) -> None:
    """Refuses features that cannot follow the images that they are read with.

    Args:
        features: images among them.
        settings: what becomes of these.

    Raises:
        ConfigError: it names the operation and the features.
    """
    boxes, chain = boxes_of(features), settings.augmentation
    maps = [name for name, feature in features.items() if feature.extra.get("label_map")]
    if boxes and not settings.keeps_boxes:
        raise ConfigError(
            f"features: expected none of {', '.join(boxes)} beside images that are cut or padded, "
            f"which they do not fit, got {settings}. "
            "Set resize='stretch' without random_resized_crop, or leave these features out."
        )
    own = [one.name for one in chain.pixels if one.function]
    mixing = [one.name for one in chain.mixing]
    for operation, followers in (
        *((name, boxes) for name in chain.moves_pixels),
        *((name, [*boxes, *maps]) for name in (*own, *mixing)),
    ):
        if followers:
            raise ConfigError(
                f"augment, {operation!r}: expected none of {', '.join(followers)} to be read, "
                f"which cannot follow their image, got {settings.augment!r}. Leave the operation "
                "or these features out.",
                setting="augment",
                value=settings.augment,
            )
    if chain.flips and len({"xmin", "xmax"} & set(boxes)) == 1:
        raise ConfigError(
            f"features: expected both xmin and xmax or neither, since flip exchanges them, "
            f"got {', '.join(boxes)}",
            setting="features",
        )


def mirror_boxes(
    left: npt.NDArray[Any], right: npt.NDArray[Any], is_mirrored: npt.NDArray[np.bool_]
) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    """Boxes mirrored where their images are.

    Args:
        left, right: `(boxes,)` sides, from 0 to 1, of the boxes of all images together.
        is_mirrored: `(boxes,)`: `np.repeat(are_mirrored(keys), boxes_of_each)`.
    """
    return np.where(is_mirrored, 1 - right, left), np.where(is_mirrored, 1 - left, right)
