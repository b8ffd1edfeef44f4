"""Lists whose files lie outside of the inputs: the folders that hold them.

roots_of(elsewhere.found)     # the folders that hold what a list names
"""

import collections
import os
import posixpath
from collections.abc import Iterable, Mapping

from components.common.file_table import FileTable
from components.common.layout_inputs import ImageRoot
from trainer_utils.storage import InputFile, is_remote


def roots_of(files: Mapping[str, InputFile]) -> tuple[ImageRoot, ...]:
    """The folders that hold all files, each with its own; inner ones come first.

    Args:
        files: by whole path or url.
    """
    common = _common_folders(files)
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


def _common_folders(uris: Iterable[str]) -> list[str]:
    """The fewest folders that hold all files, none of them the root of a disk."""
    by_top: dict[str, set[str]] = collections.defaultdict(set)
    for uri in uris:
        folder = posixpath.dirname(uri)
        scheme, _, path = folder.rpartition("://")
        by_top[f"{scheme}://{path.split('/')[0]}" if scheme else folder.split("/")[1]].add(folder)
    roots = []
    for top, folders in by_top.items():
        parts = [folder.split("/") for folder in sorted(folders)]
        common = posixpath.commonprefix([parts[0], parts[-1]])
        roots.append("/".join(common) if len(common) > 1 else top)
    return roots
