"""Find tar archives by name."""

from components.inputs.listing import LayoutInputs
from components.layouts.junk import is_clutter

COMPRESSED_ARCHIVES = (".tar.gz", ".tgz", ".tar.bz2", ".tar.xz", ".tar.zst")
_ARCHIVES = (".tar", *COMPRESSED_ARCHIVES)


def is_archive(path: str) -> bool:
    """Return whether a file has the name of a tar archive."""
    return path.lower().endswith(_ARCHIVES)


def tar_files(inputs: LayoutInputs) -> list[str]:
    """Return the archives at the root and in folders directly below it."""
    if inputs.root in inputs.files:
        return [inputs.root] if is_archive(inputs.root) else []
    return [
        path
        for parts, path in inputs.paths_below_root(endings=_ARCHIVES)
        if len(parts) <= 2 and not is_clutter(parts)
    ]
