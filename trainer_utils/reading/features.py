"""Convert the values of examples to arrays: padded lists, pixels, samples, tensors.

Shapes and types match `tf.io.parse_example`, with bytes in arrays of objects.
"""

import dataclasses
import functools
import io
import itertools
import math
import wave
from collections.abc import Iterator, Mapping, Sequence
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from trainer_utils.core.errors import ConfigError, DatasetError, TfxShardsError
from trainer_utils.format import Feature
from trainer_utils.format.example_columns import CHANGED_DATASET, Column
from trainer_utils.format.media_formats import image_size
from trainer_utils.format.tensors import (
    array_of,
    decode_tensor,
    item_bytes,
    numpy_dtype,
    tensor_header,
)
from trainer_utils.reading.elements import (
    ArraySpec,
    end_to_end,
    padded,
    ragged,
    splits_of,
    stack,
)
from trainer_utils.reading.image_plans import Keys, are_mirrored
from trainer_utils.reading.images import ImageDecoder
from trainer_utils.reading.input_stats import StageCounters
from trainer_utils.reading.record_reader import Rows
from trainer_utils.storage import is_host_error

if TYPE_CHECKING:
    from trainer_utils.options import InputOptions

_DTYPES: Mapping[str, Any] = {"int": np.int64, "float": np.float32, "string": object}
_NAMES = {"int": "int64", "float": "float32", "string": "bytes"}
_BOXES = ("xmin", "xmax", "ymin", "ymax")  # relative to the image's width and height
MISSING_INT = -1
"""The integer for a missing value of a feature with at most one value per record."""
_KEYPOINTS = "keypoints"  # COCO's layout: x, y and visibility, relative to the image
_COMPANION = "_shape"  # the shape of a sparse feature of rank 2 or more, as written by Datum

Array = npt.NDArray[Any]


