"""Compute any batch of a dataset from epoch, step and worker, with numpy alone.

batches = Batches(sources, options, worker=0, num_workers=4)
batches.batch(epoch=0, step=17)          # {'label': (64,) int64, 'image': (64, 224, 224, 3)}
batches.arranged(batches.batch(0, 17))   # for the trainer: dict, array, pair or triple
"""

import contextlib
import functools
import itertools
import logging
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from trainer_utils.dataset.selection import Source, mean_bytes, merged_features
from trainer_utils.format import ConfigError, CorruptShardError, DatasetError, Feature
from trainer_utils.format.planning import splitmix64
from trainer_utils.format.settings import number
from trainer_utils.format.tensors import item_bytes
from trainer_utils.machine import SingleFlightCache, free_memory
from trainer_utils.options import InputOptions
from trainer_utils.order import InputState
from trainer_utils.planning import callbacks_of, check_has_records, order_of
from trainer_utils.reading.elements import (
    ArraySpec,
    LabelEncoding,
    Ragged,
    arrange,
    call_hook,
    stack,
)
from trainer_utils.reading.features import FeatureArrays, is_audio, with_missing_values
from trainer_utils.reading.record_reader import RecordReader, Rows
from trainer_utils.storage import MachineError, is_host_error

_logger = logging.getLogger(__name__)
# Limits of the records parsed together. Parsing more at once spreads the cost of a numpy call.
_ROWS_AT_ONCE, _BYTES_AT_ONCE = 4096, 4 << 20
_ROW_BYTES = 200  # least memory for a record while it is read, in addition to its bytes
_STEPS_AHEAD = 8  # steps between reading ahead and use
_MAX_ECHOED = 4  # batches kept in memory for data echoing

Batch = dict[str, Any]
Keys = npt.NDArray[np.uint64]


