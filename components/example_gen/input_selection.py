"""List the inputs that TFX's input_base and input_config select, and compute their fingerprint.

A pattern selects files, and folders with all their content. Its part without wildcards is the root
of the layout: `span-3/train/*` reads the classes below `span-3/train`.
"""

import collections
import contextlib
import contextvars
import dataclasses
import fnmatch
import hashlib
import itertools
import os
import posixpath
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple, NoReturn

import numpy as np
import pyarrow.compute as pc
from absl import logging

from components.example_gen.split_rules import Partition, check_split_names
from components.inputs.advice import how_to_set
from components.inputs.arrow_columns import bytes_scalar, string_scalar, to_numpy
from components.inputs.input_table import ExcludedInput
from components.inputs.listing import FileTable, ImageRoot, LayoutInputs
from components.inputs.path_columns import is_path
from components.layouts.junk import ignored_mask, junk_mask, names_at_top
from components.layouts.refusals import refuse_dataset
from components.runtime.workspace import is_within, relative_path
from trainer_utils.core.errors import ConfigError, InputError
from trainer_utils.core.extras import HOW_TO_GET_TFX
from trainer_utils.core.text_output import quantity
from trainer_utils.format import split_of_name
from trainer_utils.storage import (
    InputFile,
    MachineError,
    display_path,
    exists,
    find_file,
    is_folder,
    join,
    local_path,
    walk_groups,
)
from trainer_utils.storage.file_system import LINK_LOOP, LINKED_FOLDER, OUTSIDE

_MAX_LINKS = 5  # in a message
_WILDCARDS = frozenset("*?[")


class SplitPattern(NamedTuple):
    """A split of TFX's input_config: its name, and the pattern of its files."""

    name: str
    pattern: str


ALL_FILES = (SplitPattern("single_split", "*"),)  # TFX's own default


@dataclasses.dataclass(frozen=True, kw_only=True)
class InputSelection:
    """The requested inputs of a conversion, from TFX's properties or a command."""

    base: str  # a folder, or one file that is a source
    # Patterns of input_config, which may have {SPAN}, {VERSION} or {YYYY}, {MM}, {DD}
    patterns: Sequence[SplitPattern] = ALL_FILES
    range_config: Any = None  # TFX's: the spans to consider; None: the latest
    # The splits that output_config requests; None: the inputs decide
    partition: Partition | None = None
    # A folder that is not listed next to a list: the output, which would change the fingerprint
    unlisted: str | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "base", local_path(self.base))
        check_split_names("input_config", [split.name for split in self.patterns])


def patterns_of(input_config: Any) -> list[SplitPattern]:
    """Return the splits of TFX's `Input`."""
    return [SplitPattern(split.name, split.pattern) for split in input_config.splits]


@dataclasses.dataclass(frozen=True)
class ResolvedPattern:
    """One split of input_config, with span and version filled in."""

    name: str
    pattern: str
    root: str  # root of the layout: a folder, or a list
    # Selected files. For a list all files below the base, since any may be listed
    files: FileTable
    # junk, ignored: selected files that are skipped
    junk: FileTable
    ignored: FileTable

    def skipped(self) -> list[ExcludedInput]:
        """Return the files that are skipped, each with the reason."""
        groups = ((self.junk, "hidden or system file"), (self.ignored, "left out by `ignore`"))
        return [
            ExcludedInput(path, _split_of_folders(path), None, reason)
            for files, reason in groups
            for path in files
        ]


@dataclasses.dataclass(frozen=True)
class LocatedInputs:
    """The listed inputs: `base`, patterns, other roots, and TFX's `span` and `version`."""

    base: str
    patterns: tuple[ResolvedPattern, ...]
    file_roots: tuple[ImageRoot, ...]
    span: int
    version: int | None


