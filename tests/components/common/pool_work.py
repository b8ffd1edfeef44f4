"""What processes are given to do in tests."""

import ctypes
import gc
import logging
import os
import signal
import sys
import time
import warnings
from pathlib import Path

from trainer_utils.format import CorruptShardError, DatasetError, Shard

SHARD = Shard(split="train", path="a", records=1, bytes=2, crc32c=3)
HEAVY = ("tfx", "apache_beam", "tensorflow", "tfx_bsl", "ml_metadata", "pandas")


def square(number: int) -> int:
    print("what a library prints", number)
    return number * number


def describe(_: object) -> tuple[int, list[str], int]:
    """The process's id, which large libraries it has, what its garbage collector never looks at."""
    time.sleep(0.05)
    return os.getpid(), [name for name in HEAVY if name in sys.modules], gc.get_freeze_count()


def find_damage(_: object) -> None:
    raise CorruptShardError.at("a b", expected="a good sum", got="another", record=3, offset=77)


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
    """Leaves its id, and then holds the interpreter's lock, as a library may."""
    Path(folder, str(os.getpid())).touch()
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
    ctypes.PyDLL(None).sleep(600)


def fail(place: tuple[str, int]) -> None:
    """Leaves a file for each call; the first one fails."""
    folder, number = place
    Path(folder, str(number)).touch()
    if number == 0:
        raise ValueError("the first")
    time.sleep(0.2)


def leave(place: tuple[str, int]) -> tuple[int, Shard]:
    """Leaves a line for each call."""
    with open(place[0], "a") as stream:
        stream.write(f"{place[1]}\n")
    return place[1] ** 2, SHARD


def raise_it(error: BaseException) -> None:
    raise error


def refuse(result: object) -> None:
    raise DatasetError("it does not stand")
