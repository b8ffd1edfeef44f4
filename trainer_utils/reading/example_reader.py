"""Read records by position and decode them, as batches or single examples.

    reader = RecordExamples(spec)
    reader.decode(epoch=0, positions=np.arange(64), sizes=[64]).batches[0]

A record that cannot be decoded is reported like one that cannot be read: by its file and number, or
with `on_corrupt="skip"` replaced by another.
"""

from collections.abc import Sequence
from typing import NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from trainer_utils.core.errors import ConfigError, CorruptShardError, DatasetError
from trainer_utils.dataset.selection import Source
from trainer_utils.format.example_columns import CHANGED_DATASET
from trainer_utils.format.hashing import splitmix64
from trainer_utils.format.slices import RecordName
from trainer_utils.reading.elements import Batch
from trainer_utils.reading.features import FeatureArrays
from trainer_utils.reading.input_conversion import InputConversion
from trainer_utils.reading.input_spec import InputSpec
from trainer_utils.reading.packing import Packs
from trainer_utils.reading.record_reader import RecordReader, Rows
from trainer_utils.storage import MachineError, is_host_error

Positions = npt.NDArray[np.int64]
Keys = npt.NDArray[np.uint64]


class DecodedRows(NamedTuple):
    """Batches or examples, and the keys of their records.

    Attributes:
        batches: a dict of arrays for each batch, or for each example.
        keys: `(rows,) uint64`, the seeds of random augmentation; None if nothing is random.
    """

    batches: list[Batch]
    keys: Keys | None


class ExampleReader(Protocol):
    """Reader of decoded records or packs, for several threads and forked processes."""

    @property
    def unreadable(self) -> dict[RecordName, str]:
        """Error of each record that another one replaces, by path and number."""

    @property
    def reads_ahead(self) -> bool:
        """Whether calls of `read_ahead` make reading faster."""

    @property
    def rows_ahead(self) -> int:
        """Number of rows to have requested at any time; 0 without requests."""

    @property
    def reads_in_order(self) -> bool:
        """Whether reading is fast only in the order of the shards, by one thread."""

    @property
    def row_bytes(self) -> float:
        """Mean number of bytes to read for a row."""

    @property
    def conversion(self) -> InputConversion | None:
        """The conversion of raw inputs in the background, or None."""

    def with_spec(self, spec: InputSpec) -> "ExampleReader":
        """Return a reader for other settings of the same input, which shares the open files."""

    def begin_epoch(self, epoch: int) -> None:
        """Read the shards from now on if raw inputs are converted."""

    def read(self, positions: Positions) -> object:
        """Read and check the records at some positions, without decoding them."""

    def read_ahead(self, positions: Positions) -> None:
        """Start reading records that are needed soon."""

    def decode(
        self, epoch: int | None, positions: Positions, sizes: Sequence[int] | None
    ) -> DecodedRows:
        """Return the records at some positions as batches of these sizes, or as examples.

        Args:
            epoch: the epoch, which changes random augmentation. None: nothing is random.
            positions: `(rows,) int64`, positions in the ranges of the order.
            sizes: the number of rows of each batch; None for single examples.

        Raises:
            CorruptShardError: a record is damaged, or a shard differs from the manifest.
            DatasetError: a value differs from the dataset's description.
            MachineError: memory or a library is missing.
        """


