"""What the values of an example's features become: arrays, padded lists, pixels, samples.

    restorer = FeatureArrays(features, options)
    arrays = restorer.batch(rows)             # {'label': (batch,) int64, 'text': (batch,) object}

The same shapes and types as `input_fn` gives, with bytes in arrays of objects.
"""

import io
import itertools
import wave
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from trainer_utils.arrays.examples import Column, parse_examples
from trainer_utils.arrays.images import ImageDecoder, check_settings
from trainer_utils.arrays.records import Rows
from trainer_utils.format import ConfigError, DatasetError, Feature
from trainer_utils.format.base64_pixels import BASE64_SIZES, decode_base64_pixels
from trainer_utils.format.tensors import decode_tensor
from trainer_utils.reading.audio import is_audio

if TYPE_CHECKING:
    from trainer_utils.options import InputOptions

__all__ = ["FeatureArrays"]

_DTYPES: Mapping[str, Any] = {"int": np.int64, "float": np.float32, "string": object}
_COMPANION = "_shape"  # of a sparse feature of rank 2 or more, as Datum writes it

Array = npt.NDArray[Any]


class FeatureArrays:
    """Parses and decodes the features of `features`, and no others.

    Args:
        features: by name.
        options: of the input.

    Raises:
        ConfigError: a setting, or a feature, is one that only TensorFlow reads.
    """

    def __init__(self, features: Mapping[str, Feature], options: "InputOptions") -> None:
        self._features, self._options = features, options
        has_pixels = any(feature.has_pixels for feature in features.values())
        if has_pixels:
            check_settings(options.images)
        for name, feature in features.items():
            if feature.is_sequence:
                raise ConfigError.of(
                    "features", name, allowed="none of tf.train.SequenceExample's feature lists"
                )
        self._decoders = {
            name: self._decoder_of(feature)
            for name, feature in features.items()
            if feature.has_pixels
        }
        self.decodes = any(feature.is_image for feature in features.values())
        """Whether there is more to do than parsing."""

    def examples(self, rows: Rows) -> list[dict[str, Any]]:
        """Each record's features by themselves, of their own lengths and sizes."""
        values = {
            name: list(self._each(name, rows, columns)) for name, columns in self._parsed(rows)
        }
        return [{name: own[n] for name, own in values.items()} for n in range(len(rows.names))]

    def batch(self, rows: Rows) -> dict[str, Array]:
        """Arrays of all records; see `batches`."""
        return self.batches(rows, [len(rows.names)])[0]

    def batches(self, rows: Rows, sizes: Sequence[int]) -> list[dict[str, Array]]:
        """Arrays of so many records each; lists are padded with zeros or `b""`.

        Raises:
            DatasetError: a value is not what the dataset says of it; it has path and record.
        """
        bounds = np.cumsum([0, *sizes]).tolist()
        parts = list(itertools.pairwise(bounds))
        found: list[dict[str, Array]] = [{} for _ in sizes]
        for name, columns in self._parsed(rows):
            feature, column = self._features[name], columns[name]
            if _is_restored_alone(feature):
                each = list(self._each(name, rows, columns))
                arrays = [stack(each[start:stop], name) for start, stop in parts]
            elif feature.dense:
                _check_dense(name, feature, column, rows)
                values = column.values.astype(_DTYPES[feature.type], copy=False)
                values = values.reshape(len(rows.names), *feature.shape)
                arrays = [values[start:stop] for start, stop in parts]
            else:
                arrays = _padded_parts(column, _DTYPES[feature.type], parts)
            for batch, array in zip(found, arrays, strict=True):
                batch[name] = array
        return found

    def _decoder_of(self, feature: Feature) -> ImageDecoder:
        label_map = bool(feature.extra.get("label_map"))
        asked = None if label_map else self._options.images.channels
        stored = 1 if len(feature.shape) == 2 else 3
        if feature.is_raw_image:
            stored = feature.extra["image_shape"][-1]
        elif feature.is_base64_image:
            stored = max(feature.extra["channels"])
        return ImageDecoder(self._options.images, channels=asked or stored, label_map=label_map)

    def _parsed(self, rows: Rows) -> Iterator[tuple[str, dict[str, Column]]]:
        """Each feature with all columns that were parsed; their kinds are as the dataset says."""
        names = list(self._features)
        for name, feature in self._features.items():
            if _has_companion(feature):
                names.append(name + _COMPANION)
            if feature.is_base64_image and "image_shape" not in feature.extra:
                names += [name + part for part in BASE64_SIZES]
        views = [name for name, feature in self._features.items() if feature.is_raw_image]
        columns = parse_examples(rows, dict.fromkeys(names), views=views)
        for name, feature in self._features.items():
            kind = columns[name].kind
            if kind not in ("", feature.type):
                raise DatasetError(
                    f"feature {name!r}: expected {feature.type} as the dataset says, got {kind} "
                    f"({rows.names[0].path})"
                )
            yield name, columns

    def _each(self, name: str, rows: Rows, columns: Mapping[str, Column]) -> Iterator[Array]:
        """The feature of each record; values that do not fit are an error that names it."""
        done = 0
        try:
            for value in self._values(name, rows, columns):
                yield value
                done += 1
        except DatasetError:
            raise
        except ValueError as error:  # of numpy, of a size or shape that is not the one said
            path, record = rows.names[done]
            raise DatasetError(
                f"feature {name!r}: expected values as the dataset says: {error} "
                f"({path}, record {record})",
                path=path,
                record=record,
            ) from error

    def _values(self, name: str, rows: Rows, columns: Mapping[str, Column]) -> Iterator[Array]:
        feature, column = self._features[name], columns[name]
        if feature.dense:
            _check_dense(name, feature, column, rows)
        if feature.is_image:
            yield from self._decoders[name].decode(column.values.tolist())
        elif feature.is_raw_image or feature.is_base64_image:
            sizes = [columns[name + part] for part in BASE64_SIZES if name + part in columns]
            for number, value in enumerate(column.values):
                shape = feature.extra.get("image_shape") or [int(s.values[number]) for s in sizes]
                pixels = self._pixels(feature, value, shape)
                yield self._decoders[name].convert(pixels)
        elif feature.tensor is not None:
            yield from map(decode_tensor, column.values)
        elif is_audio(feature):
            for value in column.values:
                yield _samples(value, feature, self._options.audio.seconds)
        else:
            yield from self._own_values(feature, column, columns.get(name + _COMPANION))

    def _pixels(self, feature: Feature, value: bytes, shape: Sequence[int]) -> Array:
        data = decode_base64_pixels(value) if feature.is_base64_image else value
        pixels = np.frombuffer(data, np.uint8).reshape(shape)
        if feature.is_base64_image and pixels.shape[-1] < max(feature.extra["channels"]):
            pixels = np.repeat(pixels, 3, axis=-1)
        return pixels

    def _own_values(
        self, feature: Feature, column: Column, companion: Column | None
    ) -> Iterator[Array]:
        """Of each record, in its own shape."""
        ends = np.cumsum(column.counts)
        values = column.values.astype(_DTYPES[feature.type], copy=False)
        shape_ends = np.zeros(0, np.int64) if companion is None else np.cumsum(companion.counts)
        for number, (count, end) in enumerate(
            zip(column.counts.tolist(), ends.tolist(), strict=True)
        ):
            own = values[end - count : end]
            shape: Any = feature.shape if feature.dense else (-1,)
            if companion is not None:
                stop = int(shape_ends[number])
                shape = companion.values[stop - int(companion.counts[number]) : stop].tolist()
                shape = shape or feature.shape
            yield own.reshape(shape) if shape else own[0]


