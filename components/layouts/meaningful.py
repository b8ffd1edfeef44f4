"""Refuse meaningful files that no layout reads, rather than reject them as bad images.

    refuse_foreign_files(inputs)              # class folders: any file that is not an image
    refuse_unread_files(inputs, layout, table)   # other layouts: any file that they did not read

The error describes each file by its content, and how to read it or leave it out.
"""

import fnmatch
import itertools
import posixpath
import re
import shlex
from collections.abc import Iterable, Sequence

import numpy as np
import pyarrow.compute as pc
from absl import logging

from components.inputs.advice import how_to_set
from components.inputs.arrow_columns import blob_paths, to_numpy
from components.inputs.input_table import InputTable
from components.inputs.listing import FileTable, LayoutInputs
from components.inputs.path_columns import is_path
from components.layouts.file_kinds import OTHER_MEDIA, kind_of_bytes
from components.layouts.junk import is_clutter
from components.layouts.registry import Layout
from trainer_utils.core.errors import InputError
from trainer_utils.format import split_of_name
from trainer_utils.format.media_formats import EXTENSIONS, is_other_image, packing_of
from trainer_utils.storage import display_path, is_remote
from trainer_utils.storage.paths import decode_path

DATA_ENDINGS = (
    *(".csv", ".tsv", ".tab", ".txt", ".json", ".jsonl", ".ndjson", ".parquet", ".arrow"),
    *(".feather", ".xml", ".yaml", ".yml", ".toml", ".ini", ".cfg", ".names", ".data", ".md"),
    *(".pdf", ".doc", ".docx", ".xls", ".xlsx", ".html", ".htm", ".mat", ".npy", ".npz", ".h5"),
    *(".hdf5", ".pkl", ".pickle", ".pt", ".pth", ".ckpt", ".tfrecord", ".tfrecords", ".record"),
    *(".zip", ".tar", ".gz", ".tgz", ".bz2", ".xz", ".zst", ".7z", ".rar", ".db", ".sqlite"),
    *(".mp4", ".avi", ".mov", ".mkv", ".webm", ".py", ".ipynb", ".sh", ".srt", ".vtt", ".log"),
)
_MAX_SNIFFED = 64  # maximum number of files with an unknown suffix to open
_HEAD_BYTES = 64 << 10
_MAX_SHOWN = 5
_FEW = 3  # files that are named one by one in advice
_LAYOUTS = {": COCO": "coco", ": Pascal VOC": "voc"}
_LIST_ENDINGS = (".csv", ".tsv", ".jsonl")
_NOUNS = {"image": "images", "audio": "audio files", "text": "texts"}


def refuse_foreign_files(inputs: LayoutInputs) -> None:
    """Raise an InputError if class folders contain a file that is not of the media type.

    Known suffixes decide. Up to 64 files with another suffix, or none, are checked by their first
    bytes. Empty and unreadable files are rejected one by one.
    """
    if inputs.media == "text":
        return
    files = inputs.files.below(inputs.root)
    if inputs.label_list is not None:
        files = files.select(~is_path(files.paths, inputs.label_list))
    others = files.not_ending(_endings(inputs.media))
    foreign = (*DATA_ENDINGS, *_endings(*EXTENSIONS.keys() - {inputs.media}))
    data, unknown = _readable(others.ending(foreign)), _readable(others.not_ending(foreign))
    paths = [*data]
    for path in itertools.islice(unknown, _MAX_SNIFFED):
        head = inputs.head(path, _HEAD_BYTES)
        if head and kind_of_bytes(head) != inputs.media and not is_other_image(head):
            paths.append(path)
    if paths:
        raise _refused(inputs, paths, f"only {_NOUNS[inputs.media]}", patterns=_patterns_of(paths))


def refuse_unread_files(inputs: LayoutInputs, layout: Layout, table: InputTable) -> None:
    """Raise an InputError if a layout did not read a file that is neither image nor audio.

    Args:
        inputs: the inputs.
        layout: the layout that read the inputs.
        table: the table that it returned.
    """
    if inputs.media == "text" or inputs.root in inputs.files:
        return
    files = inputs.files.below(inputs.root)
    candidates = others = _readable(files.not_ending(_endings(*EXTENSIONS)))
    if not others:
        return
    for name in table.rows.column_names:
        if name.startswith("blob:"):
            read = pc.is_in(others.paths, value_set=blob_paths(table.rows, name))
            others = others.select(~to_numpy(read))
    known = {*inputs.contents, *(left.name for left in table.excluded)}
    patterns = re.compile("|".join(map(fnmatch.translate, layout.known)) or r"(?!)")
    unread_paths = []
    for path in others:
        if path in known or patterns.match("/".join(inputs.parts_of(path))):
            continue
        head = inputs.head(path, _HEAD_BYTES)
        if kind_of_bytes(head) in EXTENSIONS or is_other_image(head):
            continue
        unread_paths.append(path)
        if len(unread_paths) > _MAX_SNIFFED:
            break
    if unread_paths:
        unread = {*others} - known
        used = [path for path in candidates if path not in unread]
        expected = f"files that layout {layout.name!r} reads"
        raise _refused(
            inputs, unread_paths, expected, patterns=_patterns_within(inputs, unread_paths, used)
        )


