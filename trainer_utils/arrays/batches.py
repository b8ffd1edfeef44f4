"""`iterate`: the batches of `input_fn` as arrays of numpy, without TensorFlow.

for batch in iterate(uri, "train", batch_size=256, features=["text", "label"]):
    batch["text"], batch["label"]        # (256,) object: bytes; (256,) int64
"""

import logging
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from trainer_utils.arrays.features import FeatureArrays, stack
from trainer_utils.arrays.records import RecordReader, Rows
from trainer_utils.dataset.location import Artifacts
from trainer_utils.dataset.selection import mean_bytes, merged_features, open_sources
from trainer_utils.format import ConfigError, CorruptShardError
from trainer_utils.format.file_ranges import RecordPositions
from trainer_utils.options import (
    Callback,
    InputOptions,
    choose_options,
    hook_of_split,
    shows_settings,
)
from trainer_utils.order import InputState
from trainer_utils.planning import check_has_records, order_of
from trainer_utils.reading.arrangement import Arrangement

__all__ = ["NumpyBatches", "iterate"]

_logger = logging.getLogger(__name__)
# So much is parsed together, since an operation of numpy has a price of its own.
_ROWS_AT_ONCE, _BYTES_AT_ONCE = 1024, 1 << 20


@shows_settings
def iterate(
    artifact_uri: Artifacts,
    split: str | None = None,
    *,
    worker: int = 0,
    num_workers: int = 1,
    options: InputOptions | None = None,
    **settings: Any,
) -> "NumpyBatches":
    """Reads a dataset as batches of arrays, in the order of `input_fn`.

    Args:
        artifact_uri, split, options, settings: as `input_fn` takes them, but for what only
            TensorFlow does: `augment`, `flip`, `ragged`, `device`, `data_service`,
            `cache="memory"`, and images of bfloat16. Callbacks take and return dicts of arrays.
        worker: which of the workers this is, from 0; its batches are its share of the global ones.
        num_workers: how many there are.

    Returns:
        What can be iterated over: each time it is the next epoch, without `repeat`. Images are
        `(batch, height, width, channels) uint8`; other features `(batch, *shape)`: int64, float32,
        or bytes in an array of objects. Its `state(step)` is the token to go on from, here or in
        `input_fn`, with any number of workers.

    Raises:
        DatasetError: no dataset, not whole, or without that split or feature; while iterating, as
            `CorruptShardError`, a record is damaged.
        ConfigError: a setting is not allowed, or the plan is impossible.
    """
    own = ("split", "worker", "num_workers", "options")
    chosen = choose_options(options, settings, of="iterate", arguments=own)
    return NumpyBatches(artifact_uri, split, chosen, worker=worker, num_workers=num_workers)


