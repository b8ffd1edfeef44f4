"""Call an input's Python code from a TensorFlow graph.

functions = InputFunctions(source)
functions.call("make", [step], [tf.float32, tf.int64])      # tensors, computed by `make`

TensorFlow keeps every function of `tf.numpy_function` forever, with all that it refers to. So the
functions here belong to this module, and find their input by a number.
"""

import atexit
import functools
import itertools
import sys
import threading
import time
import weakref
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import tensorflow as tf

from trainer_utils.reading.batch_iterator import BatchIterator
from trainer_utils.reading.elements import ArraySpec, Ragged

Element: TypeAlias = Any  # an element of a dataset: a nest of tensors

NEXT_EPOCH = -1  # epoch: the next one, if each iterator reads one epoch
SINGLES_AT_ONCE = 64  # examples read together without a batch size
_CALLS_PER_CHECK = 32  # calls that make batches
_NO_STEP = tf.int64.min
_EXIT_SECONDS, _TURN_SECONDS, _STILL_TURNS = 10, 0.01, 3  # see `_wait_for_calls`

_inputs: "weakref.WeakValueDictionary[int, InputFunctions]" = weakref.WeakValueDictionary()
_numbers = itertools.count()


class InputFunctions:
    """The functions of one input that a graph calls, by name.

    A dataset must refer to this object while it is read.

    Args:
        source: the batches.

    Attributes:
        counter: the name of the input's counter of waits.
        check: a function to call now and then while batches are made, or None.
    """

    def __init__(self, source: BatchIterator) -> None:
        self.source, self.order, self.options = source, source.order, source.options
        number = next(_numbers)
        _inputs[number] = self
        self.counter = f"tfx_shards_waiting_{number}"
        self.check: Callable[[], None] | None = None
        self._num_calls = 0
        self._number = tf.constant(number, tf.int64)

    def call(self, method: str, arguments: Sequence[Any], kinds: Sequence[Any]) -> Any:
        """Call a method with integers in a graph; return its results as tensors of some types."""
        numbers = [self._number, *[tf.cast(argument, tf.int64) for argument in arguments]]
        return tf.numpy_function(_entry(method), numbers, list(kinds))

    @property
    def num_parts(self) -> int:
        """Number of elements of a step: one for each replica."""
        return self.order.layout.replicas_per_worker if self.options.batch_size is not None else 1

    @functools.cached_property
    def steps_at_once(self) -> int:
        """Number of steps that one call makes; several if rows are small and a call costs more."""
        if self.options.batch_size is None:
            return SINGLES_AT_ONCE
        specs = self.source.structure.values()
        is_alike = not any(spec.is_ragged or None in spec.shape[1:] for spec in specs)
        is_simple = is_alike and self.num_parts == 1 and self.source.before is None
        return self.source.steps_per_call if is_simple else 1

    def last_part(self, step: tf.Tensor, number: tf.Tensor) -> tf.Tensor:
        """Return the step for the last replica's part, which may end an epoch, else no step."""
        return tf.where(tf.equal(number, self.num_parts - 1), step, _NO_STEP)

    def with_rows(self, values: Any) -> Any:
        """Set the known number of rows; a ragged tensor has it from its row splits."""
        if not self.options.keeps_rows or isinstance(values, tf.RaggedTensor):
            return values
        return tf.ensure_shape(values, [self.order.layout.rows_per_replica, *values.shape[1:]])

    def encoded(self, element: Element) -> Element:
        """Return the element with its label encoded, after a callback saw ids."""
        encoding = self.source.encoding
        if encoding is None:
            return element
        ids = element[encoding.label_in(element)]
        (encoded,) = self.call("encode", [ids], [tf.float32])
        shape = ids.shape.concatenate(encoding.num_classes)
        return {**element, encoding.label: tf.ensure_shape(encoded, shape)}

    # The graph calls the methods below by name.

    def groups(self, epoch: int) -> npt.NDArray[np.int64]:
        """Return the groups of steps that are made together.

        Returns:
            `(groups, 2) int64`: the first step, and the one after the last, counted over all
            epochs. All steps of a group have equally many rows.
        """
        epoch = self.source.next_epoch if epoch == NEXT_EPOCH else epoch
        start, steps = self.source.input_start, self.source.input_steps
        first = start.step if epoch == start.epoch else 0
        full = steps
        if self.options.batch_size is not None and not self.options.keeps_rows:
            full = self.order.layout.full_steps * self.options.echoing
        begins, size = [], 1
        while size < self.steps_at_once and first + size < full:  # the consumer waits for the first
            begins.append(first)
            first, size = first + size, 2 * size
        begins += [*range(first, full, self.steps_at_once), *range(max(first, full), steps)]
        groups = np.array([begins, [*begins[1:], steps][: len(begins)]], np.int64)
        return np.ascontiguousarray(groups.T) + epoch * steps

    def bounds(self, step: int) -> npt.NDArray[np.int64]:
        """Return the bounds of each replica's rows of a step among this worker's rows."""
        layout, count = self.order.layout, self.num_parts
        is_padded, batch = self.options.remainder == "pad", step // self.options.echoing
        size: int = layout.batch_size if is_padded else layout.size(batch)
        ends = np.arange(count + 1) + self.source.worker * count
        ends = ends * size // layout.num_replicas
        bounds: npt.NDArray[np.int64] = ends - ends[0]
        return bounds

    def finish(self, step: Any) -> Any:
        """End the epoch that has this as its last step."""
        self.source.end(int(step))
        return np.int64(step)

    def _note_call(self) -> None:
        """Count a call that makes batches, and check now and then."""
        self._num_calls += 1
        if self.check is not None and not self._num_calls % _CALLS_PER_CHECK:
            self.check()

    def make(self, step: Any) -> list[Any]:
        """Return the arrays of a step, and the bounds of its replicas' parts."""
        self._note_call()
        epoch, within = divmod(int(step), self.source.input_steps)
        batch = self.source.batch(epoch, within)
        flat: list[Any] = []
        for name in self.source.structure:
            array = batch[name]
            flat += array if isinstance(array, Ragged) else [array]
        return [*flat, self.bounds(within)]

    def make_group(self, begin: Any, end: Any) -> list[Any]:
        """Return each feature of some steps of an epoch, with equally many rows, as one array."""
        self._note_call()
        epoch, first = divmod(int(begin), self.source.input_steps)
        batches = self.source.batches(epoch, range(first, first + int(end - begin)))
        return [np.stack([batch[name] for batch in batches]) for name in self.source.structure]

    def make_examples(self, begin: Any, end: Any) -> list[Any]:
        """Return each feature's values as one vector, and each row's begin, end and shape."""
        self._note_call()
        epoch, first = divmod(int(begin), self.source.input_steps)
        steps = range(first, first + int(end - begin))
        rows = self.source.examples(epoch, *steps)
        flat: list[Any] = []
        for name, spec in self.source.structure.items():
            if name not in rows[0]:
                continue  # the mask
            kind = object if spec.dtype == "bytes" else None
            arrays = [np.asarray(row[name], kind) for row in rows]
            ends = np.cumsum([array.size for array in arrays])
            shapes = [[stop - a.size, stop, *a.shape] for a, stop in zip(arrays, ends, strict=True)]
            flat += [np.concatenate([a.reshape(-1) for a in arrays]), np.array(shapes, np.int64)]
        if self.options.batch_size is None:
            return [*flat, np.zeros(0, np.float32), np.zeros(0, np.int64)]
        within = first // self.options.echoing
        begun, ended = self.order.layout.rows(self.source.worker, step=within)
        mask = (np.arange(len(rows)) < ended - begun).astype(np.float32)
        return [*flat, mask, self.bounds(first)]

    def encode(self, ids: Any) -> Any:
        """Encode ids of the label as one-hot rows."""
        assert self.source.encoding is not None
        return self.source.encoding.encode(ids)


