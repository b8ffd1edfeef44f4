"""One feature for several datasets that are read together: what is said of it holds in all.

merged([first.features["image"], second.features["image"]])
"""

import dataclasses
from collections.abc import Sequence

from trainer_utils.format import Feature

__all__ = ["merged"]

_USUAL_FORMATS = ("GIF", "JPEG", "PNG")  # that may come where a dataset does not say


def merged(features: Sequence[Feature]) -> Feature:
    """The first feature, with those of its extra keys that are true of all.

    An image's sizes are mixed where any two differ; its formats are all that come in any.
    """
    first = features[0]
    extra = {
        key: value
        for key, value in first.extra.items()
        if all(feature.extra.get(key) == value for feature in features)
    }
    sizes = {feature.extra.get("sizes") for feature in features}
    if "mixed" in sizes or len({feature.shape for feature in features}) > 1:
        extra["sizes"] = "mixed"
    formats = [feature.extra.get("formats", _USUAL_FORMATS) for feature in features]
    if any("formats" in feature.extra for feature in features):
        extra["formats"] = sorted(set().union(*formats))
    return dataclasses.replace(first, extra=extra)
