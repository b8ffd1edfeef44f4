"""Test that a run resumes from another one only if its shards would be the same."""

import pytest

from components.example_gen.settings import AudioSettings, ImageSettings, TextSettings
from components.runtime import run_keys
from components.steps import conversion_of
from tests.make import photo, wav, write_files

FILES = {
    "image": {f"a/{n}.png": photo(n, "PNG", size=(20, 30)) for n in range(3)},
    "list": {"list.csv": b"image,label\n1.png,a\n", "1.png": photo(1, "PNG", size=(20, 30))},
    "audio": {f"a/{n}.wav": wav(n) for n in range(3)},
    "text": {"a.csv": b"text,label\nx,a\n"},
}
PACKAGES = ("numpy", "pyarrow", "scipy", "soundfile", "tokenizers", "tfx", "tensorflow", "pillow")


@pytest.mark.parametrize(
    ("name", "settings", "expected"),
    [
        ("image", ImageSettings(), {"pillow"}),
        ("list", ImageSettings(), {"pillow", "pyarrow"}),
        ("audio", AudioSettings(), {"numpy", "pillow", "soundfile"}),
        (
            "audio",
            AudioSettings.from_arguments({"sample_rate": 8000}),
            {"numpy", "pillow", "scipy", "soundfile"},
        ),
        ("text", TextSettings(), {"numpy", "pillow", "pyarrow"}),
    ],
)
def test_run_key_depends_on_libraries_that_affect_the_bytes(
    tmp_path, monkeypatch, name, settings, expected
):
    base = write_files(tmp_path / "in", FILES[name])
    source = str(base / "list.csv") if name == "list" else str(base)
    usual, key = run_keys.installed_version, conversion_of(source, settings).key()
    changed = set()
    for package in PACKAGES:
        monkeypatch.setattr(
            run_keys,
            "installed_version",
            lambda given, package=package: "99" if given == package else usual(given),
        )
        if conversion_of(source, settings).key() != key:
            changed.add(package)
    assert changed == expected


def test_run_key_depends_on_zlib_only_for_compressed_shards(tmp_path, monkeypatch):
    base = str(write_files(tmp_path / "in", FILES["image"]))
    keys = {}
    for compression in ("none", "gzip"):
        for version in ("1", "2"):
            monkeypatch.setattr(run_keys.zlib, "ZLIB_RUNTIME_VERSION", version)
            settings = ImageSettings(compression=compression)
            keys[compression, version] = conversion_of(base, settings).key()
    assert keys["none", "1"] == keys["none", "2"]
    assert keys["gzip", "1"] != keys["gzip", "2"]


def test_run_key_does_not_depend_on_the_reject_limit(tmp_path):
    base = str(write_files(tmp_path / "in", FILES["image"]))
    keys = {conversion_of(base, ImageSettings(max_reject_fraction=x)).key() for x in (0, 0.5)}
    assert len(keys) == 1
