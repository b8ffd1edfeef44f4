"""What files are, by how they begin, or by how their names end."""

import collections
import posixpath
from collections.abc import Iterable

from trainer_utils.format.media_formats import EXTENSIONS, format_of


def kind_of_bytes(head: bytes) -> str | None:
    """`image`, `audio` or `text`, by how a file begins; None for anything else."""
    if (known := format_of(head)) is not None:
        return known.kind
    if not head or b"\0" in head:
        return None
    try:
        head.decode("utf-8")
    except UnicodeDecodeError as error:
        if error.start < len(head) - 3:  # else a character that is cut
            return None
    return "text"


def kind_of_name(name: str) -> str | None:
    """`image` or `audio`, by the ending of a file's name."""
    ending = posixpath.splitext(name)[1].lower()
    return next((kind for kind, known in EXTENSIONS.items() if ending in known), None)


def kind_of_heads(heads: Iterable[bytes]) -> str | None:
    """What most of some files are that are images or sounds; None where none is."""
    counts = collections.Counter(map(kind_of_bytes, heads))
    known = [(count, kind) for kind, count in counts.items() if kind in EXTENSIONS]
    return str(max(known)[1]) if known else None
