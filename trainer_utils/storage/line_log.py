"""Share lines between processes of one machine: many append to a file, and one reads it.

    log = LineLog("unreadable")     # before the others start
    log.append(["one", "two"])      # in any process, forked or spawned
    log.read_new()                  # ["one", "two"]

The kernel does not mix one `write` to a file opened for appending with another.
Source: open(2), O_APPEND.
"""

import os
from collections.abc import Iterable

from trainer_utils.storage.owned_file import OwnedFile


class LineLog(OwnedFile):
    """A temporary file of lines, removed with the object in the process that created it."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self._read = 0

    def append(self, lines: Iterable[str]) -> None:
        """Append lines without line ends; raise OSError if the file cannot be written."""
        descriptor = os.open(self.path, os.O_WRONLY | os.O_APPEND)
        try:
            os.write(descriptor, "".join(f"{line}\n" for line in lines).encode())
        finally:
            os.close(descriptor)

    def read_new(self) -> list[str]:
        """Return the complete lines since the last call, or nothing if the file is gone."""
        try:
            descriptor = os.open(self.path, os.O_RDONLY)
        except FileNotFoundError:
            return []
        with os.fdopen(descriptor, "rb") as stream:
            stream.seek(self._read)
            data = stream.read()
        whole = data[: data.rfind(b"\n") + 1]
        self._read += len(whole)
        return whole.decode().splitlines()
