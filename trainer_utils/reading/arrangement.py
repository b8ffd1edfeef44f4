"""What one element looks like: features, or these with a label, weights and a mask.

    options = InputOptions(features="image", label="label")
    Arrangement(options, ["image", "label"]).arrange({"image": …, "label": …})

Of tensors tensors, and of arrays of numpy arrays: the same for `input_fn` and `iterate`.
"""

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from trainer_utils.format import ConfigError

if TYPE_CHECKING:
    from trainer_utils.options import InputOptions


MADE = "\0made"  # no feature's name: the key of what a callback returns instead of a dict


class Arrangement:
    """What one element looks like.

    Args:
        options: all settings.
        features: the names of those that are read.

    Raises:
        ConfigError: the mask would take the place of one of them.
    """

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
            weights.append(_as_floats(tensors[self.sample_weight]))
        if self.mask is not None:
            weights.append(tensors[self.mask])
        if self.packs:  # whose own weights are 0 in rows to ignore
            return weights[:1]
        return [weights[0] * weights[1]] if len(weights) == 2 else weights


def call_hook(hook: Any, tensors: dict[str, Any], keep: Collection[str] = ()) -> dict[str, Any]:
    """What a callback makes of an example or a batch.

    Args:
        hook: None: there is none.
        tensors: or what this made of them before: a tuple is taken apart.
        keep: what stays beside a tuple that it returns.

    Returns:
        A dict by name, or with what it returned instead of one as `MADE`.

    Raises:
        ConfigError: it returns nothing.
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


def _as_floats(values: Any) -> Any:
    """Of arrays; whoever gives tensors has cast them."""
    return values.astype(np.float32) if isinstance(values, np.ndarray) else values
