"""Files that no dataset is made of: hidden ones, leftovers of systems and tools, and ignored ones.

They are skipped and counted, and do not belong to the inputs' fingerprint.

    mask = junk_mask(files, media="image")
    mask |= ignored_mask(files, ["*.json", "extra/*"])
"""

import re
from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from components.common.layout_inputs import FileTable
from trainer_utils.format.media_formats import EXTENSIONS
from trainer_utils.storage import display_path

_SYSTEM_NAMES = (
    *("Thumbs.db", "desktop.ini", "__MACOSX", "@eaDir", "$RECYCLE.BIN"),
    *("System Volume Information", "lost+found"),
)
_SYSTEM = frozenset(_SYSTEM_NAMES)
_JUNK = (
    rf"(?:^|/)(?:\.[^/]*|{'|'.join(map(re.escape, _SYSTEM_NAMES))})(?:/|$)"
    r"|(?:^|/)_SUCCESS$|\.md5$"
)
# Documents about the data, by name and ending: `license_plates.csv` and `readme.jpg` are data.
_DOCUMENT = (
    r"(?i)(?:^|/)(?:readme|licen[cs]e)s?(?:[^a-z/][^/]*)?"
    r"(?:\.(?:md|txt|rst|html?|pdf|rtf|docx?|adoc|org))?$"
)
_DATA_ENDING = r"(?i)\.(?:csv|tsv|tab|jsonl?|ndjson|parquet|xml|ya?ml|tar|gz|tgz|zip|{media})$"
_CRC = ".crc"  # of Hadoop, next to the file of the same name


def is_clutter(parts: Iterable[str]) -> bool:
    """Return whether a path, in parts, is hidden or an operating system's."""
    # A generator would take twice the time, and this is asked of every file.
    for part in parts:  # noqa: SIM110
        if part[:1] == "." or part in _SYSTEM:
            return True
    return False


def junk_mask(files: FileTable, *, media: str) -> npt.NDArray[np.bool_]:
    """Return which files are junk, `(n,)`: all names are matched at once, some 1 µs each.

    Args:
        media: the kind of the inputs. `README*` and `LICENSE*` are junk among images and audio
            files; among texts they are texts.
    """
    found = _matches(files.paths, _JUNK)
    if media != "text":
        documents = _matches(files.paths, _DOCUMENT)
        if documents.any():
            endings = "|".join(re.escape(e[1:]) for kind in EXTENSIONS.values() for e in kind)
            documents &= ~_matches(files.paths, _DATA_ENDING.replace("{media}", endings))
        found |= documents
    checksums = np.asarray(pc.ends_with(files.paths, pattern=_CRC.encode()))
    if checksums.any():
        of = pc.replace_substring_regex(files.paths, pattern=r"\.crc$", replacement="")
        found |= checksums & np.asarray(pc.is_in(of, value_set=files.paths))
    return found


def ignored_mask(files: FileTable, patterns: Sequence[str]) -> npt.NDArray[np.bool_]:
    """Return which files the setting `ignore` leaves out, `(n,)`.

    A pattern with a slash is matched against the path, any other one against each name in it; what
    is below a folder that matches is left out too. Wildcards are those of `fnmatch`.
    """
    found = np.zeros(len(files), np.bool_)
    for pattern in patterns:
        found |= _matches(files.paths, _regex_of(pattern.strip("/")))
    return found


def _regex_of(pattern: str) -> str:
    """Return a pattern of RE2 for one of `fnmatch`."""
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
    found: npt.NDArray[np.bool_] = np.asarray(
        pc.match_substring_regex(paths, pattern=pattern), np.bool_
    ).copy()
    return found


def names_at_top(names: Iterable[str]) -> str:
    """Return some names as text for a message."""
    shown = sorted({display_path(name) for name in names})
    return ", ".join(shown[:10]) + (", …" if len(shown) > 10 else "")
