"""Recognise whether an input contains images, texts or audio.

recognise("photos/", {})       # ('image', '2,000 images')

The evidence is the names, the first rows of tables, and the first bytes of up to 64 files without a
known ending. An ambiguous input is an error, because a wrong guess would cost a whole run.
"""

import collections
import csv
import io
import itertools
import json
import posixpath
import re
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from absl import logging

from components.example_gen.input_selection import list_files, lists_once
from components.example_gen.settings import LayoutNames
from components.inputs.advice import as_flags, how_to_set
from components.inputs.listing import FileTable
from components.layouts.archives import is_archive
from components.layouts.file_kinds import OTHER_MEDIA, kind_of_bytes
from components.layouts.junk import ignored_mask, is_clutter, junk_mask
from components.layouts.refusals import refuse_dataset
from components.tables.json_values import flatten_object
from components.tables.reading import SUFFIXES
from trainer_utils.core.errors import InputError
from trainer_utils.core.settings import settings_of
from trainer_utils.core.text_output import quantity
from trainer_utils.dataset.location import similar_place
from trainer_utils.format import canonical_split
from trainer_utils.format.media_formats import EXTENSIONS
from trainer_utils.format.tfrecord import begins_with_frame
from trainer_utils.storage import exists, is_folder, is_remote, open_for_reading, walk_files
from trainer_utils.storage.paths import join

KINDS = ("image", "text", "audio")

_LAYOUTS = {
    **dict.fromkeys(("voc", "coco", "segmentation", "tar"), "image"),
    **dict.fromkeys(("lines", "json"), "text"),
}
_LIST = "csv_path"  # a setting of lists of images or audio files
_MAX_FILES = 100_000  # names to read
_MAX_OPENED = 64
_MAX_SHOWN = 3  # names in a message
_HEAD_BYTES, _ROWS = 256 << 10, 50  # the part of a table to read
_KIND_BY_ENDING = {
    **dict.fromkeys((e for endings in OTHER_MEDIA.values() for e in endings), "other"),
    **dict.fromkeys((".json", ".xml", ".yaml", ".yml", ".toml", ".pbtxt"), "beside"),
    **dict.fromkeys((".txt", ".text", ".md", ".rst", ".html", ".htm", ".tex"), "text"),
    **dict.fromkeys(SUFFIXES, "table"),
    **dict.fromkeys(EXTENSIONS["audio"], "audio"),
    **dict.fromkeys(EXTENSIONS["image"], "image"),
}
_BY_PILLOW = frozenset((".pbm", ".pgm", ".ppm", ".pnm", ".jp2", ".j2k", ".tga"))
_NOUNS = {
    "image": "image",
    "audio": "audio file",
    "archive": "archive",
    "table": "table",
    "text": "text",
    "beside": "JSON or XML file",
    "nested": "table in subfolders",
    "records": "file of TFRecords",
    "other": "other file",
}
_PLURALS = {"records": "files of TFRecords", "nested": "tables in subfolders"}
_NOISE = 0.05  # a kind with at most this share of the files is ignored as stray files
_NAMES = {"image_uri": "image", "image": "image", "audio_uri": "audio", "audio": "audio"}


