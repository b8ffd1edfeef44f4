"""Concurrent runs with one root and one store, and readers of a dataset being rewritten."""

import contextlib
import json
import random
import shutil
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from components.report.inspection import inspect_dataset
from pipelines.tools.verification import verify_dataset
from tests.faults.conftest import SETTINGS
from tests.faults.counts import some_or_many
from tests.faults.engine import Engine, Run
from tests.faults.outputs import check_not_half, check_whole, folders_of
from tests.faults.tfrecords import read_records
from tests.make import everything
from trainer_utils import DatasetError, iterate

LONG = 5  # repetitions in the long part
REWRITES = 4
COMPLETE, CACHED, LIVE = 3, 5, 2  # from `ml_metadata/proto/metadata_store.proto`
RAW = {"max_reject_fraction": 0.5}
PROGRAM = """
import json, sys
import pipelines.tools.conversion.tracking
from pipelines.tools.conversion.convert import convert
print("ready", flush=True)
print(convert(**json.loads(sys.stdin.readline())))
"""
SECONDS = 300  # time limit of the runs, even on a busy machine


def payloads_of(uri: Path) -> list[bytes]:
    """Return all records sorted, read by the test's own reader."""
    shards = sorted(uri.glob("Split-*/*"))
    return sorted(payload for shard in shards for _, payload in read_records(shard))


def check_each_input_is_in_once(uri: Path, source: Path, pattern: str) -> None:
    found = payloads_of(uri)
    files = sorted(source.rglob(pattern))
    names = [str(path.relative_to(source)).encode() for path in files if len(path.stem) == 2]
    assert len(found) == len(names)
    for name in names:
        assert sum(name in payload for payload in found) == 1, name


def check_store(metadata: Path, uris: set[str]) -> None:
    """Check that all executions ended, and that the store has each returned dataset once."""
    with sqlite3.connect(metadata) as store:
        states = store.execute("SELECT last_known_state FROM Execution").fetchall()
        artifacts = store.execute("SELECT uri, state FROM Artifact").fetchall()
    assert {state for (state,) in states} <= {COMPLETE, CACHED}
    assert {state for _, state in artifacts} == {LIVE}
    found = [uri for uri, _ in artifacts]
    assert len(set(found)) == len(found)
    assert uris <= set(found)


def convert_together(conversions: list[dict[str, Any]]) -> list[str]:
    """Run conversions at the same time in separate processes, and return their uris."""
    command = [sys.executable, "-c", PROGRAM]
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with contextlib.ExitStack() as stack:
        started = [stack.enter_context(subprocess.Popen(command, **pipes)) for _ in conversions]
        for process in started:
            stack.callback(process.kill)
            assert process.stdout.readline() == "ready\n"
        for process, arguments in zip(started, conversions, strict=True):
            print(json.dumps(arguments | RAW), file=process.stdin, flush=True)
        return [process.communicate(timeout=SECONDS)[0].splitlines()[-1] for process in started]


@pytest.mark.slow
@some_or_many(1, LONG)
def test_four_concurrent_runs_with_one_root_and_store(raw, tmp_path, count):
    for number in range(count):
        (folder := tmp_path / str(number)).mkdir()
        run_four(raw, folder)


def run_four(raw: dict[str, Path], folder: Path) -> None:
    """Run four conversions with one store: two equal and a different one into the same folder."""
    out, other = folder / "out", folder / "other"
    metadata = out / "metadata.sqlite"
    texts = {"source": str(raw["texts"]), "out": str(out)}
    images = {"source": str(raw["images"]), "out": str(other), "metadata": str(metadata)}
    made = convert_together([texts, texts, {**texts, "num_shards": 3}, images])
    uris = [*map(Path, made)]
    assert [verify_dataset(str(uri)).problems for uri in uris] == [[]] * 4
    for uri in uris[:3]:
        check_each_input_is_in_once(uri, raw["texts"], "*.txt")
    check_each_input_is_in_once(uris[3], raw["images"], "*.jpg")
    assert payloads_of(uris[0]) == payloads_of(uris[1]) == payloads_of(uris[2])
    check_store(metadata, {*made})
    assert (out / "latest").resolve() in uris[:3]
    assert {path.name for path in out.iterdir()} == {"artifacts", "latest", "metadata.sqlite"}
    assert {path.name for path in other.iterdir()} == {"artifacts", "latest"}


def inspected(uri: str) -> int:
    return sum(split.records for split in inspect_dataset(uri).splits.values())


