"""From TFX's input_base and input_config to the listed inputs, and their fingerprint.

A pattern selects files, and folders with all that is in them; its part without wildcards is where
the layout begins: `span-3/train/*` reads the classes below `span-3/train`.
"""

import collections
import dataclasses
import fnmatch
import hashlib
import itertools
import os
import posixpath
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple, NoReturn

import numpy as np

from components.common.layout_inputs import FileTable, ImageRoot, LayoutInputs
from components.common.workspace import is_within, relative_path
from components.example_gen.plan import Partition, check_split_names
from components.layouts.junk import is_clutter
from components.layouts.refusals import refuse_dataset
from trainer_utils.extras import HOW_TO_GET_TFX
from trainer_utils.format import ConfigError, InputError
from trainer_utils.storage import (
    MachineError,
    display_path,
    exists,
    find_file,
    is_folder,
    join,
    local_path,
    walk_files,
)

_WILDCARDS = frozenset("*?[")


class SplitPattern(NamedTuple):
    """A split of TFX's input_config: its name, and which files are in it."""

    name: str
    pattern: str


ALL_FILES = (SplitPattern("single_split", "*"),)  # TFX's own default


@dataclasses.dataclass(frozen=True, kw_only=True)
class InputSelection:
    """What a conversion is asked to take, as TFX's properties or a command say it."""

    base: str  # a folder, or one file that is a source by itself
    # Of input_config; they may hold {SPAN}, {VERSION} or {YYYY}, {MM}, {DD}
    patterns: Sequence[SplitPattern] = ALL_FILES
    range_config: Any = None  # TFX's: which spans to consider; None for the latest
    # The splits that output_config asks for; None leaves them to the inputs
    partition: Partition | None = None
    # A folder that is not listed next to a list: the output, which would change the fingerprint
    unlisted: str | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "base", local_path(self.base))
        check_split_names("input_config", [split.name for split in self.patterns])


def patterns_of(input_config: Any) -> list[SplitPattern]:
    """The splits of TFX's `Input`."""
    return [SplitPattern(split.name, split.pattern) for split in input_config.splits]


@dataclasses.dataclass(frozen=True)
class ResolvedPattern:
    """One split of input_config, its span and version filled in."""

    name: str
    pattern: str
    root: str  # where the layout begins: a folder, or a list
    # What the pattern selects; for a list all below the base, since any may be listed
    files: FileTable


@dataclasses.dataclass(frozen=True)
class LocatedInputs:
    """Where the inputs are: `base`, patterns, other roots, and TFX's `span` and `version`."""

    base: str
    patterns: tuple[ResolvedPattern, ...]
    image_roots: tuple[ImageRoot, ...]
    span: int
    version: int | None


def locate(
    selection: InputSelection,
    *,
    image_roots: Sequence[str] = (),
    is_source_file: Callable[[str], bool],
    sees_siblings: bool = True,
    lists_roots: bool = True,
    unit: str = "inputs",
) -> LocatedInputs:
    """Resolves spans as TFX does, and lists every file that the patterns select.

    Args:
        image_roots: folders beside it that a list may point into.
        is_source_file: whether a path is by itself what examples are made of, as a list is.
        sees_siblings: whether such a file may name others.
        lists_roots: whether the files below `image_roots` are listed.
        unit: what the inputs are called, such as `images`.
    """

    input_base = selection.base

    def refuse(what: str) -> NoReturn:
        raise InputError(f"input_base {input_base!r}: expected {what}", path=input_base)

    if not input_base or not exists(input_base):
        refuse(f"a folder or a list of {unit}, found none")
    base, list_name = input_base, None
    if not is_folder(input_base):
        base, list_name = os.path.split(input_base)
        base = base or os.curdir  # a file of the working folder, by its name alone
    span, version, resolved = _resolve_spans(base, selection)
    files = _list("input_base", input_base, base, only=None if sees_siblings else list_name)
    if list_name and selection.unlisted and is_within(selection.unlisted, base):
        folder = f"{relative_path(selection.unlisted, base)}/"
        files = files.select(~np.fromiter((n.startswith(folder) for n in files), bool, len(files)))
    if not files:
        refuse(f"{unit}, found an empty folder")
    refuse_dataset("input_base", input_base, [list_name] if list_name else files)
    found = []
    for name, pattern in resolved:
        wanted = [part for part in posixpath.normpath(pattern).split("/") if part not in ("", ".")]
        literal = itertools.takewhile(_WILDCARDS.isdisjoint, wanted)
        root = list_name or "/".join(literal)
        selected = files
        if not list_name and wanted != ["*"]:  # a folder that is selected, with all that is in it
            are_selected = (_selects(wanted, path) for path in files)
            selected = files.select(np.fromiter(are_selected, bool, len(files)))
        if not selected:
            text = f"input_config pattern {pattern!r}: expected files under {base!r}, found none"
            raise InputError(text)
        if root in selected:
            if is_source_file(root):
                selected = files if sees_siblings else selected
            elif list_name:
                refuse(f"a folder or a list of {unit}, got a file")
            else:
                root = posixpath.dirname(root)
        if root not in selected:
            _refuse_unlisted(base, selected)
        found.append(ResolvedPattern(name, pattern, root, selected))
    for folder in image_roots:
        if not is_folder(folder):
            raise InputError(f"file_roots: expected folders, found none at {folder!r}")
    listed = image_roots if lists_roots else ()
    roots = [ImageRoot(folder, _list("file_roots", folder, folder)) for folder in listed]
    return LocatedInputs(base, tuple(found), tuple(roots), span, version)


