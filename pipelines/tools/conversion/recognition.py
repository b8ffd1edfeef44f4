"""Tells whether an input is of images, of texts or of sounds, so that nobody has to say so.

recognise("photos/", {})       # Recognised(kind='image', seen='2,000 images')

Names are looked at, the first rows of tables, and the first bytes of some files whose names say
nothing. Where that leaves a doubt it is an error: a wrong guess would cost a whole run.
"""

import collections
import dataclasses
import os
import posixpath
from collections.abc import Iterable, Iterator, Mapping

from components.example_gen.file_kinds import kind_of_bytes
from components.example_gen.folder import is_clutter, refuse_dataset
from components.example_gen.settings import LayoutNames
from components.image_example_gen.layouts.webdataset import is_archive
from components.tables.reading import SUFFIXES
from pipelines.tools.conversion.table_heads import kinds_in_table
from trainer_utils.format import InputError, canonical_split
from trainer_utils.format.framing import begins_with_frame
from trainer_utils.format.media_formats import EXTENSIONS
from trainer_utils.format.settings import settings_of
from trainer_utils.storage.files import exists, is_folder, list_folder, open_for_reading
from trainer_utils.storage.paths import is_remote, join
from trainer_utils.text_output import quantity

__all__ = ["KINDS", "Recognised", "check_source", "recognise"]

KINDS = ("image", "text", "audio")

_LAYOUTS = {
    **dict.fromkeys(("voc", "coco", "segmentation", "tar"), "image"),
    **dict.fromkeys(("lines", "json"), "text"),
}
_MOST_FILES, _MOST_IN_FOLDER = 100_000, 20_000  # names that are read
_MOST_OPENED = 64
_TEXTS = frozenset({".txt", ".text", ".md", ".rst", ".html", ".htm", ".tex"})
_BESIDE = frozenset({".json", ".xml", ".yaml", ".yml", ".toml", ".pbtxt"})  # annotations, say
_KIND_BY_ENDING = {
    ending: kind
    for kind, endings in (  # the last that has an ending keeps it
        ("beside", _BESIDE),
        ("text", _TEXTS),
        ("table", SUFFIXES),
        ("audio", EXTENSIONS["audio"]),
        ("image", EXTENSIONS["image"]),
    )
    for ending in endings
}
_NOUNS = {
    "image": "image",
    "audio": "sound",
    "archive": "archive",
    "table": "table",
    "text": "text",
    "beside": "JSON or XML file",
    "records": "file of TFRecords",
    "other": "other file",
}
_NOISE = 0.05  # of the files: a few that do not belong there leave no doubt


@dataclasses.dataclass(frozen=True)
class Recognised:
    """The kind, one of `KINDS`, and what it was recognised by."""

    kind: str
    seen: str


def recognise(source: str, options: Mapping[str, object]) -> Recognised:
    """Looks at an input.

    Args:
        source: a file or a folder, local or `gs://`.
        options: of the ExampleGen: `layout` and `columns` may decide already.

    Raises:
        InputError: there is nothing, or several kinds of things.
    """
    names, is_all = check_source(source)
    if kind := _kind_by_options(options):
        return Recognised(kind, "as layout or columns say")
    if not is_folder(source):
        return _recognise_file(source)
    found = _by_kind(source, names)
    seen = _describe(found, is_all)
    tables = found.get("table", [])
    media = {kind: len(found[kind]) for kind in ("image", "audio") if kind in found}
    media["image"] = media.get("image", 0) + len(found.get("archive", ()))
    media = {kind: number for kind, number in media.items() if number > _NOISE * len(names)}
    if tables and (in_table := kinds_in_table(join(source, tables[0]))):
        return Recognised(in_table, f"{seen}; {tables[0]} names or holds {_NOUNS[in_table]}s")
    if not media and not tables and (records := found.get("records")):
        raise _refused_records(join(source, records[0]))
    if len(media) == 1 and len(found.get("text", ())) <= max(media.values()):
        return Recognised(next(iter(media)), seen)
    if not media and (tables or found.get("text") or found.get("beside")):
        return Recognised("text", seen)
    raise _doubt(source, seen)


def check_source(source: str) -> tuple[list[str], bool]:
    """Names of files at a source, of a huge folder some of them, and whether these are all.

    Raises:
        InputError: there is nothing, or a dataset of TFRecords already.
    """
    if not exists(source):
        raise InputError(f"source {source!r}: expected a file or a folder, found none", path=source)
    if not is_folder(source):
        names, is_all = [posixpath.basename(source)], True
    else:
        names, is_all = _names_below(source)
    if not names:
        raise InputError(
            f"source {source!r}: expected images, texts or sounds, found no file", path=source
        )
    refuse_dataset("source", source, names)
    return names, is_all


