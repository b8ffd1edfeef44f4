"""What is installed, and what to say where an extra of this distribution is not."""

import importlib
from importlib import metadata

HOW_TO_GET_TFX = (
    "run pip install 'tfx-shards[tfx]' on Python 3.10 to 3.13 with glibc 2.38 or newer, "
    "or pip install 'tfx-shards[tfx116]' on Python 3.10"
)

NOT_INSTALLED = "not installed"


def forget_listed_folders() -> None:
    """Has the next search for a package list its folders again."""
    importlib.invalidate_caches()  # of importlib-metadata, where that took the search over
    metadata.MetadataPathFinder().invalidate_caches()


def installed_version(package: str) -> str:
    """The version of a package, or `NOT_INSTALLED`.

    Python's search takes a folder that it cannot list, for lack of memory or of descriptors, for
    an empty one; so where nothing is found it is asked again.
    """
    for _ in range(2):
        try:
            return metadata.version(package)
        except metadata.PackageNotFoundError:
            forget_listed_folders()
    return NOT_INSTALLED
