"""Files through fsspec: gs:// by gcsfs, hf:// by huggingface_hub, and all that it knows.

    REMOTE.read("hf://datasets/ylecun/mnist/README.md", start=0, stop=64)

S3 and Azure come here too where obstore is not installed, but s3fs or adlfs are.

Source: https://filesystem-spec.readthedocs.io/en/latest/api.html
"""

import glob
import io
import os
import posixpath
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any, BinaryIO, cast

import fsspec
from fsspec.core import url_to_fs

from trainer_utils.format import ConfigError
from trainer_utils.storage.file_system import FileSystem, FolderEntry, InputFile, changed_size
from trainer_utils.storage.store_settings import STORES

__all__ = ["REMOTE", "REMOTE_OBJECTS"]

# Extras of this distribution, by scheme.
_EXTRAS = {**STORES, "gs": "gcs", "gcs": "gcs", "hf": "hf", "http": "https", "https": "https"}
# What a file's listing says of its version, the surest first.
_VERSIONS = (
    "generation",
    "etag",
    "ETag",
    "VersionId",
    "md5Hash",
    "mtime",
    "LastModified",
    "last_modified",
    "modified",
    "created",
)


class _FsspecFileSystem:
    appears_whole = False

    def open(self, path: str, *, root: str | None = None) -> BinaryIO:
        with _os_errors(path):
            files, inner = _find(path)
            return cast(BinaryIO, files.open(inner, "rb"))

    def read(self, path: str, *, start: int = 0, stop: int | None = None) -> bytes:
        with _os_errors(path):
            files, inner = _find(path)
            if not start and stop is None:
                return cast(bytes, files.cat_file(inner))
            if stop is not None and stop <= start:
                return b""  # which gcsfs takes for the whole file
            try:
                return cast(bytes, files.cat_file(inner, start=start, end=stop))
            except FileNotFoundError:
                raise
            except Exception:  # a range past the end is refused by servers, each in its own words
                if start < int(files.info(inner)["size"] or 0):
                    raise
                return b""

    def read_of_size(self, path: str, size: int, *, root: str | None = None) -> bytes:
        data = self.read(path, stop=size + 1)
        if data and len(data) != size:
            raise changed_size(size, len(data))
        return data

    def exists(self, path: str) -> bool:
        with _os_errors(path):
            files, inner = _find(path, is_fresh=True)
            return bool(files.exists(inner))

    def is_folder(self, path: str) -> bool:
        with _os_errors(path):
            files, inner = _find(path, is_fresh=True)
            return bool(files.isdir(inner))

    def size(self, path: str) -> int:
        return int(self._info(path)["size"] or 0)

    def version(self, path: str) -> str:
        return _version_with_size(self._info(path))

    def list_folder(self, path: str) -> list[FolderEntry]:
        with _os_errors(path):
            files, inner = _find(path, is_fresh=True)
            entries = []
            for info in files.ls(inner, detail=True):
                name = posixpath.basename(info["name"].rstrip("/"))
                if info["name"].strip("/") == inner.strip("/"):
                    continue  # an empty object that stands for the folder itself
                is_folder = info["type"] == "directory"
                size = None if is_folder else int(info["size"] or 0)
                version = "" if is_folder else _version_with_size(info)
                entries.append(FolderEntry(name, size, is_folder, version))
            return entries

    def walk(self, base: str) -> Iterator[InputFile]:
        with _os_errors(base):
            files, inner = _find(base, is_fresh=True)
            for name, info in files.find(inner, detail=True).items():
                path = name[len(inner) :].lstrip("/")
                if path and not name.endswith("/"):  # else a folder's placeholder
                    yield InputFile(path, int(info["size"] or 0), _version(info))

    def find(self, base: str, name: str) -> InputFile:
        info = self._info(posixpath.join(base, name))
        return InputFile(name, int(info["size"] or 0), _version(info))

    def create(self, path: str) -> BinaryIO:
        with _os_errors(path):
            files, inner = _find(path)
            return cast(BinaryIO, files.open(inner, "wb"))

    def sync(self, stream: BinaryIO) -> None:
        """Nothing: an object store keeps an object whole once it is closed."""

    def rename(self, source: str, target: str) -> None:
        with _os_errors(target):
            files, inner = _find(source)
            _, new = _find(target)
            if type(files).mv is not fsspec.AbstractFileSystem.mv:
                files.mv(inner, new)  # a real rename
                return
            files.cp_file(inner, new)  # `mv` would take a `[` in a name for a pattern
            files.rm_file(inner)

    def duplicate(self, source: str, target: str, temporary: str) -> bool | None:
        with _os_errors(target):
            files, inner = _find(source)
            others, new = _find(target)
            if files is not others:
                return None
            files.cp_file(inner, new)
            return False

    def make_folder(self, path: str) -> None:
        with _os_errors(path):
            files, inner = _find(path)
            files.makedirs(inner, exist_ok=True)

    def remove(self, path: str) -> None:
        with _os_errors(path):
            files, inner = _find(path)
            files.rm_file(inner)

    def remove_tree(self, path: str) -> None:
        with _os_errors(path), suppress(FileNotFoundError):
            files, inner = _find(path, is_fresh=True)
            if not glob.has_magic(inner):
                files.rm(inner, recursive=True)
                return
            # `rm` would take the path for a pattern.
            found = {inner: {"type": "directory"}, **files.find(inner, withdirs=True, detail=True)}
            for name in sorted(found, key=len, reverse=True):  # what is in a folder before it
                is_folder = found[name]["type"] == "directory"
                (files.rmdir if is_folder else files.rm_file)(name)

    def _info(self, path: str) -> Mapping[str, Any]:
        with _os_errors(path):
            files, inner = _find(path, is_fresh=True)
            return cast(Mapping[str, Any], files.info(inner))


