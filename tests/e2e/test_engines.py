"""Beam engines with separate worker processes write the same bytes and lose nothing.

The engines are Beam's job service with workers from a pool; Dask, which `make test-dask` runs
alone; and two that `make test-flink` and `make test-prism` download: Beam's job server in Java with
an embedded Flink cluster, and Prism, Beam's engine in Go.
"""

import dataclasses
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e import engines
from trainer_utils.core.errors import CorruptShardError

pytestmark = pytest.mark.e2e
FETCHED = {"flink": "TFX_SHARDS_FLINK_JAR", "prism": "TFX_SHARDS_PRISM"}


@pytest.fixture(scope="module")
def portable(pool, tmp_path_factory) -> Iterator[list[str]]:
    """Yield Beam's arguments for its job service and two workers that have only the wheel."""
    with engines.job_service(tmp_path_factory.mktemp("job")) as endpoint:
        yield [*engines.portable(endpoint, pool), "--direct_num_workers=2"]


@pytest.fixture(scope="module")
def dask() -> Iterator[list[str]]:
    with engines.dask() as arguments:
        yield arguments


@pytest.fixture
def flink(request, tmp_path) -> Iterator[list[str]]:
    for arguments in fetched("flink", request, tmp_path):
        yield [*arguments, "--parallelism=2"]


@pytest.fixture
def prism(request, tmp_path) -> Iterator[list[str]]:
    yield from fetched("prism", request, tmp_path)


def fetched(engine: str, request: Any, folder: Path) -> Iterator[list[str]]:
    if not (given := os.environ.get(FETCHED[engine], "")):
        pytest.skip(f"{FETCHED[engine]} is not set: make test-{engine} sets it")
    assert os.path.isfile(given)
    with getattr(engines, engine)(given, folder) as endpoint:
        yield engines.portable(endpoint, request.getfixturevalue("pool"))


@pytest.mark.parametrize(
    "engine",
    [
        pytest.param("portable", marks=pytest.mark.slow),
        *(pytest.param(n, marks=getattr(pytest.mark, n)) for n in ("dask", *FETCHED)),
    ],
)
def test_the_engine_gives_the_same_bytes(request, tmp_path, engine):
    arguments = request.getfixturevalue(engine)
    engines.check_engine(request.getfixturevalue("inputs"), arguments, tmp_path / "out")


@pytest.mark.slow
def test_workers_import_our_code_from_the_wheel(inputs, portable, wheel, tmp_path):
    if not (wheel / "imported.txt").exists():  # this test runs alone
        engines.convert("images", inputs, tmp_path / "out", portable)
    imported = dict(line.split(" ") for line in (wheel / "imported.txt").read_text().splitlines())
    assert "components.example_gen.file_shards" in imported
    assert {name: origin for name, origin in imported.items() if str(wheel) not in origin} == {}


@pytest.mark.slow
def test_workers_without_access_to_the_output_are_an_error(inputs, portable, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # a relative uri is another place for workers in another folder
    with pytest.raises(RuntimeError, match="expected storage that all workers share"):
        engines.convert("images", inputs, "out", portable)
    assert not (tmp_path / "out/manifest.json").exists()


@pytest.mark.dask
def test_damage_error_equals_in_process_and_leaves_no_files(inputs, dask, tmp_path):
    damaged = dataclasses.replace(inputs, out=tmp_path / "none")
    shutil.copytree(inputs.texts, damaged.texts)
    shard = sorted((damaged.texts / "Split-train").iterdir())[3]
    with shard.open("r+b") as stream:
        stream.seek(-40, 2)
        stream.write(b"!")
    with pytest.raises(CorruptShardError) as caught:
        engines.convert("balanced", damaged, tmp_path / "out", dask)
    assert caught.value.path == str(shard)
    assert list((tmp_path / "out").iterdir()) == []
