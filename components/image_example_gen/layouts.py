"""What a folder of images means: pure functions from a list of files to labelled entries.

    listing = read_layout(files, root="", layout="auto", split=None, base=…, read_text=…)
    listing.entries[0]      # Entry(filename='train/cat/1.jpg', size=…, split='train', label='cat')

Layouts:
    folder: `<split>/<class>/…`, `<class>/…`, `<split>/…` or images alone.
    csv: a list with the columns `split,image_uri,label`, as TFRecorder and AutoML Vision write it,
        with or without a header; rows may leave `split` empty or say UNASSIGNED.
"""

import csv
import dataclasses
import io
import os
import posixpath
from collections.abc import Callable, Iterable, Sequence

from components.common.files import InputFile, display_path
from trainer_utils.format import InputError, canonical_split

__all__ = ["LAYOUTS", "Entry", "LeftOut", "Listing", "read_layout"]

LAYOUTS = ("auto", "folder", "csv")
CSV_COLUMNS = ("split", "image_uri", "label")
_UNASSIGNED = ("", "unassigned")
_CLUTTER = frozenset({"Thumbs.db", "desktop.ini", "__MACOSX"})


@dataclasses.dataclass(frozen=True, slots=True)
class Entry:
    """One input that should become an example.

    Args:
        filename: relative to the input base, with `/`.
        size: of the file, in bytes.
        split: the split it names, or None where a hash decides.
        label: its class, or None where there is none.
    """

    filename: str
    size: int
    split: str | None
    label: str | None


@dataclasses.dataclass(frozen=True, slots=True)
class LeftOut:
    """One input that will not be read; `code` is None where it is skipped on purpose."""

    filename: str
    split: str | None
    code: str | None
    detail: str


@dataclasses.dataclass(frozen=True)
class Listing:
    """All inputs: `entries` to read and those `left_out` before reading."""

    entries: tuple[Entry, ...]
    left_out: tuple[LeftOut, ...]

    @property
    def found(self) -> int:
        """How many inputs there are."""
        return len(self.entries) + len(self.left_out)


def read_layout(
    files: Sequence[InputFile],
    *,
    root: str,
    layout: str,
    split: str | None,
    base: str,
    read_text: Callable[[str], str],
) -> Listing:
    """Works out split and label of each input.

    Args:
        files: all below the input base.
        root: where the layout begins, relative to the base; a folder, or a CSV file.
        layout: one of `LAYOUTS`.
        split: the split that all of them belong to, or None where the layout tells.
        base: the input base, for messages and absolute uris.
        read_text: reads a UTF-8 file by its path relative to the base.

    Returns:
        The listing, in the order of `files` or of the CSV's rows.

    Raises:
        InputError: the layout cannot be told, or the CSV is malformed.
    """
    csv_path = _csv_file(files, root, layout, base)
    if csv_path is None:
        return _read_folders(files, root, split, base)
    try:
        text = read_text(csv_path)
    except UnicodeDecodeError as error:
        raise InputError(f"{csv_path!r}: expected UTF-8, got byte {error.start} wrong") from error
    return _read_csv(text, csv_path, {file.path: file for file in files}, split, base)


def _csv_file(files: Sequence[InputFile], root: str, layout: str, base: str) -> str | None:
    if layout == "folder":
        return None
    if root.lower().endswith(".csv") and any(file.path == root for file in files):
        return root
    candidates = [
        file.path
        for file in files
        if posixpath.dirname(file.path) == root and file.path.lower().endswith(".csv")
    ]
    if len(candidates) > 1:
        raise InputError(
            f"input_base {base!r}: expected one CSV file, got {', '.join(sorted(candidates))}. "
            "Name one as the pattern of input_config."
        )
    if not candidates and layout == "csv":
        raise InputError(f"input_base {base!r}: expected a CSV file for layout='csv', found none")
    return candidates[0] if candidates else None


def _read_folders(files: Sequence[InputFile], root: str, split: str | None, base: str) -> Listing:
    parts = {file.path: _below(file.path, root) for file in files}
    visible = [p for p in parts.values() if not _is_clutter(p)]
    has_splits = split is None and _top_folders_are_splits(visible, base)
    label_depth = 1 if has_splits else 0
    has_labels = any(len(p) > label_depth + 1 for p in visible)
    entries, left_out = [], []
    for file in files:
        part = parts[file.path]
        own_split = split
        if has_splits and len(part) > 1:
            own_split = canonical_split(part[0])
        if _is_clutter(part):
            left_out.append(LeftOut(file.path, own_split, None, "hidden or system file"))
        elif file.problem is not None:
            left_out.append(LeftOut(file.path, own_split, *file.problem))
        elif has_splits and len(part) == 1:
            left_out.append(LeftOut(file.path, None, "NO_SPLIT", "beside the split folders"))
        elif has_labels and len(part) <= label_depth + 1:
            left_out.append(LeftOut(file.path, own_split, "NO_LABEL", "beside the class folders"))
        else:
            label = part[label_depth] if has_labels else None
            entries.append(Entry(file.path, file.size, own_split, label))
    return Listing(tuple(entries), tuple(left_out))