def refuse_output_among_inputs(
    located: LocatedInputs,
    uri: str,
    *,
    setting: str,
    sees_siblings: bool = True,
    unlisted: str | None = None,
) -> None:
    """Refuse an output folder whose files the next listing would select as inputs.

    Args:
        located: the inputs, as `locate` gives them.
        uri: the output folder.
        setting: the setting that the output's place comes from.
        sees_siblings: whether all files next to a list are listed.
        unlisted: the folder of `InputSelection.unlisted`.
    """
    advice = "The next run would take what this one writes for inputs"
    if not is_within(uri, located.base):
        return
    written = posixpath.normpath(f"{relative_path(uri, located.base)}/manifest.json")
    for one in located.patterns:
        wanted = [part for part in posixpath.normpath(one.pattern).split("/") if part != "."]
        is_list = one.root in one.files
        if is_list and unlisted is not None and is_within(uri, unlisted):
            continue
        if sees_siblings if is_list else wanted == ["*"] or _selects(wanted, written):
            rule = f"a folder outside the input {located.base!r}"
            if one.pattern != "*":
                rule += f", or one that the pattern {one.pattern!r} does not select"
            raise ConfigError.of(setting, uri, allowed=rule, advice=advice)


def _selects(wanted: Sequence[str], path: str) -> bool:
    parts = path.split("/")
    return len(parts) >= len(wanted) and all(map(fnmatch.fnmatchcase, parts, wanted))


def _resolve_spans(
    base: str, selection: InputSelection
) -> tuple[int, int | None, list[SplitPattern]]:
    """The span and version to take, and the patterns with these filled in."""
    patterns, range_config = selection.patterns, selection.range_config
    if range_config is None and not any("{" in pattern for _, pattern in patterns):
        return 0, None, list(patterns)
    try:  # TFX decides, where spans are asked for; nothing else here needs it
        from tfx.components.example_gen import input_processor, utils
        from tfx.proto import example_gen_pb2
    except ModuleNotFoundError as error:
        raise ConfigError.of(
            "input_config", patterns, allowed=f"no spans without TFX: {HOW_TO_GET_TFX}"
        ) from error
    splits = [example_gen_pb2.Input.Split(name=n, pattern=pattern) for n, pattern in patterns]
    processor = input_processor.FileBasedInputProcessor(base, splits, range_config)
    span, version = 0, None
    if any(any(utils.verify_split_pattern_specs(split)) for split in splits):
        span, version = processor.resolve_span_and_version()  # opens files that it need not
    filled = [processor.get_pattern_for_span_version(p, span, version) for _, p in patterns]
    named = zip(patterns, filled, strict=True)
    return span, version, [SplitPattern(one.name, pattern) for one, pattern in named]


def _list(setting: str, given: str, folder: str, only: str | None = None) -> FileTable:
    """The files of a folder that a setting gave, or only one of them."""
    try:
        return FileTable.of([find_file(folder, only)] if only else walk_files(folder))
    except MachineError:
        raise
    except OSError as error:
        raise InputError(
            f"{setting} {display_path(given)!r}: expected a folder that can be looked into, "
            f"got {error.strerror or error}. Mend its permissions, or name another."
        ) from error


def _refuse_unlisted(base: str, files: FileTable) -> None:
    """Refuses folders that cannot be looked into: a whole class of files might be missing."""
    for folder in FileTable(files.table.filter(files.table.column("is_folder"))).rows():
        if folder.problem is not None and not is_clutter(folder.path.split("/")):
            raise InputError.at(
                join(base, folder.path),
                expected="a folder that can be looked into",
                got=folder.problem[1].removeprefix("a folder: "),
                advice="Give the run the right to read it, or move it out of the input",
            )


def fingerprint(located: LocatedInputs) -> str:
    """A hexadecimal digest that changes with any file's name, size or version. Reads no file."""
    digest = hashlib.sha256()
    groups = [(f"{p.name}\0{p.pattern}", p.files) for p in located.patterns]
    groups += [(root.base, root.table) for root in located.image_roots]
    for header, files in groups:
        digest.update(f"{header}\0".encode())
        files.add_to(digest)
    return digest.hexdigest()


def layout_inputs(located: LocatedInputs, **options: Any) -> list[LayoutInputs]:
    """What layouts are read from, one a pattern, with further fields; several are splits."""
    several = len(located.patterns) > 1
    return [
        LayoutInputs(
            base=located.base,
            root=pattern.root,
            files=pattern.files,
            split=pattern.name if several else None,
            image_roots=located.image_roots,
            **options,
        )
        for pattern in located.patterns
    ]


def refuse_overlap(filenames: Iterable[str]) -> None:
    """Refuses an input that two patterns select."""
    for filename, count in collections.Counter(filenames).items():
        if count > 1:
            raise InputError.at(
                display_path(filename),
                expected="one pattern of input_config to select it",
                got="two",
                advice="An example must not be in two splits.",
            )
