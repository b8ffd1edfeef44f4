"""Paths and urls: join them, tell stores from folders, and show any bytes in a message."""

import os
import urllib.parse

from trainer_utils.core.errors import ConfigError

OBJECT_SCHEMES = {
    **dict.fromkeys(("s3", "s3a", "minio"), "s3"),
    **dict.fromkeys(("gs", "gcs"), "gcs"),
    **dict.fromkeys(("az", "abfs", "abfss", "adl"), "azure"),
}
"""The schemes of object stores, and the extra of this distribution that supports each."""


def is_remote(path: str) -> bool:
    """Return whether a path is a url, such as `gs://bucket/folder`."""
    return "://" in path


def local_path(uri: str | os.PathLike[str]) -> str:
    """Return the path of a `file://` URI; any other uri or path unchanged, as a string.

    `Path.as_uri()` writes `%20` for a space. A path that exists literally with its `%` is returned
    undecoded, since many programs put `file://` before a path without encoding. Source: RFC 8089.
    """
    uri = os.fspath(uri)
    scheme, _, path = uri.partition("://")
    if scheme.lower() != "file":
        return uri
    path = path.removeprefix("localhost")
    decoded = urllib.parse.unquote(path, errors="surrogateescape")
    if decoded != path and os.path.lexists(path) and not os.path.lexists(decoded):
        return path
    return decoded


def path_of(name: str, value: object) -> str:
    """Return a path or url as a string, given one or an `os.PathLike`; decode a `file://` URI.

    Args:
        name: the name of the argument, for the message.
        value: the argument.

    Raises:
        ConfigError: it is anything else.
    """
    path = os.fspath(value) if isinstance(value, (str, os.PathLike)) else None
    if not isinstance(path, str) or not path or "\0" in path:
        raise ConfigError.of(name, value, allowed="a path or a url")
    return local_path(path)


def is_object_store(path: str) -> bool:
    """Return whether a path is a url of an object store, which is writable from any machine."""
    return is_remote(path) and path.partition("://")[0] in OBJECT_SCHEMES


def join(base: str | os.PathLike[str], path: str) -> str:
    """Join `path` to `base`; return `path` itself if it is absolute or a url."""
    base = os.fspath(base)
    if not base or is_remote(path) or path.startswith("/"):
        return path
    if base.startswith("file://"):
        path = urllib.parse.quote(path, errors="surrogateescape")
    return f"{base}{path}" if base.endswith("/") else f"{base}/{path}"


def encode_path(path: str) -> bytes:
    """Return the original bytes of a path with surrogates for bytes that are not UTF-8."""
    return path.encode("utf-8", "surrogateescape")


def decode_path(path: bytes) -> str:
    """Decode the bytes of a path, the inverse of `encode_path`."""
    return path.decode("utf-8", "surrogateescape")


def display_path(path: str) -> str:
    """Return a path for display, with escapes for bytes that are not UTF-8."""
    return path.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
