"""TFX's own file access for object stores, so that a pipeline's root may lie in any of them.

TFX knows `gs://` through TensorFlow, which has no S3 any more. Source: tfx/dsl/io/filesystem.py.
"""

import contextlib
import fnmatch
import io
import posixpath
from collections.abc import Callable, Iterator
from typing import Any

from tfx.dsl.io import filesystem, filesystem_registry

from trainer_utils import storage

_BLOCK_BYTES = 8 << 20

_SCHEMES = ("s3", "s3a", "minio", "gs", "gcs", "az", "abfs", "abfss", "adl", "memory")


class _ObjectStores(filesystem.Filesystem):
    SUPPORTED_SCHEMES = [f"{scheme}://" for scheme in _SCHEMES]

    @staticmethod
    def open(name: Any, mode: str = "r") -> Any:
        path = _text(name)
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
        source, target = _text(src), _text(dst)
        if not overwrite and storage.exists(target):
            raise OSError(f"{target!r}: expected nothing there, found a file")
        with _not_found(), storage.open_for_reading(source) as stream:
            folder = posixpath.dirname(target)
            with storage.write_atomically(target, temporary_folder=folder) as copy:
                while data := stream.read(_BLOCK_BYTES):
                    copy.write(data)

    @staticmethod
    def exists(path: Any) -> bool:
        return storage.exists(_text(path))

    @staticmethod
    def glob(pattern: Any) -> list[Any]:
        whole = _text(pattern)
        folder = posixpath.dirname(whole)
        if any(sign in folder for sign in "*?["):
            base = folder[: min(folder.find(sign) for sign in "*?[" if sign in folder)]
            base = posixpath.dirname(base)
            names = [f"{base}/{file.path}" for file in storage.list_files(base)]
        else:
            try:
                names = [f"{folder}/{name}" for name in storage.list_names(folder)]
            except FileNotFoundError:
                names = []
        return sorted(name for name in names if fnmatch.fnmatchcase(name, whole))

    @staticmethod
    def isdir(path: Any) -> bool:
        return storage.is_folder(_text(path))

    @staticmethod
    def listdir(path: Any) -> list[Any]:
        with _not_found():
            return [*storage.list_names(_text(path))]

    @staticmethod
    def makedirs(path: Any) -> None:
        storage.make_folder(_text(path))

    @staticmethod
    def mkdir(path: Any) -> None:
        storage.make_folder(_text(path))

    @staticmethod
    def remove(path: Any) -> None:
        with _not_found():
            storage.remove_file(_text(path))

    @staticmethod
    def rename(src: Any, dst: Any, overwrite: bool = False) -> None:
        source, target = _text(src), _text(dst)
        if not overwrite and storage.exists(target):
            raise OSError(f"{target!r}: expected nothing there, found a file")
        with _not_found():
            if not storage.is_folder(source):
                storage.rename(source, target)
                return
            for file in storage.list_files(source):
                storage.rename(f"{source}/{file.path}", f"{target}/{file.path}")

    @staticmethod
    def rmtree(path: Any) -> None:
        storage.remove_tree(_text(path))

    @staticmethod
    def stat(path: Any) -> Any:
        raise NotImplementedError("object stores have no stat; see trainer_utils.storage")

    @staticmethod
    def walk(
        top: Any, topdown: bool = True, onerror: Callable[..., None] | None = None
    ) -> Iterator[tuple[Any, list[Any], list[Any]]]:
        path = _text(top)
        try:
            entries = storage.list_folder(path)
        except OSError as error:
            if onerror is not None:
                onerror(error)
            return
        folders = sorted(entry.name for entry in entries if entry.is_folder)
        here = (path, folders, sorted(entry.name for entry in entries if not entry.is_folder))
        if topdown:
            yield here
        for folder in folders:
            yield from _ObjectStores.walk(f"{path.rstrip('/')}/{folder}", topdown, onerror)
        if not topdown:
            yield here


@contextlib.contextmanager
def _not_found() -> Iterator[None]:
    """Makes TFX's own error of a file that is not there."""
    try:
        yield
    except FileNotFoundError as error:
        raise filesystem.NotFoundError(str(error)) from error


def _text(path: Any) -> str:
    return path.decode() if isinstance(path, bytes) else str(path)


def register_object_stores() -> None:
    """Has TFX read and write object stores through `trainer_utils.storage`."""
    filesystem_registry.DEFAULT_FILESYSTEM_REGISTRY.register(_ObjectStores, priority=0)
