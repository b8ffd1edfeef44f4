"""Convert Python values to stored values, and derive the features of the resulting dataset.

    stored_value([[1, 2], [3]])                          # Steps('int', ((1, 2), (3,)), None)
    values = record.take({"label": stored_value(3)})     # {'label': (3,)}, for the encoder
    record.features()                                    # {'label': Feature(type='int')}

| value | stored as |
|---|---|
| `bool`, `int`, numpy integers | int64 |
| `float`, numpy floats | float32 |
| `str`, `bytes` | bytes, strings in UTF-8 |
| a flat list of these; an array of rank 1 (or 0) of int64, float32 or strings | a list of them |
| any other array | a serialized tensor, which keeps dtype and shape |
| a list of lists, or of arrays | steps of a `tf.train.SequenceExample` |
| for an image feature: bytes | unchanged |
| for an image feature: `(h, w[, 1, 3 or 4]) uint8`, or a PIL image | a PNG file |

None is a missing value, and so are Arrow's null, pandas' NA and NaT, and a masked numpy scalar.
An array with some missing values is rejected, since it cannot be stored.
Tensors of TensorFlow, Torch or JAX count as arrays, and Arrow scalars as their Python values.
"""

import dataclasses
import itertools
from collections.abc import Collection, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from trainer_utils.core.errors import DatasetError, InputError
from trainer_utils.dataset.inspection import (
    DatasetFacts,
    FeatureFacts,
    ImageFacts,
    features_of_facts,
)
from trainer_utils.format import Feature
from trainer_utils.format.media_formats import encode_png, image_size
from trainer_utils.format.tensors import TensorSpec, encode_tensor

_PLAIN_DTYPES = ("int64", "float32", "string")
_MAX_FLOAT = float(np.finfo(np.float32).max)
_NO_STEPS = "steps"  # steps without any value, and so without a kind
_WIDER = {("float", "int"), ("steps of float", "steps of int")}
Scalar = int | float | bytes
Values = Mapping[str, Any]


@dataclasses.dataclass(frozen=True, slots=True)
class Plain:
    """Values of one kind: `int`, `float` or `string`. An empty list has the kind None."""

    kind: str | None
    values: tuple[Scalar, ...]
    is_list: bool


@dataclasses.dataclass(frozen=True, slots=True)
class Tensor:
    """A serialized array."""

    spec: TensorSpec
    data: bytes


@dataclasses.dataclass(frozen=True, slots=True)
class Steps:
    """A list of steps: their kind (None if all are empty), values, and common shape."""

    kind: str | None
    steps: tuple[tuple[Scalar, ...], ...]
    shape: tuple[int, ...] | None


Stored: TypeAlias = Plain | Tensor | Steps | None


def stored_value(value: Any, *, is_image: bool = False) -> Stored:
    """Convert a value by the table above; raise InputError if it cannot be stored."""
    if hasattr(value, "as_py"):  # an Arrow scalar
        value = value.as_py()
    if _is_missing(value):
        return None
    if is_image:
        return Plain("string", (_image(value),), is_list=False)
    if (scalar := _scalar(value)) is not None:
        return Plain(_kind(scalar), (scalar,), is_list=False)
    if isinstance(value, np.ndarray) or hasattr(value, "__array__"):
        return _of_array(as_array(value))
    if hasattr(value, "to_list"):  # a ragged tensor
        value = value.to_list()
    if isinstance(value, (list, tuple)):
        if any(map(_is_nested, value)):
            return _steps(value)
        kind, values = _one_kind(value)
        return Plain(kind, values, is_list=True)
    known = "bytes, a string, a number, an array, or a list of these"
    raise InputError(f"expected {known}, got {_shown(value)}")


def as_array(value: Any) -> npt.NDArray[Any]:
    """Convert an array of any library to numpy; raise InputError if values are missing."""
    if _lacks_values(value):
        raise InputError(
            "expected an array with all of its values, got one in which some are missing (masked, "
            f"null or NA), {_shown(value)}. Fill or drop them first; None is a missing value"
        )
    try:
        return np.asarray(value)
    except (TypeError, ValueError, RuntimeError) as error:
        raise InputError(f"expected an array, got {_shown(value)}: {error}") from error


