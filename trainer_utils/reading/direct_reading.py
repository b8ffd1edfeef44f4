"""Large records read, checked, parsed and decoded in one call a batch, with no tensor in between.

    direct = DirectReading.of(parser, options, reading)     # None: it does not serve here
    positions = direct.positions(epoch, step)               # `(rows of a worker,) int64` each
    tensors = direct.batch(rows, epoch_seed)                # as `ExampleParser.batch` makes them

A photo that goes through TensorFlow as a string is copied some six times between its file and the
decoder, each time past every cache of a core: where decoding takes 1,000 us, that takes 100 to 200,
and where pixels are stored raw, it is nearly all. Here a record is read where it lies as its batch
is made. The window of a shuffle is then in the system's memory alone, which is asked to read it
ahead, in the order of the files.
"""

import functools
import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Optional

import numpy as np
import numpy.typing as npt
import tensorflow as tf

from trainer_utils.format import DatasetError, Feature
from trainer_utils.format.example_decoding import decode_example
from trainer_utils.format.file_ranges import RecordName, RecordPositions
from trainer_utils.reading.audio import is_audio
from trainer_utils.reading.buffers import Buffers, Scratch
from trainer_utils.reading.parsing import ExampleParser
from trainer_utils.reading.raw_ops import map_elements
from trainer_utils.reading.readers import WorkerReading
from trainer_utils.reading.remade import Remade
from trainer_utils.reading.turbo import TurboDecoder

if TYPE_CHECKING:
    from trainer_utils.options import InputOptions

__all__ = ["DirectReading", "first_position"]

LEAST_BYTES = 16 << 10
"""Of a record, on average: of shorter ones thousands come in one read of a file."""

_STEPS_AHEAD = 8  # of which it is said what will be read
_NUMBERS: Mapping[str, Any] = {"int": np.int64, "float": np.float32}
_KINDS = {"int": int, "float": float, "string": memoryview}