def recognise(source: str, options: Mapping[str, object]) -> tuple[str, str]:
    """Return the kind of an input, one of `KINDS`, and the evidence for it.

    Args:
        source: the path or address of the input.
        options: settings of `convert`; some of them imply the kind.

    Raises:
        InputError: the input is missing or empty, or its kind is ambiguous.
    """
    if lists_once() and (kind := _only_kind(source, options)) is not None:
        return kind, f"only {_NOUNS[kind]}s"
    names, is_all = check_source(source, options)
    if kind := _kind_by_options(options):
        return kind, "as layout or columns say"
    if not is_folder(source):
        return _recognise_file(source)
    names_by_kind = _by_kind(source, names)
    _refuse_other_media(source, names, names_by_kind)
    seen = _describe(names_by_kind, is_all)
    if _LIST in options:
        is_audio = len(names_by_kind.get("audio", ())) > len(names_by_kind.get("image", ()))
        return "audio" if is_audio else "image", f"{seen}; {_LIST} names a list of files"
    tables = names_by_kind.get("table", [])
    media = {kind: len(names_by_kind.get(kind, ())) for kind in ("image", "audio")}
    media["image"] += len(names_by_kind.get("archive", ()))
    media = {kind: number for kind, number in media.items() if number > _NOISE * len(names)}
    if tables and (in_table := kind_in_table(join(source, tables[0]))):
        return in_table, f"{seen}; {tables[0]} names or holds {_NOUNS[in_table]}s"
    if not media and not tables and (records := names_by_kind.get("records")):
        raise _refused_records(join(source, records[0]))
    stems = {
        posixpath.splitext(posixpath.basename(n))[0]
        for kind in media
        for n in names_by_kind.get(kind, ())
    }
    texts = [
        name  # a text named like an image or clip contains its boxes, caption or transcript
        for name in names_by_kind.get("text", ())
        if posixpath.splitext(posixpath.basename(name))[0] not in stems
    ]
    if len(media) == 1 and len(texts) <= max(media.values()):
        return next(iter(media)), seen
    if not media and (tables or any(map(names_by_kind.get, ("text", "beside", "nested")))):
        return "text", seen
    # Texts next to images or audio files more often describe these than the other way round.
    media_kinds = [kind for kind in ("image", "audio") if names_by_kind.get(kind)]
    kind = max(media_kinds, key=lambda kind: len(names_by_kind[kind]), default="text")
    if not names_by_kind.get(kind):
        shown = ", ".join(repr(name) for name in names[:_MAX_SHOWN])
        raise InputError(
            f"source {source!r}: expected images, texts or audio files, found {seen}, such as "
            f"{shown}. Unpack archives, and convert other files to a known format first, such as "
            "CSV, JSON lines or Parquet.",
            path=source,
        )
    patterns = _patterns_of(
        name for media, names in names_by_kind.items() if media != kind for name in names
    )
    raise InputError(
        f"source {source!r}: expected images, texts or audio files, found {seen}. Put each kind "
        f"into a folder of its own; or name the kind to read ({', '.join(KINDS)}) and leave out "
        "the other files, with any labels and captions in them: "
        f"{how_to_set(kind=kind, ignore=patterns)}.",
        path=source,
    )


def _refuse_other_media(
    source: str, names: Sequence[str], names_by_kind: Mapping[str, Sequence[str]]
) -> None:
    """Raise an InputError if at least half of all files are images or audio of other formats."""
    others = names_by_kind.get("other", ())
    if 2 * len(others) < len(names):
        return
    for kind, endings in OTHER_MEDIA.items():
        paths = [name for name in others if name.lower().endswith(endings)]
        if 2 * len(paths) < len(names):
            continue
        cure = "Convert them to WAV or FLAC, such as with ffmpeg -i a.m4a a.wav"
        if kind == "image":
            cure = _how_to_convert(source, paths)
        raise InputError(
            f"source {source!r}: expected {_NOUNS[kind]}s in a supported format, found "
            f"{quantity(len(paths), _NOUNS[kind])} in others, such as {paths[0]!r}. {cure}.",
            path=source,
        )


def _how_to_convert(source: str, names: Sequence[str]) -> str:
    """Return the command that writes images as PNG next to them, and converts these."""
    endings = sorted({posixpath.splitext(name)[1] for name in names})
    if is_remote(source) or not {ending.lower() for ending in endings} <= _BY_PILLOW:
        return "Convert them to JPEG or PNG"
    code = (
        "import pathlib, sys; from PIL import Image; "
        '[Image.open(p).save(p.with_suffix(".png")) for e in sys.argv[2:] '
        'for p in pathlib.Path(sys.argv[1]).rglob("*" + e)]'
    )
    write = shlex.join(["python3", "-c", code, source, *endings])
    flags = as_flags({"ignore": [f"*{ending}" for ending in endings]})
    convert = f"{shlex.join(['tfx-shards', 'convert', source, 'OUT'])} {flags}"
    return f"Write PNG next to them, and leave them out: {write} && {convert}"


def _only_kind(source: str, options: Mapping[str, object]) -> str | None:
    """Return the kind that all files of a folder have by their names, or None."""
    if _kind_by_options(options) or not exists(source) or not is_folder(source):
        return None
    files = list_files(source, follow_links=bool(options.get("follow_links")))
    endings = {ending.decode() for ending in files.endings}
    return next((kind for kind in EXTENSIONS if endings and endings <= EXTENSIONS[kind]), None)


