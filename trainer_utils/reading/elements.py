"""Stack rows into arrays, encode labels, and arrange a batch for the trainer.

stack([np.arange(2), np.arange(3)], "tokens")               # [[0, 1, 0], [0, 1, 2]]
arrange(options, {"image": …, "label": …})                  # for the trainer
LabelEncoding.of(options, features, sources).encode(np.array([0, 2]))   # (2, classes) float32
"""

import dataclasses
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from trainer_utils.core.errors import ConfigError, DatasetError
from trainer_utils.dataset.selection import Source, numbers_of_classes
from trainer_utils.format import Feature
from trainer_utils.format.example_columns import Column

if TYPE_CHECKING:
    from trainer_utils.options import InputOptions


MADE = "\0made"  # never the name of a feature; the key of a callback's result that is not a dict

Array = npt.NDArray[Any]
Batch = dict[str, Any]
"""The arrays of a batch or of an example, by the names of features."""


class ArraySpec(NamedTuple):
    """Shape and dtype of an array, known before it is read.

    Attributes:
        shape: the shape, with None for an unknown dimension.
        dtype: a name of numpy's, or `bfloat16`, or `bytes` for arrays of bytes objects.
        is_ragged: whether the value is a `Ragged`, with rows of different lengths.
    """

    shape: tuple[int | None, ...]
    dtype: str
    is_ragged: bool = False


class Ragged(NamedTuple):
    """Concatenated values of all rows, and their `(rows + 1,)` splits."""

    values: Any
    row_splits: npt.NDArray[np.int64]


def stack(values: Sequence[Array], name: str, *, pads: bool = True) -> Array:
    """Stack arrays of one rank; pad the shorter ones if `pads`.

    Args:
        values: the arrays.
        name: the name of the feature, for errors.
        pads: whether arrays of different shapes are padded with zeros or `b""`.

    Raises:
        DatasetError: the shapes differ and cannot be padded.
    """
    arrays = [np.asarray(value) for value in values]
    if not arrays:
        return np.zeros(0)
    shapes = {array.shape for array in arrays}
    if len(shapes) == 1:
        return np.stack(arrays)
    if not pads or len({len(shape) for shape in shapes}) > 1:
        raise DatasetError(
            f"feature {name!r}: expected values of one shape in a batch, got {sorted(shapes)[:3]}. "
            "Set image_size, or read them one by one, with batch_size=None."
        )
    most = np.max([array.shape for array in arrays], axis=0)
    filler = b"" if arrays[0].dtype == object else 0
    batch = np.full((len(arrays), *most), filler, arrays[0].dtype)
    for row, array in zip(batch, arrays, strict=True):
        row[tuple(slice(size) for size in array.shape)] = array
    return batch


def end_to_end(values: Sequence[Array]) -> Ragged:
    """Concatenate arrays into a `Ragged`, one row each."""
    return Ragged(np.concatenate(values), splits_of(np.array([*map(len, values)], np.int64)))


