"""Access files through fsspec: gs:// by gcsfs, hf:// by huggingface_hub; not S3 or Azure.

Source: https://filesystem-spec.readthedocs.io/en/latest/api.html
"""

import asyncio
import glob
import io
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any, BinaryIO, cast

import fsspec
from fsspec.core import url_to_fs

from trainer_utils.core.errors import ConfigError
from trainer_utils.storage.file_system import FileSystem, FolderEntry, InputFile
from trainer_utils.storage.host_errors import FileRefusedError, MachineError, changed_size
from trainer_utils.storage.paths import is_object_store, local_path
from trainer_utils.storage.retrying import retry_transient
from trainer_utils.storage.store_settings import CONNECT_SECONDS, REQUEST_SECONDS

# Extras of this distribution, by scheme.
_EXTRAS = {"gs": "gcs", "gcs": "gcs", "hf": "hf", "http": "https", "https": "https"}
# The keys of a listing that identify a version, the most reliable first; `blob_id` is of hf://.
_VERSIONS = (
    *("generation", "etag", "ETag", "blob_id", "VersionId", "md5Hash"),
    *("mtime", "LastModified", "last_modified", "modified", "created"),
)


class _FsspecFileSystem(FileSystem):
    def open(self, path: str, *, root: str | None = None) -> BinaryIO:
        with _at(path) as (files, inner):
            stream = files.open(inner, "rb")
            _keep_to_generation(stream, files)
            return cast(BinaryIO, io.BufferedReader(_OpenFile(path, stream), 64 << 10))

    def read(self, path: str, *, start: int = 0, stop: int | None = None) -> bytes:
        """Read a range of a file, or all of it; a range past the end is empty."""
        with _at(path) as (files, inner):
            if not start and stop is None:
                return cast(bytes, files.cat_file(inner))
            if stop is not None and stop <= start:
                return b""  # gcsfs would return the whole file
            try:
                return cast(bytes, files.cat_file(inner, start=start, end=stop))
            except (OSError, asyncio.TimeoutError):
                raise
            except Exception as error:  # maybe a range past the end
                status = getattr(error, "code", None) or getattr(error, "status", None)
                if status not in (None, 416) or start < int(files.info(inner)["size"] or 0):
                    raise
                return b""

    def info(self, path: str) -> FolderEntry:
        with _at(path, is_fresh=True) as (files, inner):
            return _entry(inner, files.info(inner))

    def list_folder(self, path: str) -> list[FolderEntry]:
        with _at(path, is_fresh=True) as (files, inner):
            try:
                entries = files.ls(inner, detail=True)
            except KeyError as error:  # from fsspec's memory: a file was removed during the listing
                raise FileNotFoundError(f"{path!r}: {error} is not there any more") from error
            return [
                _entry(info["name"], info)
                for info in entries
                # skip the empty placeholder of the folder itself
                if info["name"].strip("/") != inner.strip("/")
            ]

    def walk(self, base: str, *, follow_links: bool = False) -> Iterator[InputFile]:
        inner, entries = retry_transient(base, self._find_all, base)
        for name, info in entries.items():
            path = name[len(inner) :].lstrip("/")
            if path and not name.endswith("/"):  # else a folder's placeholder
                yield InputFile(path, int(info["size"] or 0), _version(info))

    def create(self, path: str) -> BinaryIO:
        with _at(path) as (files, inner):
            return cast(BinaryIO, files.open(inner, "wb"))

    def rename(self, source: str, target: str) -> None:
        with _at(source) as (files, inner), _at(target) as (_, new):
            if type(files).mv is not fsspec.AbstractFileSystem.mv:
                files.mv(inner, new)  # a real rename
                return
            files.cp_file(inner, new)  # `mv` would treat a `[` in a name as a pattern
            files.rm_file(inner)

    def duplicate(self, source: str, target: str, temporary: str) -> bool | None:
        with _at(source) as (files, inner), _at(target) as (others, new):
            if files is not others:
                return None
            files.cp_file(inner, new)
            return False

    def make_folder(self, path: str) -> None:
        with _at(path) as (files, inner):
            if not is_object_store(path):  # else a typo would create a bucket
                files.makedirs(inner, exist_ok=True)

    def remove(self, path: str) -> None:
        with _at(path) as (files, inner):
            files.rm_file(inner)

    def remove_tree(self, path: str) -> None:
        with suppress(FileNotFoundError), _at(path, is_fresh=True) as (files, inner):
            if not glob.has_magic(inner):
                files.rm(inner, recursive=True)
                return
            # `rm` would treat the path as a pattern.
            entries = {
                inner: {"type": "directory"},
                **files.find(inner, withdirs=True, detail=True),
            }
            for name in sorted(entries, key=len, reverse=True):  # contents before their folder
                is_folder = entries[name]["type"] == "directory"
                (files.rmdir if is_folder else files.rm_file)(name)

    def _find_all(self, base: str) -> tuple[str, dict[str, Any]]:
        with _at(base, is_fresh=True) as (files, inner):
            return inner, files.find(inner, detail=True)