def warn_of_unread_folders(inputs: LayoutInputs, layout: Layout, table: InputTable) -> None:
    """Log a warning if no file of a folder with images, or audio files, is in an example.

    Such a folder may have the test images, or masks, that a list does not name.
    """
    if inputs.media == "text" or inputs.root in inputs.files:
        return
    files = inputs.files.below(inputs.root).ending(EXTENSIONS[inputs.media])
    if not len(files):
        return
    is_read = np.zeros(len(files), np.bool_)
    for name in table.rows.column_names:
        if name.startswith("blob:"):
            is_read |= to_numpy(pc.is_in(files.paths, value_set=blob_paths(table.rows, name)))
    folders = files.folders()
    places = to_numpy(folders.indices)
    counts = np.bincount(places, minlength=len(folders.dictionary))
    unread = counts * (np.bincount(places[is_read], minlength=len(counts)) == 0)
    excluded = {posixpath.dirname(left.name) for left in table.excluded}
    patterns = re.compile("|".join(map(fnmatch.translate, layout.known)) or r"(?!)")
    counts_by_folder: dict[str, int] = {}
    for place in np.flatnonzero(unread).tolist():
        folder = decode_path(folders.dictionary[place].as_py())
        parts = inputs.parts_of(folder) if folder != inputs.root else ()
        if folder in excluded or is_clutter(parts) or patterns.match("/".join((*parts, "a"))):
            continue
        counts_by_folder[folder] = int(unread[place])
    if counts_by_folder:
        shown = ", ".join(
            repr(display_path(folder) or ".") for folder in [*counts_by_folder][:_MAX_SHOWN]
        )
        more = ", …" if len(counts_by_folder) > _MAX_SHOWN else ""
        logging.warning(
            "%d %s in %s%s are not read: layout %r found nothing that names them",
            *(sum(counts_by_folder.values()), _NOUNS[inputs.media], shown, more, layout.name),
        )


def _patterns_within(inputs: LayoutInputs, unread: Sequence[str], read: Sequence[str]) -> list[str]:
    """Return patterns that match the files found: many of one folder and ending by one pattern.

    A pattern that would leave out a file that is read, too, is given as the names.
    """
    by_pattern: dict[str, list[str]] = {}
    for path in unread:
        *folder, name = path.split("/")
        ending = posixpath.splitext(name)[1]
        pattern = "/".join((*folder, f"*{ending}")) if ending else "/".join((*folder, name))
        by_pattern.setdefault(pattern, []).append("/".join((*folder, name)))
    patterns = []
    for pattern, paths in by_pattern.items():
        anywhere = pattern if "/" in pattern else f"*{pattern}"
        is_general = len(paths) > _FEW and not fnmatch.filter(read, anywhere)
        patterns += [pattern] if is_general else paths
    return patterns


def _refused(
    inputs: LayoutInputs, paths: Sequence[str], expected: str, *, patterns: Sequence[str]
) -> InputError:
    shown = [f"{display_path(path)!r} ({guess(inputs, path)})" for path in paths[:_MAX_SHOWN]]
    more = f" and {len(paths) - len(shown)} more" if len(paths) > len(shown) else ""
    from components.layouts.annotations import how_to_leave_out  # only errors need it

    readers = f"{_readers(inputs, paths)}{_how_to_read_list(inputs, paths)}"
    leave_out = how_to_leave_out(inputs, paths, patterns, has_reader=bool(readers))
    return InputError(
        f"input_base {inputs.base!r}: expected {expected}, got {', '.join(shown)}{more}. "
        f"{_how_to_unpack(inputs, paths)}{readers}{leave_out}",
        path=inputs.base,
    )


def _how_to_unpack(inputs: LayoutInputs, paths: Sequence[str]) -> str:
    """Return a sentence with the commands that unpack the ZIP archives of a local folder."""
    archives = [path for path in paths if path.lower().endswith(".zip")]
    if not archives or is_remote(inputs.base):
        return ""
    commands = []
    for path in archives[:_MAX_SHOWN]:
        whole = f"{inputs.base.rstrip('/')}/{display_path(path)}"
        unzip = shlex.join(["unzip", whole, "-d", whole[: -len(".zip")]])
        commands.append(f"{unzip} && {shlex.join(['rm', whole])}")
    more = ", and likewise the others" if len(archives) > len(commands) else ""
    noun = "them" if len(archives) > 1 else "it"
    return f"To read the files in {noun}: {'; '.join(commands)}{more}. "


