"""What functions of Python in TensorFlow's graphs work with: let go with the input that made it.

    with collect_remade() as made:
        files = Remade(open_files)        # a function in the graph calls `files.get()`
    let_go_with(pipeline, made)

TensorFlow keeps every function that `tf.numpy_function` is given until the process ends, and so
all that it holds: open files, threads, memory of batches, plans. Hence such functions hold a
`Remade` instead, which holds these as long as its owner is there. Whatever still calls it then,
such as a `tf.function` that captured a dataset which Python has let go, has it made again.
Source: `_py_funcs_used_in_graph` in tensorflow/python/ops/script_ops.py.
"""

import contextlib
import contextvars
import threading
import weakref
from collections.abc import Callable, Iterator
from typing import Any, Generic, TypeVar

__all__ = ["Remade", "collect_remade", "let_go_with"]

T = TypeVar("T")

_collected: "contextvars.ContextVar[list[Remade[Any]] | None]" = contextvars.ContextVar(
    "tfx_shards_remade", default=None
)


class Remade(Generic[T]):
    """Something that is made where it is first needed, and again after it was let go.

    Args:
        make: makes it, as it was. What this holds is held until the process ends.
        first: it, where it is there already.
    """

    def __init__(self, make: Callable[[], T], first: T | None = None) -> None:
        self._make = make
        self._lock = threading.Lock()
        self._value = first
        if (collected := _collected.get()) is not None:
            collected.append(self)

    def get(self) -> T:
        """It, to be held no longer than for a call; from several threads at once."""
        value = self._value
        if value is None:
            with self._lock:
                value = self._value
                if value is None:
                    value = self._value = self._make()
        return value

    def let_go(self) -> None:
        """Drops it; calls that are under way keep it to their end."""
        self._value = None  # no lock: garbage may be collected in the midst of anything


@contextlib.contextmanager
def collect_remade() -> Iterator[list[Remade[Any]]]:
    """Notes all that this thread makes within it."""
    made: list[Remade[Any]] = []
    before = _collected.set(made)
    try:
        yield made
    finally:
        _collected.reset(before)


def let_go_with(owner: object, made: list[Remade[Any]]) -> None:
    """Has them dropped when nothing holds the owner any more, which none of them may hold."""
    weakref.finalize(owner, _let_go, made).atexit = False


def _let_go(made: list[Remade[Any]]) -> None:
    for remade in made:
        remade.let_go()
