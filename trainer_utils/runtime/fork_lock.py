"""A lock that a forked process finds free."""

import os
import threading
import weakref
from types import TracebackType


class ForkLock:
    """A lock for `with`. A forked process starts with a new one.

    Otherwise it would wait forever for a thread of its parent that held the lock at the fork.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        _locks.add(self)

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._lock.release()

    def renew(self) -> None:
        """Replace the lock by a free one."""
        self._lock = threading.Lock()


_locks = weakref.WeakSet[ForkLock]()


def _renew_all() -> None:
    for lock in [*_locks]:
        lock.renew()


os.register_at_fork(after_in_child=_renew_all)
