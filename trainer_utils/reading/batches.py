"""Compute any batch of a dataset from epoch, step and worker, with numpy alone.

batches = Batches.of(sources, options, worker=0, num_workers=4)
batches.batch(epoch=0, step=17)          # {'label': (64,) int64, 'image': (64, 224, 224, 3)}
batches.arranged(batches.batch(0, 17))   # for the trainer: dict, array, pair or triple
"""

import contextlib
import functools
import itertools
import logging
from collections.abc import Mapping, Sequence
from time import perf_counter_ns
from typing import Any, TypeVar

import numpy as np

from trainer_utils.core.errors import DatasetError
from trainer_utils.dataset.raw_inputs import count_codes
from trainer_utils.dataset.selection import Source
from trainer_utils.format import Feature
from trainer_utils.options import Callback, InputOptions
from trainer_utils.order import InputOrder, InputState
from trainer_utils.reading.augmenting import mix_rows
from trainer_utils.reading.elements import (
    ArraySpec,
    Batch,
    LabelEncoding,
    Ragged,
    arrange,
    call_hook,
    stack,
)
from trainer_utils.reading.example_reader import (
    DecodedRows,
    ExampleReader,
    Keys,
    Positions,
    open_examples,
)
from trainer_utils.reading.input_conversion import InputConversion
from trainer_utils.reading.input_description import describe_input
from trainer_utils.reading.input_spec import InputSpec
from trainer_utils.reading.input_stats import InputStats, StageCounters
from trainer_utils.reading.processes import BatchProcesses
from trainer_utils.reading.step_window import StepWindow
from trainer_utils.reading.views import MappedBatches
from trainer_utils.runtime.single_flight import SingleFlightCache

_logger = logging.getLogger(__name__)
# Limits of the records parsed together. Parsing more at once spreads the cost of a numpy call.
_ROWS_AT_ONCE, _BYTES_AT_ONCE = 4096, 4 << 20
_MAX_ECHOED = 4  # batches kept in memory for data echoing

_Self = TypeVar("_Self", bound="Batches")