def kinds_of(spec: ArraySpec) -> list[tf.DType]:
    """Return the types of an array's values and, if it is ragged, of its row splits."""
    kind = tf.string if spec.dtype == "bytes" else tf.as_dtype(spec.dtype)
    return [kind, tf.int64] if spec.is_ragged else [kind]


_lock = threading.Lock()
_calls = {"begun": 0, "ended": 0}


@functools.cache
def _entry(method: str) -> Callable[..., Any]:
    """Return a function that TensorFlow may keep: it refers to its input by number only."""

    def call(number: Any, *arguments: Any) -> Any:
        with _lock:
            _calls["begun"] += 1
        try:
            source = _inputs.get(int(number))
            if source is None:
                raise RuntimeError(
                    "input_fn: the dataset was garbage-collected while it was read. Keep a "
                    "reference to it, or to a dataset derived from it."
                )
            return getattr(source, method)(*arguments)
        finally:
            with _lock:
                _calls["ended"] += 1

    return call


# Functions run at exit in reverse order of registration. This call registers weakref's, which end
# the reading processes, before ours, so that they run after it.
weakref.finalize(InputFunctions, lambda: None)


@atexit.register
def _wait_for_calls() -> None:
    """Wait at exit until no batch is being made.

    A thread of TensorFlow's that calls into an interpreter that has ended never returns.
    """
    still, deadline = 0, time.monotonic() + _EXIT_SECONDS
    while _calls["begun"] and still < _STILL_TURNS and time.monotonic() < deadline:
        begun = _calls["begun"]
        time.sleep(_TURN_SECONDS)
        still = still + 1 if begun == _calls["begun"] == _calls["ended"] else 0
    _clear_tensorflow_last()


def _clear_tensorflow_last() -> None:
    """Move TensorFlow's modules to the front of `sys.modules`, which Python clears from the end.

    Otherwise functions of datasets that outlive them print `Exception ignored in:
    AtomicFunction.__del__` (TensorFlow 2.16), for example if Keras was imported before TensorFlow.
    """
    for name in [name for name in sys.modules if name.partition(".")[0] != "tensorflow"]:
        sys.modules[name] = sys.modules.pop(name)
