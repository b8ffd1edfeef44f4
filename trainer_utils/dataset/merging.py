"""The features of several datasets as one: what is said of a feature holds in all of them.

merge_descriptions([first.features["image"], second.features["image"]])  # alike but for extra keys
merge_features({"a/": first.features, "b/": second.features})    # of different lengths, or missing
"""

import dataclasses
from collections.abc import Mapping, Sequence

from trainer_utils.format import DatasetError, Feature
from trainer_utils.format.datum import DATUM_IMAGE_FORMATS


def merge_descriptions(features: Sequence[Feature]) -> Feature:
    """The first feature, with those of its extra keys that are true of all.

    An image's sizes are mixed where any two differ; its formats are all that come in any. Of
    tensors, the sizes in which they differ are not known.
    """
    first = features[0]
    extra = {
        key: value
        for key, value in first.extra.items()
        if all(feature.extra.get(key) == value for feature in features)
    }
    tensors = [feature.tensor for feature in features]
    if (tensor := tensors[0]) is not None:
        for other in tensors[1:]:
            tensor = tensor.merge(other) if other is not None else tensor
        extra["tensor"] = tensor.to_json()
    sizes = {feature.extra.get("sizes") for feature in features}
    shapes = {(*f.shape, repr(f.extra.get("image_shape"))) for f in features}
    if first.is_image and ("mixed" in sizes or len(shapes) > 1):
        extra["sizes"] = "mixed"
    formats = [feature.extra.get("formats", DATUM_IMAGE_FORMATS) for feature in features]
    if any("formats" in feature.extra for feature in features):
        extra["formats"] = sorted(set().union(*formats))
    return dataclasses.replace(first, extra=extra)


def merge_features(by_input: Mapping[str, Mapping[str, Feature]]) -> dict[str, Feature]:
    """Features that hold for the examples of all inputs together, which are named for messages.

    Raises:
        DatasetError: a feature is of different kinds in two inputs.
    """
    found: dict[str, tuple[str, Feature]] = {}
    for where, features in by_input.items():
        for name, feature in features.items():
            first_where, first = found.setdefault(name, (where, feature))
            found[name] = first_where, _both(name, first, feature, (first_where, where))
    everywhere = set.intersection(*(set(features) for features in by_input.values()))
    return {
        name: feature if name in everywhere else _sparse(feature)
        for name, (_, feature) in sorted(found.items())
    }


def _both(name: str, one: Feature, other: Feature, where: tuple[str, str]) -> Feature:
    if one == other:
        return one
    alike = one.type == other.type and one.is_image == other.is_image
    alike &= one.extra.get("encoding") == other.extra.get("encoding")
    alike &= tensor_likeness(one) == tensor_likeness(other) and one.tokens == other.tokens
    if one.is_image or not (one.dense and other.dense):
        alike &= len(one.shape or (1,)) == len(other.shape or (1,))
    elif one.shape != other.shape:  # two fixed sizes: lists of no fixed length
        alike &= len(one.shape) < 2 and len(other.shape) < 2
    if not alike:
        raise DatasetError(
            f"feature {name!r}: expected the same in all inputs, got {_described(one)} "
            f"({where[0]}) and {_described(other)} ({where[1]}). Balance them apart, or convert "
            "one of them."
        )
    both = merge_descriptions([one, other])
    if one.is_image:
        return dataclasses.replace(both, dense=one.dense and other.dense)
    if one.dense and other.dense and one.shape == other.shape:
        return both
    sizes = zip(one.shape or (1,), other.shape or (1,), strict=True)
    return Feature(type=one.type, shape=tuple(map(max, sizes)), dense=False, extra=both.extra)


def tensor_likeness(feature: Feature) -> tuple[str, int] | None:
    """The dtype and rank that tensors must have in common to be batched together."""
    tensor = feature.tensor
    return None if tensor is None else (tensor.dtype, len(tensor.shape))


def _sparse(feature: Feature) -> Feature:
    if feature.is_image:
        return dataclasses.replace(feature, dense=False)
    return dataclasses.replace(feature, dense=False, shape=feature.shape or (1,))


def _described(feature: Feature) -> str:
    if feature.tensor is not None:
        return f"a tensor {feature.tensor}"
    kind = "an image of rank" if feature.is_image else f"{feature.type} of shape"
    shape = len(feature.shape) if feature.is_image else list(feature.shape)
    return f"{kind} {shape}"
