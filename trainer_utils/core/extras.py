"""Installed packages and their entry points, and how to install missing extras."""

import importlib
from importlib import metadata

HOW_TO_GET_TFX = (
    "run pip install 'tfx-shards[tfx]' on Python 3.10 to 3.13 with glibc 2.38 or newer, "
    "or pip install 'tfx-shards[tfx116]' on Python 3.10"
)

NOT_INSTALLED = "not installed"
_versions: dict[str, str] = {}  # of packages that were found


def forget_listed_folders() -> None:
    """Make the next search for a package list its folders again."""
    importlib.invalidate_caches()  # for importlib-metadata, if it replaced the search
    metadata.MetadataPathFinder().invalidate_caches()


def entry_points(group: str) -> list[metadata.EntryPoint]:
    """Return the entry points of a group.

    `importlib.metadata.entry_points` parses the entry points of every distribution, which takes
    40 ms for 370 distributions. Here, only files that name the group are parsed.
    """
    declaring = (
        distribution
        for distribution in metadata.distributions()
        if group in (distribution.read_text("entry_points.txt") or "")
    )
    names = dict.fromkeys(distribution.metadata["Name"] for distribution in declaring)
    # By name, since a distribution hides others of the same name further along the path
    return [
        point
        for name in names
        for point in metadata.distribution(name).entry_points
        if point.group == group
    ]


def installed_version(package: str) -> str:
    """Return the version of a package, or `NOT_INSTALLED`.

    A version is read once per process, which takes 5 ms. If memory or descriptors run out, Python's
    search takes a folder that it cannot list for an empty one. So a failed search is repeated once.
    """
    if package not in _versions:
        for _ in range(2):
            try:
                _versions[package] = metadata.version(package)
                break
            except metadata.PackageNotFoundError:
                forget_listed_folders()
    return _versions.get(package, NOT_INSTALLED)