class _OpenFile(io.RawIOBase):
    """A file open for reading, which raises an error if it has changed since."""

    def __init__(self, path: str, stream: Any) -> None:
        self._path, self._stream = path, stream
        size = getattr(stream, "size", None)
        self._size: int = (size() if callable(size) else size) or 0  # 0 if unknown

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return bool(self._stream.seekable())

    def tell(self) -> int:
        return int(self._stream.tell())

    def seek(self, offset: int, whence: int = 0) -> int:
        return int(self._stream.seek(offset, whence))

    def readinto(self, buffer: Any) -> int:
        view = memoryview(buffer).cast("B")
        data = self._read(len(view))
        view[: len(data)] = data
        return len(data)

    def readall(self) -> bytes:
        return self._read(-1)

    def close(self) -> None:
        self._stream.close()
        super().close()

    def _read(self, size: int) -> bytes:
        return retry_transient(self._path, self._read_once, self.tell(), size)

    def _read_once(self, start: int, size: int) -> bytes:
        with _os_errors(self._path):
            try:
                if self.tell() != start:  # an earlier attempt failed half-way
                    self.seek(start)
                data: bytes = self._stream.read(size)
            except FileNotFoundError as error:
                detail = "expected the object that was opened, which is no longer there"
                raise FileRefusedError("CHANGED_FILE", detail) from error
        # fsspec treats a truncated answer as complete.
        if (size < 0 or len(data) < size) and (place := self.tell()) < self._size:
            raise changed_size(self._size, place)
        return data


def _keep_to_generation(stream: Any, files: Any) -> None:
    """Pin later requests of a stream from gs:// to the generation at which it was opened."""
    if not type(stream).__module__.startswith("gcsfs"):
        return
    generation = str(stream.details.get("generation") or "")
    kept = type(files)(**{**files.storage_options, "version_aware": True})
    name = f"{stream.path}#{generation}"
    if generation and kept.split_path(name) == (stream.bucket, stream.key, generation):
        stream.path, stream.gcsfs = name, kept  # else gcsfs would parse it as another name


REMOTE: FileSystem = _FsspecFileSystem()


@contextmanager
def _at(url: str, *, is_fresh: bool = False) -> Iterator[tuple[Any, str]]:
    """Yield fsspec's file system for a url, guarded by `_os_errors`, and the path in it.

    With `is_fresh`, fsspec forgets its cached listings first.
    """
    scheme = url.partition("://")[0]
    with _os_errors(url):
        try:
            if scheme.lower() == "file":
                url = local_path(url)
            files, path = url_to_fs(url, **(_google_settings() if scheme in ("gs", "gcs") else {}))
        except (ImportError, ValueError) as error:
            extra = _EXTRAS.get(scheme)
            cure = f"Run pip install 'tfx-shards[{extra}]'." if extra else f"{error}."
            raise ConfigError(
                f"{url!r}: expected a local path, or a url of a scheme whose package is "
                f"installed, such as s3://, got {scheme}://. {cure}"
            ) from error
        if is_fresh:
            files.invalidate_cache()
        yield files, path


def _google_settings() -> dict[str, Any]:
    """Return settings that gcsfs lacks by default; without a time-out it waits forever."""
    settings: dict[str, Any] = {}
    if "STORAGE_EMULATOR_HOST" in os.environ:
        settings["token"] = "anon"  # emulators have no accounts, and a request for one is slow
    with suppress(ImportError):  # gcsfs is then missing too, which raises an error elsewhere
        from aiohttp import ClientTimeout

        # Limit silence and not a whole request, since gcsfs would not retry that.
        settings["requests_timeout"] = ClientTimeout(
            total=None, sock_connect=CONNECT_SECONDS, sock_read=REQUEST_SECONDS
        )
    return settings


def _version(info: Mapping[str, object]) -> str:
    return next((str(info[key]) for key in _VERSIONS if info.get(key) is not None), "")


def _entry(path: str, info: Mapping[str, Any]) -> FolderEntry:
    name = path.rstrip("/").rpartition("/")[2]
    if info["type"] == "directory":
        return FolderEntry(name, None, is_folder=True)
    return FolderEntry(name, int(info["size"] or 0), False, f"{info['size']}-{_version(info)}")


@contextmanager
def _os_errors(path: str) -> Iterator[None]:
    """Convert other errors of stores to `OSError`, such as missing credentials."""
    try:
        yield
    except (FileRefusedError, ConfigError, MachineError):
        raise
    except Exception as error:
        is_own = isinstance(error, OSError) and error.args and type(error).__module__ == "builtins"
        if is_own and (type(error) is not OSError or error.errno is not None):
            raise
        # Packages of object stores have retried already.
        kind = MachineError if is_object_store(path) else ConnectionError
        raise kind(f"{path!r}: {type(error).__name__}: {error}") from error
