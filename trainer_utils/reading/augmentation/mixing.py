"""MixUp and CutMix: rows of a batch mixed in pairs, and their labels with them.

    mixer = Mixer(chain.mixing, images=["image"], label="label")
    mixer.mix({"image": pixels, "label": one_hot}, keys)        # the same, mixed

Row 0 is mixed with row 1 and row 1 with row 0, each by a weight of its own, rows 2 and 3 likewise.
What is shuffled well has no better partner than its neighbour; and a pair always lies within one
replica's rows, however many workers there are, where a permutation of a worker's rows would not.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from trainer_utils.reading.augmentation.chain import Operation
from trainer_utils.reading.decoding_threads import run_in_threads

_PURPOSE = 1  # beside the key; draws for one image have 0

Array = npt.NDArray[Any]


@dataclasses.dataclass(frozen=True)
class Mixer:
    """How rows are mixed.

    Args:
        operations: `mixup`, `cutmix`, or both, of which each row then takes one.
        images: the features that are mixed.
        label: the feature that says how much of which class, or what number, a row is; floats.
    """

    operations: Sequence[Operation]
    images: Sequence[str]
    label: str

    def mix(self, batch: Mapping[str, Array], keys: npt.NDArray[np.uint64]) -> dict[str, Array]:
        """Mixes a batch.

        Args:
            batch: `(batch, …)` each; images `(batch, height, width, channels)` of uint8 or floats,
                the label of floats. A last row without a partner stays as it is.
            keys: `(batch,)`, one for a record and epoch.

        Returns:
            The same features. A row is its own by as much as its label says.
        """
        labels = batch[self.label]
        mixed = {name: np.empty_like(batch[name]) for name in (*self.images, self.label)}

        def mix_row(row: int) -> None:
            partner = min(row ^ 1, len(keys) - 1)
            rng = np.random.Generator(np.random.Philox(key=[int(keys[row]), _PURPOSE]))
            operation = self.operations[int(rng.random() * len(self.operations))]
            own = weight = rng.beta(operation.values[0], operation.values[0])
            middle = rng.random(2)
            for name in self.images:
                image, other = batch[name][row], batch[name][partner]
                if operation.name == "mixup":
                    mixed[name][row] = _mixed(image, other, weight)
                    continue
                box = _box(image.shape, weight, middle)
                mixed[name][row] = image
                mixed[name][row][box] = other[box]
                own = 1 - image[box].size / image.size
            mixed[self.label][row] = _mixed(labels[row], labels[partner], own)

        run_in_threads(mix_row, len(keys))
        return {**batch, **mixed}


def _mixed(own: Array, other: Array, weight: float) -> Array:
    """`own` by its weight, `other` by the rest; uint8 rounded.

    Source: Zhang et al., "mixup: Beyond Empirical Risk Minimization", 2018.
    """
    floats = other.astype(np.float32)
    floats = floats + np.float32(weight) * (own.astype(np.float32) - floats)
    return (np.rint(floats) if own.dtype == np.uint8 else floats).astype(own.dtype)


def _box(shape: Sequence[int], weight: float, middle: Array) -> tuple[slice, ...]:
    """The part that is the other image's.

    Args:
        shape: of the images.
        weight: the share that a row keeps where its box lies within.
        middle: of the box, as shares of height and width.

    Source: Yun et al., "CutMix: Regularization Strategy to Train Strong Classifiers with
    Localizable Features", 2019.
    """
    bounds = []
    for extent, place in zip(shape, middle.tolist(), strict=False):
        half, centre = int(extent * (1 - weight) ** 0.5) // 2, int(place * extent)
        bounds.append(slice(max(centre - half, 0), centre + half))
    return tuple(bounds)