class FeatureArrays:
    """Parser and decoder of the given features.

    Args:
        features: the features to read, by name.
        options: the settings of the input.
        allowed: the features that records may have, if the dataset's description must be checked
            because it comes from a sample of the records; else None.
        counters: the counters of the input's work.

    Attributes:
        images: the features that are images or label maps.
        is_random: whether `decode` needs the keys of records.
        structure: shape and dtype of each array of one example.

    Raises:
        ConfigError: a setting does not fit a feature.
    """

    def __init__(
        self,
        features: Mapping[str, Feature],
        options: "InputOptions",
        *,
        allowed: Mapping[str, Feature] | None = None,
        counters: StageCounters | None = None,
    ) -> None:
        self._counters = counters or StageCounters()
        self._given = features, allowed
        self._tokens = {
            n: feature.tokens for n, feature in features.items() if feature.tokens is not None
        }
        as_list = Feature(type="int", shape=(0,), dense=False)
        features = {n: as_list if n in self._tokens else feature for n, feature in features.items()}
        self._features, self._options = features, options
        self._decoders = {
            name: ImageDecoder(
                options,
                channels=self._channels(feature),
                label_map=bool(feature.extra.get("label_map")),
                bits=feature.extra.get("bits", 8),
                counters=self._counters,
            )
            for name, feature in features.items()
            if feature.has_pixels
        }
        self.images = list(self._decoders)
        if self.images:
            check_followers(features, options)
        self.is_random = bool(self.images) and options.augmentation.is_random
        self._mirrors_boxes = self.is_random and options.augmentation.flips and "xmin" in features
        self._lists = [name for name, feature in features.items() if feature.is_sequence]
        self._names = [name for name, feature in features.items() if not feature.is_sequence]
        self._names += [
            n + _COMPANION for n, feature in features.items() if _has_companion(feature)
        ]
        self._allowed = None if allowed is None else {*self._names, *allowed}
        grey = [] if allowed is None else [n for n, feature in features.items() if feature.is_image]
        self._sampled_grey = {n for n in grey if len(features[n].shape) == 2}
        self._views = {
            n for n, feature in features.items() if feature.is_image or feature.is_raw_image
        }
        self._views |= {*self._tokens}
        self._kinds = {
            name: feature.type for name, feature in features.items() if not feature.tokens
        }
        self.structure = {name: self._spec_of(name, feature) for name, feature in features.items()}

    def decode(
        self, rows: Rows, sizes: Sequence[int] | None, keys: Keys | None = None
    ) -> list[dict[str, Any]]:
        """Return one dict of arrays per batch, with `sizes` records each, or per record.

        Args:
            rows: the records.
            sizes: the number of records of each batch. Lists are padded with zeros or `b""`.
                Without it, each record has its own lengths and sizes.
            keys: `(rows,) uint64`, the seeds of random augmentation; without them nothing is
                random.

        Raises:
            DatasetError: a value differs from the dataset's description. Only a caller that decodes
                single records knows the record.
        """
        bounds = range(len(rows) + 1) if sizes is None else itertools.accumulate(sizes, initial=0)
        parts = list(itertools.pairwise(bounds))
        began = perf_counter_ns()
        columns, arrays = self._parsed(rows, keys), {}
        parsed = perf_counter_ns()
        of_images = 0  # their decoders count for themselves
        for name in self._features:
            started = perf_counter_ns() if name in self._decoders else 0
            try:
                arrays[name] = self._arrays(name, columns, parts, keys, is_alone=sizes is None)
            except Exception as error:  # decoders raise errors of many types
                if isinstance(error, TfxShardsError) or is_host_error(error):
                    raise
                said = f"feature {name!r}: expected a value to decode, got {error}"
                raise DatasetError(said) from error
            if started:
                of_images += perf_counter_ns() - started
        decode = perf_counter_ns() - parsed - of_images
        self._counters.add(parse=parsed - began, decode=decode)
        return [{name: array[n] for name, array in arrays.items()} for n in range(len(parts))]

    @functools.cached_property
    def without_augmentation(self) -> "FeatureArrays":
        """A decoder of the same features that changes nothing at random."""
        features, allowed = self._given
        options = self._options.replace(augment=None)
        return FeatureArrays(features, options, allowed=allowed, counters=self._counters)

    def _channels(self, feature: Feature) -> int:
        stored = 1 if len(feature.shape) == 2 else 3
        if "image_shape" in feature.extra:
            stored = feature.extra["image_shape"][-1]
        asked = self._options.image.channels
        return stored if asked is None or feature.extra.get("label_map") else asked

    def _spec_of(self, name: str, feature: Feature) -> ArraySpec:
        """Return shape and dtype of a feature of one example."""
        if (decoder := self._decoders.get(name)) is not None:
            height, width, channels = decoder.shape
            if self._options.image_size is None and "image_shape" in feature.extra:
                height, width = feature.extra["image_shape"][:2]
            elif self._options.image_size is None and feature.is_fixed_size:
                height, width = feature.shape[:2]
            return ArraySpec((height, width, channels), decoder.dtype.name)
        shape: tuple[int | None, ...] = feature.shape
        dtype = _NAMES[feature.type]
        if feature.tensor is not None:
            shape, dtype = feature.tensor.shape, feature.tensor.dtype.replace("string", "bytes")
        elif is_audio(feature):
            length, rate = feature.extra.get("num_frames"), feature.extra.get("sample_rate")
            if (seconds := self._options.audio_seconds) is not None:
                length = None if rate is None else round(rate * seconds)
            shape, dtype = (length, feature.extra.get("channels")), "float32"
        elif feature.is_sequence:
            shape = (None, *((None,) if feature.extra["sequence"] == "ragged" else shape))
        elif not feature.dense:
            shape = (None,) * max(len(shape), 1)
        is_list = shape[:1] == (None,) and None not in shape[1:]
        is_ragged = self._options.ragged and self._options.batch_size is not None and is_list
        return ArraySpec(shape, dtype, is_ragged)

    def _parsed(self, rows: Rows, keys: Keys | None) -> dict[str, Any]:
        """Return the columns of all features, and check their types."""
        columns: dict[str, Any] = rows.parse(
            self._names if self._allowed is None else sorted(self._allowed),
            views=self._views,
            kinds=self._kinds,
            takes_others=self._allowed is None,
        )
        if self._lists:
            columns |= rows.parse_lists(self._lists)
        elif self._allowed is not None and (lists := rows.parse_lists(None)):
            name = min(lists)
            raise _schema_mismatch(f"no feature lists, such as {name!r}", "some")
        for name, spec in self._tokens.items():
            lengths, tokens = rows.documents(name, columns[name], spec)
            columns[name] = Column("int", lengths, tokens.astype(np.int64))
        for name, feature in self._features.items():
            kind = columns[name].kind
            if kind not in ("", feature.type):
                raise _schema_mismatch(f"feature {name!r} of {feature.type} values", kind)
            if "default" in feature.extra:
                columns[name] = _filled(columns[name], feature)
        if self._mirrors_boxes and keys is not None:
            left, right = columns["xmin"], columns["xmax"]
            flips = np.repeat(are_mirrored(keys), left.counts)
            columns["xmin"] = left._replace(values=np.where(flips, 1 - right.values, left.values))
            columns["xmax"] = right._replace(values=np.where(flips, 1 - left.values, right.values))
        return columns

    def _arrays(
        self,
        name: str,
        columns: Mapping[str, Any],
        parts: Sequence[tuple[int, int]],
        keys: Keys | None,
        *,
        is_alone: bool,
    ) -> Sequence[Any]:
        """Return the array of a feature for each part, or for each record if `is_alone`."""
        feature, column = self._features[name], columns[name]
        whole: Any = None
        if name in self._decoders:
            images = self._encoded(name, column)
            arrays = [self._decoded(name, images, part, keys) for part in parts]
            return [pixels[0] for pixels in arrays] if is_alone else arrays
        if feature.dense and _is_plain(feature):
            whole = _dense(name, column, feature)
        elif feature.dense and feature.tensor is not None and feature.tensor.is_fixed:
            whole = self._equal_tensors(name, column)
        elif _is_plain(feature) and not _has_companion(feature) and not is_alone:
            part = ragged if self._options.ragged else padded
            return [part(column, _DTYPES[feature.type], start, stop) for start, stop in parts]
        each = list(self._values(name, columns)) if whole is None else whole
        if is_alone:
            return each
        if whole is not None:
            return [whole[start:stop] for start, stop in parts]
        if self.structure[name].is_ragged:
            return [end_to_end(each[start:stop]) for start, stop in parts]
        return [stack(each[start:stop], name) for start, stop in parts]

    def _decoded(
        self, name: str, images: Sequence[Any], part: tuple[int, int], keys: Keys | None
    ) -> Array:
        """Return the pixels of a part, or raise if their size differs from the dataset's."""
        image_keys = None if keys is None else keys[slice(*part)]
        pixels = self._decoders[name].decode(images[slice(*part)], image_keys)
        size = self.structure[name].shape
        if any(n not in (None, length) for n, length in zip(size, pixels.shape[1:], strict=True)):
            raise _schema_mismatch(f"feature {name!r} of pixels {size}", str(pixels.shape[1:]))
        return pixels

    def _encoded(self, name: str, column: Column) -> list[Any]:
        """Return the images of all records: encoded, or as pixels if they are stored raw."""
        _check_dense(name, column, ())
        values: list[Any] = column.values.tolist()
        if self._features[name].is_image:
            if name in self._sampled_grey:
                _check_grey(name, values)
            return values
        shape = self._features[name].extra["image_shape"]
        if sizes := {len(value) for value in values} - {math.prod(shape)}:
            raise _schema_mismatch(f"feature {name!r} of pixels {shape}", f"{min(sizes)} bytes")
        return [np.frombuffer(value, np.uint8).reshape(shape) for value in values]

    def _equal_tensors(self, name: str, column: Column) -> Array | None:
        """Decode tensors of one shape in one step, or return None if their dtype prevents that."""
        spec = self._features[name].tensor
        assert spec is not None
        if spec.dtype == "string" or not spec.num_elements:
            return None
        _check_dense(name, column, ())
        header = tensor_header(spec.dtype, tuple(size or 0 for size in spec.shape))
        size = len(header) + spec.num_elements * item_bytes(spec.dtype)
        values = column.values.tolist()
        if not all(len(value) == size and value.startswith(header) for value in values):
            raise _schema_mismatch(f"feature {name!r} of tensors {spec}", "another")
        content = b"".join([value[len(header) :] for value in values])
        return np.frombuffer(content, numpy_dtype(spec.dtype)).reshape(len(values), *spec.shape)

    def _values(self, name: str, columns: Mapping[str, Any]) -> Iterator[Any]:
        """Yield the value of each record for tensors, audio, feature lists and sparse features."""
        feature, column = self._features[name], columns[name]
        if feature.is_sequence:
            yield from (_steps(feature, value) for value in column.values)
        elif feature.tensor is not None:
            sizes = [size or 0 for size in feature.tensor.shape]
            nothing = np.zeros(sizes, numpy_dtype(feature.tensor.dtype))
            if feature.dense:
                _check_dense(name, column, ())
            tensors = iter(column.values)
            for count in column.counts:
                yield decode_tensor(next(tensors)) if count else nothing
        elif is_audio(feature):
            _check_dense(name, column, ())
            for value in column.values:
                yield _decode_wav(value, feature, self._options.audio_seconds)
        else:
            yield from _own_values(feature, column, columns.get(name + _COMPANION))


