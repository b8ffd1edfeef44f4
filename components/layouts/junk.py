"""Find junk files: hidden files, leftovers of operating systems and tools, and ignored files.

They are skipped and counted, and are not a part of the inputs' fingerprint.

    mask = junk_mask(files, media="image")
    mask |= ignored_mask(files, ["*.json", "extra/*"])
"""

import re
from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from components.inputs.arrow_columns import to_numpy
from components.inputs.listing import FileTable
from trainer_utils.format.media_formats import EXTENSIONS
from trainer_utils.storage import display_path

_SYSTEM_NAMES = (
    *("Thumbs.db", "ehthumbs.db", "Icon\r", "desktop.ini", "__MACOSX", "@eaDir", "$RECYCLE.BIN"),
    *("System Volume Information", "lost+found"),
)
_SYSTEM = frozenset(_SYSTEM_NAMES)
_JUNK = (
    rf"(?:^|/)(?:\.[^/]*|{'|'.join(map(re.escape, _SYSTEM_NAMES))})(?:/|$)"
    r"|(?:^|/)_SUCCESS$|\.md5$"
)
# Documents about the data, by name and suffix. `license_plates.csv` and `readme.jpg` are data.
_DOCUMENT = (
    r"(?i)(?:^|/)(?:readme|licen[cs]e)s?(?:[^a-z/][^/]*)?"
    r"(?:\.(?:md|txt|rst|html?|pdf|rtf|docx?|adoc|org))?$"
)
_DATA_ENDING = r"(?i)\.(?:csv|tsv|tab|jsonl?|ndjson|parquet|xml|ya?ml|tar|gz|tgz|zip|{media})$"
_CRC = ".crc"  # Hadoop's checksum, next to the file of the same name


def is_clutter(parts: Iterable[str]) -> bool:
    """Return whether a path, given in parts, is hidden or belongs to an operating system."""
    # A generator would take twice the time, and this runs for every file.
    for part in parts:  # noqa: SIM110
        if part[:1] == "." or part in _SYSTEM:
            return True
    return False


def junk_mask(files: FileTable, *, media: str) -> npt.NDArray[np.bool_]:
    """Return a mask of the junk files, `(n,)`. All names are matched at once, in about 1 µs each.

    Args:
        files: the files.
        media: the kind of the inputs. `README*` and `LICENSE*` are junk among images and audio
            files, but not among text files.
    """
    is_junk = np.zeros(len(files), np.bool_)
    if _matches(files.paths, f"{_JUNK}|{_DOCUMENT}").any():  # takes half the time of both
        is_junk = _matches(files.paths, _JUNK)
        documents = _matches(files.paths, _DOCUMENT)
        if media != "text" and documents.any():
            endings = "|".join(re.escape(e[1:]) for kind in EXTENSIONS.values() for e in kind)
            documents &= ~_matches(files.paths, _DATA_ENDING.replace("{media}", endings))
            is_junk |= documents
    checksums = to_numpy(pc.ends_with(files.paths, pattern=_CRC.encode()))
    if checksums.any():
        of = pc.replace_substring_regex(files.paths, pattern=r"\.crc$", replacement="")
        is_junk |= checksums & to_numpy(pc.is_in(of, value_set=files.paths))
    return is_junk


def ignored_mask(files: FileTable, patterns: Sequence[str]) -> npt.NDArray[np.bool_]:
    """Return a mask of the files that the setting `ignore` leaves out, `(n,)`.

    A pattern with a slash is matched against the path, any other pattern against each name in it.
    All files below a matching folder are left out too. Wildcards work as in `fnmatch`.

    Args:
        files: the files.
        patterns: the patterns.
    """
    is_ignored = np.zeros(len(files), np.bool_)
    for pattern in patterns:
        is_ignored |= _matches(files.paths, _regex_of(pattern.strip("/")))
    return is_ignored


def _regex_of(pattern: str) -> str:
    """Convert an `fnmatch` pattern to a regular expression for RE2."""
    start, any_character = ("^", ".") if "/" in pattern else ("(?:^|/)", "[^/]")
    parts, place = [], 0
    while place < len(pattern):
        character = pattern[place]
        end = pattern.find("]", place + 2)
        if character == "*":
            parts.append(f"{any_character}*")
        elif character == "?":
            parts.append(any_character)
        elif character == "[" and end > 0:
            inner = pattern[place + 1 : end].replace("\\", r"\\")
            parts.append(f"[{'^' + inner[1:] if inner[0] == '!' else inner}]")
            place = end
        else:
            parts.append(re.escape(character))
        place += 1
    return f"(?s){start}{''.join(parts)}(?:/|$)"


def _matches(paths: pa.Array, pattern: str) -> npt.NDArray[np.bool_]:
    return to_numpy(pc.match_substring_regex(paths, pattern=pattern))


def names_at_top(names: Iterable[str]) -> str:
    """Format names for a message: the first ten, sorted."""
    shown = sorted({display_path(name) for name in names})
    return ", ".join(shown[:10]) + (", …" if len(shown) > 10 else "")