def splits_of(counts: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Return the `(rows + 1,)` offsets of rows with these numbers of values."""
    return np.concatenate([np.zeros(1, np.int64), np.cumsum(counts)])


def padded(column: Column, dtype: Any, start: int, stop: int) -> Array:
    """Return the values of records `start` to `stop`, padded to `(batch, longest)`."""
    values, splits = ragged(column, dtype, start, stop)
    counts = np.diff(splits)
    most = int(counts.max(initial=0))
    batch = np.full((len(counts), most), b"" if dtype is object else 0, dtype)
    batch[np.arange(most) < counts[:, np.newaxis]] = values
    return batch


def ragged(column: Column, dtype: Any, start: int, stop: int) -> Ragged:
    """Return the values of records `start` to `stop` as a `Ragged`."""
    splits = splits_of(column.counts)[start : stop + 1]
    values = column.values[splits[0] : splits[-1]].astype(dtype, copy=False)
    return Ragged(values, splits - splits[0])


def arrange(options: "InputOptions", tensors: dict[str, Any], *, takes_others: bool = False) -> Any:
    """Arrange tensors for the trainer: features, with label and weights if asked for.

    With `takes_others`, features that `options.features` lists may be missing, and others are
    passed on, since the function of a `map` view may rename them.

    The result of a callback that returned no dict is returned unchanged, with the mask appended if
    there is one.

    Raises:
        ConfigError: the callbacks left out a feature that the options name.
    """
    mask, label, weight = options.mask_feature, options.label, options.labels.sample_weight
    if MADE in tensors:
        result = tensors[MADE]
        if mask is None:
            return result
        return (*(result if isinstance(result, tuple) else (result,)), tensors[mask])
    single = options.features if isinstance(options.features, str) else None
    listed = None if takes_others else options.features
    asked = [single] if single is not None else listed or ()
    for name in (*asked, label, weight):
        if name is not None and name not in tensors:
            rule = f"what the callbacks leave: {', '.join(tensors)}"
            raise ConfigError.of("features", name, allowed=rule)
    weights: list[Any] = []
    if weight is not None:
        values = tensors[weight]  # framework tensors have already been cast
        weights = [values.astype(np.float32) if isinstance(values, np.ndarray) else values]
    if mask is not None and not (weights and options.pack):  # packs' are 0 in filler rows
        weights = [weights[0] * tensors[mask] if weights else tensors[mask]]
    if single is not None:
        inputs: Any = tensors[single]
    elif listed is not None:
        inputs = {name: tensors[name] for name in asked}
    else:
        inputs = {name: values for name, values in tensors.items() if name not in (label, weight)}
    if label is not None:
        if mask is not None and single is None:
            inputs.pop(mask, None)
        return (inputs, tensors[label], *weights)
    if mask is None:
        return inputs
    return (inputs, *weights) if single is not None else {**inputs, mask: tensors[mask]}


def call_hook(hook: Any, tensors: dict[str, Any], keep: str | None = None) -> dict[str, Any]:
    """Call a callback with an example or a batch, and return the result as a dict.

    Args:
        hook: the callback, or None to return the tensors.
        tensors: the features by name. A tuple returned by a previous callback is passed as
            positional arguments.
        keep: a feature to keep if the result lacks it; a result that is not a dict is stored as
            `MADE`.

    Raises:
        ConfigError: the callback returned None.
    """
    if hook is None:
        return tensors
    taken: Any = tensors.get(MADE, dict(tensors))  # the callback may modify its copy of the dict
    result = hook(*taken) if isinstance(taken, tuple) else hook(taken)
    if result is None:
        raise ConfigError("callback: expected a function that returns its result, got None")
    if isinstance(result, Mapping):
        return dict(result) if keep is None else {keep: tensors[keep], **result}
    return {MADE: result} if keep is None else {keep: tensors[keep], MADE: result}


@dataclasses.dataclass(frozen=True)
class LabelEncoding:
    """One-hot encoding of a label's ids; `smoothing` of 1 is spread evenly over all classes."""

    label: str
    num_classes: int
    smoothing: float = 0.0

    @classmethod
    def of(
        cls, options: "InputOptions", features: Mapping[str, Feature], sources: Sequence[Source]
    ) -> "LabelEncoding | None":
        """Return the encoding that the options ask for, or None if labels stay unchanged.

        Raises:
            ConfigError: the number of classes is unknown, or the label is not a class id.
        """
        asks = options.labels.one_hot or options.labels.smoothing > 0
        if not (asks or options.augmentation.mixing):
            return None
        label = options.label
        assert label is not None
        feature = features.get(label)
        if feature is None:  # a callback creates the label
            sources = []
        elif feature.type == "float" and feature.dense and not asks:
            return None  # floats can be mixed without encoding
        elif feature.type != "int" or not feature.dense or feature.is_sequence:
            rule = f"int64, one or as many for each example, to be made one-hot, not {feature}"
            raise ConfigError.of("label", label, allowed=rule)
        num_classes = options.labels.num_classes
        if num_classes is None:
            numbers = numbers_of_classes(sources, label) or {0}
            num_classes = max(numbers)
            if len(numbers) > 1 or not num_classes:
                said = " and ".join(str(kind or "nothing") for kind in sorted(numbers))
                rule = f"the number of classes of {label!r}, since the datasets say {said}"
                raise ConfigError.of("num_classes", None, allowed=rule)
        return cls(label, num_classes, options.labels.smoothing)

    def label_in(self, names: Collection[str]) -> str:
        """Return the label's name, or raise a ConfigError if it is not among `names`."""
        if self.label not in names:
            raise ConfigError.of(
                "label", self.label, allowed="one of the dataset or of a pre_batching_callback"
            )
        return self.label

    def encode(self, ids: npt.NDArray[np.int64]) -> npt.NDArray[np.float32]:
        """Encode class ids as `(…, num_classes) float32` rows that sum to 1.

        Raises:
            ConfigError: an id is not below the number of classes.

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