def locate(
    selection: InputSelection,
    *,
    file_roots: Sequence[str] = (),
    is_source_file: Callable[[str], bool],
    sees_siblings: bool = True,
    lists_roots: bool = True,
    unit: str = "inputs",
    media: str = "image",
    ignore: Sequence[str] = (),
    follow_links: bool = False,
) -> LocatedInputs:
    """Resolve spans as TFX does, and list every file that the patterns select.

    Args:
        selection: the requested inputs.
        file_roots: additional folders that a list may refer to.
        is_source_file: returns whether a single file is a source of examples, as a list is.
        sees_siblings: whether such a file may refer to other files.
        lists_roots: whether the files below `file_roots` are listed.
        unit: the name of the inputs, such as `images`.
        media: the kind of the inputs: `image`, `audio` or `text`.
        ignore: patterns of files that are left out.
        follow_links: whether to follow links to folders, and links out of the folder.

    Raises:
        InputError: the folder or a pattern has no usable files.
    """

    input_base = selection.base

    def refuse(what: str) -> NoReturn:
        raise InputError(f"input_base {input_base!r}: expected {what}", path=input_base)

    if not input_base or not exists(input_base):
        refuse(f"a folder or a list of {unit}, found none")
    base, list_name = input_base, None
    if not is_folder(input_base):
        base, list_name = os.path.split(input_base)
        base = base or os.curdir  # a file in the current folder, without a path
    span, version, resolved = _resolve_spans(base, selection)
    only = None if sees_siblings else list_name
    files = _list("input_base", input_base, base, only=only, follow_links=follow_links)
    if list_name and selection.unlisted and is_within(selection.unlisted, base):
        folder = f"{relative_path(selection.unlisted, base)}/"
        files = files.select(~np.fromiter((n.startswith(folder) for n in files), bool, len(files)))
    if not files:
        refuse(f"{unit}, found an empty folder")
    is_ignored, is_junk = ignored_mask(files, ignore), junk_mask(files, media=media)
    if list_name:  # it was named explicitly
        is_named = is_path(files.paths, list_name)
        is_ignored, is_junk = is_ignored & ~is_named, is_junk & ~is_named
    is_junk &= ~is_ignored
    everything, files = files, files.select(~(is_ignored | is_junk))
    if not files:
        refuse(f"{unit}, found only hidden, system or ignored files: {names_at_top(everything)}")
    # A single list is read by the files that it names, not by the rest of its folder.
    if not (follow_links or list_name):
        _refuse_links(base, files)
    refuse_dataset("input_base", input_base, [list_name] if list_name else files)
    junk, ignored = (everything.select_only(mask) for mask in (is_junk, is_ignored))
    located = []
    for name, pattern in resolved:
        wanted = [part for part in posixpath.normpath(pattern).split("/") if part not in ("", ".")]
        literal = itertools.takewhile(_WILDCARDS.isdisjoint, wanted)
        root = list_name or "/".join(literal)
        selected, skipped = files, (junk, ignored)
        if not list_name and wanted != ["*"]:  # a selected folder includes all its content
            selected = _select(files, wanted)
            skipped = _select(junk, wanted), _select(ignored, wanted)
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
        located.append(ResolvedPattern(name, pattern, root, selected, *skipped))
    roots = _list_roots(file_roots, is_listed=lists_roots, follow_links=follow_links)
    return LocatedInputs(base, tuple(located), roots, span, version)


def _list_roots(
    file_roots: Sequence[str], *, is_listed: bool, follow_links: bool
) -> tuple[ImageRoot, ...]:
    """Return the additional folders with their files, or none if these are not to be listed.

    Raises:
        InputError: a root is not a folder.
    """
    for folder in file_roots:
        if not is_folder(folder):
            raise InputError(f"file_roots: expected folders, found none at {folder!r}")
    return tuple(
        ImageRoot(folder, _list("file_roots", folder, folder, follow_links=follow_links))
        for folder in (file_roots if is_listed else ())
    )


def _select(files: FileTable, wanted: Sequence[str]) -> FileTable:
    are_selected = (_selects(wanted, path) for path in files)
    return files.select_only(np.fromiter(are_selected, bool, len(files)))


def _split_of_folders(path: str) -> str | None:
    """Return the split that the folders of a skipped file name, for its count; None if unclear."""
    splits = {split_of_name(part) for part in path.split("/")[:-1]} - {None}
    return splits.pop() if len(splits) == 1 else None


def _refuse_links(base: str, files: FileTable) -> None:
    """Raise InputError if a link leads out of the folder, or to a folder."""
    code, detail = files.table.column("code"), files.table.column("detail")
    leads_out = to_numpy(pc.equal(code, string_scalar(OUTSIDE[0])), null=False)
    to_folder = to_numpy(pc.equal(detail, bytes_scalar(LINKED_FOLDER[1].encode())), null=False)
    mask = leads_out | to_folder
    if not mask.any():
        return
    linked = files.select_only(mask)
    path = next(iter(linked))
    target = os.path.realpath(join(base, path))
    kind = "folder" if is_folder(target) else "file"
    raise InputError.at(
        join(base, path),
        expected="files, and links to files of the same folder",
        got=f"a link to the {kind} {target!r} ({quantity(len(linked), 'such link')} in all)",
        advice=f"To read linked files and folders: {how_to_set(follow_links=True)}. To leave them "
        f"out: {how_to_set(ignore=[*linked][:_MAX_LINKS])}.",
    )


def refuse_output_among_inputs(
    located: LocatedInputs,
    uri: str,
    *,
    setting: str,
    sees_siblings: bool = True,
    unlisted: str | None = None,
) -> None:
    """Raise ConfigError if the next listing would select files of an output folder.

    Args:
        located: the inputs that `locate` returned.
        uri: the output folder.
        setting: the setting that determines the output folder.
        sees_siblings: whether all files next to a list are listed.
        unlisted: the folder of `InputSelection.unlisted`.
    """
    advice = "The next run would read the output of this one as input"
    if not is_within(uri, located.base):
        return
    written = posixpath.normpath(f"{relative_path(uri, located.base)}/manifest.json")
    for pattern in located.patterns:
        wanted = [part for part in posixpath.normpath(pattern.pattern).split("/") if part != "."]
        is_list = pattern.root in pattern.files
        if is_list and unlisted is not None and is_within(uri, unlisted):
            continue
        if sees_siblings if is_list else wanted == ["*"] or _selects(wanted, written):
            rule = f"a folder outside the input {located.base!r}"
            if pattern.pattern != "*":
                rule += f", or one that the pattern {pattern.pattern!r} does not select"
            raise ConfigError.of(setting, uri, allowed=rule, advice=advice)