def _is_missing(value: Any) -> bool:
    if isinstance(value, np.ma.MaskedArray):
        return not value.ndim and _lacks_values(value)
    kind = type(value)  # by name, to avoid importing pandas
    is_na = kind.__name__ in ("NAType", "NaTType") and kind.__module__.startswith("pandas.")
    return value is None or is_na


def _lacks_values(array: Any) -> bool:
    """Return whether an array has missing values, which numpy would convert to normal ones."""
    if isinstance(array, np.ma.MaskedArray):  # masks of structured arrays have a flag per field
        return bool(np.ascontiguousarray(array.mask).view(np.bool_).any())
    if hasattr(getattr(array, "dtype", None), "na_value"):  # a pandas dtype, not a numpy one
        return bool(array.isna().any())
    nulls = getattr(array, "null_count", 0)  # of Arrow; in Polars it is a method
    nulls = nulls() if callable(nulls) else nulls
    return isinstance(nulls, int) and nulls > 0


def _of_array(array: npt.NDArray[Any]) -> Plain | Tensor:
    try:
        spec = TensorSpec.of(array)
        if spec.dtype not in _PLAIN_DTYPES or array.ndim > 1:
            return Tensor(spec, encode_tensor(array))
    except (DatasetError, UnicodeEncodeError) as error:  # UnicodeEncodeError: an unpaired surrogate
        raise InputError(str(error)) from error
    kind, values = _one_kind(array.reshape(-1).tolist())
    return Plain(kind, values, is_list=array.ndim == 1)


def _steps(parts: Sequence[Any]) -> Steps:
    taken = [_step(part) for part in parts]
    shapes = {shape for _, shape in taken}
    if len(shapes) > 1 and any(len(shape) != 1 for shape in shapes):
        raise InputError(
            f"expected steps of one shape, or lists of numbers or strings, got {sorted(shapes)[:5]}"
        )
    kind, values = _one_kind([value for step, _ in taken for value in step])
    ends = np.cumsum([0, *(len(step) for step, _ in taken)]).tolist()
    steps = tuple(values[start:stop] for start, stop in itertools.pairwise(ends))
    return Steps(kind, steps, shapes.pop() if len(shapes) == 1 else None)


def _step(part: Any) -> tuple[list[Any], tuple[int, ...]]:
    """Return the values of a step as a flat list, and its shape."""
    if isinstance(part, (list, tuple)) and not any(map(_is_nested, part)):
        return [*part], (len(part),)
    array = as_array(part)
    return array.reshape(-1).tolist(), array.shape


def _is_nested(part: Any) -> bool:
    return isinstance(part, (list, tuple)) or bool(getattr(part, "shape", ()))


def _one_kind(values: Sequence[Any]) -> tuple[str | None, tuple[Scalar, ...]]:
    """Return the kind and the stored values of a list. Integers among floats become floats."""
    scalars = [*map(_scalar, values)]
    present = tuple(scalar for scalar in scalars if scalar is not None)
    kinds = {*map(_kind, present)}
    if kinds == {"int", "float"}:
        present, kinds = tuple(map(float, present)), {"float"}
    if len(present) < len(scalars) or len(kinds) > 1:
        odd = next(v for v, s in zip(values, scalars, strict=True) if s is None or len(kinds) > 1)
        raise InputError(f"expected a list of numbers, or of strings, got {_shown(odd)} in one")
    return (kinds.pop() if kinds else None), present


