"""Keep small results in the cache folder, for all processes of a user on this machine.

    kept = KeptFiles("offsets", folder=None)
    kept.find(("train.tfrecord", version))            # the path of a file, or None
    kept.keep(("train.tfrecord", version), data)

A result is kept under a key, which must change with everything that the result depends on.
"""

import contextlib
import fcntl
import hashlib
import logging
import os
import time
import zlib
from collections.abc import Iterator

from trainer_utils.storage import read_bytes, write_atomically
from trainer_utils.storage.cache_folder import own_folder

_logger = logging.getLogger(__name__)
_LOCKS = 256  # lock files, so that few keys share one
_MAX_AGE_SECONDS = 30 * 86_400.0  # files unused for longer are removed
_ENDING = ".kept"
_CRC_BYTES = 4


class KeptFiles:
    """Files by key in a folder within the cache folder.

    Args:
        name: the name of the folder.
        folder: the cache folder; None for the default.

    Attributes:
        path: the path of the folder.

    Raises:
        ConfigError: the folder belongs to another user, or cannot be created.
    """

    def __init__(self, name: str, folder: str | None = None) -> None:
        self.path = own_folder(name, given=folder)

    def find(self, key: object) -> str | None:
        """Return the path of a kept file, or None. A file that is found stays for a month."""
        path = self._path(key)
        try:
            os.utime(path)
        except OSError:
            return None
        return path

    def keep(self, key: object, data: bytes) -> None:
        """Keep a file. If that fails, as on a full disk, it is logged."""
        try:
            with write_atomically(self._path(key), temporary_folder=self.path) as stream:
                stream.write(data)
        except OSError as error:
            _logger.warning("%r: nothing can be kept there for the next time: %s", self.path, error)

    def read_checked(self, key: object, *, num_bytes: int) -> bytes | None:
        """Return the data that `keep_checked` kept, or None if it is damaged or not there.

        Args:
            key: the key.
            num_bytes: the size of the data.
        """
        path = self.find(key)
        content = b"" if path is None else read_bytes(path)
        data, crc = content[:num_bytes], content[num_bytes:]
        is_whole = len(content) == num_bytes + _CRC_BYTES
        return data if is_whole and zlib.crc32(data) == int.from_bytes(crc, "little") else None

    def keep_checked(self, key: object, data: bytes) -> None:
        """Keep data with a checksum, and remove old files."""
        self.keep(key, data + zlib.crc32(data).to_bytes(_CRC_BYTES, "little"))
        self.remove_old()

    @contextlib.contextmanager
    def lock(self, key: object) -> Iterator[None]:
        """Let other threads and processes wait that lock the same key."""
        name = f"lock-{int(_digest(key)[:8], 16) % _LOCKS:03d}"
        flags = os.O_CREAT | os.O_RDWR | os.O_NOFOLLOW
        descriptor = os.open(os.path.join(self.path, name), flags, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            os.close(descriptor)

    def remove_old(self) -> None:
        """Remove files that were not used for a month."""
        oldest = time.time() - _MAX_AGE_SECONDS
        with contextlib.suppress(OSError), os.scandir(self.path) as entries:
            for entry in entries:
                with contextlib.suppress(OSError):
                    if entry.name.endswith(_ENDING) and entry.stat().st_mtime < oldest:
                        os.unlink(entry.path)

    def _path(self, key: object) -> str:
        return os.path.join(self.path, f"{_digest(key)}{_ENDING}")


def _digest(key: object) -> str:
    return hashlib.blake2b(repr(key).encode(), digest_size=16).hexdigest()
