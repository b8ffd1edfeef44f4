"""Functions that tests run in other processes."""

import ctypes
import gc
import os
import signal
import sys
import threading
import time
from pathlib import Path

from trainer_utils.core.errors import DatasetError
from trainer_utils.format import Shard

SHARD = Shard(split="train", path="a", records=1, bytes=2, crc32c=3)
HEAVY = ("tfx", "apache_beam", "tensorflow", "tfx_bsl", "ml_metadata", "pandas")


def square(number: int) -> int:
    print("what a library prints", number)
    return number * number


def describe(_: object) -> tuple[int, list[str], int]:
    """Return the process's id, its large libraries, and the number of frozen objects."""
    time.sleep(0.05)
    return os.getpid(), [name for name in HEAVY if name in sys.modules], gc.get_freeze_count()


def return_pid(_: object) -> int:
    time.sleep(0.01)
    return os.getpid()


def end_itself(number: int) -> None:
    os.kill(os.getpid(), number)


def exit_at_once(status: int) -> None:
    os._exit(status)


def stay(folder: str) -> None:
    """Write the process's id, and then hold the interpreter's lock, as a library may."""
    Path(folder, str(os.getpid())).touch()
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
    ctypes.PyDLL(None).sleep(600)


def leave(place: tuple[str, int]) -> tuple[int, Shard]:
    """Write a line for each call."""
    with open(place[0], "a") as stream:
        stream.write(f"{place[1]}\n")
    return place[1] ** 2, SHARD


def raise_it(error: BaseException) -> None:
    raise error


def refuse(result: object) -> None:
    raise DatasetError("it does not stand")


def announce(_: object) -> None:
    """Write a line to stderr, after a while."""
    time.sleep(0.02)
    os.write(2, b"done\n")


def divide(number: object) -> float:
    """Raise ZeroDivisionError for 0; return at once for anything else."""
    return 1 / number if isinstance(number, int) else 0.0


def give_a_lock(_: object) -> object:
    return threading.Lock()


def describe_setting(name: str) -> tuple[str, str | None, str | None]:
    return os.getcwd(), os.environ.get(name), os.environ.get("OMP_NUM_THREADS")


def stay_a_while(seconds: float) -> None:
    time.sleep(seconds)


def fail_once(folder: str) -> str:
    """Raise DatasetError at the first call for a folder."""
    mark = Path(folder, "mark")
    if not mark.exists():
        mark.touch()
        raise DatasetError("the first time")
    return folder