def _scalar(value: Any) -> Scalar | None:
    """Convert a single value; return None if it is not one."""
    # numpy treats timedelta64 as an integer, which would lose the unit.
    is_integer = isinstance(value, (bool, int, np.integer, np.bool_))
    if is_integer and not isinstance(value, np.timedelta64):
        number = int(value)
        if not -(2**63) <= number < 2**63:
            raise InputError(f"expected a signed 64-bit integer, got {number}")
        return number
    if isinstance(value, (float, np.floating)):
        real = float(value)
        if _MAX_FLOAT < abs(real) < float("inf"):
            raise InputError(f"expected a 32-bit float, got {real}, which is too large")
        return real
    if isinstance(value, str):
        try:
            return value.encode()
        except UnicodeEncodeError as error:
            raise InputError(
                f"expected a string that UTF-8 can encode, got {value[:40]!r}"
            ) from error
    is_view = isinstance(value, memoryview) and value.itemsize == 1  # other views have numbers
    return bytes(value) if is_view or isinstance(value, (bytes, bytearray)) else None


def _kind(scalar: Scalar) -> str:
    return "string" if isinstance(scalar, bytes) else type(scalar).__name__


def _image(value: Any) -> bytes:
    """Return an image file: the given one, or a PNG of the pixels."""
    if isinstance(value, (bytes, bytearray, memoryview)):
        return bytes(value)
    if isinstance(value, dict) and "bytes" in value:  # the representation of Hugging Face
        return _image(value["bytes"])
    if hasattr(value, "getbands") and hasattr(value, "convert"):  # a PIL image
        mode = value.mode
        if mode.startswith(("I", "F")):
            raise InputError(f"expected an image with 8 bits per channel, got mode {mode!r}")
        if mode not in ("L", "RGB", "RGBA"):
            has_alpha = mode in ("LA", "La", "PA", "RGBa") or "transparency" in value.info
            value = value.convert("L" if mode == "1" else "RGBA" if has_alpha else "RGB")
        return encode_png(np.asarray(value))
    if hasattr(value, "__array__"):
        try:
            return encode_png(as_array(value))
        except DatasetError as error:
            raise InputError(f"{error}. Give an encoded image, or cast: astype('uint8')") from error
    known = "the bytes of a file, (height, width[, channels]) uint8, or one of PIL"
    raise InputError(f"expected an image: {known}, got {_shown(value)}")


def check_image(data: bytes) -> None:
    """Raise InputError for bytes that are not JPEG, PNG, GIF or BMP."""
    if image_size(data) is None:
        raise InputError(f"expected a JPEG, PNG, GIF or BMP, got {_shown(data)}")


def _shown(value: Any) -> str:
    text = repr(value)
    return f"{type(value).__name__} {text[:60]}{'…' if len(text) > 60 else ''}"


