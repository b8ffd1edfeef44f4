"""Print a digest of every file of some datasets as JSON; `make golden` updates digests.json.

    digests = digests_of(make_datasets(folder))     # {"images/Split-train/…": "5f1e…", …}

The inputs are the same bytes on any machine: scikit-learn's photos, each with a comment that makes
it unique, uncompressed PNG and WAV files, and tables.
"""

import hashlib
import importlib.resources
import json
import struct
import sys
import tempfile
import wave
import zlib
from pathlib import Path
from typing import Any

from components import steps
from components.balancing.settings import BalancerSettings
from components.example_gen.settings import AudioSettings, ImageSettings, TextSettings

__all__ = ["digests_of", "make_datasets"]

# Of the manifest: what names releases, and sums of what names them.
_OF_RELEASES = ("versions", "checksum", "parents")
_SETTINGS: dict[str, Any] = {"max_reject_fraction": 0.5, "target_shard_bytes": 500_000}


def make_datasets(folder: Path) -> Path:
    """Convert images, text and audio below `folder`/out, balance the first two, export schemas."""
    given, made = folder / "in", folder / "out"
    _write_inputs(given)
    kinds = (("images", ImageSettings), ("texts", TextSettings), ("audio", AudioSettings))
    for kind, settings in kinds:
        steps.convert(str(given / kind), str(made / kind), settings(**_SETTINGS))
    for kind in ("images", "texts"):
        balanced = str(made / f"balanced-{kind}")
        steps.balance([str(made / kind)], balanced, BalancerSettings(num_shards=3))
        steps.export_schema(balanced, str(made / f"schema-{kind}"), tfds=True)
    return made


BESIDE = ("lineage.json", "inputs.json", "listing.json")


def digests_of(folder: Path) -> dict[str, str]:
    """Return the SHA-256 of every file by its path; manifests are hashed without versions.

    Files that the manifest does not name are left out: `lineage.json`, which has the paths of
    inputs, and `inputs.json` and `listing.json`, which have versions of files.
    """
    files = (path for path in folder.rglob("*") if path.name not in BESIDE)
    paths = sorted(path for path in files if path.is_file())
    return {path.relative_to(folder).as_posix(): _digest(path) for path in paths}


def _digest(path: Path) -> str:
    data = path.read_bytes()
    if path.name == "manifest.json":
        manifest = {k: v for k, v in json.loads(data).items() if k not in _OF_RELEASES}
        data = json.dumps(manifest, sort_keys=True).encode()
    return hashlib.sha256(data).hexdigest()


def _write_inputs(folder: Path) -> None:
    photos = importlib.resources.files("sklearn.datasets.images")
    for number in range(12):
        name = ("china", "flower")[number % 2]
        data = (photos / f"{name}.jpg").read_bytes()
        comment = b"\xff\xfe" + struct.pack(">H", 6) + struct.pack(">I", number)
        _write(folder / f"images/{name}/{number}.jpg", data[:2] + comment + data[2:])
        _write(folder / f"images/square/{number}.png", _png(number))
    _write(folder / "images/square/nothing.png", b"")
    rows = [f'{n},"Straße, {n * n} été 写真",{n / 8},{"ab"[n % 2]}' for n in range(500)]
    _write(folder / "texts/table.csv", "\n".join(["id,text,weight,label", *rows]).encode())
    for number in range(8):
        path = folder / f"audio/tone-{number % 2}/{number}.wav"
        path.parent.mkdir(parents=True, exist_ok=True)
        with wave.open(str(path), "wb") as sound:
            sound.setnchannels(1)
            sound.setsampwidth(2)
            sound.setframerate(8000)
            steps = [(n * (number + 3) * 97) % 20_000 - 10_000 for n in range(800)]
            sound.writeframes(struct.pack("<800h", *steps))


def _png(number: int) -> bytes:
    """Grey, 24 by 16, not compressed, so that no version of zlib matters."""
    width, height = 24, 16
    line = bytes([0, *((number * 20 + x) % 256 for x in range(width))])
    chunks = (
        (b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)),
        (b"IDAT", zlib.compress(line * height, 0)),
        (b"IEND", b""),
    )
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        for kind, data in chunks
    )


def _write(path: Path, data: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as temporary:
        made = make_datasets(Path(temporary))
        json.dump(digests_of(made), sys.stdout, indent=2)
        print()
