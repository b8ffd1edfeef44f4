"""Lists whose files lie outside of the inputs: one error, with the setting that cures it.

check_image_roots(listing, settings, base="lists/")
suggest_roots(["/data/a/1.jpg", "/data/b/2.jpg"], base="lists/")     # ["/data"]
"""

import collections
import os
import posixpath
import shlex
from collections.abc import Iterable

from components.common.listing import Listing
from components.example_gen.media_settings import MediaSettings
from trainer_utils.format import InputError
from trainer_utils.storage import is_remote

__all__ = ["OUTSIDE", "check_image_roots", "command_for", "suggest_roots"]

OUTSIDE = "OUTSIDE_INPUT_BASE"
_MOST_ROOTS = 3


def check_image_roots(listing: Listing, settings: MediaSettings, *, base: str) -> None:
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


def suggest_roots(uris: Iterable[str], *, base: str) -> list[str]:
    """The fewest folders that hold all files, none of them the root of a disk.

    Args:
        uris: as a list has them: whole paths, urls, or paths that lead out of the inputs. Links
            inside of these count for nothing.
    """
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
    return roots[:_MOST_ROOTS]


def _whole(uri: str, base: str) -> str:
    if "://" in uri:
        return uri
    if os.path.isabs(uri) or is_remote(base):
        return posixpath.normpath(uri)
    return posixpath.normpath(posixpath.join(os.path.abspath(base), uri))