def check_source(source: str, options: Mapping[str, object]) -> tuple[list[str], bool]:
    """Return the names of files at a source, at most 100,000, and whether these are all.

    Args:
        source: the path or address of the input.
        options: settings of `convert`, such as `ignore` and `follow_links`.

    Raises:
        InputError: the source is missing or empty, or is already a dataset of TFRecords.
    """
    if not exists(source):
        said = f"source {source!r}: expected a file or a folder, found none.{similar_place(source)}"
        raise InputError(said.removesuffix("."), path=source)
    names, is_all = [posixpath.basename(source)], True
    if is_folder(source):
        names, is_all = _names_below(source, options)
    if not names:
        raise InputError(
            f"source {source!r}: expected images, texts or audio files, found no file", path=source
        )
    refuse_dataset("source", source, names)
    return names, is_all


def _kind_by_options(options: Mapping[str, object]) -> str | None:
    columns = options.get("columns")
    kinds = columns.values() if isinstance(columns, Mapping) else ()
    for kind in ("image", "audio"):
        if kind in kinds:
            return kind
    if any(name in options for name in settings_of(LayoutNames) if name != _LIST):
        return "image"
    return _LAYOUTS.get(str(options.get("layout")))


def _recognise_file(source: str) -> tuple[str, str]:
    """Return the kind of a single file, and the evidence; refuse a file that is not a source."""
    kind = _kind(source) or _sniffed(source)
    if kind == "archive":
        return "image", "an archive"
    if kind == "table":
        media_kind = kind_in_table(source) or _kind_beside(source) or "text"
        return media_kind, f"a table of {_NOUNS[media_kind]}s"
    if kind == "records":
        raise _refused_records(source)
    if kind in ("text", "beside"):
        return "text", "a file of text"
    folder = posixpath.dirname(source) or "."
    advice = f"Pass its folder: {folder!r}"
    what = {"image": "an image", "audio": "an audio file"}.get(kind, "")
    if not what:
        what = "a file of unknown type"
        advice = "Convert it to CSV, JSON lines, Parquet or plain text first"
    if source.lower().endswith(".zip"):
        what, advice = "a zip file", "Unpack it, and pass the folder"
    raise InputError(
        f"source {source!r}: expected a folder, a table or an archive, got {what}. {advice}.",
        path=source,
    )


def _refused_records(path: str) -> InputError:
    return InputError(
        f"source {path!r}: expected raw files, got TFRecords already. Read them with input_fn, or "
        f"write them again: tfx-shards balance {shlex.quote(posixpath.dirname(path) or '.')} OUT.",
        path=path,
    )


def _kind_beside(source: str) -> str | None:
    """Return the kind of the files in `train/` next to `train.csv`, Datum's layout, or None."""
    folder = posixpath.splitext(source.removesuffix(".gz"))[0]
    if not canonical_split(posixpath.basename(folder)) or not is_folder(folder):
        return None
    names_by_kind = _by_kind(folder, _names_below(folder, {})[0][:_MAX_OPENED])
    return next((kind for kind in ("image", "audio") if kind in names_by_kind), None)


def _names_below(base: str, options: Mapping[str, object]) -> tuple[list[str], bool]:
    """Return names under a folder, without junk and ignored files, and whether these are all."""
    ignore, follow_links = options.get("ignore") or (), bool(options.get("follow_links"))
    if lists_once():  # the same listing serves the conversion
        files = list_files(base, follow_links=follow_links)
        files = FileTable(files.table.slice(0, _MAX_FILES + 1))
    else:
        walk = walk_files(base, follow_links=follow_links)
        seen = (file for file in walk if not is_clutter(file.path.split("/")))
        files = FileTable.of(itertools.islice(seen, _MAX_FILES + 1))
    is_left_out = junk_mask(files, media="image")
    if isinstance(ignore, (list, tuple)) and all(isinstance(item, str) for item in ignore):
        is_left_out |= ignored_mask(files, ignore)
    paths = [path for path in files.select_only(~is_left_out) if not is_clutter(path.split("/"))]
    return paths[:_MAX_FILES], len(files) <= _MAX_FILES


def _patterns_of(names: Iterable[str]) -> list[str]:
    """Return patterns that match these names: by ending, or by name without one."""
    bases = map(posixpath.basename, names)
    return sorted({f"*{e}" if (e := posixpath.splitext(path)[1]) else path for path in bases})


