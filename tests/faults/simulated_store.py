"""An object store in memory whose k-th call fails in a chosen way, without waiting or randomness.

    store = SimulatedStore({"in/a.jpg": b"…"})
    with served(store):                                   # s3://…
        store.arm(7, "LOST")                              # its seventh call from now on
        convert("s3://in", "s3://out")

It keeps the guarantees of real stores: a new object appears completely, and listings show all
objects. A response may be an error, truncated, or lost after the request succeeded. The process may
die before or after a call; then later calls have no effect.
"""

import contextlib
import errno
import hashlib
import io
from collections.abc import Callable, Iterator
from typing import Any, BinaryIO

from trainer_utils import storage
from trainer_utils.storage import retrying
from trainer_utils.storage.file_system import FileSystem, FolderEntry, InputFile

__all__ = ["FATES", "SimulatedDeath", "SimulatedStore", "served"]


class SimulatedDeath(BaseException):
    """A simulated kill of the process."""


_ERRORS: dict[str, Callable[[str], Exception]] = {
    "BUSY": lambda path: ConnectionError(f"{path!r}: 503, slow down"),
    "RESET": lambda path: ConnectionResetError(errno.ECONNRESET, "connection reset", path),
    "TIMEOUT": lambda path: TimeoutError(f"{path!r}: no answer for 60 s"),
    "DENIED": lambda path: PermissionError(f"{path!r}: 403, the token has expired"),
    "FULL": lambda path: OSError(errno.ENOSPC, "no space", path),
}
FATES = (*_ERRORS, "SHORT", "LOST", "DIE", "DIED")
"""Errors; half of the bytes; a lost response after success; death before or after the call."""


class SimulatedStore(FileSystem):
    """Objects by name, `bucket/key`."""

    appears_whole = True

    def __init__(self, objects: dict[str, bytes]) -> None:
        self.objects = dict(objects)
        self.calls: list[str] = []
        self.disarm()

    def arm(self, number: int, fate: str, *, for_ever: bool = False) -> None:
        """Make the n-th call from now (from 1) fail, or that one and all later ones."""
        self.calls, self._armed, self._is_dead = [], (number, fate, for_ever), False

    def disarm(self) -> None:
        """Make all calls succeed from now on."""
        self._armed, self._is_dead = (0, "", False), False

    def _call(self, what: str, path: str, act: Callable[[], Any]) -> Any:
        if self._is_dead:
            raise SimulatedDeath(what)
        self.calls.append(f"{what} {path}")
        number, fate, for_ever = self._armed
        if not number or len(self.calls) < number or (len(self.calls) > number and not for_ever):
            return act()
        if fate in _ERRORS:
            raise _ERRORS[fate](path)
        if fate == "DIE":
            self._is_dead = True
            raise SimulatedDeath(what)
        found = act()
        if fate == "DIED":
            self._is_dead = True
            raise SimulatedDeath(what)
        if fate == "LOST":
            raise ConnectionError(f"{path!r}: the connection broke before the answer")
        return found[: len(found) // 2] if isinstance(found, bytes) else found

    def _get(self, path: str) -> bytes:
        if (found := self.objects.get(_key(path))) is None:
            raise _gone(path)
        return found

    def open(self, path: str, *, root: str | None = None) -> BinaryIO:
        return io.BytesIO(self.read(path))

    def read(self, path: str, *, start: int = 0, stop: int | None = None) -> bytes:
        return self._call("get", path, lambda: self._get(path)[start:stop])

    def _version(self, key: str) -> str:
        return hashlib.md5(self.objects[key], usedforsecurity=False).hexdigest()

    def info(self, path: str) -> FolderEntry:
        def look() -> FolderEntry:
            key = _key(path)
            name = key.rpartition("/")[2]
            if key in self.objects:
                return FolderEntry(name, len(self.objects[key]), False, self._version(key))
            if self._below(path):
                return FolderEntry(name, None, is_folder=True)
            raise _gone(path)

        return self._call("head", path, look)

    def list_folder(self, path: str) -> list[FolderEntry]:
        def look() -> list[FolderEntry]:
            found = {}
            for key in self._below(path):
                name, is_folder, _ = key[len(_key(path)) + 1 :].partition("/")
                size = None if is_folder else len(self.objects[key])
                version = "" if is_folder else self._version(key)
                found[name] = FolderEntry(name, size, bool(is_folder), version)
            if not found:
                raise _gone(path)
            return list(found.values())

        return self._call("list", path, look)

    def walk(self, base: str, *, follow_links: bool = False) -> Iterator[InputFile]:
        def look() -> list[InputFile]:
            return [
                InputFile(key[len(_key(base)) + 1 :], len(self.objects[key]), self._version(key))
                for key in self._below(base)
            ]

        yield from retrying.retry_transient(base, self._call, "list", base, look)

    def _below(self, path: str) -> list[str]:
        return sorted(key for key in self.objects if key.startswith(f"{_key(path)}/"))

    def create(self, path: str) -> BinaryIO:
        return _Upload(self, path)

    def rename(self, source: str, target: str) -> None:
        self.duplicate(source, target, "")
        self.remove(source)

    def duplicate(self, source: str, target: str, temporary: str) -> bool | None:
        def copy() -> bool:
            self.objects[_key(target)] = self._get(source)
            return False

        return self._call("copy", target, copy)

    def remove(self, path: str) -> None:
        self._call("delete", path, lambda: self.objects.pop(_key(path), None))

    def remove_tree(self, path: str) -> None:
        for key in self._below(path):
            self.remove(f"s3://{key}")


class _Upload(io.BytesIO):
    """An object that is stored when closed, unless the writer raised."""

    def __init__(self, store: SimulatedStore, path: str) -> None:
        super().__init__()
        self._store, self._path = store, path

    def close(self) -> None:
        if not self.closed:
            data = self.getvalue()
            super().close()

            def put() -> None:
                self._store.objects[_key(self._path)] = data

            self._store._call("put", self._path, put)

    def __exit__(self, kind: Any, *error: object) -> None:
        if kind is None:
            self.close()
        else:
            super().close()


def _gone(path: str) -> FileNotFoundError:
    return FileNotFoundError(errno.ENOENT, "there is no such object", path)


def _key(path: str) -> str:
    return path.partition("://")[2].strip("/")


@contextlib.contextmanager
def served(store: SimulatedStore) -> Iterator[None]:
    """Use the store for `s3://` in this process, and retry without pauses."""
    pauses, retrying._PAUSES = retrying._PAUSES, (0.0, 0.0, 0.0)
    others = storage.file_system_of
    storage.file_system_of = lambda path: store if path.startswith("s3://") else others(path)
    try:
        yield
    finally:
        storage.file_system_of = others
        retrying._PAUSES = pauses
