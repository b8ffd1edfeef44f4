"""Labels as a loss of soft classes takes them: one-hot, smoothed.

encoding = LabelEncoding.of(options, features, sources)
encoding.encode(np.array([0, 2]))      # (batch,) int64 to (batch, classes) float32
"""

import dataclasses
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from trainer_utils.dataset.selection import Source, numbers_of_classes
from trainer_utils.format import ConfigError, Feature

if TYPE_CHECKING:
    from trainer_utils.options import InputOptions


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
        asks = options.labels.one_hot or options.labels.smoothing > 0
        if not (asks or options.augmentation.mixing):
            return None
        label = options.label
        assert label is not None
        num_classes = options.labels.num_classes
        feature = features.get(label)
        if feature is None:  # a callback makes it
            num_classes = num_classes or _num_classes(label, [])
            return cls(label, num_classes, options.labels.smoothing)
        if feature.type == "float" and feature.dense and not asks:
            return None  # numbers are mixed as they are
        if feature.type != "int" or not feature.dense or feature.is_sequence:
            raise ConfigError(
                f"label, feature {label!r}: expected int64, one or as many for each example, to "
                f"be made one-hot, got {feature}",
                setting="label",
                value=label,
            )
        num_classes = num_classes or _num_classes(label, sources)
        return cls(label, num_classes, options.labels.smoothing)

    def label_in(self, names: Collection[str]) -> str:
        """The label, which must be one of some features.

        Raises:
            ConfigError: it is not, and no callback made it in time.
        """
        if self.label not in names:
            raise ConfigError.of(
                "label", self.label, allowed="one of the dataset or of a pre_batching_callback"
            )
        return self.label

    def encode(self, ids: npt.NDArray[np.int64]) -> npt.NDArray[np.float32]:
        """Class ids one-hot: `(…, num_classes) float32`, of sum 1.

        Raises:
            ConfigError: an id is no class.

        Source: Szegedy et al., "Rethinking the Inception Architecture for Computer Vision", 2015.
        """
        wrong = ids[(ids < 0) | (ids >= self.num_classes)]
        if wrong.size:
            raise ConfigError(
                f"num_classes: expected ids of {self.label!r} below the number of classes, "
                f"{self.num_classes}, got {int(wrong[0])}. Set num_classes.",
                setting="num_classes",
                value=self.num_classes,
            )
        spread = self.smoothing / self.num_classes
        encoded = np.full((*ids.shape, self.num_classes), spread, np.float32)
        np.put_along_axis(encoded, ids[..., np.newaxis], 1 - self.smoothing + spread, axis=-1)
        return encoded


def _num_classes(label: str, sources: Sequence[Source]) -> int:
    """As the datasets say, which must agree."""
    found = numbers_of_classes(sources, label) or {0}
    if len(found) != 1 or found == {0}:
        raise ConfigError(
            f"num_classes: expected the number of classes of {label!r}, since the datasets say "
            f"{' and '.join(str(number or 'nothing') for number in sorted(found))}, got None",
            setting="num_classes",
        )
    return found.pop()
