"""Read the bytes of local shards; the interface of all open shards.

file = LocalFile(path, open_for_reading(path), is_mapped=True)
file.read(0, 1 << 20)
"""

import contextlib
import os
import tempfile
import weakref
from collections.abc import Iterator
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from trainer_utils.core.errors import CorruptShardError
from trainer_utils.dataset.compression import open_records
from trainer_utils.storage import FileRefusedError, MachineError, file_size, open_for_reading
from trainer_utils.storage.open_files import FileMapping, read_at, read_bytes_at

CHANGED = "It has been modified since its dataset was opened. Open the dataset again."
_UNPACKED_AT_ONCE = 64 << 10  # bytes before the damage in a gzip file that may be lost

Bytes = npt.NDArray[np.uint8]
Positions = npt.NDArray[np.int64]


class OpenShard(Protocol):
    """An open shard, whose bytes are read from a file or fetched, by several threads."""

    @property
    def path(self) -> str:
        """Path of the shard."""

    @property
    def size(self) -> int:
        """Size of the framed records in bytes."""

    @property
    def address(self) -> int:
        """Address of the mapping of its bytes into memory, or 0."""

    @property
    def damage(self) -> CorruptShardError | None:
        """Error of a file that is damaged as a whole, or None."""

    @property
    def is_cached(self) -> bool:
        """Whether its parts are copied to the cache folder when they are first read."""

    def check(self) -> None:
        """Raise a CorruptShardError if the size has changed since the file was opened."""

    def read(self, begin: int, end: int) -> bytes:
        """Return the bytes of a range, fewer at the end of the file."""

    def read_into(self, view: Bytes, begin: int) -> int:
        """Fill a view with bytes; return their number, less than its size in a truncated file."""

    def read_ahead(self, begin: int, end: int) -> None:
        """Start to read or fetch bytes that are needed soon."""

    def holds(self, begins: Positions, ends: Positions) -> npt.NDArray[np.bool_]:
        """Return for each range whether it can be read without fetching."""

    def holds_all(self, begin: int, end: int) -> bool:
        """Return whether a range can be read without fetching."""

    def forget(self, begin: int, end: int) -> bool:
        """Drop copies of damaged bytes; return False if there are no copies."""


