"""Threads that work off a batch, one a core, and that end with the last batch.

    run_in_threads(lambda: decode_row, 64)      # decode_row(0), decode_row(1), … decode_row(63)

They are shared by all batches that are in the making at a time, first come, first served.
"""

import atexit
import contextlib
import functools
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

from trainer_utils.machine import usable_cores

__all__ = ["batches_at_once", "run_in_threads"]

_EXIT_SECONDS, _TURN_SECONDS, _STILL_TURNS = 10, 0.01, 3  # see `_wait_for_calls`


def batches_at_once(rows: int | None) -> int:
    """How many batches are decoded at a time, so that no core waits for the last image of one."""
    return 2 + usable_cores() // max(rows or 1, 1)


_lock = threading.Lock()
_users = _calls = 0
_pool: ThreadPoolExecutor | None = None


@contextlib.contextmanager
def _threads() -> Iterator[ThreadPoolExecutor]:
    """Threads, one a core, shared by all batches that are being decoded; they end with the last."""
    global _calls, _pool, _users
    with _lock:
        _users, _calls = _users + 1, _calls + 1
        if _pool is None:
            _pool = ThreadPoolExecutor(usable_cores(), thread_name_prefix="tfx-shards-decode")
        pool = _pool
    try:
        yield pool
    finally:
        with _lock:
            _users -= 1
            if not _users:
                _pool = None
                pool.shutdown(wait=False)


@functools.cache
def _end_calls_at_exit() -> None:
    atexit.register(_wait_for_calls)


def _wait_for_calls() -> None:
    """Waits until nothing is decoded and nothing more begins, which nobody takes any more.

    After this, a thread of TensorFlow's that comes for a Python that is ending never comes back,
    and an iterator that is dropped then would wait for it for ever. By now no new work is taken
    (see `concurrent.futures`), so that what begins fails at once.
    """
    still, deadline = 0, time.monotonic() + _EXIT_SECONDS
    while still < _STILL_TURNS and time.monotonic() < deadline:
        before = _calls
        time.sleep(_TURN_SECONDS)
        still = still + 1 if _calls == before and not _users else 0


def run_in_threads(make_work: Callable[[], Callable[[int], None]], count: int) -> None:
    """Has threads work off the numbers below `count`, each taking the next.

    Args:
        make_work: called once by each thread; what it returns, with numbers.

    Raises:
        Exception: what the lowest number raised: the same with any number of threads.
    """
    _end_calls_at_exit()
    numbers, errors = iter(range(count)), dict[int, Exception]()

    def run() -> None:
        work = make_work()
        for number in numbers:
            try:
                work(number)
            except Exception as error:
                errors[number] = error
                return

    with _threads() as pool:
        for started in [pool.submit(run) for _ in range(min(usable_cores(), count))]:
            started.result()
    if errors:
        raise errors[min(errors)]
