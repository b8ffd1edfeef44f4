"""What tests of the doctor share: an environment of no settings, and packages of given versions."""

from importlib import metadata

import pytest


@pytest.fixture(autouse=True)
def plain_environment(monkeypatch):
    for name in ("TF_USE_LEGACY_KERAS", "TF_CONFIG", "CUDA_VISIBLE_DEVICES"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def installed(monkeypatch):
    """Sets versions of packages; None: not installed. Others are as they are."""
    real_version, real_requires = metadata.version, metadata.requires

    def install(requirements=None, **versions):
        versions = {name.replace("_", "-"): version for name, version in versions.items()}

        def version(name):
            found = versions.get(name.lower(), "")
            if found is None:
                raise metadata.PackageNotFoundError(name)
            return found or real_version(name)

        monkeypatch.setattr(metadata, "version", version)
        monkeypatch.setattr(
            metadata, "requires", lambda name: (requirements or {}).get(name) or real_requires(name)
        )

    return install
