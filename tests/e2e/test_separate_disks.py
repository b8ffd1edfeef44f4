"""Workers on Dask and Prism that share only an object store with the submitting process."""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import distributed
import pytest

from components.runtime.beam import DASK_RUNNER
from tests.e2e import engines
from trainer_utils import storage
from trainer_utils.format.naming import INPUTS_FILE, LINEAGE_FILE, LISTING_FILE

pytestmark = pytest.mark.e2e

REPOSITORY = Path(__file__).parents[2]


def _hidden(tests: Path) -> str:
    """Return the folder for temporary files, or the tests' folder if our code is in the former."""
    above = Path(tempfile.gettempdir())
    needed = (Path(sys.prefix), Path(sys.executable).resolve(), REPOSITORY)
    is_free = not any(path.is_relative_to(above) for path in needed)
    return str(above if is_free and tests.is_relative_to(above) else tests)


def _can_hide() -> bool:
    asked = ["unshare", "--mount", "true"]
    return shutil.which("unshare") is not None and not subprocess.run(asked, check=False).returncode


@pytest.fixture
def hidden(s3_store, monkeypatch, tmp_path_factory) -> str:
    """Return a folder to hide from workers; set the environment for them to find the store."""
    if not _can_hide():
        pytest.skip("needs the right to mount")
    for name, value in s3_store.environment.items():
        monkeypatch.setenv(name, value)
    return _hidden(tmp_path_factory.getbasetemp())


@pytest.fixture
def dask(hidden, tmp_path) -> Iterator[Any]:
    """Yield Beam's arguments for a scheduler and two workers, and the processes of the workers."""
    address = f"tcp://127.0.0.1:{(port := engines.free_port())}"
    scheduler = [sys.executable, "-m", "distributed.cli.dask_scheduler"]
    own = [f"--port={port}", "--no-dashboard", "--host=127.0.0.1"]
    with engines.running([*scheduler, *own], port, tmp_path / "scheduler.log"):
        worker = [sys.executable, "-m", "distributed.cli.dask_worker", address, "--no-nanny"]
        worker += ["--nthreads=1", "--no-dashboard", f"--local-directory={hidden}/dask"]
        started = [
            subprocess.Popen(
                engines.hiding(hidden, worker),
                env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
                stderr=subprocess.DEVNULL,
                start_new_session=True,
                cwd="/",
            )
            for _ in range(2)
        ]
        try:
            with distributed.Client(address) as client:
                client.wait_for_workers(2, timeout=120)  # the default is to wait forever
            yield [f"--runner={DASK_RUNNER}", f"--dask_client_address={address}"], started
        finally:
            for process in started:
                process.kill()
                process.wait()


@pytest.fixture
def prism(hidden, tmp_path) -> Iterator[list[str]]:
    """Yield Beam's arguments for Prism with workers from a pool."""
    binary = os.environ.get("TFX_SHARDS_PRISM", "")
    if not binary:
        pytest.skip("TFX_SHARDS_PRISM is not set: make test-prism sets it")
    (folder := Path("/run") / f"tfx-shards-{os.getpid()}").mkdir()
    try:
        with (
            engines.worker_pool(folder, python_path=REPOSITORY, hidden=hidden) as pool,
            engines.prism(binary, tmp_path) as endpoint,
        ):
            yield engines.portable(endpoint, pool)
    finally:
        shutil.rmtree(folder)


def put(folder: Path, uri: str) -> str:
    for path in filter(Path.is_file, folder.rglob("*")):
        target = f"{uri}/{path.relative_to(folder)}"
        storage.make_folder(target.rpartition("/")[0])
        with storage.write_atomically(target, temporary_folder=uri) as stream:
            stream.write(path.read_bytes())
    return uri


def check(uri: str, expected: Path) -> None:
    found = {
        file.path: storage.read_bytes(f"{uri}/{file.path}") for file in storage.list_files(uri)
    }
    wanted = engines.contents(expected)
    assert found.keys() == wanted.keys()
    differ = {path for path in wanted if found[path] != wanted[path]}
    assert differ <= {LINEAGE_FILE, INPUTS_FILE, LISTING_FILE}  # addresses and times


@pytest.mark.parametrize(
    "engine",
    [
        pytest.param("dask", marks=pytest.mark.dask),
        pytest.param("prism", marks=pytest.mark.prism),
    ],
)
def test_workers_need_access_only_to_the_store(request, inputs, engine, s3_store):
    given = request.getfixturevalue(engine)
    arguments = given[0] if engine == "dask" else given
    base = f"{s3_store.base}/apart/{engine}"
    for kind, given, executor in (
        ("images", inputs.photos, engines.ImageExecutor),
        ("texts", inputs.tables, engines.TextExecutor),
        ("sounds", inputs.clips, engines.AudioExecutor),
    ):
        settings = {**engines.EXAMPLE_GEN, "input_base": put(given, f"{base}/in/{kind}")}
        engines.run(executor, {}, f"{base}/out/{kind}", arguments, **settings)
        check(f"{base}/out/{kind}", inputs.made(kind))
    given = {"examples": [engines.examples(f"{base}/out/texts")]}
    settings = {"num_shards": "5", "memory_bytes": engines.BALANCER_BYTES}
    engines.run(engines.BalancerExecutor, given, f"{base}/balanced", arguments, **settings)
    check(f"{base}/balanced", inputs.made("balanced"))


@pytest.mark.dask
def test_killed_worker_loses_only_its_tasks(inputs, dask, s3_store):
    arguments, (first, _) = dask
    base, uri = f"{s3_store.base}/killed", f"{s3_store.base}/killed/out"
    source = put(inputs.photos, f"{base}/in")
    ended = threading.Event()

    def kill_once_a_shard_is_there() -> None:
        while not ended.is_set():
            if any(
                "Split-" in file.path for file in storage.list_files(base) if "out/" in file.path
            ):
                first.send_signal(signal.SIGKILL)
                return
            time.sleep(0.02)

    killer = threading.Thread(target=kill_once_a_shard_is_there)
    killer.start()
    try:
        settings = {**engines.EXAMPLE_GEN, "input_base": source}
        engines.run(engines.ImageExecutor, {}, uri, arguments, **settings)
    finally:
        ended.set()
        killer.join()
    assert first.wait(10) == -signal.SIGKILL
    check(uri, inputs.made("images"))
