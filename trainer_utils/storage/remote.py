"""Files that are not local, through fsspec: gs:// by gcsfs, s3:// by s3fs, and all that it knows.

    REMOTE.read("s3://bucket/photos/1.jpg", start=0, stop=64)

Source: https://filesystem-spec.readthedocs.io/en/latest/api.html
"""

import glob
import posixpath
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any, BinaryIO, cast

import fsspec
from fsspec.core import url_to_fs

from trainer_utils.format import ConfigError
from trainer_utils.storage.file_system import FileSystem, FolderEntry, InputFile, changed_size

__all__ = ["REMOTE"]

_EXTRAS = {"gs": "gcs", "gcs": "gcs", "s3": "s3", "s3a": "s3"}  # of this distribution, by scheme
# Object stores have no folders to make; asked for one they would make a bucket that has a typo.
_WITHOUT_FOLDERS = {*_EXTRAS, "abfs", "abfss", "adl", "az", "oss", "r2"}
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
    def open(self, path: str, *, root: str | None = None) -> BinaryIO:
        with _os_errors(path):
            files, inner = _find(path)
            return cast(BinaryIO, files.open(inner, "rb"))

    def read(self, path: str, *, start: int = 0, stop: int | None = None) -> bytes:
        with _os_errors(path):
            files, inner = _find(path)
            if not start and stop is None:
                return cast(bytes, files.cat_file(inner))
            return cast(bytes, files.cat_file(inner, start=start, end=stop))

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
        info = self._info(path)
        return f"{info['size']}-{_version(info)}"

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
                entries.append(FolderEntry(name, size, is_folder))
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

    def make_folder(self, path: str) -> None:
        with _os_errors(path):
            files, inner = _find(path)
            if path.partition("://")[0] not in _WITHOUT_FOLDERS:
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


REMOTE: FileSystem = _FsspecFileSystem()


def _find(url: str, *, is_fresh: bool = False) -> tuple[Any, str]:
    """fsspec's file system of a url, and the path in it.

    Args:
        url: of a file or folder.
        is_fresh: whether listings that it remembers are forgotten.
    """
    scheme = url.partition("://")[0]
    try:
        files, path = url_to_fs(url)
    except ImportError as error:
        extra = _EXTRAS.get(scheme)
        cure = f"Run pip install 'tfx-shards[{extra}]'." if extra else f"{error}."
        raise ConfigError(
            f"{url!r}: expected the package that reads {scheme}://, found none. {cure}"
        ) from error
    except ValueError as error:
        raise ConfigError(
            f"{url!r}: expected a local path, or a url that fsspec knows, such as gs:// or s3://, "
            f"got {scheme}://: {error}. Copy the files to where it can read them."
        ) from error
    if is_fresh:
        files.invalidate_cache()
    return files, path


def _version(info: Mapping[str, object]) -> str:
    return next((str(info[key]) for key in _VERSIONS if info.get(key) is not None), "")


@contextmanager
def _os_errors(path: str) -> Iterator[None]:
    """Makes `OSError` of what stores raise beside it, such as for want of credentials."""
    try:
        yield
    except (OSError, ConfigError):
        raise
    except Exception as error:
        raise OSError(f"{path!r}: {type(error).__name__}: {error}") from error
