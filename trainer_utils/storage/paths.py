"""Paths of local files and urls of remote ones, as text.

join("gs://bucket/photos", "cat/1.jpg")       # 'gs://bucket/photos/cat/1.jpg'
"""

import os
import posixpath

__all__ = ["display_path", "is_remote", "join"]


def is_remote(path: str) -> bool:
    """Whether a path is a url, such as `gs://bucket/folder`."""
    return "://" in path


def join(base: str, path: str) -> str:
    """`path` under `base`; `path` itself where it is whole, an absolute one or a url."""
    if is_remote(path):
        return path
    return posixpath.join(base, path) if is_remote(base) else os.path.join(base, path)


def display_path(path: str) -> str:
    """A path as text that any file or terminal can hold: bytes that are not UTF-8 are escaped."""
    return path.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