class Batches:
    """The batches of one worker, for any number of threads and for forked processes.

    Args:
        sources: the splits to read.
        options: the settings of the input.
        worker: the number of this worker, from 0. Its batches are its part of the global ones.
        num_workers: the number of workers, as in `InputOrder`.
        num_replicas: the number of replicas, as in `InputOrder`.
        callbacks: whether to call the options' callbacks here, with arrays. Otherwise the caller
            calls them.

    Attributes:
        order: maps steps to records.
        features: the features to read, by name.
        structure: shape and dtype of each array of `batch`, known without reading.
        unreadable: the error of each record that was left out, by path and number.
        input_start: the token at the start of the input.
        input_steps: steps of an epoch; without a batch size, examples of each worker.
        calls_at_once: the number of threads that may usefully request batches at the same time.
        before: the callback for each example, or None.
        after: the callback for each batch, or None.
    """

    def __init__(
        self,
        sources: Sequence[Source],
        options: InputOptions,
        *,
        worker: int = 0,
        num_workers: int = 1,
        num_replicas: int | None = None,
        callbacks: bool = True,
    ) -> None:
        pack, required = options.pack, (options.label, options.labels.sample_weight)
        if pack is not None:
            from trainer_utils.reading.packing import Packs, packed_sources

            sources = packed_sources(sources, options)
        self.sources, self.options = sources, options
        self.order = order_of(sources, options, num_workers=num_workers, num_replicas=num_replicas)
        self.worker = number(0, num_workers - 1)("worker", worker)
        if worker == 0 or options.repeat is True:
            check_has_records(sources, options)
        self.features = merged_features(
            sources,
            options.features if pack is None else pack.feature,
            required if pack is None else (),
            has_callback=options.has_callback,
            default_values=options.default_values,
        )
        self.features = with_missing_values(self.features, options.label)
        if options.mask_feature in self.features:
            raise ConfigError.of("mask", options.mask, allowed="a name that no feature has")
        self.input_start: InputState = self.order.start
        self.input_steps: int = self.order.steps_per_epoch
        self._decoder: Any
        self._reader: Any
        if pack is None:
            self._decoder = FeatureArrays(self.features, options)
            self._reader = RecordReader(sources, options, self.order.ranges)
        else:
            self._decoder = self._reader = Packs(sources, options, self.order.ranges)
        self.encoding = LabelEncoding.of(options, self.features, sources)
        self._mixes = bool(options.augmentation.mixing and self._decoder.images)
        asked = [name for name in ("image_size", "augment") if getattr(options, name)]
        if asked and not self._decoder.images:
            _logger.warning(
                "%s: changes nothing, since no feature that is read is an image that all records "
                "have. Leave it out, or read an image feature.",
                " and ".join(asked),
            )
        self.unreadable = self._reader.unreadable
        self._mean_bytes = mean_bytes(sources)
        self.before, self.after = callbacks_of(sources, options)
        self._before, self._after = (self.before, self.after) if callbacks else (None, None)
        if self.before is not None and self._mixes:
            mixing = options.augmentation.mixing[0].name
            rule = f"None with augment={mixing!r}, which mixes rows as they were read"
            cure = "Change batches in a post_batching_callback"
            raise ConfigError.of("pre_batching_callback", self.before, allowed=rule, advice=cure)
        self._calls_back = callbacks
        self._again = functools.partial(
            type(self), worker=worker, num_workers=num_workers, num_replicas=num_replicas,
            callbacks=callbacks,
        )  # fmt: skip
        self._processes: Any = None
        if options.processes:
            from trainer_utils.reading.processes import BatchProcesses

            self._processes = BatchProcesses(self, options.processes)
        self.calls_at_once = max(2, options.processes)
        self._echoed = SingleFlightCache[list[Batch]](_MAX_ECHOED)
        self.structure = self._structure()
        self._check_memory()

    def __reduce__(self) -> tuple[Any, ...]:
        """Return arguments to rebuild this in another process, which starts no processes."""
        options = self.options.replace(processes=0)
        for name in ("pre_batching_callback", "post_batching_callback"):
            if getattr(options, name) is not None and not self._calls_back:
                options = options.replace(**{name: dict})  # a framework's may not be picklable
        return self._again, (self.sources, options)

    def state(self, step: int) -> InputState:
        """Return the token to resume from after `step` of the trainer's steps, over all epochs."""
        return self.order.state(step)

    def batch(self, epoch: int, step: int) -> Batch:
        """Return the arrays of a step by name; without a batch size, of one example.

        Raises:
            CorruptShardError: a record is damaged, or a shard differs from the manifest.
            DatasetError: a value differs from the dataset's description.
        """
        return self.batches(epoch, [step])[0]

    def batches(self, epoch: int, steps: Sequence[int]) -> list[Batch]:
        """Return the batches of some steps, in the order given.

        For small records this is faster than one step at a time. Records needed some steps later
        are read ahead if that helps.
        """
        if self._reader.reads_ahead and not self._processes:
            self._read_ahead(epoch, steps)
        echoing = self.options.echoing
        reads = tuple(dict.fromkeys(step // echoing for step in steps))
        make = functools.partial(self.make, epoch, reads)
        found = make() if echoing == 1 else self._echoed.get((epoch, reads), make)
        made = dict(zip(reads, found, strict=True))
        return [dict(made[step // echoing]) for step in steps]

    def examples(self, epoch: int, *steps: int) -> list[Batch]:
        """Return the rows of steps as examples of varying shapes, with unencoded labels.

        The rows that fill a batch follow its records. A step without records has one such row.
        """
        if self._reader.reads_ahead:
            self._read_ahead(epoch, steps)
        reads = [step // self.options.echoing for step in steps]
        positions = [self._with_fillers(self._positions(epoch, read)) for read in reads]
        return self._decoded(epoch, np.concatenate(positions), None)[0]

    def encoded(self, batch: Batch) -> Batch:
        """Return a batch or example with its label encoded: one-hot, smoothed."""
        if self.encoding is None:
            return batch
        label = self.encoding.label_in(batch)
        return {**batch, label: self.encoding.encode(np.asarray(batch[label]))}

    def records(self, epoch: int, step: int) -> Rows:
        """Return the records of a step, read and checked but not decoded."""
        rows: Rows = self._reader.read(self._positions(epoch, step // self.options.echoing))
        return rows

    def arranged(self, batch: Batch) -> Any:
        """Return a batch or example for the trainer: dict, array, (x, y) or (x, y, weight)."""
        return arrange(self.options, dict(batch))

    def _read_ahead(self, epoch: int, steps: Sequence[int]) -> None:
        """Read ahead the records needed some steps later; errors are raised when they are read."""
        echoing = self.options.echoing
        coming = [divmod(s + _STEPS_AHEAD * echoing, self.input_steps) for s in steps[::echoing]]
        found = [
            self.order.positions(epoch + epochs, step, self.worker)
            for epochs, step in coming
            if self.options.repeat is True or not epochs
        ]
        if found:
            with contextlib.suppress(DatasetError, OSError):
                self._reader.read_ahead(np.concatenate(found))

    @property
    def steps_at_once(self) -> int:
        """Number of steps to pass to `batches` at once for the best throughput."""
        if self._decoder.images or self.before is not None:
            return 1
        rows = min(_ROWS_AT_ONCE, int(_BYTES_AT_ONCE / max(self._mean_bytes, 1)))
        return max(1, rows // max(self._rows, 1)) * self.options.echoing

    def report_unreadable(self, epoch: int) -> None:
        """Log a warning with the number and the reasons of unreadable records, if any."""
        if self.unreadable:
            _logger.warning(
                "epoch %d: %d of %d records could not be read and were replaced by others: %s",
                epoch,
                len(self.unreadable),
                self.order.layout.num_records,
                "; ".join(reason for _, reason in sorted(self.unreadable.items())[:3]),
            )

    @property
    def _rows(self) -> int:
        return self.order.layout.rows_per_worker if self.options.batch_size is not None else 1

    def _positions(self, epoch: int, read: int) -> npt.NDArray[np.int64]:
        return self.order.positions(epoch, read * self.options.echoing, self.worker)

    def make(self, epoch: int, reads: Sequence[int]) -> list[Batch]:
        """Return the batches of some reads; with echoing, each read serves several steps."""
        if self._processes is not None:
            ready, unreadable = self._processes.make(epoch, reads)
            self.unreadable.update(unreadable)
            return list(ready)
        positions = [self._positions(epoch, read) for read in reads]
        wanted = [self._with_fillers(rows) for rows in positions]
        together, sizes = np.concatenate(wanted), [len(some) for some in wanted]
        if self.options.batch_size is None or self._before is not None:
            examples, keys = self._decoded(epoch, together, None)
            examples = [call_hook(self._before, one) for one in examples]
            if self.options.batch_size is None:
                return [self._called(self.encoded(one)) for one in examples]
            bounds = np.cumsum([0, *sizes]).tolist()
            made = [_stacked(examples[a:b], "") for a, b in itertools.pairwise(bounds)]
        else:
            made, keys = self._decoded(epoch, together, sizes)
        parts = [None] * len(sizes) if keys is None else np.split(keys, np.cumsum(sizes)[:-1])
        return [
            self._finished(batch, read, len(own), part)
            for batch, read, own, part in zip(made, reads, positions, parts, strict=True)
        ]

    def _decoded(
        self, epoch: int, positions: npt.NDArray[np.int64], sizes: Sequence[int] | None
    ) -> tuple[list[Batch], Keys | None]:
        """Return batches of these sizes, or examples without `sizes`, and the records' keys."""
        while True:
            rows = self._reader.read(positions)
            keys = None
            if self._decoder.is_random:  # from a record's bytes, the seed and the epoch
                seed = np.array([self.options.seed % (1 << 64), epoch], np.uint64)
                sums = rows.checksums.astype(np.uint64)
                keys = splitmix64(splitmix64(seed[:1], seed[1:]) ^ sums)
            try:
                return self._decoder.decode(rows, sizes, keys), keys
            except ConfigError:
                raise
            except Exception as error:
                found = self._error_of_record(error, rows, keys, None if sizes is None else [1])
                if is_host_error(found) and not isinstance(found, MachineError):
                    raise MachineError(
                        f"a batch could not be decoded: {type(found).__name__}: {found}. No record "
                        "is to blame: memory or a library is missing. Read smaller batches, or "
                        "give the process more memory."
                    ) from found
                self._reader.leave_out(found)

    def _error_of_record(
        self, error: Exception, rows: Rows, keys: Keys | None, sizes: Sequence[int] | None
    ) -> Exception:
        """Return the error of the first record that fails to decode alone, else the given error."""
        is_named = isinstance(error, DatasetError) and error.record is not None
        if is_named or is_host_error(error) or self.options.pack is not None:
            return error
        for row in range(len(rows)):
            try:
                own_keys = None if keys is None else keys[row : row + 1]
                self._decoder.decode(rows.part(row, row + 1), sizes, own_keys)
            except Exception as own:
                if is_host_error(own) or (isinstance(own, DatasetError) and own.record is not None):
                    return own
                path, record = rows.name(row)
                message = f"{path!r}: {own} (record {record})"
                found = CorruptShardError(message, path=path, record=record)
                found.__cause__ = own
                return found
        return error

    def _with_fillers(self, positions: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Pad positions to the rows of a batch, or to one row if there is no record."""
        missing = (self._rows if self.options.keeps_rows else 1) - len(positions)
        return np.pad(positions, (0, missing)) if missing > 0 else positions

    def _finished(self, batch: Batch, read: int, rows: int, keys: Keys | None) -> Batch:
        """Encode labels, mix rows and add the mask; the first `rows` rows are records."""
        batch = self.encoded(batch)
        # In the rest of an epoch the pairs would depend on the number of workers.
        if self._mixes and keys is not None and read < self.order.layout.full_steps:
            images, label = self._decoder.images, str(self.options.label)
            batch = self.options.augmentation.mix(batch, keys, images, label)
        if (mask := self.options.mask_feature) is not None:
            batch[mask] = (np.arange(self._rows) < rows).astype(np.float32)
            if self.options.pack is not None:
                batch["loss_mask"][rows:] = 0
        elif not rows:
            batch = _without_rows(batch)
        return self._called(batch)

    def _called(self, batch: Batch) -> Batch:
        return call_hook(self._after, batch, keep=self.options.mask_feature)

    def _structure(self) -> dict[str, ArraySpec]:
        structure: dict[str, ArraySpec] = dict(self._decoder.structure)
        if self.encoding is not None and self.encoding.label in structure:
            shape = structure[self.encoding.label].shape
            spec = ArraySpec((*shape, self.encoding.num_classes), "float32")
            structure[self.encoding.label] = spec
        if self.options.batch_size is None:
            return structure
        rows = self._rows if self.options.keeps_rows else None
        if (mask := self.options.mask_feature) is not None:
            structure[mask] = ArraySpec((), "float32")
        return {
            name: ArraySpec((rows, *shape), dtype, is_ragged)
            for name, (shape, dtype, is_ragged) in structure.items()
        }

    def _check_memory(self) -> None:
        """Raise a ConfigError if a batch needs more than the free memory, before reading one."""
        layout, options = self.order.layout, self.options
        is_full = layout.full_steps or layout.remainder == "pad" or options.batch_size is None
        rows = self._rows if is_full else max(layout.rest, default=0)
        has_rows = options.batch_size is not None  # the shapes include the rows
        sizes = {
            name: rows * math.prod(n or 1 for n in spec.shape[has_rows:]) * item_bytes(spec.dtype)
            for name, spec in self.structure.items()
        }
        free = free_memory()
        if sum(sizes.values()) + rows * (self._mean_bytes + _ROW_BYTES) <= free:
            return
        largest = max(sizes, key=lambda name: sizes[name])
        feature = self.features.get(largest, Feature(type="int"))
        causes = {
            "pack": options.pack is not None,
            "image_size": feature.has_pixels and options.image_size is not None,
            "labels": self.encoding is not None and largest == self.encoding.label,
            "audio_seconds": is_audio(feature) and options.audio_seconds is not None,
            "batch_size": True,
        }
        setting = next(name for name, is_to_blame in causes.items() if is_to_blame)
        rule = f"batches that the {free >> 20:,} MiB of free memory hold"
        advice = f"{rows:,} rows of {largest!r} would take {sizes[largest] >> 20:,} MiB"
        raise ConfigError.of(setting, getattr(options, setting), allowed=rule, advice=advice)


def _stacked(examples: Sequence[Any], name: str) -> Any:
    """Stack examples that are dicts, tuples or arrays."""
    first = examples[0]
    if isinstance(first, Mapping):
        return {own: _stacked([one[own] for one in examples], own) for own in first}
    if isinstance(first, tuple):
        return tuple(_stacked(part, name) for part in zip(*examples, strict=True))
    is_list = np.ndim(first) != 3  # pad lists, but not images of different sizes
    return stack(examples, name, pads=is_list)


def _without_rows(batch: Any) -> Any:
    if isinstance(batch, Mapping):
        return {name: _without_rows(values) for name, values in batch.items()}
    if isinstance(batch, Ragged):
        return Ragged(batch.values[:0], batch.row_splits[:1])
    return tuple(map(_without_rows, batch)) if isinstance(batch, tuple) else batch[:0]
