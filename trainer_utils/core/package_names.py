"""Check that other packages of the same names do not hide the three packages of this distribution.

    check_packages("components", "pipelines")    # ImportError if one of them is somebody else's

`docs/package-names.md` explains how to work in a project that has a package of one of these names.
"""

import importlib.util
import os
import sys
from importlib.machinery import ModuleSpec

__all__ = ["check_packages"]

_ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))


def check_packages(*names: str) -> None:
    """Raise `ImportError` if Python finds another package than ours under one of `names`.

    A package whose import is blocked (`sys.modules[name] = None`) hides nothing and is left alone.
    """
    for name in names:
        if sys.modules.get(name, sys) is None:
            continue
        folder = _package_folder(name)
        our_folder = os.path.join(_ROOT, name)
        if folder == our_folder:
            continue
        if folder is None:
            raise ImportError(
                f"the package {name!r} of tfx-shards is missing from {_ROOT}: reinstall tfx-shards"
            )
        raise ImportError(
            f"{folder} hides the package {name!r} of tfx-shards ({our_folder}): rename that "
            f"folder, or keep {os.path.dirname(folder)} off sys.path (run Python with -P or "
            "PYTHONSAFEPATH=1, unset PYTHONPATH); docs/package-names.md has more ways"
        )


def _package_folder(name: str) -> str | None:
    """Return the folder of the package that `import name` gives, or `None`."""
    spec: ModuleSpec | None
    if name in sys.modules:
        spec = getattr(sys.modules[name], "__spec__", None)
    else:
        spec = importlib.util.find_spec(name)
    if spec is None:
        return None
    if spec.origin is not None:
        # A package's __init__.py is in its folder; a single module has only a file.
        path = (
            spec.origin if spec.submodule_search_locations is None else os.path.dirname(spec.origin)
        )
        return os.path.realpath(path)
    locations = list(spec.submodule_search_locations or ())  # a folder without __init__.py
    return os.path.realpath(locations[0]) if locations else None
