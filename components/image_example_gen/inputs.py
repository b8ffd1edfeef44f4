"""From TFX's input_base and input_config to the listed inputs, and their fingerprint.

    located = locate(input_base, input_config, range_config)   # spans resolved, files listed
    listing = read_listing(located, layout="auto")

A pattern of input_config selects files, and folders with all that is in them. Its leading part
without wildcards is where the layout begins: `span-3/train/*` reads the classes below
`span-3/train`.
"""

import dataclasses
import fnmatch
import hashlib
import itertools
import os
import posixpath
from collections.abc import Sequence

from tfx.components.example_gen import input_processor
from tfx.proto import example_gen_pb2, range_config_pb2

from components.common.files import (
    InputFile,
    display_path,
    exists,
    is_folder,
    join,
    list_files,
    read_text,
)
from components.image_example_gen.layouts import Listing, read_layout
from trainer_utils.format import InputError

__all__ = ["LocatedInputs", "ResolvedPattern", "fingerprint", "locate", "read_listing"]

_WILDCARDS = frozenset("*?[")


@dataclasses.dataclass(frozen=True)
class ResolvedPattern:
    """One split of input_config, its span and version filled in.

    Args:
        name: the split's.
        pattern: relative to the base.
        root: where the layout begins: a folder, or a CSV file.
        files: what the pattern selects; for a CSV file all below the base, since any may be listed.
    """

    name: str
    pattern: str
    root: str
    files: tuple[InputFile, ...]


@dataclasses.dataclass(frozen=True)
class LocatedInputs:
    """Where the inputs are: `base`, the patterns, and TFX's `span` and `version`."""

    base: str
    patterns: tuple[ResolvedPattern, ...]
    span: int
    version: int | None


def locate(
    input_base: str,
    input_config: example_gen_pb2.Input,
    range_config: range_config_pb2.RangeConfig | None = None,
) -> LocatedInputs:
    """Resolves spans as TFX does, and lists every file that the patterns select.

    Args:
        input_base: a folder, or a CSV file.
        input_config: TFX's; patterns may hold {SPAN}, {VERSION} or {YYYY}, {MM}, {DD}.
        range_config: which spans to consider; None for the latest.

    Raises:
        InputError: there is nothing at `input_base`, or no file in it.
    """
    if not input_base or not exists(input_base):
        raise InputError(f"input_base {input_base!r}: expected a folder or a CSV file, found none")
    base, csv_name = input_base, None
    if not is_folder(input_base):
        base, csv_name = os.path.split(input_base)
    processor = input_processor.FileBasedInputProcessor(base, input_config.splits, range_config)
    span, version = processor.resolve_span_and_version()
    files = list_files(base)
    if not files:
        raise InputError(f"input_base {input_base!r}: expected images, found an empty folder")
    patterns = []
    for split in input_config.splits:
        pattern = processor.get_pattern_for_span_version(split.pattern, span, version)
        root = csv_name or _literal_part(pattern)
        selected = [file for file in files if csv_name or _selects(pattern, file.path)]
        if not selected:
            raise InputError(
                f"input_config pattern {pattern!r}: expected files under {base!r}, found none"
            )
        if any(file.path == root for file in selected):
            selected = files
        patterns.append(ResolvedPattern(split.name, pattern, root, tuple(selected)))
    return LocatedInputs(base, tuple(patterns), span, version)


def fingerprint(located: LocatedInputs) -> str:
    """A hexadecimal digest that changes with any file's name, size or version. Reads no file."""
    digest = hashlib.sha256()
    for pattern in located.patterns:
        digest.update(f"{pattern.name}\0{pattern.pattern}\0".encode())
        for file in pattern.files:
            name = file.path.encode("utf-8", "surrogateescape")
            digest.update(name + f"\0{file.size}\0{file.version}\0{file.problem}\0".encode())
    return digest.hexdigest()


def read_listing(located: LocatedInputs, *, layout: str) -> Listing:
    """Works out split and label of every input.

    Raises:
        InputError: as `read_layout`, or a file is selected by two patterns.
    """
    several = len(located.patterns) > 1
    listings = [
        read_layout(
            pattern.files,
            root=pattern.root,
            layout=layout,
            split=pattern.name if several else None,
            base=located.base,
            read_text=lambda path: read_text(join(located.base, path)),
        )
        for pattern in located.patterns
    ]
    listing = Listing(
        tuple(entry for part in listings for entry in part.entries),
        tuple(left for part in listings for left in part.left_out),
    )
    if several:
        _refuse_overlap([entry.filename for entry in listing.entries])
    return listing


def _literal_part(pattern: str) -> str:
    """The folders of a pattern before any wildcard."""
    literal = itertools.takewhile(lambda part: not set(part) & _WILDCARDS, _parts(pattern))
    return "/".join(literal)


def _selects(pattern: str, path: str) -> bool:
    wanted, parts = _parts(pattern), path.split("/")
    return len(parts) >= len(wanted) and all(
        fnmatch.fnmatchcase(part, want) for part, want in zip(parts, wanted, strict=False)
    )


def _parts(pattern: str) -> list[str]:
    return [part for part in posixpath.normpath(pattern).split("/") if part not in ("", ".")]


def _refuse_overlap(filenames: Sequence[str]) -> None:
    seen: set[str] = set()
    for filename in filenames:
        if filename in seen:
            raise InputError(
                f"{display_path(filename)!r}: expected one pattern of input_config to select it, "
                "got two. An example must not be in two splits."
            )
        seen.add(filename)
