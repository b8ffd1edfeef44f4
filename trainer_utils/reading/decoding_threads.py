"""Threads that work off a batch, one a core: one pool for the process."""

import contextlib
import functools
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from trainer_utils.machine import usable_cores

most: int | None = None  # threads of this process, where several share the cores


@functools.cache
def _pool() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(usable_cores(), thread_name_prefix="tfx-shards-decode")


if hasattr(os, "register_at_fork"):  # a child has none of its parent's threads
    os.register_at_fork(after_in_child=_pool.cache_clear)


def run_in_threads(work: Callable[[int], None], count: int, *, threads: int | None = None) -> None:
    """Calls `work` with the numbers below `count`, each of so many threads taking the next.

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
        for _ in range(min(threads or most or usable_cores(), count) - 1):
            started.append(_pool().submit(run))
    run()
    for one in started:
        if not one.cancel():  # of those that wait for their turn nothing is left to do
            one.result()
    if errors:
        raise errors[min(errors)]
