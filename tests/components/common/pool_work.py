"""What the processes of `worker_pool` are given to do in tests."""

import ctypes
import logging
import os
import signal
import sys
import time
import warnings
from pathlib import Path

from trainer_utils.format import CorruptShardError

HEAVY = ("tfx", "apache_beam", "tensorflow", "tfx_bsl", "ml_metadata", "pandas")


def square(number: int) -> int:
    print("what a library prints", number)
    return number * number


def describe(_: object) -> tuple[int, list[str]]:
    """The process's id, and which of the large libraries it has."""
    return os.getpid(), [name for name in HEAVY if name in sys.modules]


def find_damage(path: str) -> None:
    raise CorruptShardError.at(path, expected="a good sum", got="another", record=3, offset=77)


class UnreadableError(Exception):
    """It is pickled, and cannot be read again."""

    def __init__(self, one: int, other: int) -> None:
        super().__init__(f"{one} and {other}")


def raise_unreadable(_: object) -> None:
    raise UnreadableError(1, 2)


def return_unpicklable(_: object) -> object:
    return lambda: None


def end_itself(number: int) -> None:
    os.kill(os.getpid(), number)


def exit_at_once(status: int) -> None:
    os._exit(status)


def tell(text: str) -> None:
    logging.getLogger("a.library").info("info: %s", text)
    logging.getLogger("a.library").warning("warning: %s", text)
    warnings.warn(f"of Python: {text}", stacklevel=1)


def stay(folder: str) -> None:
    """Leaves its id, and then holds the interpreter's lock for good, as a library may."""
    Path(folder, str(os.getpid())).touch()
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
    ctypes.PyDLL(None).sleep(600)
    time.sleep(600)


def fail_first(number: int) -> int:
    if number == 0:
        raise ValueError("the first")
    time.sleep(600)
    return number


def leave_process(place: tuple[str, int]) -> dict[str, int]:
    """Counts, and leaves the process's id in a folder."""
    folder, number = place
    Path(folder, f"{number}-{os.getpid()}").touch()
    return {"records_written": number, "inputs_rejected": 1}