def _check_grey(name: str, values: Sequence[Any]) -> None:
    """Raise a DatasetError if an image has colours, which would be dropped."""
    for value in values:
        size = image_size(bytes(value))
        if size is not None and size.channels != 1:
            raise _schema_mismatch(f"feature {name!r} of grey images", f"{size.channels} channels")


def _own_values(feature: Feature, column: Column, companion: Column | None) -> Iterator[Array]:
    """Yield the values of a sparse feature for each record, in the record's shape."""
    values = column.values.astype(_DTYPES[feature.type], copy=False)
    rows = itertools.pairwise(splits_of(column.counts).tolist())
    shapes: Iterator[Any] = itertools.repeat((-1,))
    if companion is not None:
        bounds = itertools.pairwise(splits_of(companion.counts).tolist())
        shapes = (companion.values[a:b].tolist() or feature.shape for a, b in bounds)
    for (start, stop), shape in zip(rows, shapes, strict=False):
        yield values[start:stop].reshape(shape)


def _steps(feature: Feature, steps: Sequence[Sequence[Any]]) -> Array:
    """Return a record's feature list: `(steps, *shape)`, or padded `(steps, longest)`."""
    dtype, lengths = _DTYPES[feature.type], [len(step) for step in steps]
    values = array_of([value for step in steps for value in step], dtype)
    if feature.extra["sequence"] == "ragged":
        return padded(Column("", np.array(lengths, np.int64), values), dtype, 0, len(steps))
    if any(length != math.prod(feature.shape) for length in lengths):
        raise ValueError(f"steps of {sorted(set(lengths))} values")
    return values.reshape(len(steps), *feature.shape)