def stack(values: Sequence[Array], name: str) -> Array:
    """Arrays as one; of unequal ones the shorter are filled up, but for images.

    Raises:
        DatasetError: images differ in size.
    """
    arrays = [np.asarray(value) for value in values]
    if not arrays:
        return np.zeros(0)
    shapes = {array.shape for array in arrays}
    if len(shapes) == 1:
        return np.stack(arrays)
    if arrays[0].dtype == np.uint8 or len({len(shape) for shape in shapes}) > 1:
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


def _is_restored_alone(feature: Feature) -> bool:
    is_bytes_of_one = feature.has_pixels or feature.tensor is not None or is_audio(feature)
    return is_bytes_of_one or _has_companion(feature)


def _has_companion(feature: Feature) -> bool:
    return not feature.dense and len(feature.shape) > 1 and not feature.is_image


def _check_dense(name: str, feature: Feature, column: Column, rows: Rows) -> None:
    size = 1 if feature.has_pixels else int(np.prod(feature.shape, dtype=np.int64))
    if (column.counts != size).any():
        index = int((column.counts != size).argmax())
        path, record = rows.names[index]
        raise DatasetError(
            f"feature {name!r}: expected {size} values as the dataset says, got "
            f"{column.counts[index]} ({path}, record {record})",
            path=path,
            record=record,
        )


def _padded_parts(column: Column, dtype: Any, parts: Sequence[tuple[int, int]]) -> list[Array]:
    """`(batch, longest of it)` for each part of the records."""
    ends = np.concatenate([np.zeros(1, np.int64), np.cumsum(column.counts)])
    arrays = []
    for start, stop in parts:
        counts = column.counts[start:stop]
        most = int(counts.max(initial=0))
        batch = np.full((len(counts), most), b"" if dtype is object else 0, dtype)
        batch[np.arange(most) < counts[:, np.newaxis]] = column.values[ends[start] : ends[stop]]
        arrays.append(batch)
    return arrays


def _samples(data: bytes, feature: Feature, seconds: float | None) -> Array:
    """`(samples, channels) float32` of a WAV file of 16 bits."""
    try:
        with wave.open(io.BytesIO(data)) as file:
            rate, channels, width = file.getframerate(), file.getnchannels(), file.getsampwidth()
            frames = file.readframes(file.getnframes())
    except (EOFError, wave.Error) as error:
        raise DatasetError(f"sound: expected a WAV file: {error}") from error
    if width != 2 or feature.extra.get("sample_rate") not in (None, rate):
        raise DatasetError(
            f"sound: expected 16 bits and the dataset's rate, got {8 * width} bits and {rate} Hz"
        )
    samples = np.frombuffer(frames, "<i2").reshape(-1, channels).astype(np.float32) / 32768
    if seconds is None:
        return samples
    count = round(rate * seconds)
    return np.pad(samples[:count], [(0, max(count - len(samples), 0)), (0, 0)])