def _selects(wanted: Sequence[str], path: str) -> bool:
    parts = path.split("/")
    return len(parts) >= len(wanted) and all(map(fnmatch.fnmatchcase, parts, wanted))


def _resolve_spans(
    base: str, selection: InputSelection
) -> tuple[int, int | None, list[SplitPattern]]:
    """Return the span and version to take, and the patterns with these filled in."""
    patterns, range_config = selection.patterns, selection.range_config
    if range_config is None and not any("{" in pattern for _, pattern in patterns):
        return 0, None, list(patterns)
    try:  # TFX resolves spans; nothing else here needs it
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
        span, version = processor.resolve_span_and_version()  # opens files, so only if needed
    filled = [processor.get_pattern_for_span_version(p, span, version) for _, p in patterns]
    named = zip(patterns, filled, strict=True)
    return span, version, [SplitPattern(splits.name, pattern) for splits, pattern in named]


def _list(
    setting: str,
    given: str,
    folder: str,
    *,
    only: str | None = None,
    follow_links: bool = False,
) -> FileTable:
    """List the files of a folder that a setting names, or only one of them."""
    try:
        if only:
            return FileTable.of([find_file(folder, only, follow_links=follow_links)])
        return list_files(folder, follow_links=follow_links)
    except MachineError:
        raise
    except OSError as error:
        raise InputError(
            f"{setting} {display_path(given)!r}: expected a folder that can be listed, "
            f"got {error.strerror or error}. Fix its permissions, or name another folder."
        ) from error


_listed: contextvars.ContextVar[dict[tuple[str, bool], FileTable] | None]
_listed = contextvars.ContextVar("_listed", default=None)


@contextlib.contextmanager
def listing_once() -> Iterator[None]:
    """List each folder only once within the context."""
    token = _listed.set({})
    try:
        yield
    finally:
        _listed.reset(token)


def list_files(folder: str, *, follow_links: bool) -> FileTable:
    """Return the files below a folder, without links to folders that contain them."""
    listed, key = _listed.get(), (folder, follow_links)
    if listed is not None and key in listed:
        return listed[key]
    groups = walk_groups(folder, follow_links=follow_links)
    files = FileTable.of_groups(
        group._replace(others=[*_without_loops(group.others)]) for group in groups
    )
    if listed is not None:
        listed[key] = files
    return files


def lists_once() -> bool:
    """Return whether folders are listed only once."""
    return _listed.get() is not None


def _without_loops(files: Iterable[InputFile]) -> Iterator[InputFile]:
    """Skip links to folders that contain them, whose files are already listed."""
    for file in files:
        if file.problem == LINK_LOOP:
            logging.warning("%r is a link to a folder that contains it: not followed", file.path)
        else:
            yield file


def _refuse_unlisted(base: str, files: FileTable) -> None:
    """Raise InputError for folders that cannot be listed: a whole class might be missing."""
    for folder in FileTable(pc.filter(files.table, files.table.column("is_folder"))).rows():
        if folder.problem is not None:
            raise InputError.at(
                join(base, folder.path),
                expected="a folder that can be listed",
                got=folder.problem[1].removeprefix("a folder: "),
                advice="Give the run permission to read it, or move it out of the input",
            )


def fingerprint(located: LocatedInputs) -> str:
    """Return a hexadecimal digest of all files' names, sizes and versions; read no file."""
    digest = hashlib.sha256()
    groups = [(f"{p.name}\0{p.pattern}", p.files) for p in located.patterns]
    groups += [(root.base, root.table) for root in located.file_roots]
    for header, files in groups:
        digest.update(f"{header}\0".encode())
        files.add_to(digest)
    return digest.hexdigest()


def layout_inputs(located: LocatedInputs, **options: Any) -> list[LayoutInputs]:
    """Return the inputs of layouts, one per pattern, with further fields. Several are splits."""
    several = len(located.patterns) > 1
    return [
        LayoutInputs(
            base=located.base,
            root=pattern.root,
            files=pattern.files,
            split=pattern.name if several else None,
            file_roots=located.file_roots,
            **options,
        )
        for pattern in located.patterns
    ]


def refuse_overlap(filenames: Iterable[str]) -> None:
    """Raise InputError if two patterns select the same input."""
    for filename, count in collections.Counter(filenames).items():
        if count > 1:
            raise InputError.at(
                display_path(filename),
                expected="one pattern of input_config to select it",
                got="two",
                advice="An example must not be in two splits.",
            )
