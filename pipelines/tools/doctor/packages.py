"""Whether the packages that are installed work together.

for check in package_checks():
    print(check.message)
"""

import os
import sys
from collections.abc import Iterator
from importlib import metadata

from pipelines.tools.doctor.checks import Check, bad, ok, warn

__all__ = ["package_checks", "version_of"]

_PROJECT = "tfx-shards"
# Packages whose own requirements are checked: what breaks when something else is installed.
_SENSITIVE = (
    "tensorflow",
    "tfx",
    "tfx-bsl",
    "tensorflow-data-validation",
    "tensorflow-metadata",
    "ml-metadata",
    "apache-beam",
    "kfp",
)
# The newest Python that a TFX exists for.
_NEWEST_PYTHON = {"1.16": (3, 10), "1.21": (3, 13)}


def version_of(package: str) -> str | None:
    """The version that is installed, if any."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def package_checks() -> Iterator[Check]:
    """Python and TFX, versions, TensorFlow and Keras."""
    yield _python()
    yield from _versions()
    yield from _keras()


def _python() -> Check:
    tfx, python = version_of("tfx"), ".".join(map(str, sys.version_info[:3]))
    if tfx is None:
        if sys.version_info[:2] <= max(_NEWEST_PYTHON.values()):
            message = f"Python {python} without TFX: for trainers; 'tfx-shards[tfx]' adds the rest"
        else:
            message = f"Python {python}: for trainers; TFX exists for Python 3.13 at the latest"
        return ok("python", message)
    newest = _NEWEST_PYTHON.get(_minor(tfx))
    if newest is not None and sys.version_info[:2] > newest:
        name = ".".join(map(str, newest))
        return bad(
            "python",
            f"Python {python} with TFX {tfx}, which exists for Python {name} at the latest",
            f"Make an environment with Python {name}: make venv, or uv venv --python {name}.",
        )
    return ok("python", f"Python {python} with TFX {tfx}")


def _versions() -> Iterator[Check]:
    """Requirements of this project, and of those packages that are easily broken."""
    from packaging.requirements import Requirement  # TensorFlow brings it

    extra = _extra()
    extras = ["", *([extra] if extra else [])]
    conflicts = []
    for package in (_PROJECT, *_SENSITIVE):
        if version_of(package) is None:
            continue
        for text in metadata.requires(package) or ():
            need = Requirement(text)
            wanted = extras if package == _PROJECT else [""]
            if need.marker and not any(need.marker.evaluate({"extra": name}) for name in wanted):
                continue
            version = version_of(need.name)
            if version is None or not need.specifier.contains(version, prereleases=True):
                found = f"{need.name} {version}" if version else f"no {need.name}"
                conflicts.append((package, f"{package} needs {need.name}{need.specifier}", found))
    for package, needed, found in conflicts:
        is_ours = package == _PROJECT
        cure = f"Install it again: pip install '{_PROJECT}{f'[{extra}]' if extra else ''}'."
        yield (bad if is_ours else warn)("packages", f"{needed}, got {found}", cure)
    if not conflicts:
        known = [f"{name} {version}" for name in _SENSITIVE if (version := version_of(name))]
        yield ok("packages", f"versions fit: {', '.join(known)}")


def _extra() -> str:
    """The extra of this project whose TFX is installed, or nothing."""
    tfx = version_of("tfx")
    return "" if tfx is None else "tfx116" if _minor(tfx) == "1.16" else "tfx"


def _keras() -> Iterator[Check]:
    tensorflow = version_of("tensorflow") or version_of("tensorflow-cpu")
    if tensorflow is None:
        yield bad("tensorflow", "not installed", "pip install 'tensorflow>=2.16'")
        return
    legacy = os.environ.get("TF_USE_LEGACY_KERAS") in ("1", "true", "True")
    tf_keras = version_of("tf-keras")
    if legacy and tf_keras is None:
        yield bad(
            "keras",
            "TF_USE_LEGACY_KERAS=1, but tf-keras is not installed",
            f"pip install 'tf-keras=={_minor(tensorflow)}.*'",
        )
    elif tf_keras is not None and _minor(tf_keras) != _minor(tensorflow):
        yield bad(
            "keras",
            f"tf-keras {tf_keras} with TensorFlow {tensorflow}: their versions must be the same",
            f"pip install 'tf-keras=={_minor(tensorflow)}.*'",
        )
    else:
        keras = f"tf-keras {tf_keras}" if legacy else f"Keras {version_of('keras') or 'none'}"
        yield ok("keras", f"TensorFlow {tensorflow} with {keras}")


def _minor(version: str) -> str:
    return ".".join(version.split(".")[:2])