def _is_plain(feature: Feature) -> bool:
    """Return whether the feature's values need no decoding."""
    is_bytes_of_one = feature.has_pixels or feature.tensor is not None or is_audio(feature)
    return not is_bytes_of_one and not feature.is_sequence


def _has_companion(feature: Feature) -> bool:
    return not feature.dense and len(feature.shape) > 1 and not feature.is_image


def _filled(column: Column, feature: Feature) -> Column:
    """Fill in a feature's default for records without a value."""
    default = feature.extra["default"]
    default = default.encode() if isinstance(default, str) else default
    size, lacks = math.prod(feature.shape), column.counts == 0
    places = np.repeat(np.cumsum(column.counts)[lacks], size)
    values = column.values.astype(_DTYPES[feature.type], copy=False)
    counts = np.where(lacks, size, column.counts)
    return Column(feature.type, counts, np.insert(values, places, default))


def _dense(name: str, column: Column, feature: Feature) -> Array:
    """Return a feature that every record has as `(rows, *shape)`."""
    is_list = "default" in feature.extra and feature.shape != ()
    if is_list and (column.counts != math.prod(feature.shape)).any():
        rule = "features whose lists all have the same length"
        raise ConfigError.of("default_values", name, allowed=rule)
    if feature.extra.get("optional") and (column.counts == 0).any():
        raise ConfigError.of(
            "label",
            name,
            allowed="a feature that every record has; some of these records have none",
            advice="Read a split whose records are labelled, or omit label=: missing integers are "
            f"then {MISSING_INT}",
        )
    _check_dense(name, column, feature.shape)
    values = column.values.astype(_DTYPES[feature.type], copy=False)
    return values.reshape(len(column.counts), *feature.shape)


