"""Paths of local files and urls of remote ones, as text.

join("gs://bucket/photos", "cat/1.jpg")       # 'gs://bucket/photos/cat/1.jpg'
"""

import os

__all__ = ["OBJECT_SCHEMES", "display_path", "is_object_store", "is_remote", "join"]

OBJECT_SCHEMES = frozenset(
    ("s3", "s3a", "minio", "gs", "gcs", "az", "abfs", "abfss", "adl", "oss", "r2")
)
"""The schemes of object stores: an object is there once it is closed, and renaming copies it."""


def is_remote(path: str) -> bool:
    """Whether a path is a url, such as `gs://bucket/folder`."""
    return "://" in path


def is_object_store(path: str) -> bool:
    """Whether a path is a url of an object store, which can be written to from anywhere."""
    scheme, separator, _ = path.partition("://")
    return bool(separator) and scheme in OBJECT_SCHEMES


def join(base: str, path: str) -> str:
    """`path` under `base`; `path` itself where it is whole, an absolute one or a url."""
    if is_remote(path):
        return path
    if os.sep != "/" and not is_remote(base):
        return os.path.join(base, path)
    if not base or path.startswith("/"):
        return path
    return f"{base}{path}" if base.endswith("/") else f"{base}/{path}"


def display_path(path: str) -> str:
    """A path as text that any file or terminal can hold: bytes that are not UTF-8 are escaped."""
    return path.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
