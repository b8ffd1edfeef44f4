"""Boxes and label maps beside images that are changed: what follows its image, what cannot.

check_followers(features, options)                  # refuses what does not fit
mirror_boxes({"xmin": …, "xmax": …}, is_mirrored)   # xmin becomes 1 - xmax
"""

import dataclasses
from collections.abc import Mapping

import tensorflow as tf

from trainer_utils.format import ConfigError, Feature
from trainer_utils.reading.decoding import DecodeOptions

__all__ = ["boxes_of", "check_followers", "mirror_boxes"]

_BOXES = ("xmin", "xmax", "ymin", "ymax")  # shares of the whole image's width and height


def boxes_of(features: Mapping[str, Feature]) -> list[str]:
    """The features that are sides of boxes."""
    return [name for name in _BOXES if name in features]


def check_followers(features: Mapping[str, Feature], options: DecodeOptions) -> None:
    """Refuses features that cannot follow the images that they are read with.

    Args:
        features: images among them.
        options: what becomes of these.

    Raises:
        ConfigError: it names the operation and the features.
    """
    boxes, chain = boxes_of(features), options.augmentation
    maps = [name for name, feature in features.items() if feature.extra.get("label_map")]
    images = dataclasses.replace(options.images, flip=False)
    if boxes and not images.keeps_boxes:
        raise ConfigError(
            f"features: expected none of {', '.join(boxes)} beside images that are cut or padded, "
            f"which they do not fit, got {options.images}. "
            "Set resize='stretch' without random_resized_crop, or leave these features out."
        )
    mixing = [operation.name for operation in chain.mixing]
    for operation, followers in (
        *((name, boxes) for name in chain.moves_pixels),
        *((name, [*boxes, *maps]) for name in mixing),
    ):
        if followers:
            raise ConfigError(
                f"augment, {operation!r}: expected none of {', '.join(followers)} to be read, "
                f"which cannot follow their image, got {options.augment!r}. Leave the operation "
                "or these features out.",
                setting="augment",
                value=options.augment,
            )
    if chain.flips and len({"xmin", "xmax"} & set(boxes)) == 1:
        raise ConfigError(
            f"features: expected both xmin and xmax or neither, since flip exchanges them, "
            f"got {', '.join(boxes)}",
            setting="features",
        )


def mirror_boxes(parsed: Mapping[str, tf.Tensor], is_mirrored: tf.Tensor) -> dict[str, tf.Tensor]:
    """One example's features with its boxes mirrored where its image is.

    Args:
        parsed: `xmin` and `xmax` among them, of the same number of values, or neither.
        is_mirrored: `() bool`.
    """
    if "xmin" not in parsed:
        return dict(parsed)
    left, right = parsed["xmin"], parsed["xmax"]
    return {
        **parsed,
        "xmin": _with_values(left, tf.where(is_mirrored, 1 - _values(right), _values(left))),
        "xmax": _with_values(right, tf.where(is_mirrored, 1 - _values(left), _values(right))),
    }


def _values(value: tf.Tensor) -> tf.Tensor:
    return value.values if isinstance(value, tf.SparseTensor) else value


def _with_values(value: tf.Tensor, values: tf.Tensor) -> tf.Tensor:
    if isinstance(value, tf.SparseTensor):
        return tf.SparseTensor(value.indices, values, value.dense_shape)
    return values
