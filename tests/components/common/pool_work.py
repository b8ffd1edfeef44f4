"""What the processes of `worker_pool` are given to do in tests."""

import ctypes
import gc
import logging
import os
import signal
import sys
import time
import warnings
from pathlib import Path

from trainer_utils.format import CorruptShardError

# Not the process that the calls come from, which works as well.
IS_HELPER = "components.common.worker_pool" not in sys.modules
HEAVY = ("tfx", "apache_beam", "tensorflow", "tfx_bsl", "ml_metadata", "pandas")


def wait_for_helper(folder: str) -> None:
    """Keeps a call for a process that has not begun yet, or says that it has."""
    begun = Path(folder, "begun")
    if IS_HELPER:
        begun.touch()
    for _ in range(600):
        if begun.exists():
            return
        time.sleep(0.1)


def count_spared(folder: str) -> tuple[int, int]:
    """The process's id, and how many objects its garbage collector never looks at."""
    wait_for_helper(folder)
    return os.getpid(), gc.get_freeze_count()


def square(number: int) -> int:
    print("what a library prints", number)
    return number * number


def describe(folder: str) -> tuple[int, list[str]]:
    """The process's id, and which of the large libraries it has."""
    wait_for_helper(folder)
    return os.getpid(), [name for name in HEAVY if name in sys.modules]


def find_damage(folder: str) -> None:
    wait_for_helper(folder)
    if IS_HELPER:
        raise CorruptShardError.at("a b", expected="a good sum", got="another", record=3, offset=77)


class UnreadableError(Exception):
    """It is pickled, and cannot be read again."""

    def __init__(self, one: int, other: int) -> None:
        super().__init__(f"{one} and {other}")


def raise_unreadable(folder: str) -> None:
    wait_for_helper(folder)
    if IS_HELPER:
        raise UnreadableError(1, 2)


def return_unpicklable(folder: str) -> object:
    wait_for_helper(folder)
    return lambda: None


def find_nothing(number: int) -> int:
    return [*range(5)][number]


def end_itself(how: tuple[str, int]) -> None:
    """By a signal."""
    folder, number = how
    wait_for_helper(folder)
    if IS_HELPER:
        os.kill(os.getpid(), number)


def exit_at_once(how: tuple[str, int]) -> None:
    folder, status = how
    wait_for_helper(folder)
    if IS_HELPER:
        os._exit(status)


def tell(what: tuple[str, str]) -> None:
    folder, text = what
    wait_for_helper(folder)
    logging.getLogger("a.library").info("info: %s", text)
    logging.getLogger("a.library").warning("warning: %s", text)
    warnings.warn(f"of Python: {text}", stacklevel=1)


def stay(folder: str) -> None:
    """Leaves its id, and then stays; a helper holds the interpreter's lock, as a library may."""
    Path(folder, str(os.getpid())).touch()
    if not IS_HELPER:
        time.sleep(600)
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
    ctypes.PyDLL(None).sleep(600)
    time.sleep(600)


def fail_there(place: tuple[str, int]) -> None:
    """Leaves a file for each call, which takes as long as the error of the other may need."""
    folder, number = place
    Path(folder, str(number)).touch()
    wait_for_helper(folder)
    if IS_HELPER:
        raise ValueError("the helper")
    time.sleep(0.5)


def fail_here(folder: str) -> None:
    wait_for_helper(folder)
    if not IS_HELPER:
        raise ValueError("the parent")
    time.sleep(600)


def leave_process(place: tuple[str, int]) -> dict[str, int]:
    """Counts, and leaves the process's id in a folder."""
    folder, number = place
    Path(folder, f"{number}-{os.getpid()}").touch()
    return {"records_written": number, "inputs_rejected": 1}


def leave_both_processes(place: tuple[str, int]) -> dict[str, int]:
    wait_for_helper(place[0])
    return leave_process(place)
