"""What files are, by how they begin: their names may say something else.

kind_of_bytes(b"RIFF....WAVE")      # 'audio'
count_kinds(inputs, table, [(1, "a.wav"), (2, "b.wav")])      # {'audio': 2}, True
"""

import collections
import posixpath
from collections.abc import Callable, Iterable, Sequence

from components.common.entry import Blob
from components.common.layout_inputs import LayoutInputs
from components.common.rejects import RejectedInputError
from trainer_utils.format.media_formats import EXTENSIONS, format_of
from trainer_utils.storage.file_system import problem_of
from trainer_utils.storage.files import open_for_reading
from trainer_utils.storage.paths import join

__all__ = [
    "_HEAD_BYTES",
    "count_kinds",
    "kind_of_bytes",
    "kind_of_heads",
    "kind_of_name",
]

_HEAD_BYTES = 512
_SAMPLE = 8  # files of one ending: an object store answers a request in some 30 ms


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


def count_kinds(
    inputs: LayoutInputs,
    uris: Sequence[tuple[int, str]],
    find: Callable[[Sequence[tuple[int, str]]], Iterable[tuple[str, Blob] | RejectedInputError]],
) -> tuple[dict[str, float], bool]:
    """Estimates how many files of a list's column are of each kind, from some of each ending.

    Args:
        uris: what the column names, with the position of each row.
        find: gives the files of some of them.

    Returns:
        Numbers by kind, of what is known, and whether one of the files is there.
    """
    by_ending: dict[str, list[tuple[int, str]]] = collections.defaultdict(list)
    for position, uri in uris:
        by_ending[posixpath.splitext(uri)[1].lower()].append((position, uri))
    numbers: dict[str, float] = collections.defaultdict(float)
    is_there = False
    for some in by_ending.values():
        step = max(1, len(some) // _SAMPLE)
        kinds = []
        for source in find(some[::step][:_SAMPLE]):
            if not isinstance(source, RejectedInputError):
                is_there = True
                kinds.append(kind_of_bytes(_head(inputs, source[1].path)) or "")
        known = [kind for kind in kinds if kind in EXTENSIONS]
        if not known and (kind := kind_of_name(some[0][1])):
            known = [kind]
        for kind in known:
            numbers[kind] += len(some) / len(known)
    return dict(numbers), is_there


def _head(inputs: LayoutInputs, path: str) -> bytes:
    try:
        with open_for_reading(join(inputs.base, path)) as stream:
            return stream.read(_HEAD_BYTES)
    except OSError as error:
        problem_of(error, path)
        return b""  # it will be a reject