def _how_to_read_list(inputs: LayoutInputs, paths: Sequence[str]) -> str:
    """Return advice to read a table in a subfolder, or one in each split's folder, as lists."""
    tables = [path for path in paths if path.lower().endswith(_LIST_ENDINGS)]
    parts = [inputs.parts_of(path) for path in tables]
    noun = _NOUNS[inputs.media]
    if len(tables) == 1 and len(parts[0]) > 1:
        csv_path = "/".join(parts[0])
        return f"If {display_path(tables[0])!r} lists the {noun}: {how_to_set(csv_path=csv_path)}. "
    names = {part[-1] for part in parts}
    are_in_splits = all(len(part) == 2 and split_of_name(part[0]) for part in parts)
    if len(tables) > 1 and len(names) == 1 and are_in_splits:
        csv_path = f"{{split}}/{names.pop()}"
        return f"If these tables list the {noun}: {how_to_set(csv_path=csv_path)}. "
    return ""


def _readers(inputs: LayoutInputs, paths: Sequence[str]) -> str:
    """Return advice to use the layouts that may read the files, or an empty string."""
    guesses = {_layout_of(inputs, path) for path in paths[:_MAX_SHOWN]} - {None}
    return "".join(
        f"If they belong to the {_NOUNS[inputs.media]}: {how_to_set(layout=name)}. "
        for name in sorted(map(str, guesses))
    )


def _patterns_of(paths: Iterable[str]) -> list[str]:
    """Return patterns that match all paths: by suffix, or by name if there is no suffix."""
    names = map(posixpath.basename, paths)
    patterns = {f"*{ending}" if (ending := posixpath.splitext(n)[1]) else n for n in names}
    return sorted(patterns)


def guess(inputs: LayoutInputs, path: str) -> str:
    """Describe in a few words the likely format of a file, from its content and name."""
    head = inputs.head(path, _HEAD_BYTES)
    ending = posixpath.splitext(path)[1].lower()
    if (packing := packing_of(head)) is not None:
        return packing
    if head.startswith(b"PAR1"):
        return "a Parquet table"
    if head[257:262] == b"ustar":
        return "a tar archive"
    if (kind := kind_of_bytes(head)) in EXTENSIONS:
        return {"image": "an image", "audio": "an audio file"}[str(kind)]
    if kind is None:
        return "an empty file" if not head else "neither text nor a known format"
    text = head.decode("utf-8", "replace").removeprefix("\ufeff")
    if ending == ".json" or text.lstrip()[:1] in ("{", "["):
        return _guess_json(text)
    if text.lstrip().startswith("<"):
        if re.search(r"<annotation[\s>]", text[:2000]) and "<object" in text:
            return "XML with `annotation` and `object`: Pascal VOC"
        is_cvat = "<annotations" in text[:2000] and "<image" in text
        return "XML with `annotations` and `image`: CVAT" if is_cvat else "XML"
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    if ending in (".yaml", ".yml") or all(":" in line for line in lines[:5] if line):
        is_yolo = re.search(r"^(names|nc)\s*:", text, re.MULTILINE)
        return "YAML with `names`: YOLO" if is_yolo else "keys and values"
    first = lines[0] if lines else ""
    numbers = re.compile(r"\d+(\s+-?[\d.e-]+){4,}")
    if lines and all(numbers.fullmatch(line) for line in lines[:5]):
        return "lines of a class and four numbers: YOLO"
    if ending in (".csv", ".tsv", ".tab") or first.count(",") > 1 or "\t" in first:
        return f"a table that begins with {first[:60]!r}"
    return f"text that begins with {first[:60]!r}"


_JSON_KEYS = re.compile(r'"([A-Za-z_]\w*)"\s*:')
_FORMATS = (
    ({"images", "annotations"}, "COCO"),
    ({"shapes", "imagePath"}, "LabelMe"),
    ({"_via_img_metadata"}, "VGG Image Annotator"),
    ({"regions", "filename"}, "VGG Image Annotator"),
    ({"annotations", "coordinates"}, "CreateML"),
)


def _guess_json(text: str) -> str:
    keys = _JSON_KEYS.findall(text)
    for wanted, name in _FORMATS:
        if wanted <= {*keys}:
            shown = " and ".join(f"`{key}`" for key in sorted(wanted, reverse=True))
            return f"it has {shown}: {name}"
    shown = ", ".join(f"`{key}`" for key in [*dict.fromkeys(keys)][:5])
    return f"JSON with {shown}" if shown else "JSON"


def _layout_of(inputs: LayoutInputs, path: str) -> str | None:
    """Return the layout that would read a file, by its content, or None."""
    if inputs.media != "image":
        return None
    words = guess(inputs, path)
    return next((name for end, name in _LAYOUTS.items() if words.endswith(end)), None)


def _endings(*kinds: str) -> tuple[str, ...]:
    return tuple(itertools.chain.from_iterable((*EXTENSIONS[k], *OTHER_MEDIA[k]) for k in kinds))


def _readable(files: FileTable) -> FileTable:
    """Return the files that are readable and not empty."""
    table = files.table
    is_readable = to_numpy(pc.is_null(table.column("code")))
    return files.select_only(is_readable & (to_numpy(table.column("size")) > 0))