def verified(uri: str) -> int:
    found = verify_dataset(uri)
    if not found.is_good:
        raise DatasetError(found.problems[0].message)
    return sum(found.records.values())


def iterated(uri: str) -> list[bytes]:
    batches = iterate(uri, "train", batch_size=4, features=["text"], shuffle=False)
    return sorted(bytes(text) for batch in batches for text in batch["text"])


READERS: dict[str, Callable[[str], Any]] = {
    "inspect": inspected,
    "verify": verified,
    "iterate": iterated,
}


def read_while_written(engine: Engine, sources: list[Path], uri: Path) -> None:
    """Replace a dataset while it is read; each reader must see one of the two or get an error."""
    whole: dict[str, list[Any]] = {name: [] for name in READERS}
    for source in sources:
        assert engine.run("texts", source, uri, **SETTINGS).is_good
        for name, read in READERS.items():
            whole[name].append(read(str(uri)))
    assert all(first != second for first, second in whole.values())

    def write() -> list[str]:
        numbers = range(REWRITES)
        return [engine.run("texts", sources[n % 2], uri, **SETTINGS).error for n in numbers]

    refusals = list[str]()
    with ThreadPoolExecutor(1) as pool:
        errors = pool.submit(write)
        while not errors.done():
            for name, read in READERS.items():
                try:
                    assert read(str(uri)) in whole[name], name
                except DatasetError as error:
                    refusals.append(str(error))
    assert errors.result() == [""] * REWRITES
    assert all(str(uri) in refusal for refusal in refusals), refusals
    for name, read in READERS.items():
        assert read(str(uri)) == whole[name][(REWRITES - 1) % 2]


@pytest.fixture
def two_sources(raw, tmp_path) -> list[Path]:
    fewer = tmp_path / "fewer"
    shutil.copytree(raw["texts"], fewer)
    for name in ("a/00.txt", "a/02.txt", "b/01.txt"):
        (fewer / name).write_text(f"another {name}")
    (fewer / "b/03.txt").unlink()
    return [raw["texts"], fewer]


@pytest.mark.slow
@some_or_many(1, LONG)
def test_readers_of_a_rewritten_dataset_see_all_or_an_error(engine, two_sources, tmp_path, count):
    for number in range(count):
        read_while_written(engine, two_sources, tmp_path / f"out-{number}")


@pytest.fixture(scope="module")
def engines(engine, tmp_path_factory) -> Iterator[list[Engine]]:
    """Return two engines, because each has one run at a time."""
    with Engine(tmp_path_factory.mktemp("other engine")) as other:
        yield [engine, other]


def write_at_once(
    engines: list[Engine], sources: list[Path], folder: Path, chance: random.Random
) -> None:
    """Start two runs into one folder; one may be killed."""
    plain = [folder / f"plain-{number}" for number in range(2)]
    for engine, source, uri in zip(engines, sources, plain, strict=True):
        assert engine.run("texts", source, uri, **SETTINGS).is_good
    uri = folder / "at once" / "out"
    uri.parent.mkdir()
    delays = [0.0, chance.uniform(0, 0.3)]
    kill_after = chance.choice([None, chance.uniform(0, 1)])

    def write(number: int) -> Run:
        time.sleep(delays[number])
        how = {"kill_after": kill_after if number == 0 else None}
        return engines[number].run("texts", sources[number], uri, **how, **SETTINGS)

    with ThreadPoolExecutor(2) as pool:
        done = list(pool.map(write, range(2)))
    for run in (run for run in done if run.error):
        assert "DatasetError" in run.kinds
        assert f"'{uri}': expected no other run that writes there" in run.error
    good = [number for number, run in enumerate(done) if run.is_good]
    if good:
        assert everything(uri) in [everything(plain[number]) for number in good]
    elif uri.exists():  # one run was killed after the other had been refused
        check_not_half(uri, everything(plain[0]))
    assert good or (kill_after is not None and done[0].status == -9)
    assert engines[1].run("texts", sources[1], uri, **SETTINGS).is_good
    check_whole(uri, everything(plain[1]), folders_of(plain[1]))


@pytest.mark.slow
@some_or_many(1, 8 * LONG)
def test_two_runs_into_one_folder_leave_one_dataset(engines, two_sources, tmp_path, chance, count):
    for number in range(count):
        (folder := tmp_path / f"round-{number}").mkdir()
        write_at_once(engines, two_sources, folder, chance)
