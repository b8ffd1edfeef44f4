"""Compute the key of a run: a later run with the same key reuses its results."""

import hashlib
import json
import zlib
from collections.abc import Iterable

from trainer_utils.core.extras import installed_version

_PACKAGES = ("tfx-shards", "pillow")  # not TFX or Beam: the result is the same without

ZLIB = "zlib"  # Python's own, which is not a package


def package_versions(packages: Iterable[str] = ()) -> dict[str, str]:
    """Return the versions of the packages that affect a dataset's bytes, by name.

    Args:
        packages: packages that the settings or inputs of this dataset need in addition to the ones
            of every dataset; may include `ZLIB`.
    """
    return {
        name: zlib.ZLIB_RUNTIME_VERSION if name == ZLIB else installed_version(name)
        for name in (*_PACKAGES, *sorted({*packages} - {*_PACKAGES}))
    }


def run_key(*known: object, packages: Iterable[str] = ()) -> str:
    """Return a digest of everything that a result depends on. A run resumes another with its key.

    Args:
        known: everything else than versions that the result depends on.
        packages: packages whose versions matter, as for `package_versions`.
    """
    versions = [f"{name} {version}" for name, version in package_versions(packages).items()]
    text = json.dumps([*known, *versions], default=repr, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()