class LocalFile:
    """A local file whose bytes are read, or copied out of a mapping if records are short.

    Args:
        path: the path of the shard.
        stream: the open file. A mapped file is closed, unless the stream is the only way to it.
        is_mapped: whether to map the file into memory.
        is_copy: whether the stream is of a copy that only this user changes, which stays open.
        size: the size of the framed records in bytes; None for the size of the file.

    Attributes:
        size: the size of the framed records in bytes.
        address: the address of the mapping, or 0.
        damage: the error of a file that is damaged as a whole.
    """

    damage: CorruptShardError | None = None
    is_cached = False

    def __init__(
        self,
        path: str,
        stream: Any,
        *,
        is_mapped: bool,
        is_copy: bool = False,
        size: int | None = None,
    ) -> None:
        self.path, self._is_copy = path, is_copy
        self.size = os.fstat(stream.fileno()).st_size if size is None else size
        self._mapping = FileMapping(stream.fileno(), self.size if is_mapped else 0)
        self.address = self._mapping.address
        self._stream = None if self.address and not is_copy else stream
        if self._stream is None:
            stream.close()
        else:
            weakref.finalize(self, stream.close).atexit = False

    @classmethod
    def until_damage(cls, path: str, *, is_mapped: bool) -> "LocalFile":
        """Unpack a damaged compressed file to a temporary one, up to the damage.

        Raises:
            MachineError: the disk is full.
        """
        damage = None
        with _naming_temporary_folder(path):
            stream = tempfile.TemporaryFile(buffering=0)  # noqa: SIM115 it is closed with the file
        try:
            with open_records(path) as packed:
                while data := packed.read(_UNPACKED_AT_ONCE):
                    with _naming_temporary_folder(path):
                        while data:
                            data = data[stream.write(data) :]
        except CorruptShardError as error:
            damage = error
        except BaseException:
            stream.close()
            raise
        file = cls(path, stream, is_mapped=is_mapped, is_copy=True)
        file.damage = damage
        return file

    @property
    def descriptor(self) -> int:
        """Descriptor of the file, or -1 if it is closed while mapped."""
        return -1 if self._stream is None else int(self._stream.fileno())

    @contextlib.contextmanager
    def _descriptor(self) -> Iterator[int]:
        """Yield a descriptor of the file, which is opened again if it was closed."""
        if self._stream is not None:
            yield self._stream.fileno()
            return
        with translate_missing_shard(self.path), open_for_reading(self.path) as stream:
            yield stream.fileno()

    def check(self) -> None:
        """Raise a CorruptShardError if the size has changed since the file was opened."""
        if self._is_copy:
            return
        if self._stream is not None:
            size = os.fstat(self._stream.fileno()).st_size
        else:
            with translate_missing_shard(self.path):
                size = file_size(self.path)
        if size != self.size:
            raise resized_error(self.path, self.size, size)

    def read(self, begin: int, end: int) -> bytes:
        """Return the bytes of a range, fewer at the end of the file."""
        with self._descriptor() as descriptor:
            return read_bytes_at(descriptor, begin, end, path=self.path)

    def read_into(self, view: Bytes, begin: int) -> int:
        """Fill a view with bytes; return their number, less than its size in a truncated file."""
        with self._descriptor() as descriptor:
            return read_at(descriptor, view, begin, path=self.path)

    def read_ahead(self, begin: int, end: int) -> None:
        """Ask the system to load bytes that are needed soon."""
        if not self.address and hasattr(os, "posix_fadvise"):
            with contextlib.suppress(OSError), self._descriptor() as descriptor:
                os.posix_fadvise(descriptor, begin, end - begin, os.POSIX_FADV_WILLNEED)

    def holds(self, begins: Positions, ends: Positions) -> npt.NDArray[np.bool_]:
        """Return for each range whether it can be read without fetching; always true here."""
        return np.ones(len(begins), bool)

    def holds_all(self, begin: int, end: int) -> bool:
        """Return whether a range can be read without fetching; always true here."""
        return True

    def forget(self, begin: int, end: int) -> bool:
        """Return False, since a local file has no copies to drop."""
        return False


@contextlib.contextmanager
def _naming_temporary_folder(path: str) -> Iterator[None]:
    """Raise a MachineError that names both files if a shard cannot be unpacked."""
    try:
        yield
    except OSError as error:
        folder = tempfile.tempdir or os.environ.get("TMPDIR", "/tmp")
        raise MachineError(
            f"{path!r}: cannot be unpacked in the temporary folder {folder!r}: "
            f"{error.strerror or error}. Make room there, set TMPDIR to another folder, or store "
            "the dataset without compression.",
            path=path,
            errno=error.errno,
        ) from error


@contextlib.contextmanager
def translate_missing_shard(path: str) -> Iterator[None]:
    """Raise a CorruptShardError if a shard is no longer a file."""
    try:
        yield
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError, FileRefusedError) as error:
        is_other = isinstance(error, (IsADirectoryError, FileRefusedError))
        raise CorruptShardError.at(
            path,
            expected="a shard that exists while it is read",
            got="something else with that name" if is_other else "no such file",
            advice="It was removed, or the dataset is being rewritten. Open the dataset again.",
        ) from error


def resized_error(path: str, expected: int, got: int) -> CorruptShardError:
    """Return the error of a file whose size has changed from `expected` to `got` bytes."""
    wanted = f"a file of {expected} bytes, as when its dataset was opened"
    offset = min(expected, got)
    return CorruptShardError.at(
        path, expected=wanted, got=f"one of {got}", offset=offset, advice=CHANGED
    )