class FeatureRecord:
    """The features of all examples so far.

    `kinds` maps names to `int`, `float` or `string`, or another word for values that are not plain.
    `may_widen` allows a float after integers.
    """

    def __init__(self, *, may_widen: bool = False) -> None:
        self._may_widen = may_widen
        self._facts = DatasetFacts()
        self.kinds: dict[str, str] = {}
        self.tensors: dict[str, TensorSpec] = {}
        self._steps: dict[str, tuple[int, ...] | None] = {}  # the common shape of all steps, if any

    def take(self, example: Mapping[str, Stored]) -> tuple[Values, Values]:
        """Check and record an example; return its values and its feature lists, by name.

        Raises:
            InputError: a feature differs from earlier examples. Nothing is recorded then.
        """
        kinds = {name: self._agreed(name, value) for name, value in example.items()}
        self.kinds |= {name: kind for name, kind in kinds.items() if kind is not None}
        values: dict[str, Any] = {}
        lists: dict[str, Any] = {}
        for name, value in example.items():
            kind = self.kinds.get(name, "")
            if isinstance(value, Tensor):
                self.tensors[name] = self.tensors.get(name, value.spec).merge(value.spec)
                values[name] = value.data
                self._add(self._facts.features, name, "string", (value.data,))
            elif isinstance(value, Steps):
                steps = value.steps
                if value.kind == "int" and kind == "steps of float":
                    steps = tuple(tuple(map(float, step)) for step in steps)
                if steps and self._steps.setdefault(name, value.shape) != value.shape:
                    self._steps[name] = None
                for step in steps:
                    inner = kind.removeprefix(_NO_STEPS).removeprefix(" of ") or "int"
                    self._add(self._facts.lists, name, inner, step)
                lists[name] = steps
            elif value is not None and value.kind is not None:
                plain_values = value.values
                if value.kind == "int" and kind == "float":
                    plain_values = tuple(map(float, plain_values))
                self._add(self._facts.features, name, kind, plain_values)
                # Single bytes are not copied: an image is a part of its record as given.
                is_one = len(plain_values) == 1 and isinstance(plain_values[0], bytes)
                values[name] = plain_values[0] if is_one else plain_values
        self._facts.records += 1
        return values, lists

    def plain_kinds(self, *, exclude: Collection[str]) -> dict[str, str]:
        """Return the kinds of features with numbers, or strings that are not images, by name."""
        facts = self._facts.features
        return {
            name: kind
            for name, kind in self.kinds.items()
            if kind in ("int", "float", "string")
            and name in facts
            and facts[name].images is None
            and name not in {*self.tensors, *exclude}
        }

    def add_plain(self, names: Collection[str], count: int) -> None:
        """Record `count` further examples with one value for each of these features."""
        for name in names if count else ():
            known = self._facts.features[name]
            new = FeatureFacts(known.kind, count, count, 1, 1)
            known.merge(new)
        self._facts.records += count

    def _agreed(self, name: str, value: Stored) -> str | None:
        """Return the kind that all values of a feature so far agree on; None if unknown."""
        known, kind = self.kinds.get(name), _kind_of(value)
        if isinstance(value, Steps) and value.steps and name in self._steps:
            shape = self._steps[name]
            if shape != value.shape and any(len(s or (1,)) > 1 for s in (shape, value.shape)):
                raise InputError(
                    f"feature {name!r}: expected steps of shape {shape} as in the examples "
                    f"before, got {value.shape}. Give all steps the same shape"
                )
        if known is None or kind is None or kind == known:
            return kind or known
        if (known, kind) in _WIDER or (kind == _NO_STEPS and known.startswith(_NO_STEPS)):
            return known
        may_be = known == _NO_STEPS and kind.startswith(_NO_STEPS)
        if may_be or (self._may_widen and (kind, known) in _WIDER):
            return kind
        advice = "Use the same type in all examples, or another name"
        if (known, kind) == ("int", "float"):
            advice = "Use floats from the first example on: float(value)"
        raise InputError(
            f"feature {name!r}: expected {known} as in the examples before, got {kind}. {advice}"
        )

    def _add(
        self, facts: dict[str, FeatureFacts], name: str, kind: str, values: tuple[Scalar, ...]
    ) -> None:
        known, images, count = facts.get(name), None, len(values)
        may_be_images = known is None or known.images is not None  # else one was not an image
        if kind == "string" and name not in self.tensors and may_be_images:
            images = ImageFacts.of_values(values)
        new = FeatureFacts(kind, 1, count, count, count, images=images)
        if known is None:
            facts[name] = new
        else:
            known.kind = kind  # empty steps may have come before any value
            known.merge(new)

    @property
    def images(self) -> frozenset[str]:
        """Features with only images as values."""
        facts = self._facts.features
        return frozenset(name for name in facts if facts[name].images is not None)

    def features(self) -> dict[str, Feature]:
        """Return all features, by name."""
        features = features_of_facts(self._facts)
        for name, spec in self.tensors.items():
            dense = self._facts.features[name].present == self._facts.records
            extra, shape = {"tensor": spec.to_json()}, () if dense else (1,)
            features[name] = Feature(type="string", shape=shape, dense=dense, extra=extra)
        for name, steps in self._steps.items():
            if steps is not None and name in features:
                extra = {"sequence": list(steps)}
                features[name] = dataclasses.replace(features[name], shape=steps, extra=extra)
        return features


def _kind_of(value: Stored) -> str | None:
    """Return the kind of a value, which must be the same in all examples; None if unknown."""
    if value is None:
        return None
    if isinstance(value, Tensor):
        return f"a tensor of {value.spec.dtype} and rank {len(value.spec.shape)}"
    if isinstance(value, Steps):
        return _NO_STEPS if value.kind is None else f"{_NO_STEPS} of {value.kind}"
    return value.kind
