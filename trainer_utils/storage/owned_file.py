"""A temporary file that processes of one machine share, and that its creator removes.

    class Counters(OwnedFile): ...       # has `path` and `is_owner`

A forked process has the same object, and a spawned one a copy of it; neither removes the file.
"""

import contextlib
import os
import tempfile
import weakref


class OwnedFile:
    """An empty temporary file, removed with the object in the process that created it.

    Args:
        name: a part of the file's name.

    Attributes:
        path: the path of the file.
    """

    def __init__(self, name: str) -> None:
        descriptor, self.path = tempfile.mkstemp(prefix=f"tfx-shards-{name}-")
        os.close(descriptor)
        self._owner = os.getpid()
        weakref.finalize(self, _remove, self.path, self._owner)

    @property
    def is_owner(self) -> bool:
        """Whether this process created the file."""
        return os.getpid() == self._owner


def _remove(path: str, owner: int) -> None:
    if os.getpid() == owner:  # a forked process has the same finalizer
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)