class DirectReading:
    """Makes batches of the positions of records.

    Args:
        parser: of the features that are asked for, each of which `is_direct`.
        reading: the worker's order, and what reads the records.
    """

    def __init__(self, parser: ExampleParser, reading: Remade[WorkerReading]) -> None:
        self._parser, self._reading = parser, reading
        self._records = Remade(functools.partial(_records_of, reading))
        self._buffers = Remade(Buffers)
        self._images = {
            name: _decoder_of(parser, name)
            for name, feature in parser.features.items()
            if feature.is_image
        }

    @classmethod
    def of(
        cls, parser: ExampleParser, options: "InputOptions", reading: Remade[WorkerReading]
    ) -> Optional["DirectReading"]:
        """What serves such an input; None where records are few bytes, or not in local files."""
        readers = reading.get().readers
        serves = (
            readers.are_indexed
            and readers.mean_bytes >= LEAST_BYTES
            and options.batch_size is not None
            and options.pre_batching_callback is None
            and options.data_service is None
            and parser.is_vectorised
            and not options.augmentation.mixing
            and any(feature.has_pixels for feature in parser.features.values())
            and all(map(_is_direct, parser.features.values()))
        )
        return cls(parser, reading) if serves else None

    def positions(self, epoch: tf.Tensor, step: tf.Tensor) -> tf.data.Dataset:
        """The records of the worker's rows of each step, some steps ahead of their use."""

        def of_step(number: tf.Tensor) -> tf.Tensor:
            found = tf.numpy_function(self._positions, [epoch, number, step], tf.int64)
            return tf.ensure_shape(found, [None])

        steps = tf.data.Dataset.range(step, self._reading.get().strategy.layout.steps)
        return map_elements(steps, of_step).prefetch(_STEPS_AHEAD)

    def _positions(self, epoch: np.int64, step: np.int64, first: np.int64) -> npt.NDArray[np.int64]:
        strategy, readers = self._reading.get()
        if step == first:  # a shard may have been replaced since the epoch before
            readers.shards.look_again()
        soon = np.unique(strategy.read_ahead(int(epoch), int(step), first=int(first)))
        for path, number, count in self._records.get().runs(soon):
            readers.shards.read_ahead(path, number, count)
        return strategy.positions(int(epoch), int(step))

    def read(self, positions: tf.Tensor) -> tf.Tensor:
        """How many of `(rows,) int64` records there are, once read, to see what that costs."""
        return tf.numpy_function(
            lambda records: sum(1 for _ in self._records_at(records)), [positions], tf.int64
        )

    def undecoded(self, positions: tf.Tensor) -> tf.Tensor:
        """The same, once they are parsed too."""

        def count(records: npt.NDArray[np.int64]) -> int:
            self._parsed(records)
            return len(records)

        return tf.numpy_function(count, [positions], tf.int64)

    def batch(self, positions: tf.Tensor, epoch_seed: tf.Tensor | None) -> dict[str, tf.Tensor]:
        """A batch of records: see `ExampleParser.batch`.

        Args:
            positions: `(rows,) int64`.
            epoch_seed: `() int64`, needed where the parser is random.
        """
        parser = self._parser
        features = parser.features
        dtypes = [self._dtype(name, feature) for name, feature in features.items()]
        arguments = [positions]
        if parser.is_random:
            assert epoch_seed is not None
            dtypes.append(tf.int64)
            arguments.append(epoch_seed)
        found = tf.numpy_function(self._made, arguments, dtypes)
        rows = positions.shape[0]
        seeds = tf.ensure_shape(found[-1], [rows, 2]) if parser.is_random else None
        tensors = {}
        for (name, feature), value in zip(features.items(), found, strict=False):
            value = tf.ensure_shape(value, [rows, *self._shape(name, feature)])
            if feature.is_image:
                value = parser.finish_image(name, value, seeds)
            elif feature.is_raw_image:
                value = parser.finish_pixels(name, value, seeds)
            tensors[name] = value
        return tensors

    def _dtype(self, name: str, feature: Feature) -> tf.DType:
        if feature.is_image:
            return self._images[name].dtype
        if feature.is_raw_image:
            return tf.uint8
        return tf.as_dtype(_NUMBERS.get(feature.type, tf.string))

    def _shape(self, name: str, feature: Feature) -> Sequence[int | None]:
        if feature.is_image:
            return self._images[name].shape
        return _raw_shape(feature) if feature.is_raw_image else feature.shape

    def _made(
        self, positions: npt.NDArray[np.int64], epoch_seed: np.int64 | None = None
    ) -> list[npt.NDArray[Any]]:
        """The values of all features, encoded images decoded; and the records' keys."""
        columns, seeds = self._parsed(positions, epoch_seed)

        def name_of(row: int) -> str:
            (record,) = self._records.get().locate(positions[row : row + 1])
            return f"{record.path!r}, record {record.number}"

        made = [
            self._images[name].decode_images(column.tolist(), seeds, name_of=name_of)
            if name in self._images
            else column
            for name, column in columns.items()
        ]
        return made if seeds is None else [*made, seeds]

    def _parsed(
        self, positions: npt.NDArray[np.int64], epoch_seed: np.int64 | None = None
    ) -> tuple[dict[str, npt.NDArray[Any]], npt.NDArray[np.int64] | None]:
        """The values of all features, encoded images as bytes; and the records' keys."""
        features = self._parser.features
        columns = {
            name: self._column(feature, len(positions)) for name, feature in features.items()
        }
        hashed = []
        for row, (record, data) in enumerate(
            self._records_at(positions, kept=epoch_seed is not None)
        ):
            if epoch_seed is not None:
                hashed.append(data)
            found = _decoded(data, record, features)
            for name, feature in features.items():
                values = found.get(name, [])
                _put(columns[name], row, values, feature=(name, feature), record=record)
        if epoch_seed is None:
            return columns, None
        # At once: a call costs 50 us. An array of objects keeps zeros at the end of bytes.
        hashes = ExampleParser.hashes(_shaped(hashed, (len(hashed),), object)).numpy()
        return columns, np.stack([hashes, np.full_like(hashes, epoch_seed)], axis=-1)

    def _records_at(
        self, positions: npt.NDArray[np.int64], *, kept: bool = False
    ) -> Iterator[tuple[RecordName, bytes | memoryview]]:
        """Each record, verified, with its name; unless `kept`, until the next is taken."""
        shards, scratch = self._reading.get().readers.shards, Scratch()
        for record in self._records.get().locate(positions):
            if kept:
                yield record, shards.read(record.path, [record.number])[0]
            else:
                yield record, shards.view(record.path, record.number, scratch.take)

    def _column(self, feature: Feature, rows: int) -> npt.NDArray[Any]:
        """Room for the values of a batch."""
        if feature.is_raw_image:
            return self._buffers.get().take([rows, *_raw_shape(feature)], np.uint8)
        shape = () if feature.is_image else feature.shape
        return np.empty((rows, *shape), _NUMBERS.get(feature.type, object))


