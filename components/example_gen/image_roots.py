"""Lists whose files lie outside of the inputs: in folders that `image_roots` names, or anywhere.

roots_of(elsewhere.found, base="lists/")     # the folders that hold what a list names
check_image_roots(listing, settings, base="lists/")
suggest_roots(["/data/a/1.jpg", "/data/b/2.jpg"], base="lists/")     # ["/data"]
"""

import collections
import os
import posixpath
import shlex
from collections.abc import Iterable, Mapping

from components.common.file_table import FileTable
from components.common.input_table import InputTable
from components.common.layout_inputs import ImageRoot
from components.example_gen.settings import MediaSettings
from trainer_utils.format import InputError
from trainer_utils.storage import InputFile, is_remote

__all__ = ["OUTSIDE", "check_image_roots", "command_for", "roots_of", "suggest_roots"]

OUTSIDE = "OUTSIDE_INPUT_BASE"
_MOST_ROOTS = 3


def check_image_roots(listing: InputTable, settings: MediaSettings, *, base: str) -> None:
    """Refuses to begin where more files than may be rejected lie outside.

    Raises:
        InputError: the message says how many, shows the first, and names the folders to allow.
    """
    outside = [left for left in listing.excluded if left.code == OUTSIDE]
    if len(outside) <= settings.max_reject_fraction * listing.found:
        return
    first = outside[0]
    roots = suggest_roots((left.name for left in outside), base=base)
    if not roots:  # links in folders of classes, which are rejects as others are
        return
    raise InputError(
        f"input_base {base!r}: expected files below it or below one of image_roots, got "
        f"{len(outside):,} of {listing.found:,} outside, the first {first.name!r} "
        f"({first.detail.partition(':')[0]}). Say where they may be: image_roots={roots!r} "
        f"({command_for(roots)}).",
        path=base,
    )


def command_for(roots: Iterable[str]) -> str:
    """What the command line takes to allow some folders."""
    flags = " ".join(f"--image-root {shlex.quote(root)}" for root in roots)
    return f"tfx-shards convert … {flags}"


def roots_of(files: Mapping[str, InputFile], *, base: str) -> tuple[ImageRoot, ...]:
    """The folders that hold all files, each with its own; inner ones come first.

    Args:
        files: by whole path or url.
        base: of the inputs.
    """
    common = _common_folders(files, base=base)
    root_of: dict[str, str] = {}  # by folder
    by_root: dict[str, dict[str, InputFile]] = collections.defaultdict(dict)
    for uri in sorted(files):
        folder = posixpath.dirname(uri)
        if folder not in root_of:
            root = next((r for r in common if _is_below(folder, r)), folder)
            if not is_remote(uri):  # a folder behind a link is a root by itself
                is_inside = _is_below(os.path.realpath(folder), os.path.realpath(root))
                root = root if is_inside else folder
            root_of[folder] = root
        path = posixpath.relpath(uri, root_of[folder])
        by_root[root_of[folder]][path] = files[uri]._replace(path=path)
    return tuple(
        ImageRoot(root, FileTable.of(by_root[root].values()))
        for root in sorted(by_root, key=len, reverse=True)
    )


def _is_below(folder: str, root: str) -> bool:
    return f"{folder.rstrip('/')}/".startswith(f"{root.rstrip('/')}/")


def suggest_roots(uris: Iterable[str], *, base: str) -> list[str]:
    """The fewest folders that hold all files, none of them the root of a disk; some, if many.

    Args:
        uris: as a list has them: whole paths, urls, or paths that lead out of the inputs. Links
            inside of these count for nothing.
    """
    return _common_folders(uris, base=base)[:_MOST_ROOTS]


def _common_folders(uris: Iterable[str], *, base: str) -> list[str]:
    by_top: dict[str, set[str]] = collections.defaultdict(set)
    for uri in uris:
        folder = posixpath.dirname(_whole(uri.removeprefix("file://"), base))
        inputs = f"{os.path.abspath(base).rstrip('/')}/"
        if not is_remote(base) and f"{folder}/".startswith(inputs):
            continue  # a link inside of the inputs, which leads nobody says where
        scheme, _, path = folder.rpartition("://")
        by_top[f"{scheme}://{path.split('/')[0]}" if scheme else folder.split("/")[1]].add(folder)
    roots = []
    for top, folders in sorted(by_top.items(), key=lambda item: -len(item[1])):
        parts = [folder.split("/") for folder in sorted(folders)]
        common = posixpath.commonprefix([parts[0], parts[-1]])
        roots.append("/".join(common) if len(common) > 1 else top)
    return roots


def _whole(uri: str, base: str) -> str:
    if "://" in uri:
        return uri
    if os.path.isabs(uri) or is_remote(base):
        return posixpath.normpath(uri)
    return posixpath.normpath(posixpath.join(os.path.abspath(base), uri))