def _kind_by_options(options: Mapping[str, object]) -> str | None:
    columns = options.get("columns")
    kinds = columns.values() if isinstance(columns, Mapping) else ()
    for kind in ("image", "audio"):
        if kind in kinds:
            return kind
    if any(name in options for name in settings_of(LayoutNames)):
        return "image"
    return _LAYOUTS.get(str(options.get("layout")))


def _recognise_file(source: str) -> Recognised:
    kind = _kind(source)
    if kind == "archive":
        return Recognised("image", "an archive")
    if kind == "table":
        found = kinds_in_table(source) or _kind_beside(source)
        return Recognised(found or "text", f"a table of {_NOUNS[found or 'text']}s")
    seen = _sniffed(source) if kind is None else kind
    if seen == "records":
        raise _refused_records(source)
    if seen in ("text", "beside"):
        return Recognised("text", "a file of text")
    what = "an image" if kind == "image" else "a sound" if kind == "audio" else "a file"
    raise InputError(
        f"source {source!r}: expected a folder, a table or an archive, got {what}. "
        "Give the folder that it is in, or say what it is: kind='text' (--kind text).",
        path=source,
    )


def _kind_beside(source: str) -> str | None:
    """The kind of the files that `train.csv` means where there is `train/`, as Datum has them."""
    folder = source.removesuffix(".gz")
    folder = posixpath.splitext(folder)[0]
    if not canonical_split(posixpath.basename(folder)) or not is_folder(folder):
        return None
    found = _by_kind(folder, _names_below(folder)[0][:_MOST_OPENED])
    return next((kind for kind in ("image", "audio") if kind in found), None)


def _names_below(base: str) -> tuple[list[str], bool]:
    """Names below a folder, and whether these are all: of a huge one, some of each folder."""
    walk: Iterable[tuple[str, list[str], list[str]]] = os.walk(base)
    if is_remote(base):
        walk = _walk_remote(base)
    found: list[str] = []
    is_all = True
    for folder, folders, files in walk:
        folders.sort()
        head = posixpath.join(*folder[len(base) :].strip("/").split("/"))
        if head and is_clutter(head.split("/")):
            folders.clear()
            continue
        visible = [name for name in files if not is_clutter([name])]
        room = min(_MOST_IN_FOLDER, _MOST_FILES - len(found))
        is_all = is_all and len(visible) <= room
        found += [posixpath.join(head, name) for name in sorted(visible)[:room]]
        if len(found) == _MOST_FILES:
            return found, False
    return found, is_all


def _walk_remote(base: str) -> Iterator[tuple[str, list[str], list[str]]]:
    """As `os.walk`: what is taken from a folder's list of folders is not walked."""
    waiting = [base]
    while waiting:
        folder = waiting.pop()
        entries = list_folder(folder)
        folders = [entry.name for entry in entries if entry.is_folder]
        yield folder, folders, [entry.name for entry in entries if not entry.is_folder]
        waiting += [join(folder, name) for name in reversed(folders)]


def _by_kind(base: str, names: Iterable[str]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = collections.defaultdict(list)
    opened = 0
    for name in names:
        kind = _kind(name)
        if kind == "table" and not _is_at_top(name):
            kind = "beside"
        if kind is None and opened < _MOST_OPENED:
            kind, opened = _sniffed(join(base, name)), opened + 1
        found[kind or "other"].append(name)
    return found


def _is_at_top(name: str) -> bool:
    """Where the ExampleGens look for tables: at the top, or in folders named after splits."""
    folders = name.split("/")[:-1]
    return not folders or (len(folders) == 1 and canonical_split(folders[0]) is not None)


def _kind(name: str) -> str | None:
    """What a name says."""
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


def _describe(found: Mapping[str, list[str]], is_all: bool) -> str:
    parts = [quantity(len(found[kind]), noun) for kind, noun in _NOUNS.items() if kind in found]
    return f"{'' if is_all else 'at least '}{', '.join(parts)}"


def _refused_records(path: str) -> InputError:
    return InputError(
        f"source {path!r}: expected raw files, got TFRecords already. What takes these: "
        "tfx-shards balance, ShardBalancer, input_fn.",
        path=path,
    )


def _doubt(source: str, seen: str) -> InputError:
    return InputError(
        f"source {source!r}: expected images, texts or sounds, found {seen}: which of them is "
        "meant is unclear. Put each kind into a folder of its own; or name the one to take, "
        f"{', '.join(KINDS)}, and others are rejects: --kind image --max-reject-fraction 1 "
        "(kind='image', max_reject_fraction=1).",
        path=source,
    )