def with_missing_values(features: Mapping[str, Feature], label: str | None) -> dict[str, Feature]:
    """Return the features to read, with a rule for values that some records lack.

    Records without a value for the label are refused. Any other missing integer is -1, since 0
    would be a class.
    """
    completed = dict(features)
    for name, feature in features.items():
        is_optional = feature.extra.get("optional") and not feature.dense
        if not is_optional or "default" in feature.extra:
            continue
        if name == label:
            completed[name] = dataclasses.replace(feature, shape=(), dense=True)
        elif feature.type == "int":
            extra = {**feature.extra, "default": MISSING_INT}
            completed[name] = dataclasses.replace(feature, extra=extra)
    return completed


def _check_dense(name: str, column: Column, shape: Sequence[int]) -> None:
    size = math.prod(shape)
    if (column.counts != size).any():
        wrong = column.counts[column.counts != size]
        raise _schema_mismatch(f"feature {name!r} of {size} values", str(wrong[0]))


def _schema_mismatch(expected: str, got: str) -> DatasetError:
    said = f"expected {expected} as the dataset says, got {got}"
    return DatasetError(f"{said}. {CHANGED_DATASET}")


def is_audio(feature: Feature) -> bool:
    """Return whether a feature's bytes are a WAV file."""
    return feature.type == "string" and feature.extra.get("encoding") == "wav"


def _decode_wav(data: bytes, feature: Feature, seconds: float | None) -> npt.NDArray[np.float32]:
    """Decode a WAV file of 16-bit PCM to `(samples, channels) float32` in [-1, 1).

    Raises:
        ValueError: the bytes are not such a file, or have another sample rate.

    Source: RIFF, "Multimedia Programming Interface and Data Specifications 1.0" (1991).
    """
    try:
        with wave.open(io.BytesIO(data)) as file:
            rate, channels, width = file.getframerate(), file.getnchannels(), file.getsampwidth()
            frames = file.readframes(file.getnframes())
    except (EOFError, wave.Error) as error:
        raise ValueError(f"no WAV file: {error}") from error
    known = feature.extra.get("sample_rate")
    if width != 2 or known not in (None, rate):
        raise ValueError(f"a WAV file of {8 * width} bits and {rate} Hz")
    samples = np.frombuffer(frames, "<i2").reshape(-1, channels).astype(np.float32) / 32768
    if seconds is None:
        return samples
    count = round(rate * seconds)
    return np.pad(samples[:count], [(0, max(count - len(samples), 0)), (0, 0)])


def check_followers(features: Mapping[str, Feature], options: "InputOptions") -> None:
    """Raise a ConfigError if a feature cannot follow the changes of the images read with it."""
    boxes, chain = [name for name in _BOXES if name in features], options.augmentation
    maps = [name for name, feature in features.items() if feature.extra.get("label_map")]
    is_whole = options.image_size is None or options.image.resize == "stretch"
    if boxes and (chain.crops or not is_whole):
        rule = "no boxes for cropped or padded images, since the boxes do not follow them"
        cure = "Set resize='stretch' without random_resized_crop, or leave these features out"
        raise ConfigError.of("features", boxes, allowed=rule, advice=cure)
    if _KEYPOINTS in features and (chain.crops or chain.flips or not is_whole):
        rule = "no keypoints for mirrored, cropped or padded images, since they do not follow them"
        cure = "Set resize='stretch' without such an augment, or leave this feature out"
        raise ConfigError.of("features", _KEYPOINTS, allowed=rule, advice=cure)
    for operation in (*chain.pixels, *chain.mixing):
        followers = boxes if operation.name in ("rotation", "randaugment") else []
        if operation.function or operation in chain.mixing:
            followers = [*boxes, *maps]
        if followers:
            names = ", ".join(followers)
            rule = f"no {operation.name!r} with {names}, which cannot follow their image"
            raise ConfigError.of("augment", options.augment, allowed=rule)
    deep = [name for name, feature in features.items() if feature.extra.get("bits") == 16]
    if deep and (others := [operation.name for operation in (*chain.pixels, *chain.mixing)]):
        rule = f"no {others[0]!r} where {', '.join(deep)} has 16 bits: only crops and 'flip'"
        cure = "Change the batches' arrays yourself, or convert with sixteen_bit='scale'"
        raise ConfigError.of("augment", options.augment, allowed=rule, advice=cure)
    if chain.flips and len({"xmin", "xmax"} & set(boxes)) == 1:
        rule = "both xmin and xmax or neither, since flip exchanges them"
        raise ConfigError.of("features", boxes, allowed=rule)
