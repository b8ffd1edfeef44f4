"""What one element looks like: features, or these with a label, weights and a mask.

Arrangement(options, ["image", "label"]).arrange({"image": …, "label": …})
LabelEncoding.of(options, features, sources).encode(np.array([0, 2]))   # (2, classes) float32
"""

import dataclasses
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from trainer_utils.dataset.selection import Source, numbers_of_classes
from trainer_utils.format import ConfigError, Feature

if TYPE_CHECKING:
    from trainer_utils.options import InputOptions


MADE = "\0made"  # no feature's name: the key of what a callback returns instead of a dict


class Arrangement:
    """What one element looks like; a mask that would take the place of a feature is refused."""

    def __init__(self, options: "InputOptions", features: Collection[str]) -> None:
        self.features, self.label = options.features, options.label
        self.sample_weight = options.labels.sample_weight
        self.mask = options.mask if options.remainder == "pad" else None
        self.packs = options.pack is not None and self.sample_weight is not None
        if self.mask in features:
            rule = "a name that no feature has"
            raise ConfigError.of("mask", self.mask, allowed=rule, advice="Choose another, mask=…")

    def arrange(self, tensors: dict[str, Any]) -> Any:
        """Features; or these with the label; or with weights too; or what a callback made."""
        if MADE in tensors:
            made = tensors[MADE]
            if self.mask is None:
                return made
            return (*(made if isinstance(made, tuple) else (made,)), tensors[self.mask])
        asked = [self.features] if isinstance(self.features, str) else self.features or ()
        for name in (*asked, self.label, self.sample_weight):
            if name is not None and name not in tensors:
                raise ConfigError.of(
                    "features", name, allowed=f"what the callbacks leave: {', '.join(tensors)}"
                )
        weights = self._weights(tensors)
        if isinstance(self.features, str):
            inputs: Any = tensors[self.features]
        elif self.features is not None:
            inputs = {name: tensors[name] for name in self.features}
        else:
            apart = {self.label, self.sample_weight}
            inputs = {name: value for name, value in tensors.items() if name not in apart}
        if self.label is not None:
            if self.mask is not None and isinstance(inputs, dict):
                inputs.pop(self.mask, None)
            return (inputs, tensors[self.label], *weights)
        if self.mask is None:
            return inputs
        if isinstance(inputs, dict):
            return {**inputs, self.mask: tensors[self.mask]}
        return (inputs, *weights)

    def _weights(self, tensors: dict[str, Any]) -> list[Any]:
        weights = []
        if self.sample_weight is not None:
            values = tensors[self.sample_weight]  # whoever gives tensors has cast them
            is_array = isinstance(values, np.ndarray)
            weights.append(values.astype(np.float32) if is_array else values)
        if self.mask is not None:
            weights.append(tensors[self.mask])
        if self.packs:  # whose own weights are 0 in rows to ignore
            return weights[:1]
        return [weights[0] * weights[1]] if len(weights) == 2 else weights


def call_hook(hook: Any, tensors: dict[str, Any], keep: Collection[str] = ()) -> dict[str, Any]:
    """What a callback makes of an example or a batch.

    A dict by name, or with what it returned instead of one as `MADE`, beside which `keep` stays; a
    tuple that the one before made is taken apart for it. Raises ConfigError where it returns None.
    """
    if hook is None:
        return tensors
    taken: Any = tensors.get(MADE, dict(tensors))  # a dict of its own, which it may change
    made = hook(*taken) if isinstance(taken, tuple) else hook(taken)
    if made is None:
        raise ConfigError("callback: expected one that returns what it made, got None")
    if isinstance(made, Mapping):
        return dict(made)
    return {**{name: tensors[name] for name in keep}, MADE: made}


@dataclasses.dataclass(frozen=True)
class LabelEncoding:
    """How ids of a label become floats: `smoothing` of 1 is spread evenly over all classes."""

    label: str
    num_classes: int
    smoothing: float = 0.0

    @classmethod
    def of(
        cls, options: "InputOptions", features: Mapping[str, Feature], sources: Sequence[Source]
    ) -> "LabelEncoding | None":
        """That which the options ask for; None where labels stay as they are.

        Raises:
            ConfigError: it is not known how many classes there are, or the label is no class id.
        """
        asks = options.labels.one_hot or options.labels.smoothing > 0
        if not (asks or options.augmentation.mixing):
            return None
        label = options.label
        assert label is not None
        feature = features.get(label)
        if feature is None:  # a callback makes it
            sources = []
        elif feature.type == "float" and feature.dense and not asks:
            return None  # numbers are mixed as they are
        elif feature.type != "int" or not feature.dense or feature.is_sequence:
            rule = f"int64, one or as many for each example, to be made one-hot, not {feature}"
            raise ConfigError.of("label", label, allowed=rule)
        num_classes = options.labels.num_classes or _num_classes(label, sources)
        return cls(label, num_classes, options.labels.smoothing)

    def label_in(self, names: Collection[str]) -> str:
        """The label, which must be one of some features, or a callback must have made it."""
        if self.label not in names:
            raise ConfigError.of(
                "label", self.label, allowed="one of the dataset or of a pre_batching_callback"
            )
        return self.label

    def encode(self, ids: npt.NDArray[np.int64]) -> npt.NDArray[np.float32]:
        """Class ids one-hot: `(…, num_classes) float32`, of sum 1.

        Source: Szegedy et al., "Rethinking the Inception Architecture for Computer Vision", 2015.
        """
        wrong = ids[(ids < 0) | (ids >= self.num_classes)]
        if wrong.size:
            rule = f"more than the ids of {self.label!r}, of which {int(wrong[0])} is one"
            raise ConfigError.of("num_classes", self.num_classes, allowed=rule)
        spread = self.smoothing / self.num_classes
        encoded = np.full((*ids.shape, self.num_classes), spread, np.float32)
        np.put_along_axis(encoded, ids[..., np.newaxis], 1 - self.smoothing + spread, axis=-1)
        return encoded


def _num_classes(label: str, sources: Sequence[Source]) -> int:
    """As the datasets say, which must agree."""
    found = numbers_of_classes(sources, label) or {0}
    if len(found) != 1 or found == {0}:
        said = " and ".join(str(number or "nothing") for number in sorted(found))
        rule = f"the number of classes of {label!r}, since the datasets say {said}"
        raise ConfigError.of("num_classes", None, allowed=rule)
    return found.pop()
