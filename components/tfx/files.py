"""File access for TFX in object stores that it cannot read, so that pipelines can be rooted there.

TFX reads `gs://` through TensorFlow, which no longer supports S3. Schemes that TFX or TensorFlow
can serve are left to them, since other components in the process use them.
Source: tfx/dsl/io/filesystem.py.
"""

import contextlib
import fnmatch
import io
import os
import posixpath
from collections.abc import Iterator, Sequence
from typing import Any

from tfx.dsl.io import filesystem, filesystem_registry

from trainer_utils import storage

_SCHEMES = ("s3", "s3a", "minio", "gs", "gcs", "az", "abfs", "abfss", "adl", "memory")

# A store has no empty folders. TFX creates the folder of an output, and removes it after a failure
# as a folder: if nothing was written, an error that it is missing would replace the failure's.
_made_folders: set[str] = set()


class _ObjectStores(filesystem.Filesystem):
    SUPPORTED_SCHEMES = [f"{scheme}://" for scheme in _SCHEMES]

    exists = staticmethod(lambda path: storage.exists(os.fsdecode(path)))

    @staticmethod
    def isdir(path: Any) -> bool:
        folder = os.fsdecode(path)
        return folder.rstrip("/") in _made_folders or storage.is_folder(folder)

    @staticmethod
    def makedirs(path: Any) -> None:
        folder = os.fsdecode(path)
        storage.make_folder(folder)
        _made_folders.add(folder.rstrip("/"))

    mkdir = makedirs

    @staticmethod
    def rmtree(path: Any) -> None:
        folder = os.fsdecode(path)
        _made_folders.discard(folder.rstrip("/"))
        storage.remove_tree(folder)

    @staticmethod
    def open(name: Any, mode: str = "r") -> Any:
        path = os.fsdecode(name)
        if "a" in mode or "+" in mode:
            raise OSError(f"{path!r}: expected a mode of 'r' or 'w', since objects do not grow")
        with _not_found():
            if "w" in mode:
                stream = storage.file_system_of(path).create(path)
            else:
                stream = storage.open_for_reading(path)
        return stream if "b" in mode else io.TextIOWrapper(stream, encoding="utf-8")

    @staticmethod
    def copy(src: Any, dst: Any, overwrite: bool = False) -> None:
        source, target = _to_move(src, dst, overwrite)
        with _not_found():
            storage.copy_file(source, target, temporary_folder=posixpath.dirname(target))

    @staticmethod
    def glob(pattern: Any) -> list[Any]:
        whole = os.fsdecode(pattern)
        folder = posixpath.dirname(whole)
        if any(sign in folder for sign in "*?["):
            base = posixpath.dirname(folder[: min(map(folder.find, set("*?[") & {*folder}))])
            names = [f"{base}/{file.path}" for file in storage.list_files(base)]
        else:
            names = [f"{folder}/{name}" for name in storage.list_names(folder, may_lack=True)]
        wanted = whole.split("/")
        return sorted(name for name in names if _matches(name.split("/"), wanted))

    @staticmethod
    def listdir(path: Any) -> list[Any]:
        with _not_found():
            return [*storage.list_names(os.fsdecode(path))]

    @staticmethod
    def remove(path: Any) -> None:
        with _not_found():
            storage.remove_file(os.fsdecode(path))

    @staticmethod
    def rename(src: Any, dst: Any, overwrite: bool = False) -> None:
        source, target = _to_move(src, dst, overwrite)
        with _not_found():
            if not storage.is_folder(source):
                storage.rename(source, target)
                return
            for file in storage.list_files(source):
                storage.rename(f"{source}/{file.path}", f"{target}/{file.path}")

    @staticmethod
    def walk(top: Any, topdown: bool = True, onerror: Any = None) -> Iterator[Any]:
        """Yield each folder with the names of its folders and files, as `os.walk` does."""
        path = os.fsdecode(top)
        try:
            entries = sorted(storage.list_folder(path), key=lambda entry: entry.name)
        except OSError as error:
            if onerror is not None:
                onerror(error)
            return
        folders = [entry.name for entry in entries if entry.is_folder]
        here = (path, folders, [entry.name for entry in entries if not entry.is_folder])
        if topdown:
            yield here
        for folder in folders:
            yield from _ObjectStores.walk(f"{path.rstrip('/')}/{folder}", topdown, onerror)
        if not topdown:
            yield here


def _matches(parts: Sequence[str], wanted: Sequence[str]) -> bool:
    """Return whether a path matches a pattern. Wildcards do not match slashes."""
    return len(parts) == len(wanted) and all(map(fnmatch.fnmatchcase, parts, wanted))


def _to_move(source: Any, target: Any, overwrite: bool) -> tuple[str, str]:
    if not overwrite and storage.exists(os.fsdecode(target)):
        raise OSError(f"{os.fsdecode(target)!r}: expected nothing there, found a file")
    return os.fsdecode(source), os.fsdecode(target)


@contextlib.contextmanager
def _not_found() -> Iterator[None]:
    """Raise TFX's own error for missing files."""
    try:
        yield
    except FileNotFoundError as error:
        raise filesystem.NotFoundError(str(error)) from error


def register_object_stores() -> None:
    """Let TFX use `trainer_utils.storage` for the schemes that it cannot read itself."""
    registry = filesystem_registry.DEFAULT_FILESYSTEM_REGISTRY
    schemes = [f"{scheme}://" for scheme in _SCHEMES if not _is_served(f"{scheme}://")]
    added = type("_AddedStores", (_ObjectStores,), {"SUPPORTED_SCHEMES": schemes})
    registry.register(added, priority=0)


def _is_served(scheme: str) -> bool:
    """Return whether TFX has a file system for a scheme, or this module has added it."""
    known = filesystem_registry.DEFAULT_FILESYSTEM_REGISTRY._preferred_filesystem_by_scheme
    if (served_by := known.get(scheme)) is None:
        return False
    if served_by.__name__ != "TensorflowFilesystem":
        return True
    # It also claims s3://, which TensorFlow supports only with tensorflow-io.
    import tensorflow as tf

    return scheme.removesuffix("://") in tf.io.gfile.get_registered_schemes()
