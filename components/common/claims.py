"""One run at a time writes a dataset: of two at once, one ends with an error and touches nothing.

    with claiming(uri) as claim:      # a whole run
        claim.take()                  # before anything at `uri` is removed or written
        claim.mark()                  # once there is a working folder
        claim.check()                 # before the manifest is written, and after it

Where the file system has locks, the first run holds one on the folder, and another is refused at
once; the lock goes with the process, however it ends. In object stores, and on file systems without
locks, the run that began last goes on: its name is in the working folder, and the one before finds
it there and does not publish.
"""

import contextlib
import contextvars
import fcntl
import json
import os
import socket
import uuid
from collections.abc import Iterator

from trainer_utils.format import DatasetError
from trainer_utils.format.json_text import JsonObject
from trainer_utils.storage import exists, is_remote, join, make_folder, read_text, write_text
from trainer_utils.writing.publishing import working_folder

__all__ = ["Claim", "claiming", "current_claim"]

_RUN_FILE = "run.json"
_current: "contextvars.ContextVar[Claim | None]" = contextvars.ContextVar("claim", default=None)


class Claim:
    """The right of a run to write at a uri.

    Attributes:
        may_meet_another: whether a run that has not ended was there, and could write still.
    """

    def __init__(self, uri: str) -> None:
        self.uri = uri
        self.may_meet_another = False
        self._id = uuid.uuid4().hex
        self._is_taken = False
        self._folder: int | None = None  # open, with the lock

    def take(self) -> None:
        """Begins to write.

        Raises:
            DatasetError: another run is writing there.
        """
        make_folder(self.uri)
        if not self._lock():
            raise DatasetError.at(
                self.uri,
                expected="no other run that writes there",
                got=_named(_run_at(self.uri)),
                advice="Wait for its end, or stop it, and run this again.",
            )
        self.may_meet_another = self._folder is None and _run_at(self.uri) is not None
        self._is_taken = True

    def mark(self) -> None:
        """Puts this run's name into the working folder, over that of any other."""
        folder = working_folder(self.uri)
        run = {"run": self._id, "host": socket.gethostname(), "process": os.getpid()}
        write_text(join(folder, _RUN_FILE), json.dumps(run), temporary_folder=folder)

    def check(self) -> None:
        """Makes sure that it is this run that writes there.

        Raises:
            DatasetError: another one has begun since.
        """
        if self._folder is None and not self._is_own(run := _run_at(self.uri)):
            raise DatasetError.at(
                self.uri,
                expected="that this run alone writes there",
                got=_named(run),
                advice="It began later, and what is there is its own: use that.",
            )

    def may_remove(self) -> bool:
        """Whether what a run has left there is this one's, or that of one which is over."""
        if not self._is_taken and not (exists(self.uri) and self._lock()):
            return False
        run = _run_at(self.uri) if self._folder is None else None
        return run is None or self._is_own(run)

    def release(self) -> None:
        """Lets others write."""
        if self._folder is not None:
            os.close(self._folder)
            self._folder = None

    def _is_own(self, run: JsonObject | None) -> bool:
        return run is not None and run.get("run") == self._id

    def _lock(self) -> bool:
        """Whether nobody else has the lock; true as well where there are no locks."""
        if self._folder is not None or is_remote(self.uri):
            return True
        folder = os.open(self.uri, os.O_RDONLY | os.O_DIRECTORY)
        try:
            fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(folder)
            return False
        except OSError:  # some network file systems lock no folders
            os.close(folder)
            return True
        self._folder = folder
        return True


@contextlib.contextmanager
def claiming(uri: str) -> Iterator[Claim]:
    """A run's claim, which it need not take; within it the one of `current_claim`."""
    claim = Claim(uri)
    before = _current.set(claim)
    try:
        yield claim
    finally:
        _current.reset(before)
        claim.release()


def current_claim(uri: str) -> Claim | None:
    """That of the run which writes at a uri here; None where nothing claims it."""
    claim = _current.get()
    return claim if claim is not None and claim.uri == uri else None


def _run_at(uri: str) -> JsonObject | None:
    """The run that has its name in the working folder there."""
    path = join(working_folder(uri), _RUN_FILE)
    try:
        found: JsonObject = json.loads(read_text(path)) if exists(path) else {}
    except FileNotFoundError:  # removed in between
        return None
    return found or None


def _named(run: JsonObject | None) -> str:
    if run is None:
        return "another run"
    return f"another run, process {run['process']} on {run['host']}"
