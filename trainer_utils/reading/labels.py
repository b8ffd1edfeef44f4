"""Labels as a loss of soft classes takes them: one-hot, smoothed.

encoding = LabelEncoding.of(options, features, sources)
encoding.encode({"label": ids, …})      # (batch,) int64 to (batch, classes) float32
"""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import tensorflow as tf

from trainer_utils.dataset.selection import Source
from trainer_utils.format import ConfigError, Feature

if TYPE_CHECKING:
    from trainer_utils.options import InputOptions

__all__ = ["LabelEncoding"]


@dataclasses.dataclass(frozen=True)
class LabelEncoding:
    """How class ids become floats.

    Args:
        label: the feature.
        num_classes: as many as there are.
        smoothing: what of 1 is spread evenly over all classes.
    """

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
        mixes = bool(options.augmentation.mixing)
        asks = options.one_hot or options.label_smoothing > 0
        if not (asks or mixes):
            return None
        label = options.label
        assert label is not None
        feature = features[label]
        if feature.type == "float" and feature.dense and not asks:
            return None  # numbers are mixed as they are
        if feature.type != "int" or not feature.dense or feature.is_sequence:
            raise ConfigError(
                f"label, feature {label!r}: expected int64, one or as many for each example, to "
                f"be made one-hot, got {feature}",
                setting="label",
                value=label,
            )
        num_classes = options.num_classes or _num_classes(label, sources)
        return cls(label, num_classes, options.label_smoothing)

    def encode(self, tensors: dict[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        """The same with the label one-hot: `(…, num_classes) float32`, of sum 1.

        An id that is no class is an `InvalidArgumentError` when it is read.

        Source: Szegedy et al., "Rethinking the Inception Architecture for Computer Vision", 2015.
        """
        ids = tensors[self.label]
        check = tf.debugging.Assert(
            tf.reduce_all((ids >= 0) & (ids < self.num_classes)),
            [f"feature {self.label!r}: expected ids below {self.num_classes}, the number of "
             "classes, got", ids, "Set num_classes."],
            summarize=8,
        )  # fmt: skip
        with tf.control_dependencies([check]):
            spread = self.smoothing / self.num_classes
            encoded = tf.one_hot(ids, self.num_classes, 1 - self.smoothing + spread, spread)
        return {**tensors, self.label: encoded}


def _num_classes(label: str, sources: Sequence[Source]) -> int:
    """As the datasets say, which must agree."""
    found: set[int] = set()
    for dataset in {id(source.dataset): source.dataset for source in sources}.values():
        said = dataset.features[label].extra.get("num_classes")
        if said is None and label in dataset.vocabulary_files:
            said = len(dataset.vocabularies[label])
        found.add(int(str(said or 0)))
    if len(found) != 1 or found == {0}:
        raise ConfigError(
            f"num_classes: expected the number of classes of {label!r}, since the datasets say "
            f"{' and '.join(str(number or 'nothing') for number in sorted(found))}, got None",
            setting="num_classes",
        )
    return found.pop()