class _FsspecObjects(_FsspecFileSystem):
    appears_whole = True

    def create(self, path: str) -> BinaryIO:
        return cast(BinaryIO, _NewObject(super().create(path), path))

    def make_folder(self, path: str) -> None:
        """Nothing: stores have no folders; asked for one they would make a bucket with a typo."""


class _NewObject(io.RawIOBase):
    """An object that is there once it is closed; leaving by an error gives it up."""

    def __init__(self, stream: Any, path: str) -> None:
        self._stream, self._path = stream, path

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        with _os_errors(self._path):
            self._stream.write(data)
        return len(memoryview(data).cast("B"))

    def close(self) -> None:
        if not self.closed:
            super().close()
            with _os_errors(self._path):
                self._stream.close()

    def __exit__(self, kind: type[BaseException] | None, *others: object) -> None:
        if kind is not None and not self.closed:
            super().close()
            with suppress(Exception):  # the first error is the one to see
                self._stream.discard()
            self._stream.closed = True  # so that fsspec does not finish it as it is forgotten
        self.close()

    def __del__(self) -> None:
        self._stream.closed = True


REMOTE: FileSystem = _FsspecFileSystem()
REMOTE_OBJECTS: FileSystem = _FsspecObjects()


def _find(url: str, *, is_fresh: bool = False) -> tuple[Any, str]:
    """fsspec's file system of a url, and the path in it.

    Args:
        url: of a file or folder.
        is_fresh: whether listings that it remembers are forgotten.
    """
    scheme = url.partition("://")[0]
    extra = _EXTRAS.get(scheme)
    try:
        files, path = url_to_fs(url, **_settings(scheme))
    except ImportError as error:
        cure = f"Run pip install 'tfx-shards[{extra}]'." if extra else f"{error}."
        raise ConfigError(
            f"{url!r}: expected the package that reads {scheme}://, found none. {cure}"
        ) from error
    except ValueError as error:
        if extra:  # one that fsspec does not know by that name
            raise ConfigError(
                f"{url!r}: expected the package that reads {scheme}://, found none. "
                f"Run pip install 'tfx-shards[{extra}]'."
            ) from error
        raise ConfigError(
            f"{url!r}: expected a local path, or a url that fsspec knows, such as gs:// or s3://, "
            f"got {scheme}://: {error}. Copy the files to where it can read them."
        ) from error
    if is_fresh:
        files.invalidate_cache()
    return files, path


def _settings(scheme: str) -> dict[str, Any]:
    """What the ecosystem says in the environment, and fsspec's packages do not look at."""
    if scheme in ("gs", "gcs") and "STORAGE_EMULATOR_HOST" in os.environ:
        return {"token": "anon"}  # an emulator has no accounts; asking for one takes a while
    return {}


def _version(info: Mapping[str, object]) -> str:
    return next((str(info[key]) for key in _VERSIONS if info.get(key) is not None), "")


def _version_with_size(info: Mapping[str, object]) -> str:
    return f"{info['size']}-{_version(info)}"


@contextmanager
def _os_errors(path: str) -> Iterator[None]:
    """Makes `OSError` of what stores raise beside it, such as for want of credentials."""
    try:
        yield
    except (OSError, ConfigError):
        raise
    except Exception as error:
        raise OSError(f"{path!r}: {type(error).__name__}: {error}") from error
