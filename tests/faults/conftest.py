"""Fixtures of the tests of faults: seeds, raw files, an engine, and datasets that it wrote."""

import io
import os
import random
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

from tests.faults.engine import Engine, Run
from tests.faults.outputs import folders_of
from tests.make import everything

STEPS = ("images", "texts", "audio", "balance")
OTHERS = ("update", "exclude", "audit", "report", "write")
TYPES = ("images", "texts", "audio")
KINDS = ("images", "texts", "audio", "balanced", "gzipped")
SETTINGS: dict[str, object] = {
    "splits": {"train": 2, "eval": 1},
    "target_shard_bytes": 4096,
    "max_reject_fraction": 0.5,
}


class Undisturbed(NamedTuple):
    """The output of an undisturbed run."""

    step: str
    source: Path
    settings: dict[str, Any]
    content: dict[str, bytes]
    folders: set[str]
    calls: int
    seconds: dict[int, float]  # by number of processes

    def run(self, engine: Engine, uri: Path, **how: Any) -> Run:
        return engine.run(self.step, self.source, uri, **how, **self.settings)


@pytest.fixture(scope="session")
def seed(pytestconfig: pytest.Config) -> int:
    """Return the random seed, new for each long run; `TFX_SHARDS_SEED` repeats a run."""
    is_long = "faults" in pytestconfig.getoption("-m")
    given = os.environ.get("TFX_SHARDS_SEED")
    return int(given) if given else random.SystemRandom().randrange(2**32) if is_long else 20


@pytest.fixture(autouse=True)
def chance(seed: int, request: pytest.FixtureRequest) -> random.Random:
    """Return the random numbers of a test; the seed is printed, and shown if the test fails."""
    print(f"TFX_SHARDS_SEED={seed}")
    return random.Random(f"{seed} {request.node.name}")


@pytest.fixture(scope="session")
def raw(tmp_path_factory, photos) -> dict[str, Path]:
    """Write photos and audio clips in two classes, and a table; one input of each is damaged."""
    import soundfile
    from PIL import Image

    base = tmp_path_factory.mktemp("raw")
    folders = {name: base / name for name in ("images", "texts", "audio")}
    for folder in folders.values():
        for label in ("a", "b"):
            (folder / label).mkdir(parents=True)
    for number, photo in enumerate(photos):
        Image.fromarray(photo).save(folders["images"] / "ab"[number % 2] / f"{number:02}.jpg")
        wave = photo.reshape(-1)[:400].astype(np.float32) / 256 - 0.5
        soundfile.write(folders["audio"] / "ab"[number % 2] / f"{number:02}.wav", wave, 8000)
        text = f"{number} {np.array2string(photo[0, :20])}\n"
        (folders["texts"] / "ab"[number % 2] / f"{number:02}.txt").write_text(text)
    whole = io.BytesIO()
    Image.fromarray(photos[0]).save(whole, "JPEG")
    (folders["images"] / "a" / "cut.jpg").write_bytes(whole.getvalue()[:200])
    (folders["audio"] / "a" / "cut.wav").write_bytes(b"RIFF\x10\0\0\0WAVE")
    (folders["texts"] / "a" / "bad.txt").write_bytes(b"\xff\xfe\xfd")
    shutil.copytree(folders["images"], base / "more")  # a later state with some more photos
    (base / "more/a/00.jpg").unlink()
    (base / "more/b/new.jpg").write_bytes(whole.getvalue())
    return {**folders, "more": base / "more"}


@pytest.fixture(scope="session")
def engine(tmp_path_factory) -> Iterator[Engine]:
    with Engine(tmp_path_factory.mktemp("engine")) as engine:
        yield engine


@pytest.fixture(scope="session")
def datasets(tmp_path_factory, engine, raw) -> dict[str, Path]:
    """Return a published dataset of each kind; tests must not modify them."""
    base = tmp_path_factory.mktemp("datasets")
    made = {kind: base / kind for kind in KINDS}
    runs = [engine.run(kind, raw[kind], made[kind], **SETTINGS) for kind in TYPES]
    runs.append(engine.run("balance", made["images"], made["balanced"], num_shards=3))
    runs.append(engine.run("texts", raw["texts"], made["gzipped"], compression="gzip", **SETTINGS))
    assert [run.error for run in runs] == [""] * 5
    return made


@pytest.fixture(scope="session")
def undisturbed(tmp_path_factory, engine, datasets, raw) -> dict[str, Undisturbed]:
    known: dict[str, tuple[str, Path, dict[str, object]]] = {
        **{kind: (kind, raw[kind], SETTINGS) for kind in TYPES},
        "balance": ("balance", datasets["images"], {"num_shards": 3}),
        "update": ("images", raw["more"], {**SETTINGS, "base_dataset": str(datasets["images"])}),
        "exclude": ("balance", datasets["images"], {"exclude": ["a/00.jpg"], "num_shards": 2}),
        "audit": ("audit", datasets["images"], {}),
        "report": ("report", datasets["images"], {}),
        "write": ("write", datasets["images"], {"num_shards": {"train": 2}}),
    }
    found = {}
    for name, (step, source, settings) in known.items():
        # Separate folders: replacing an existing dataset takes more calls.
        uris = {processes: tmp_path_factory.mktemp("undisturbed") / name for processes in (2, 1)}
        runs = {
            processes: engine.run(
                step,
                source,
                uri,
                processes=processes,
                refuse=(str(uri), 0, "EIO") if processes == 1 else None,
                **settings,
            )
            for processes, uri in uris.items()
        }
        assert [run.error for run in runs.values()] == ["", ""]
        seconds = {processes: run.seconds for processes, run in runs.items()}
        content, folders = everything(uris[1]), folders_of(uris[1])
        assert everything(uris[2]) == content
        found[name] = Undisturbed(step, source, settings, content, folders, runs[1].calls, seconds)
    return found