def _by_kind(base: str, names: Iterable[str]) -> dict[str, list[str]]:
    names_by_kind: dict[str, list[str]] = collections.defaultdict(list)
    opened = 0
    for name in names:
        kind = _kind(name)
        folders = name.split("/")[:-1]  # tables count at the top, or in folders named after splits
        if kind == "table" and folders and (len(folders) > 1 or not canonical_split(folders[0])):
            kind = "nested"
        if kind is None and opened < _MAX_OPENED:
            kind, opened = _sniffed(join(base, name)), opened + 1
        names_by_kind[kind or "other"].append(name)
    return names_by_kind


def _kind(name: str) -> str | None:
    """Return the kind of a file by its name, or None."""
    if is_archive(name):
        return "archive"
    return _KIND_BY_ENDING.get(posixpath.splitext(name.lower().removesuffix(".gz"))[1])


def _sniffed(path: str) -> str:
    try:
        with open_for_reading(path) as stream:
            head = stream.read(512)
    except OSError:
        return "other"
    return kind_of_bytes(head) or ("records" if begins_with_frame(head) else "other")


def _describe(names_by_kind: Mapping[str, list[str]], is_all: bool) -> str:
    parts = [
        quantity(len(names_by_kind[kind]), noun, _PLURALS.get(kind, ""))
        for kind, noun in _NOUNS.items()
        if kind in names_by_kind
    ]
    return f"{'' if is_all else 'at least '}{', '.join(parts)}"


def kind_in_table(path: str) -> str | None:
    """Return the kind of files in the first rows of a table, `image` before `audio`, or None.

    An unreadable table has the kind None: the ExampleGen reports the error.
    """
    columns = collections.defaultdict[str, list[Any]](list)
    try:
        for row in itertools.islice(_rows(path), _ROWS):
            for name, value in row.items():
                if value not in (None, ""):
                    columns[name].append(value)
    except (OSError, ValueError, RecursionError, csv.Error):
        pass
    kinds = {_kind_of_column(name, values) for name, values in columns.items()}
    return next((kind for kind in ("image", "audio") if kind in kinds), None)


def _kind_of_column(name: str, values: Sequence[Any]) -> str | None:
    if all(isinstance(value, bytes) for value in values):
        kinds = {kind_of_bytes(value) for value in values}
        return kinds.pop() if len(kinds) == 1 and kinds <= EXTENSIONS.keys() else None
    if not all(isinstance(value, str) for value in values):
        return None
    if any(value.lower().startswith(("http://", "https://")) for value in values):
        endings = {posixpath.splitext(re.split("[?#]", v)[0])[1].lower() for v in values}
        if endings <= EXTENSIONS["image"] or endings <= EXTENSIONS["audio"]:
            logging.warning(
                "column %r has web addresses of files, which are not downloaded but kept as text. "
                "To convert the files, download them first, for example with img2dataset",
                name,
            )
        return None
    endings = {posixpath.splitext(value)[1].lower() for value in values}
    for kind, known in EXTENSIONS.items():
        if endings <= known:
            return kind
    # Datum has names without an ending; a value with spaces is a caption, not a name.
    return _NAMES.get(name.lower()) if all(" " not in value for value in values) else None


def _rows(path: str) -> Iterator[Mapping[str, Any]]:
    """Yield the first rows of a table, by column name."""
    kind = SUFFIXES.get(posixpath.splitext(path.lower())[1])
    if kind is None:  # a compressed table contains texts
        return
    with open_for_reading(path) as stream:
        if kind == "parquet":
            import pyarrow.parquet as pq  # its errors are ValueErrors

            for batch in pq.ParquetFile(stream).iter_batches(batch_size=_ROWS):
                yield from (dict(flatten_object(row)) for row in batch.to_pylist())
            return
        head = stream.read(_HEAD_BYTES)
    lines = head.decode("utf-8-sig", "replace")
    lines = lines if len(head) < _HEAD_BYTES else lines.rpartition("\n")[0]
    if kind == "jsonl":
        for line in filter(str.strip, lines.split("\n")):  # splitlines() would split inside strings
            if isinstance(value := json.loads(line), dict):
                yield dict(flatten_object(value))
        return
    reader = csv.reader(io.StringIO(lines, newline=""), delimiter="\t" if kind == "tsv" else ",")
    rows = [[field.strip() for field in row] for row in itertools.islice(reader, _ROWS) if row]
    has_names = bool(rows) and not any(_kind_of_column("", [field]) for field in rows[0] if field)
    # Tables of AutoML have no header.
    names = rows[0] if has_names else list(map(str, range(len(rows[0]) if rows else 0)))
    for row in rows[1 if has_names else 0 :]:
        yield dict(zip(names, row, strict=False))
