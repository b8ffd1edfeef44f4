"""What one element looks like: features, or these with a label, weights and a mask.

    options = InputOptions(features="image", label="label")
    Arrangement.of(options, ["image", "label"]).arrange({"image": …, "label": …})

Of tensors tensors, and of arrays of numpy arrays: the same for `input_fn` and `iterate`.
"""

import dataclasses
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from trainer_utils.format import ConfigError

if TYPE_CHECKING:
    from trainer_utils.options import InputOptions

__all__ = ["Arrangement"]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Arrangement:
    """What one element looks like.

    Args:
        features, label, sample_weight: as `InputOptions` has them.
        mask: the mask's name, where there is one.
    """

    features: str | Sequence[str] | None
    label: str | None
    sample_weight: str | None
    mask: str | None

    @classmethod
    def of(cls, options: "InputOptions", features: Collection[str]) -> "Arrangement":
        """That of these options.

        Args:
            options: all settings.
            features: the names of those that are read.

        Raises:
            ConfigError: the mask would take the place of one of them.
        """
        mask = options.mask if options.remainder == "pad" else None
        if mask in features:
            raise ConfigError.of(
                "mask", mask, allowed="a name that no feature has", advice="Choose another, mask=…"
            )
        return cls(
            features=options.features,
            label=options.label,
            sample_weight=options.sample_weight,
            mask=mask,
        )

    def arrange(self, tensors: dict[str, Any]) -> Any:
        """Features; or these with the label; or with weights too."""
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
            weights.append(_as_floats(tensors[self.sample_weight]))
        if self.mask is not None:
            weights.append(tensors[self.mask])
        return [weights[0] * weights[1]] if len(weights) == 2 else weights


def _as_floats(values: Any) -> Any:
    if isinstance(values, np.ndarray):
        return values.astype(np.float32)
    import tensorflow as tf

    return tf.cast(values, tf.float32)
