"""Threads that work off a batch, one a core; those ahead of it; and what they make for each other.

run_in_threads(decode, 64)                  # decode(0) to decode(63)
for batch in run_ahead(make, range(1000), threads=2, most=4): ...
"""

import collections
import contextlib
import functools
import itertools
import os
import threading
from collections.abc import Callable, Hashable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Generic, TypeVar

from trainer_utils.machine import usable_cores

_Result = TypeVar("_Result")
most: int | None = None  # threads of this process, where several share the cores


@functools.cache
def _pool() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(usable_cores(), thread_name_prefix="tfx-shards-decode")


if hasattr(os, "register_at_fork"):  # a child has none of its parent's threads
    os.register_at_fork(after_in_child=_pool.cache_clear)


def run_in_threads(work: Callable[[int], None], count: int) -> None:
    """Calls `work` with the numbers below `count`, each of some threads taking the next.

    The calling thread works too, so that it may be one of these. What the lowest number raised is
    raised, the same with any number of threads.
    """
    numbers, errors = iter(range(count)), dict[int, Exception]()

    def run() -> None:
        for number in numbers:
            try:
                work(number)
            except Exception as error:
                errors[number] = error
                return

    started = []
    with contextlib.suppress(RuntimeError):  # Python is ending: the calling thread works alone
        for _ in range(min(most or usable_cores(), count) - 1):
            started.append(_pool().submit(run))
    run()
    for one in started:
        if not one.cancel():  # of those that wait for their turn nothing is left to do
            one.result()
    if errors:
        raise errors[min(errors)]


def run_ahead(
    work: Callable[[Any], _Result], items: Iterable[Any], *, threads: int, most: int
) -> Iterator[_Result]:
    """What comes of each item, in order, so many of which are begun before they are asked for."""
    waiting: collections.deque[Future[_Result]] = collections.deque()
    pool = ThreadPoolExecutor(threads, thread_name_prefix="tfx-shards-batches")
    left = iter(items)
    try:
        while True:
            for item in itertools.islice(left, most + 1 - len(waiting)):
                waiting.append(pool.submit(work, item))
            if not waiting:
                return
            yield waiting.popleft().result()
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


class MadeOnce(Generic[_Result]):
    """What is made of keys: once, though several threads ask; so many of the latest are kept."""

    def __init__(self, most: int) -> None:
        self._most, self._lock = most, threading.Lock()
        self._made: collections.OrderedDict[Hashable, Future[_Result]] = collections.OrderedDict()

    def __contains__(self, key: Hashable) -> bool:
        return key in self._made

    def get(self, key: Hashable, make: Callable[[], _Result]) -> _Result:
        """What was made of a key, or is made now; an error is not kept."""
        with self._lock:
            found = self._made.get(key)
            if is_own := found is None:
                found = self._made[key] = Future()
                while len(self._made) > self._most:
                    self._made.popitem(last=False)
            else:
                self._made.move_to_end(key)
        assert found is not None
        if is_own:
            try:
                found.set_result(make())
            except BaseException as error:
                self.forget(key)
                found.set_exception(error)
        return found.result()

    def forget(self, key: Hashable) -> None:
        """Has it made anew the next time."""
        with self._lock:
            self._made.pop(key, None)
