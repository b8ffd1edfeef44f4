"""Fixtures of the tests of Beam engines: inputs, their in-process results, and workers."""

import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.make import jpeg, wav, write_files

REPOSITORY = Path(__file__).parents[2]
IN_THE_SOURCES = (
    "components",
    "pipelines",
    "trainer_utils",
    "pyproject.toml",
    "README.md",
    "LICENSE",
)

# Records which of our modules a worker imports, and from where.
GUARD = """
import importlib.machinery, os, sys

class Guard:
    @staticmethod
    def find_spec(name, path=None, target=None):
        if name.partition(".")[0] in ("components", "pipelines", "trainer_utils", "tests"):
            spec = importlib.machinery.PathFinder.find_spec(name, path)
            with open(os.path.join(os.path.dirname(__file__), "imported.txt"), "a") as seen:
                seen.write(f"{name} {spec and spec.origin}\\n")

sys.meta_path.insert(0, Guard)
"""


@pytest.fixture(scope="session")
def inputs(tmp_path_factory) -> Any:
    from tests.e2e import engines  # imports TFX

    folder = tmp_path_factory.mktemp("inputs")
    files = {
        f"class-{n % 3}/{n:03d}.jpg": jpeg(n, size=(48, 40), quality=50 + n % 50)
        for n in range(engines.PHOTOS)
    }
    write_files(folder / "photos", files | {"class-0/bad.jpg": b"no photo"})
    rows = [f"text {n} {'word ' * 27},{n % 5}\n" for n in range(engines.ROWS)]
    (folder / "tables").mkdir()
    for number in range(engines.TABLES):  # enough tables for several workers
        part = "".join(rows[number :: engines.TABLES])
        (folder / f"tables/{number}.csv").write_text(f"text,label\n{part}")
    clips = {f"{n:02d}.wav": wav(n, frames=4000 + n) for n in range(engines.CLIPS)}
    write_files(folder / "clips", clips)
    places = (folder / name for name in ("photos", "tables", "clips", "out"))
    made = engines.Inputs(*places)
    for kind in engines.KINDS:
        engines.convert(kind, made, made.made(kind), engines.IN_PROCESS)
        assert engines.records_in(made.made(kind)) == engines.RECORDS[kind]
    assert engines.passes(made) == {"train": 2, "eval": 1}
    return made


@pytest.fixture(scope="session")
def wheel(tmp_path_factory) -> Path:
    """Build the wheel from a copy of the sources and return a folder with its content."""
    folder = tmp_path_factory.mktemp("wheel")
    shutil.copytree(
        REPOSITORY,
        folder / "sources",
        ignore=lambda path, names: [
            name
            for name in names
            if name == "__pycache__" or (Path(path) == REPOSITORY and name not in IN_THE_SOURCES)
        ],
    )
    subprocess.run(
        [
            *(sys.executable, "-m", "pip", "install", "--quiet", "--no-deps"),
            *("--no-build-isolation", "--target", folder / "installed", folder / "sources"),
        ],
        check=True,
        timeout=300,
    )
    (folder / "installed/sitecustomize.py").write_text(GUARD)
    return folder / "installed"


@pytest.fixture(scope="session")
def pool(wheel, tmp_path_factory) -> Iterator[str]:
    """Yield the address of workers that have the wheel and start in an empty folder."""
    from tests.e2e import engines

    with engines.worker_pool(tmp_path_factory.mktemp("pool"), python_path=wheel) as address:
        yield address
