"""Run work in threads.

run_in_threads(decode, 64)                  # decode(0) to decode(63)
for batch in prefetch_map(make, range(1000), threads=2, most=4): ...
"""

import collections
import contextlib
import functools
import itertools
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, TypeVar

from trainer_utils.runtime.machine import usable_cores

_Result = TypeVar("_Result")
most_threads: int | None = None  # the limit of this process, if several share the cores


@functools.cache
def _pool() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(usable_cores(), thread_name_prefix="tfx-shards-decode")


if hasattr(os, "register_at_fork"):  # a child lacks its parent's threads
    os.register_at_fork(after_in_child=_pool.cache_clear)


def run_in_threads(work: Callable[[int], None], count: int) -> None:
    """Call `work` with the numbers below `count`, in several threads.

    The calling thread also works, so nested calls are safe. The error of the lowest number is
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
    with contextlib.suppress(RuntimeError):  # Python is exiting: the calling thread works alone
        for _ in range(min(most_threads or usable_cores(), count) - 1):
            started.append(_pool().submit(run))
    run()
    for future in started:
        if not future.cancel():  # queued calls have nothing left to do
            future.result()
    if errors:
        raise errors[min(errors)]


def prefetch_map(
    work: Callable[[Any], _Result], items: Iterable[Any], *, threads: int, most: int
) -> Iterator[_Result]:
    """Map `work` over items in order, in threads.

    A forked process may continue its parent's iterator, from the same item.

    Args:
        work: the function to call.
        items: its arguments, taken as needed.
        threads: the number of threads.
        most: the maximum number of items done ahead of the consumer.
    """
    is_exiting = sys.is_finalizing  # a generator dropped at exit has no modules left
    waiting: collections.deque[tuple[Any, Future[_Result]]] = collections.deque()
    pool, process = _pool_of(threads), os.getpid()
    left = iter(items)
    try:
        while True:
            if process != os.getpid():  # a fork lacks its parent's threads, and starts its own
                pool, process = _pool_of(threads), os.getpid()
                waiting = collections.deque((i, pool.submit(work, i)) for i, _ in waiting)
            for item in itertools.islice(left, most + 1 - len(waiting)):
                waiting.append((item, pool.submit(work, item)))
            if not waiting:
                return
            yield waiting.popleft()[1].result()
    finally:
        if not is_exiting() and process == os.getpid():
            pool.shutdown(wait=False, cancel_futures=True)


def _pool_of(threads: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(threads, thread_name_prefix="tfx-shards-batches")
