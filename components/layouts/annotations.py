"""Advise how to keep the labels in files that no layout reads, such as LabelMe's JSON.

    how_to_leave_out(inputs, paths, ["*.json"], has_reader=False)
    # "To keep their boxes, write labels.csv at the top with the columns …"

It is imported only for an error.
"""

import fnmatch
import json
import posixpath
import re
import shlex
from collections.abc import Sequence

from components.inputs.advice import how_to_set
from components.inputs.listing import LayoutInputs
from components.layouts.file_kinds import kind_of_bytes, kind_of_name
from components.layouts.meaningful import DATA_ENDINGS
from trainer_utils.format import split_of_name
from trainer_utils.storage import display_path, is_remote

_LABEL_ENDINGS = (
    *(".json", ".jsonl", ".ndjson", ".xml", ".txt", ".csv", ".tsv", ".tab", ".yaml", ".yml"),
    *(".parquet", ".arrow", ".feather", ".mat", ".npy", ".npz", ".h5", ".hdf5", ".pkl", ".pickle"),
    *(".xls", ".xlsx", ".names", ".data", ".srt", ".vtt"),
)
_BOX_WORDS = re.compile(
    r'"(?:bbox|box2d|xmin|points|shapes|coordinates|regions|polygon|bounding_?box)"|<(?:box|bndbox|polygon)\b'
)
_NUMBER = re.compile(r"[-+]?[0-9]*\.?[0-9]+(?:[eE][-+]?[0-9]+)?")
_MIN_NUMBERS, _MAX_WORDS = 4, 2  # in a line of a box
_LIST_NAMES = ("labels.csv", "labels.tsv", "labels.jsonl")
_HEAD_BYTES, _MAX_SNIFFED, _LINES = 64 << 10, 8, 5
_BOXES, _CAPTIONS, _TRANSCRIPTS = "boxes", "captions", "transcripts"
_NAMES, _LABELS = "labels or splits", "labels"
_COLUMNS = {
    _BOXES: "filename,label,xmin,ymin,xmax,ymax (one row per box)",
    _CAPTIONS: "filename,text",
    _TRANSCRIPTS: "filename,text",
    _NAMES: "filename,label,split",
    _LABELS: "filename,label",
}


def how_to_leave_out(
    inputs: LayoutInputs, paths: Sequence[str], patterns: Sequence[str], *, has_reader: bool
) -> str:
    """Return the advice to leave files out, preceded by advice that keeps their labels.

    Args:
        inputs: the inputs.
        paths: the files.
        patterns: patterns for the setting `ignore` that match them.
        has_reader: whether the message already names a layout that reads them.
    """
    ignore = how_to_set(ignore=[*patterns])
    labels = [path for path in paths if may_hold_labels(inputs, path)]
    if not labels:
        return f"To leave them out: {ignore}."
    what = _content(inputs, labels)
    keep = ""
    if not has_reader:
        keep = _how_to_pack(inputs, labels) if what in (_CAPTIONS, _TRANSCRIPTS) else ""
        keep = keep or _how_to_list(what, patterns)
    return f"{keep}To leave them out, which loses their {what}: {ignore}."


def may_hold_labels(inputs: LayoutInputs, path: str) -> bool:
    """Return whether a file may hold labels: it has a known ending, or it is text."""
    ending = posixpath.splitext(path)[1].lower()
    if ending in DATA_ENDINGS or kind_of_name(path):  # others are documents, code and archives
        return ending in _LABEL_ENDINGS
    return kind_of_bytes(inputs.head(path, _HEAD_BYTES)) == "text"


def _how_to_list(what: str, patterns: Sequence[str]) -> str:
    name = next(n for n in _LIST_NAMES if not any(fnmatch.fnmatch(n, p) for p in patterns))
    how = how_to_set(csv_path=name, ignore=[*patterns])
    return (
        f"To keep their {what}, write {name} at the top with the columns {_COLUMNS[what]}: {how}. "
    )


def _how_to_pack(inputs: LayoutInputs, paths: Sequence[str]) -> str:
    """Return the command that packs files and their texts for WebDataset's layout.

    The names of folders are not features there, so it is for files without classes or splits.
    """
    folders = inputs.folders or {()}
    is_flat = len(folders) == 1 and not any(map(split_of_name, next(iter(folders))))
    if is_remote(inputs.base) or not is_flat or not all(p.endswith(".txt") for p in paths):
        return ""
    base = display_path(inputs.base.rstrip("/"))
    pack = shlex.join(["tar", "-cf", f"{base}.tar", "-C", base, "."])
    return (
        f"To keep them as the feature 'text': {pack} && "
        f"{shlex.join(['tfx-shards', 'convert', f'{base}.tar', 'OUT'])}. "
    )


def _content(inputs: LayoutInputs, paths: Sequence[str]) -> str:
    """Return a noun for the labels: boxes, texts of single files, names of files, or labels."""
    stems = {
        posixpath.splitext(path)[0] for path in inputs.files if kind_of_name(path) == inputs.media
    }
    names = {posixpath.basename(stem) for stem in stems}
    kinds = set()
    for path in paths[:_MAX_SNIFFED]:
        head = inputs.head(path, _HEAD_BYTES)
        if kind_of_bytes(head) != "text":
            continue
        text = head.decode("utf-8", "replace").removeprefix("\ufeff")
        lines = [line.strip() for line in text.splitlines() if line.strip()][:_LINES]
        if _BOX_WORDS.search(text) or any(map(_is_box, lines)):
            kinds.add(_BOXES)
        elif lines and all(_names_file(line, names) for line in lines):
            kinds.add(_NAMES)
        elif posixpath.splitext(path)[0] in stems and not _is_structured(text):
            kinds.add(_TRANSCRIPTS if inputs.media == "audio" else _CAPTIONS)
    return next(
        (what for what in (_BOXES, _NAMES, _CAPTIONS, _TRANSCRIPTS) if what in kinds), _LABELS
    )


def _is_box(line: str) -> bool:
    """Return whether a line is four or more numbers, with a class and a word at most."""
    words = re.split(r"[\s,;]+", line.strip(",; "))
    numbers = sum(_NUMBER.fullmatch(word) is not None for word in words)
    return numbers >= _MIN_NUMBERS and len(words) - numbers <= _MAX_WORDS


def _names_file(line: str, names: set[str]) -> bool:
    """Return whether the first word of a line is the name of a file, with or without its ending."""
    name = posixpath.basename(re.split(r"[\s,;]", line, maxsplit=1)[0].strip("\"'"))
    return name in names or posixpath.splitext(name)[0] in names


def _is_structured(text: str) -> bool:
    """Return whether a text is JSON or XML."""
    try:
        return isinstance(json.loads(text), (dict, list))
    except ValueError:
        return text.lstrip().startswith("<")