class RecordExamples:
    """Reader and decoder of the records of an input; an `ExampleReader`.

    Args:
        spec: the contents of the batches.
        decoder: makes arrays of records.
        reader: reads the records. None: a new reader, of the spec's ranges.
    """

    def __init__(
        self, spec: InputSpec, decoder: FeatureArrays, *, reader: RecordReader | None = None
    ) -> None:
        self._sources, self._seed, self._decoder = spec.sources, spec.options.seed, decoder
        self._features = spec.features
        self._reader = reader or RecordReader(
            spec.sources, spec.options, spec.order.ranges, spec.counters
        )
        self.row_bytes = spec.mean_bytes
        self.conversion: InputConversion | None = None
        if spec.options.convert_to is not None:
            self.conversion = InputConversion(spec.sources, spec.options, self._reader)

    @property
    def unreadable(self) -> dict[RecordName, str]:
        """Error of each record that another one replaces, by path and number."""
        return self._reader.unreadable

    @property
    def reads_ahead(self) -> bool:
        """Whether calls of `read_ahead` make reading faster."""
        return self._reader.reads_ahead

    @property
    def rows_ahead(self) -> int:
        """Number of rows to have requested at any time; 0 without requests."""
        return self._reader.rows_ahead

    @property
    def reads_in_order(self) -> bool:
        """Whether reading is fast only in the order of the shards, by one thread."""
        return self._reader.reads_in_order

    def with_spec(self, spec: InputSpec) -> "ExampleReader":
        """Return a reader for other settings of the same input, which shares the open files."""
        assert spec.decoder is not None
        # A reader of raw inputs checks the facts of the features that are read.
        checks_others = self._reader.reads_raw and spec.features.keys() != self._features.keys()
        if not checks_others and self.conversion is None:
            reader = self._reader
            if spec.sources is not self._sources:
                reader = reader.with_ranges(spec.order.ranges)
            return RecordExamples(spec, spec.decoder, reader=reader)
        reader = RecordReader(spec.sources, spec.options, spec.order.ranges, spec.counters)
        reader.unreadable = self._reader.unreadable
        return RecordExamples(spec, spec.decoder, reader=reader)

    def begin_epoch(self, epoch: int) -> None:
        """Read the shards from now on if raw inputs are converted."""
        if self.conversion is not None:
            self._reader = self.conversion.reader_of(epoch)

    def read(self, positions: Positions) -> Rows:
        """Read and check the records at some positions, without decoding them."""
        return self._reader.read(positions)

    def read_ahead(self, positions: Positions) -> None:
        """Start reading records that are needed soon."""
        self._reader.read_ahead(positions)

    def decode(
        self, epoch: int | None, positions: Positions, sizes: Sequence[int] | None
    ) -> DecodedRows:
        """Return the records at some positions as batches of these sizes, or as examples."""
        reader = self._reader  # another thread may begin an epoch
        while True:
            rows = reader.read(positions)
            decoder, keys = self._decoder, None
            if decoder.is_random:
                decoder = decoder if epoch is not None else decoder.without_augmentation
                keys = None if epoch is None else self._keys_of(rows, epoch)
            try:
                return DecodedRows(decoder.decode(rows, sizes, keys), keys)
            except ConfigError:
                raise
            except Exception as error:
                is_batched = sizes is not None
                located = self._error_of_record(
                    error, decoder, reader, rows, keys, is_batched=is_batched
                )
                located = _with_cure_of_sample(located, self._sources)
                _check_decode_error(located)
                reader.leave_out(located)

    def _keys_of(self, rows: Rows, epoch: int) -> Keys:
        """Return a random number for each record, from its bytes, the seed and the epoch."""
        seed = np.array([self._seed % (1 << 64), epoch], np.uint64)
        sums = rows.checksums.astype(np.uint64)
        return splitmix64(splitmix64(seed[:1], seed[1:]) ^ sums)

    def _error_of_record(
        self,
        error: Exception,
        decoder: FeatureArrays,
        reader: RecordReader,
        rows: Rows,
        keys: Keys | None,
        *,
        is_batched: bool,
    ) -> Exception:
        """Return the error of the first record that fails to decode alone, else the given error."""
        if _names_record(error) or is_host_error(error):
            return error
        sizes = [1] if is_batched else None
        for row in range(len(rows)):
            key = None if keys is None else keys[row : row + 1]
            try:
                decoder.decode(rows.part(row, row + 1), sizes, key)
            except Exception as cause:
                if _names_record(cause) or is_host_error(cause):
                    return cause
                return _located(cause, reader, rows.name(row))
        return error


