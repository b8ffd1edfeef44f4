"""Paths of local files and urls of remote ones, as text.

join("gs://bucket/photos", "cat/1.jpg")       # 'gs://bucket/photos/cat/1.jpg'
"""

OBJECT_SCHEMES = {
    **dict.fromkeys(("s3", "s3a", "minio"), "s3"),
    **dict.fromkeys(("gs", "gcs"), "gcs"),
    **dict.fromkeys(("az", "abfs", "abfss", "adl"), "azure"),
}
"""The schemes of object stores, and the extra of this distribution that brings each."""


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
    if not base or path.startswith("/"):
        return path
    return f"{base}{path}" if base.endswith("/") else f"{base}/{path}"


def display_path(path: str) -> str:
    """A path as text that any file or terminal can hold: bytes that are not UTF-8 are escaped."""
    return path.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
