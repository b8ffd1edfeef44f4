"""MixUp and CutMix: rows of a batch mixed in pairs, and their labels with them.

    mixer = Mixer(chain.mixing, images=["image"], label="label")
    mixer.mix({"image": pixels, "label": one_hot, KEYS: keys})      # the same, mixed, without KEYS

Row 0 is mixed with row 1 and row 1 with row 0, each by a weight of its own, rows 2 and 3 likewise.
What is shuffled well has no better partner than its neighbour; and a pair always lies within one
replica's rows, however many workers there are, where a permutation of a worker's rows would not.
"""

import dataclasses
from collections.abc import Sequence

import tensorflow as tf

from trainer_utils.reading.augmentation.chain import Operation
from trainer_utils.reading.augmentation.draws import draw_betas, draw_uniforms

__all__ = ["KEYS", "Mixer"]

KEYS = "\0keys"
"""Under which a batch has its records' keys, `(batch, 2) int64`; no feature's name."""
_PURPOSE = 1  # of draws; those of pixels have 0

Tensors = dict[str, tf.Tensor]


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

    def mix(self, tensors: Tensors) -> Tensors:
        """Mixes a batch.

        Args:
            tensors: `(batch, …)` each; images `(batch, height, width, channels)` of uint8 or
                floats, the label of floats. A last row without a partner stays as it is.

        Returns:
            The same but for the keys. A row is its own by as much as its label says.
        """
        mixed = self.without_keys(tensors)
        uniforms = draw_uniforms(tensors[KEYS], count=5, purpose=_PURPOSE)
        rows = tf.range(tf.shape(uniforms)[0])
        partners = tf.minimum(tf.bitwise.bitwise_xor(rows, 1), tf.shape(rows)[0] - 1)
        weights = {
            one.name: draw_betas(uniforms[:, n], alpha=one.values[0])
            for n, one in enumerate(self.operations)
        }
        cuts = self._takes_cutmix(uniforms[:, 2])
        own = weights.get("mixup", weights.get("cutmix"))
        for name in self.images:
            images, others = mixed[name], tf.gather(mixed[name], partners)
            parts = []
            if "mixup" in weights:
                parts.append(_mix(images, others, weights["mixup"]))
            if "cutmix" in weights:
                is_cut = _boxes(tf.shape(images), weights["cutmix"], uniforms[:, 3:])
                parts.append(tf.where(is_cut[..., tf.newaxis], others, images))
                kept = 1 - tf.reduce_mean(tf.cast(is_cut, tf.float32), axis=(1, 2))
                own = kept if len(parts) == 1 else tf.where(cuts, kept, weights["mixup"])
            mixed[name] = (
                parts[0]
                if len(parts) == 1
                else tf.where(tf.reshape(cuts, (-1, 1, 1, 1)), parts[1], parts[0])
            )
        labels = mixed[self.label]
        mixed[self.label] = _mix(labels, tf.gather(labels, partners), own)
        return mixed

    def without_keys(self, tensors: Tensors) -> Tensors:
        """A batch that is not mixed."""
        return {name: value for name, value in tensors.items() if name != KEYS}

    def _takes_cutmix(self, uniforms: tf.Tensor) -> tf.Tensor:
        """Which rows are cut where there are both."""
        return uniforms < 0.5


def _mix(values: tf.Tensor, others: tf.Tensor, weights: tf.Tensor) -> tf.Tensor:
    """`values` by their weights, `others` by the rest.

    Source: Zhang et al., "mixup: Beyond Empirical Risk Minimization", 2018.
    """
    weights = tf.reshape(weights, [-1] + [1] * (values.shape.rank - 1))
    floats, rest = (tf.cast(part, tf.float32) for part in (values, others))
    mixed = rest + weights * (floats - rest)
    return tf.cast(mixed if values.dtype.is_floating else tf.round(mixed), values.dtype)


def _boxes(shape: tf.Tensor, weights: tf.Tensor, middles: tf.Tensor) -> tf.Tensor:
    """Which pixels are the other image's, `(batch, height, width) bool`.

    Args:
        shape: of the images.
        weights: `(batch,) float32`, the share that a row keeps where its box lies within.
        middles: `(batch, 2) float32` in [0, 1), of the boxes.

    Source: Yun et al., "CutMix: Regularization Strategy to Train Strong Classifiers with
    Localizable Features", 2019.
    """
    side = tf.sqrt(1 - weights)

    def is_within(extent: tf.Tensor, middle: tf.Tensor) -> tf.Tensor:
        pixels = tf.cast(extent, tf.float32)
        half = tf.cast(pixels * side, tf.int32) // 2
        centre = tf.cast(middle * pixels, tf.int32)
        places = tf.range(extent)
        begin, end = (centre - half)[:, tf.newaxis], (centre + half)[:, tf.newaxis]
        return (places >= begin) & (places < end)

    rows = is_within(shape[1], middles[:, 0])
    columns = is_within(shape[2], middles[:, 1])
    return rows[:, :, tf.newaxis] & columns[:, tf.newaxis, :]