class NumpyBatches:
    """The batches of one worker.

    Args:
        artifact_uri, split, options, worker, num_workers: as of `iterate`.

    Attributes:
        order: which record comes at which step.
        input_start: the token of where it begins.
        input_steps: of an epoch.
        unreadable: why each record that was skipped could not be read, by path and number.
    """

    def __init__(
        self,
        artifact_uri: Artifacts,
        split: str | None,
        options: InputOptions,
        *,
        worker: int = 0,
        num_workers: int = 1,
    ) -> None:
        _check(options)
        self._options, self._worker = options, worker
        sources = open_sources(artifact_uri, split, apart=options.weights is not None)
        self._mean_bytes = mean_bytes(sources)
        self.order = order_of(sources, options, num_workers=num_workers)
        if worker == 0 or options.repeat is True:
            check_has_records(sources, options)
        self._strategy = self.order.strategy(worker)
        features = merged_features(
            sources, options.features, (options.label, options.sample_weight)
        )
        self._features = FeatureArrays(features, options)
        self._reader = RecordReader(sources, options)
        self.unreadable = self._reader.unreadable
        self._files = RecordPositions(self.order.ranges)
        self._arrange = Arrangement.of(options, features).arrange
        splits = [name for source in sources for name in source.split_names]
        self._before = _hook("pre_batching_callback", options.pre_batching_callback, splits)
        self._after = _hook("post_batching_callback", options.post_batching_callback, splits)
        self.input_start, self.input_steps = self.order.start, self.order.steps_per_epoch
        self._epoch = self.input_start.epoch
        self._lost: set[int] = set()

    def __len__(self) -> int:
        """Steps of an epoch, of which the first may have begun."""
        return self.input_steps

    def state(self, step: int) -> InputState:
        """The token to go on from after so many steps of all epochs, by the trainer's count."""
        for lost in sorted(self._lost if self._options.batch_size is not None else ()):
            if lost * self._options.echoing <= step:
                step += self._options.echoing
        return self.order.state(step)

    def __iter__(self) -> Iterator[Any]:
        start, repeat = self.input_start, self._options.repeat
        epoch = self._epoch if repeat is False else start.epoch
        while self.input_steps and (repeat is True or repeat is False or epoch < repeat):
            first = start.step if epoch == start.epoch else 0
            for step, batch in self.steps(epoch, range(first, self.input_steps)):
                if repeat is False and self._epoch == epoch and step >= first:
                    self._epoch = epoch + 1
                yield batch
            if repeat is False:
                return
            epoch += 1

    def steps(self, epoch: int, steps: range) -> Iterator[tuple[int, Any]]:
        """The batches of some steps of an epoch, with the step; one without a record is missing."""
        options, at_once = self._options, self._steps_at_once
        reads: dict[int, list[int]] = {}
        for step in steps:
            reads.setdefault(step // self.order.batches_per_read, []).append(step)
        groups = list(reads)
        for first in range(0, len(groups), at_once):
            some = groups[first : first + at_once]
            for read, batch in zip(some, self._batches(epoch, some), strict=True):
                if batch is None:
                    self._lost.add(epoch * self.order.layout.steps + read)
                    continue
                for step in reads[read]:
                    if options.batch_size is not None:
                        yield step, self._arranged(batch)
                    elif (place := step % self.order.batches_per_read // options.echoing) < len(
                        batch
                    ):
                        yield step, self._arranged(batch[place])
        self._reader.sums.finish()
        if self.unreadable:
            self._warn_of_unreadable(epoch)

    @property
    def _steps_at_once(self) -> int:
        if self._features.decodes or self._before is not None:
            return 1
        rows = min(_ROWS_AT_ONCE, int(_BYTES_AT_ONCE / max(self._mean_bytes, 1)))
        return max(1, rows // max(self.order.layout.rows_per_worker, 1))

    def _batches(self, epoch: int, reads: list[int]) -> list[Any]:
        """Dicts of arrays, or lists of examples without a batch size; None of nothing readable."""
        rows_of = [self._strategy.positions(epoch, read) for read in reads]
        rows = self._reader.read(self._files.locate(np.concatenate(rows_of)))
        if self._options.batch_size is None:
            return [self._examples(rows)]
        good = [self._is_good(positions) for positions in rows_of]
        if self._before is not None:
            parsed = [self._stacked(self._examples(rows))]
        else:
            parsed = self._features.batches(rows, [int(some.sum()) for some in good])
        batches: list[Any] = []
        for batch, some in zip(parsed, good, strict=True):
            if self._options.keeps_rows:
                batches.append(self._filled(batch, some))
            elif some.any():
                batches.append(batch)
            elif len(some) and self.order.layout.num_workers == 1:
                batches.append(None)
            else:  # others wait for it; of a worker that has no row at all none is made
                batches.append({n: v[: min(len(some), 1)] for n, v in self._spare().items()})
        return batches

    def _is_good(self, positions: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
        """Which of a step's records could be read."""
        if not self.unreadable:
            return np.ones(len(positions), bool)
        return np.array([n not in self.unreadable for n in self._files.locate(positions)], bool)

    def _filled(self, batch: dict[str, Any], good: npt.NDArray[np.bool_]) -> dict[str, Any]:
        """A batch of full size: rows of weight 0 stand where there is no record."""
        wanted = self.order.layout.rows_per_worker
        if not good.all() or len(good) < wanted:
            spare = batch if good.any() else self._spare()
            kept = {n: values[np.zeros(len(good), np.int64)] for n, values in spare.items()}
            for name, values in kept.items():
                if good.any():
                    values[good] = batch[name]
            batch = kept
            if len(good) < wanted:
                rows = self._reader.read(self._files.locate(np.zeros(1, np.int64)))
                filler = self._features.batch(rows) if rows.names else spare
                more = {n: np.repeat(v[:1], wanted - len(good), axis=0) for n, v in filler.items()}
                batch = {name: _joined(values, more[name]) for name, values in batch.items()}
        if self._options.remainder == "pad":
            mask = np.zeros(wanted, np.float32)
            mask[: len(good)] = good
            batch[self._options.mask] = mask
        return batch

    def _spare(self) -> dict[str, Any]:
        """A batch of one record, the first that can be read."""
        for position in range(self.order.layout.num_records):
            rows = self._reader.read(self._files.locate(np.array([position])))
            if rows.names:
                return self._features.batch(rows)
        raise CorruptShardError("records: expected one at least that can be read, got none")

    def _examples(self, rows: Rows) -> list[dict[str, Any]]:
        examples = self._features.examples(rows)
        return examples if self._before is None else [self._before(one) for one in examples]

    def _stacked(self, examples: list[dict[str, Any]]) -> dict[str, Any]:
        names = examples[0] if examples else {}
        return {name: stack([one[name] for one in examples], name) for name in names}

    def _arranged(self, batch: dict[str, Any]) -> Any:
        changed = batch if self._after is None else self._after(dict(batch))
        return self._arrange(dict(changed))

    def _warn_of_unreadable(self, epoch: int) -> None:
        first = "; ".join(reason for _, reason in sorted(self.unreadable.items())[:3])
        _logger.warning(
            "epoch %d: %d of %d records could not be read and were skipped: %s",
            epoch,
            len(self.unreadable),
            self.order.layout.num_records,
            first,
        )


def _check(options: InputOptions) -> None:
    for name, rest in (
        ("ragged", False),
        ("device", None),
        ("data_service", None),
        ("augment", None),
        ("one_hot", False),
        ("label_smoothing", 0.0),
    ):
        if getattr(options, name) != rest:
            raise ConfigError.of(
                name, getattr(options, name), allowed=f"{rest!r}, which input_fn takes alone"
            )


def _hook(
    name: str, given: Callback | Mapping[str, Callback] | None, splits: list[str]
) -> Callback | None:
    """The function for the splits that are read."""
    if not isinstance(given, Mapping):
        return given
    found = {hook_of_split(given, split) for split in splits}
    if len(found) > 1:
        raise ConfigError(
            f"{name}: expected one function for all splits that are read together, got different "
            f"ones for {', '.join(splits)}",
            setting=name,
        )
    return found.pop() if found else None


def _joined(values: Any, more: Any) -> Any:
    """Rows after others, of which lists may be longer."""
    if values.shape[1:] == more.shape[1:]:
        return np.concatenate([values, more])
    return stack([*values, *more], "")
