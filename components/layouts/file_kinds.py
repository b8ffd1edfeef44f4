"""Recognise the kind of files by their first bytes or by their suffix."""

import collections
import posixpath
from collections.abc import Iterable

from trainer_utils.format.media_formats import EXTENSIONS, format_of

# Image and audio formats that are not supported: such files are rejected one by one.
OTHER_MEDIA = {
    "image": (
        *(".heic", ".heif", ".avif", ".svg", ".psd", ".jp2", ".j2k", ".jxl", ".ico", ".qoi"),
        *(".pbm", ".pgm", ".ppm", ".pnm", ".tga", ".exr", ".dds", ".eps", ".dng", ".cr2", ".nef"),
        *(".arw", ".raw", ".dcm"),
    ),
    "audio": (".m4a", ".aac", ".wma", ".aif", ".aiff", ".amr", ".ape", ".au", ".caf", ".mka"),
}


def kind_of_bytes(head: bytes) -> str | None:
    """Return `image`, `audio` or `text` by the first bytes of a file, else None."""
    if (known := format_of(head)) is not None:
        return known.kind
    if not head or b"\0" in head:
        return None
    try:
        head.decode("utf-8")
    except UnicodeDecodeError as error:
        if error.start < len(head) - 3:  # otherwise the head ends inside a character
            return None
    return "text"


def kind_of_name(name: str) -> str | None:
    """Return `image` or `audio` by the suffix of a file name, else None."""
    ending = posixpath.splitext(name)[1].lower()
    return next((kind for kind, known in EXTENSIONS.items() if ending in known), None)


def kind_of_heads(heads: Iterable[bytes]) -> str | None:
    """Return `image` or `audio`, the most frequent kind, or None if no file is either.

    Args:
        heads: the first bytes of files.
    """
    counts = collections.Counter(map(kind_of_bytes, heads))
    known = [(count, kind) for kind, count in counts.items() if kind in EXTENSIONS]
    return str(max(known)[1]) if known else None