def first_position() -> tf.data.Dataset:
    """One record, whichever, to fill up batches with."""
    return tf.data.Dataset.from_tensors(tf.zeros(1, tf.int64))


def _records_of(reading: Remade[WorkerReading]) -> RecordPositions:
    return RecordPositions(reading.get().strategy.ranges)


def _is_direct(feature: Feature) -> bool:
    """Whether it is an image, or of one shape, and parsed here."""
    if feature.is_sequence or feature.is_base64_image or feature.tensor is not None:
        return False
    if feature.is_raw_image:
        return "image_shape" in feature.extra
    return feature.dense and not is_audio(feature)


def _raw_shape(feature: Feature) -> list[int]:
    return [*feature.extra["image_shape"]]


def _decoder_of(parser: ExampleParser, name: str) -> TurboDecoder:
    reading, channels = parser.image_reading(name)
    formats = parser.features[name].extra.get("formats", ())
    return TurboDecoder(reading, channels=reading.channels or channels, formats=formats)


def _decoded(
    data: bytes | memoryview, record: RecordName, names: Collection[str]
) -> dict[str, list[Any]]:
    try:
        return decode_example(data, names)
    except DatasetError as error:
        message = f"{record.path!r}: {error} (record {record.number})"
        raise DatasetError(message, path=record.path, record=record.number) from error


def _put(
    column: npt.NDArray[Any],
    row: int,
    values: list[Any],
    *,
    feature: tuple[str, Feature],
    record: RecordName,
) -> None:
    """Writes the values of one feature of a record into its row of a column.

    Raises:
        DatasetError: they are of another kind or number than the dataset says.
    """
    name, said = feature
    kind: type = _KINDS[said.type]
    count = math.prod(column.shape[1:])
    if said.is_raw_image:
        sizes = [len(value) if isinstance(value, memoryview) else 0 for value in values]
        if sizes == [count]:
            column[row] = np.frombuffer(values[0], np.uint8).reshape(column.shape[1:])
            return
        wanted, got = f"{count} bytes of pixels", f"values of {sizes} bytes"
    else:
        if len(values) == count and all(type(value) is kind for value in values):
            found = [bytes(value) for value in values] if kind is memoryview else values
            column[row] = (
                found[0] if column.ndim == 1 else _shaped(found, column.shape[1:], column.dtype)
            )
            return
        wanted = f"{count} {said.type} value{'s' * (count != 1)}"
        got = f"{len(values)} values, or of another type"
    raise DatasetError.at(
        record.path,
        expected=f"feature {name!r} of {wanted} as the dataset says",
        got=got,
        record=record.number,
        advice="The dataset was changed: write it again.",
    )


def _shaped(values: list[Any], shape: tuple[int, ...], dtype: npt.DTypeLike) -> npt.NDArray[Any]:
    flat = np.empty(len(values), dtype)
    flat[:] = values
    return flat.reshape(shape)