class Batches:
    """The batches of one worker, for any number of threads and for forked processes.

    Args:
        spec: the contents of the batches.
        callbacks: whether to call the options' callbacks here, with arrays. Otherwise the caller
            calls them.

    Attributes:
        spec: the contents of the batches.
        unreadable: the error of each record that was left out, by path and number.
        step_distance: the distance between the steps that this process makes, if several processes
            take turns. Only reading ahead depends on it.
    """

    def __init__(self, spec: InputSpec, *, callbacks: bool = True) -> None:
        self._calls_back = callbacks
        self._use(spec, open_examples(spec))

    @classmethod
    def of(
        cls: type[_Self],
        sources: Sequence[Source],
        options: InputOptions,
        *,
        worker: int = 0,
        num_workers: int = 1,
        num_replicas: int | None = None,
        callbacks: bool = True,
    ) -> _Self:
        """Return the batches of one worker; see `InputSpec.of` for arguments and errors.

        Args:
            sources: the splits to read.
            options: the settings of the input.
            worker: the number of this worker, from 0. Its batches are its part of the global ones.
            num_workers: the number of workers.
            num_replicas: the number of replicas.
            callbacks: whether to call the options' callbacks here, with arrays.
        """
        workers: dict[str, Any] = {"num_workers": num_workers, "num_replicas": num_replicas}
        return cls(InputSpec.of(sources, options, worker=worker, **workers), callbacks=callbacks)

    def _use(self, spec: InputSpec, examples: ExampleReader) -> None:
        """Make the batches of `spec` from now on, from the records of `examples`."""
        self.spec, self._examples = spec, examples
        self.unreadable = spec.counters.unreadable = examples.unreadable
        self.step_distance = 1
        self._step_window = StepWindow(rows_of_step=spec.num_rows)
        self._before, self._after = (spec.before, spec.after) if self._calls_back else (None, None)
        self._echoed = SingleFlightCache[list[Batch]](_MAX_ECHOED)
        count = spec.options.processes
        self._processes = BatchProcesses(self, count) if count else None

    @property
    def sources(self) -> Sequence[Source]:
        """The splits to read; with `pack`, sources of packs."""
        return self.spec.sources

    @property
    def options(self) -> InputOptions:
        """The settings of the input."""
        return self.spec.options

    @property
    def order(self) -> InputOrder:
        """The order, which maps steps to records."""
        return self.spec.order

    @property
    def worker(self) -> int:
        """Number of this worker, from 0."""
        return self.spec.worker

    @property
    def features(self) -> Mapping[str, Feature]:
        """The features to read, by name."""
        return self.spec.features

    @property
    def structure(self) -> Mapping[str, ArraySpec]:
        """Shape and dtype of each array of `batch`, known without reading."""
        return self.spec.structure

    @property
    def encoding(self) -> LabelEncoding | None:
        """The encoding of the label, or None."""
        return self.spec.encoding

    @property
    def before(self) -> Callback | None:
        """The callback for each example, or None."""
        return self.spec.before

    @property
    def after(self) -> Callback | None:
        """The callback for each batch, or None."""
        return self.spec.after

    @property
    def input_start(self) -> InputState:
        """The token at the start of the input."""
        return self.spec.order.start

    @property
    def input_steps(self) -> int:
        """Number of steps of an epoch; without a batch size, examples of each worker."""
        return self.spec.order.steps_per_epoch

    @property
    def counters(self) -> StageCounters:
        """The counters of this process, which include its reading processes."""
        return self.spec.counters

    @property
    def conversion(self) -> InputConversion | None:
        """The conversion of raw inputs in the background, or None without `convert_to`."""
        return self._examples.conversion

    @property
    def max_concurrency(self) -> int:
        """Number of threads that may usefully request batches at the same time."""
        return 1 if self._examples.reads_in_order else max(2, self.options.processes)

    def __repr__(self) -> str:
        return describe_input(type(self).__name__, self.spec, self.conversion)

    def __reduce__(self) -> tuple[Any, ...]:
        """Return arguments to rebuild this in another process, which starts no processes."""
        options = self.options.replace(processes=0)
        for name in ("pre_batching_callback", "post_batching_callback"):
            if getattr(options, name) is not None and not self._calls_back:
                # Set, so that the settings stay valid, but never called: the framework calls its
                # own, which may not be picklable.
                options = options.replace(**{name: dict})
        layout = self.order.layout
        rebuild = functools.partial(
            type(self).of,
            worker=self.worker,
            num_workers=layout.num_workers,
            num_replicas=layout.num_replicas,
            callbacks=self._calls_back,
        )
        return rebuild, (self.sources, options)

    def state(self, step: int) -> InputState:
        """Return the token to resume from after `step` of the trainer's steps, over all epochs."""
        return self.order.state(step)

    def stats(self) -> InputStats:
        """Return the seconds of each stage, and the records and bytes read, since the start.

        It may be called from any thread, at any time.
        """
        return self.counters.stats()

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
        self.begin_epoch(epoch)
        if self._examples.reads_ahead and not self._processes:
            self._read_ahead(epoch, steps)
        echoing = self.options.echoing
        reads = tuple(dict.fromkeys(step // echoing for step in steps))
        make = functools.partial(self.make, epoch, reads)
        batches = make() if echoing == 1 else self._echoed.get((epoch, reads), make)
        by_read = dict(zip(reads, batches, strict=True))
        return [dict(by_read[step // echoing]) for step in steps]

    def examples(self, epoch: int, *steps: int) -> list[Batch]:
        """Return the rows of steps as examples of varying shapes, with unencoded labels.

        The rows that fill a batch follow its records. A step without records has one such row.
        """
        self.begin_epoch(epoch)
        if self._examples.reads_ahead:
            self._read_ahead(epoch, steps)
        reads = [step // self.options.echoing for step in steps]
        positions = [self._with_fillers(self._positions(epoch, read)) for read in reads]
        return self._examples.decode(epoch, np.concatenate(positions), None).batches

    def encoded(self, batch: Batch) -> Batch:
        """Return a batch or example with its label encoded: one-hot, smoothed."""
        if self.encoding is None:
            return batch
        label = self.encoding.label_in(batch)
        return {**batch, label: self.encoding.encode(np.asarray(batch[label]))}

    def records(self, epoch: int, step: int) -> object:
        """Return the records of a step, read and checked but not decoded."""
        self.begin_epoch(epoch)
        return self._examples.read(self._positions(epoch, step // self.options.echoing))

    def arranged(self, batch: Batch) -> Any:
        """Return a batch or example for the trainer: dict, array, (x, y) or (x, y, weight)."""
        is_mapped = isinstance(self.spec.after, MappedBatches)
        return arrange(self.options, dict(batch), takes_others=is_mapped)

    def begin_epoch(self, epoch: int) -> None:
        """Read the shards from now on if raw inputs are converted by the start of an epoch.

        Reading an epoch begins with this. A process whose children read it calls this as well.
        """
        self._examples.begin_epoch(epoch)

    def _read_ahead(self, epoch: int, steps: Sequence[int]) -> None:
        """Read ahead the records needed some steps later; errors are raised when they are read."""
        ahead = self._step_window.coming(
            epoch * self.input_steps + steps[0],
            epoch * self.input_steps + steps[-1],
            distance=self.options.echoing * self.step_distance,
            rows_ahead=self._examples.rows_ahead,
        )
        positions = [
            self.order.positions(coming, step, self.worker)
            for coming, step in (divmod(number, self.input_steps) for number in ahead)
            if self.options.repeat is True or coming == epoch
        ]
        if positions:
            with contextlib.suppress(DatasetError, OSError):
                self._examples.read_ahead(np.concatenate(positions))

    @property
    def steps_per_call(self) -> int:
        """Number of steps to pass to `batches` at once for the best throughput."""
        if self.spec.images or self.before is not None:
            return 1
        bytes_of_row = max(self.spec.mean_bytes, self._examples.row_bytes, 1)
        rows = min(_ROWS_AT_ONCE, int(_BYTES_AT_ONCE / bytes_of_row))
        return max(1, rows // max(self.spec.num_rows, 1)) * self.options.echoing

    def report_unreadable(self, epoch: int) -> None:
        """Log a warning with the number and the reasons of unreadable records, if any."""
        if self.unreadable:
            codes = count_codes(self.unreadable.values())
            counts = ", ".join(f"{count:,} {code}" for code, count in codes.items())
            _logger.warning(
                "epoch %d: %d of %d records could not be read and were replaced by others: %s%s",
                epoch,
                len(self.unreadable),
                self.order.layout.num_records,
                f"{counts}; " if counts else "",
                "; ".join(reason for _, reason in sorted(self.unreadable.items())[:3]),
            )

    def _positions(self, epoch: int, read: int) -> Positions:
        return self.order.positions(epoch, read * self.options.echoing, self.worker)

    def make(self, epoch: int, reads: Sequence[int]) -> list[Batch]:
        """Return the batches of some reads; with echoing, each read serves several steps."""
        self.begin_epoch(epoch)
        if self._processes is not None:
            batches, unreadable, counters = self._processes.make(epoch, reads)
            self.unreadable.update(unreadable)
            self.counters.add_values(counters)
            return batches
        positions = [self._positions(epoch, read) for read in reads]
        filled = [self._with_fillers(rows) for rows in positions]
        rows, sizes = np.concatenate(filled), [len(group) for group in filled]
        if self.options.batch_size is None:
            examples = self._changed_examples(epoch, rows).batches
            return [self._called(self.encoded(example)) for example in examples]
        if self._before is not None:
            examples, keys = self._changed_examples(epoch, rows)
            bounds = np.cumsum([0, *sizes]).tolist()
            batches = [_stacked(examples[a:b], "") for a, b in itertools.pairwise(bounds)]
        else:
            batches, keys = self._examples.decode(epoch, rows, sizes)
        keys_of = [None] * len(sizes) if keys is None else np.split(keys, np.cumsum(sizes)[:-1])
        return [
            self._finished(batch, read, len(records), part)
            for batch, read, records, part in zip(batches, reads, positions, keys_of, strict=True)
        ]

    def _changed_examples(self, epoch: int, rows: Positions) -> DecodedRows:
        """Return the examples at some positions, as the callback before batching returns them."""
        examples, keys = self._examples.decode(epoch, rows, None)
        return DecodedRows([call_hook(self._before, example) for example in examples], keys)

    def _with_fillers(self, positions: Positions) -> Positions:
        """Pad positions to the rows of a batch, or to one row if there is no record."""
        num_rows = self.spec.num_rows if self.options.keeps_rows else 1
        missing = num_rows - len(positions)
        return np.pad(positions, (0, missing)) if missing > 0 else positions

    def _finished(self, batch: Batch, read: int, rows: int, keys: Keys | None) -> Batch:
        """Encode labels, mix rows and add the mask; the first `rows` rows are records."""
        batch = self.encoded(batch)
        # In the rest of an epoch the pairs would depend on the number of workers.
        if self.spec.mixes_rows and keys is not None and read < self.order.layout.full_steps:
            augmentation, label = self.options.augmentation, str(self.options.label)
            began = perf_counter_ns()
            batch = mix_rows(augmentation, batch, keys, self.spec.images, label)
            self.counters.add(augment=perf_counter_ns() - began)
        if (mask := self.options.mask_feature) is not None:
            batch[mask] = (np.arange(self.spec.num_rows) < rows).astype(np.float32)
            if self.options.pack is not None:
                batch["loss_mask"][rows:] = 0
        elif not rows:
            batch = _without_rows(batch)
        return self._called(batch)

    def _called(self, batch: Batch) -> Batch:
        return call_hook(self._after, batch, keep=self.options.mask_feature)


def _stacked(examples: Sequence[Any], name: str) -> Any:
    """Stack examples that are dicts, tuples or arrays."""
    first = examples[0]
    if isinstance(first, Mapping):
        return {name: _stacked([example[name] for example in examples], name) for name in first}
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
