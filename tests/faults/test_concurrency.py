"""Several at one place at the same time: runs on one store, readers while a writer publishes."""

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from pipelines.tools.verification import verify_dataset
from tests.faults.conftest import Undisturbed
from tests.faults.counts import long
from tests.faults.engine import Engine
from tests.faults.interrupts import REPOSITORY
from tests.faults.outputs import check_whole, content_of
from tests.faults.tfrecords import read_records
from trainer_utils import DatasetError
from trainer_utils.dataset import open_dataset

LONG = 20  # runs that readers watch
SECONDS = 1200  # of four runs at once, on a machine that has other work


def payloads_of(uri: Path) -> list[bytes]:
    shards = sorted(uri.glob("Split-*/*"))
    return sorted(payload for path in shards for _, payload in read_records(path))


@pytest.mark.faults
def test_four_runs_at_once_on_one_root_and_one_store(tmp_path, raw, datasets):
    sources = [raw["images"], raw["texts"], raw["audio"], raw["images"]]
    lenient = ["--set", "max_reject_fraction=0.5"]
    runs = [
        subprocess.Popen(
            [sys.executable, "-m", "pipelines.cli", "convert", source, "out", *lenient],
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for source in sources
    ]
    try:
        said = [run.communicate(timeout=SECONDS) for run in runs]
    finally:
        for run in runs:
            run.kill()
            run.wait()
    assert [run.returncode for run in runs] == [0] * 4, said
    uris = [tmp_path / out.strip() for out, _ in said]
    for uri, kind in zip(uris, ("images", "texts", "audio", "images"), strict=True):
        assert not verify_dataset(str(uri)).problems
        assert payloads_of(uri) == payloads_of(datasets[kind])
    assert (tmp_path / "out" / "latest").resolve() in {uri.resolve() for uri in uris}


@pytest.mark.faults
def test_readers_see_a_whole_dataset_or_none_while_a_writer_publishes(
    undisturbed: dict[str, Undisturbed], engine: Engine, tmp_path: Path
) -> None:
    plain, seen = undisturbed["images"], {True: 0, False: 0}
    for number in range(long(LONG)):
        uri = tmp_path / str(number) / "out"
        uri.parent.mkdir()
        for _ in range(2):  # the second one finds a dataset in its place
            writer = threading.Thread(target=plain.run, args=(engine, uri))
            writer.start()
            while writer.is_alive():
                seen[look(uri, plain.content)] += 1
            writer.join()
        check_whole(uri, plain.content, plain.folders)
    assert seen[False]


def look(uri: Path, good: dict[str, bytes]) -> bool:
    """Whether there is a dataset; what there is of one is whole."""
    try:
        open_dataset(str(uri))
    except DatasetError:
        return False
    found = content_of(uri)
    if "manifest.json" in found:  # else a second run has begun
        assert {name: found.get(name) for name in good} == good
    return True
