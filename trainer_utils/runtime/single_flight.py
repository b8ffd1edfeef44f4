"""Cache values that several threads may request at the same time."""

import collections
import os
import threading
from collections.abc import Callable, Hashable
from concurrent.futures import Future
from typing import Generic, TypeVar

_Result = TypeVar("_Result")


class SingleFlightCache(Generic[_Result]):
    """A cache that creates each value once, even if several threads ask, and keeps the latest.

    Args:
        most: the maximum number of values to keep.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._start_empty()

    def _start_empty(self) -> None:
        """Start with an empty cache; a forked process lacks the threads that were making values."""
        self._lock, self._process = threading.Lock(), os.getpid()
        self._made: collections.OrderedDict[Hashable, Future[_Result]] = collections.OrderedDict()

    def __contains__(self, key: Hashable) -> bool:
        return self._process == os.getpid() and key in self._made

    def get(self, key: Hashable, make: Callable[[], _Result]) -> _Result:
        """Return the value of a key, or create it with `make`; errors are not kept."""
        if self._process != os.getpid():
            self._start_empty()
        with self._lock:
            future = self._made.get(key)
            if is_own := future is None:
                future = self._made[key] = Future()
                while len(self._made) > self._most:
                    self._made.popitem(last=False)
            else:
                self._made.move_to_end(key)
        assert future is not None
        if is_own:
            try:
                future.set_result(make())
            except BaseException as error:
                self.forget(key)
                future.set_exception(error)
        return future.result()

    def forget(self, key: Hashable) -> None:
        """Drop the value of a key, so that the next call of `get` creates it again."""
        if self._process != os.getpid():
            self._start_empty()
        with self._lock:
            self._made.pop(key, None)