def _located(cause: Exception, reader: RecordReader, record: RecordName) -> CorruptShardError:
    """Return the error of decoding one record, with its file and number."""
    place = reader.place_of(record)
    message = f"{place!r}: {cause} (record {record.number})"
    error = CorruptShardError(message, path=record.path, record=record.number)
    error.__cause__ = cause
    return error


class PackExamples:
    """Reader and decoder of packs; an `ExampleReader`.

    Nothing about packs is random, and no other document can replace one in a pack.

    Args:
        spec: the contents of the batches.
    """

    conversion = None  # raw inputs have no tokens to pack
    rows_ahead = 0

    def __init__(self, spec: InputSpec) -> None:
        self._sources = spec.sources
        self._packs = Packs(spec.sources, spec.options, spec.order.ranges, spec.counters)
        self.unreadable, self.row_bytes = self._packs.unreadable, self._packs.row_bytes
        self.reads_ahead = self._packs.reads_ahead
        self.reads_in_order = self._packs.reads_in_order

    def with_spec(self, spec: InputSpec) -> "ExampleReader":
        """Return a reader of other packs, or this one if only settings differ."""
        return self if spec.sources is self._sources else PackExamples(spec)

    def begin_epoch(self, epoch: int) -> None:
        """Do nothing, since packs are of one dataset."""

    def read(self, positions: Positions) -> object:
        """Find the pieces of the packs at some positions, without reading documents."""
        return self._packs.read(positions)

    def read_ahead(self, positions: Positions) -> None:
        """Start reading the documents of packs that are needed soon."""
        self._packs.read_ahead(positions)

    def decode(
        self, epoch: int | None, positions: Positions, sizes: Sequence[int] | None
    ) -> DecodedRows:
        """Return the packs at some positions as batches of these sizes, or one by one."""
        rows = self._packs.read(positions)
        try:
            return DecodedRows(self._packs.decode(rows, sizes), None)
        except ConfigError:
            raise
        except Exception as error:
            improved = _with_cure_of_sample(error, self._sources)
            _check_decode_error(improved)
            if improved is error:
                raise
            raise improved from error


def open_examples(spec: InputSpec) -> ExampleReader:
    """Open the records or packs of an input."""
    return PackExamples(spec) if spec.decoder is None else RecordExamples(spec, spec.decoder)


def _check_decode_error(error: Exception) -> None:
    """Raise a MachineError if memory or a library was missing, rather than a record invalid."""
    if is_host_error(error) and not isinstance(error, MachineError):
        raise MachineError(
            f"a batch could not be decoded: {type(error).__name__}: {error}. No record "
            "is to blame: memory or a library is missing. Read smaller batches, or "
            "give the process more memory."
        ) from error


def _names_record(error: Exception) -> bool:
    return isinstance(error, DatasetError) and error.record is not None


def _with_cure_of_sample(error: Exception, sources: Sequence[Source]) -> Exception:
    """Return the error with the right cure if its dataset was described by a sample of records."""
    sampled = [source.dataset for source in sources if source.dataset.sampled is not None]
    if not sampled or not isinstance(error, DatasetError) or CHANGED_DATASET not in str(error):
        return error
    path = error.path or ""
    dataset = next((d for d in sampled if any(s.path == path for s in d.shard_files)), sampled[0])
    cure = (
        f"It has no description, so its features were inferred from {dataset.sampled:,} of its "
        f"records. Read named features that all records have, features=[…], or describe it by all "
        f"of its records: tfx-shards balance {dataset.uri} OUT"
    )
    message = str(error).replace(CHANGED_DATASET, cure)
    improved = type(error)(message, path=error.path, record=error.record, offset=error.offset)
    improved.__cause__ = error
    return improved