def _below(path: str, root: str) -> tuple[str, ...]:
    return tuple((path[len(root) + 1 :] if root else path).split("/"))


def _is_clutter(parts: Iterable[str]) -> bool:
    return any(part.startswith(".") or part in _CLUTTER for part in parts)


def _top_folders_are_splits(paths: Iterable[tuple[str, ...]], base: str) -> bool:
    """Whether the top folders are splits. One class may well be called 'train', so all must be."""
    tops = sorted({parts[0] for parts in paths if len(parts) > 1})
    named = [top for top in tops if canonical_split(top)]
    others = [top for top in tops if not canonical_split(top)]
    if others and len({canonical_split(top) for top in named}) > 1:
        raise InputError(
            f"input_base {base!r}: expected its folders to be all splits or all classes, got "
            f"splits {', '.join(named)} beside {', '.join(map(display_path, others[:5]))}. "
            "Move the others away, or name each split's pattern in input_config."
        )
    return bool(named) and not others


def _read_csv(
    text: str, csv_path: str, files: dict[str, InputFile], split: str | None, base: str
) -> Listing:
    columns, rows = _csv_rows(text, csv_path)
    folder = posixpath.dirname(csv_path)
    entries: list[Entry] = []
    left_out: list[LeftOut] = []
    line_of: dict[str, int] = {}
    has_labels = "label" in columns and any(row["label"] for _, row in rows)
    for line, row in rows:
        own_split = split or _csv_split(row.get("split", ""), csv_path, line)
        uri = row["image_uri"]
        path = _relative_to_base(uri, folder, base)
        if path is not None and path in line_of:
            raise InputError(
                f"{csv_path!r}: expected each image once, got {uri!r} in lines "
                f"{line_of[path]} and {line}. Remove one of them."
            )
        line_of[path or uri] = line
        file = files.get(path or "")
        if path is None:
            left_out.append(LeftOut(uri, own_split, "OUTSIDE_INPUT_BASE", f"line {line}"))
        elif file is None:
            left_out.append(LeftOut(path, own_split, "FILE_NOT_FOUND", f"line {line}"))
        elif file.problem is not None:
            left_out.append(LeftOut(path, own_split, *file.problem))
        elif has_labels and not row["label"]:
            left_out.append(LeftOut(path, own_split, "NO_LABEL", f"line {line}"))
        else:
            label = row["label"] if has_labels else None
            entries.append(Entry(path, file.size, own_split, label))
    return Listing(tuple(entries), tuple(left_out))


def _csv_rows(text: str, csv_path: str) -> tuple[list[str], list[tuple[int, dict[str, str]]]]:
    """The columns, and each row with the number of the line it ends in."""
    reader = csv.reader(io.StringIO(text.removeprefix("\ufeff"), newline=""), strict=True)
    columns: list[str] = []
    rows = []
    try:
        for row in reader:
            fields = [field.strip() for field in row]
            if not any(fields):
                continue
            if not columns:
                lowered = [field.lower() for field in fields]
                columns = lowered if "image_uri" in lowered else list(CSV_COLUMNS)
                if columns is lowered:
                    continue
            if len(fields) != len(columns):
                raise InputError(
                    f"{csv_path!r}: expected {len(columns)} columns ({','.join(columns)}), "
                    f"got {len(fields)} (line {reader.line_num}). "
                    "If it is no list of the images, set layout='folder'."
                )
            rows.append((reader.line_num, dict(zip(columns, fields, strict=True))))
    except csv.Error as error:
        raise InputError(f"{csv_path!r}: {error} (line {reader.line_num})") from error
    if not rows:
        raise InputError(f"{csv_path!r}: expected rows of {','.join(CSV_COLUMNS)}, found none")
    return columns, rows


def _csv_split(value: str, csv_path: str, line: int) -> str | None:
    if value.lower() in _UNASSIGNED:
        return None
    split = canonical_split(value)
    if split is None:
        raise InputError(
            f"{csv_path!r}: expected split TRAIN, VALIDATION, TEST or UNASSIGNED, "
            f"got {value!r} (line {line})"
        )
    return split


def _relative_to_base(uri: str, folder: str, base: str) -> str | None:
    """A row's uri as a path relative to the base; None where it leads out of it."""
    if "://" in uri or os.path.isabs(uri):
        prefix = base.rstrip("/") + "/"
        if not uri.startswith(prefix):
            return None
        path = posixpath.normpath(uri[len(prefix) :])
    else:
        path = posixpath.normpath(posixpath.join(folder, uri))
    return None if path.startswith("../") or path in ("..", ".") else path
