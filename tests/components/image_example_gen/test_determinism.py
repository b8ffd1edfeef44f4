"""ImageExampleGen gives the same bytes whatever the runner, the file system or a broken run."""

import json
import os
import random
import sys
from pathlib import Path
from typing import Any

import pytest

from components.common import processes
from components.image_example_gen import Executor
from tests.components.runs import run
from tests.make import photo
from tests.make import write_files as write_tree
from trainer_utils.format.checksums import seal

REPOSITORY = Path(__file__).parents[3]


def convert(
    base: Path, uri: Path, *, beam_pipeline_args: list[Any] | None = None, **settings: Any
) -> None:
    """Runs the executor; with Beam's arguments as TFX hands them to it."""
    settings = {"max_reject_fraction": 0.5, "target_shard_bytes": 10_000, **settings}
    run(Executor, base, uri, beam_args=beam_pipeline_args, **settings)


def contents(folder: Path) -> dict[str, bytes | None]:
    """Every file's bytes, and every folder, below a folder."""
    return {
        str(path.relative_to(folder)): path.read_bytes() if path.is_file() else None
        for path in folder.rglob("*")
    }


def tree_of(count: int) -> dict[str, bytes]:
    """Photos in seven classes, four bad files and a hidden one."""
    return {
        **{f"class-{number % 7}/{number:03d}.jpg": photo(number) for number in range(count)},
        "class-1/empty.jpg": b"",
        "class-2/text.jpg": b"no photo",
        "class-3/cut.jpg": photo(1)[:-2],
        "stray.jpg": photo(2),
        "class-4/.hidden": b"x",
    }


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    return write_tree(tmp_path_factory.mktemp("photos"), tree_of(120))


@pytest.fixture(scope="module")
def reference(folder, tmp_path_factory) -> dict[str, bytes | None]:
    """What one plain run makes: some shards a split, rejects, a vocabulary."""
    uri = tmp_path_factory.mktemp("reference")
    convert(folder, uri)
    made = contents(uri)
    assert sum(name.startswith("Split-") and data is not None for name, data in made.items()) > 5
    assert {"manifest.json", "rejects.jsonl", "vocab/label.txt"} < made.keys()
    return made


def test_a_second_run_into_the_same_uri_makes_the_same_bytes(folder, reference, tmp_path):
    convert(folder, tmp_path / "out")
    convert(folder, tmp_path / "out")
    assert contents(tmp_path / "out") == reference


@pytest.mark.parametrize(
    "arguments",
    [
        ["--runner=DirectRunner"],
        ["--direct_num_workers=0", "--direct_running_mode=multi_threading"],
    ],
    ids=["in memory", "a thread a core"],
)
def test_the_runner_and_its_workers_do_not_change_a_byte(
    folder, reference, tmp_path, monkeypatch, arguments
):
    monkeypatch.setattr(sys, "argv", sys.argv[:1])  # TFX parses it together with Beam's arguments
    monkeypatch.setenv("PYTHONPATH", str(REPOSITORY))  # for workers that are processes
    convert(folder, tmp_path / "out", beam_pipeline_args=arguments)
    assert contents(tmp_path / "out") == reference


def test_processes_of_the_in_process_runner_do_not_change_a_byte(
    folder, reference, tmp_path, monkeypatch
):
    monkeypatch.setattr(sys, "argv", sys.argv[:1])
    monkeypatch.setattr(processes, "_WORTH_SECONDS", 0.0)
    used = []
    map_them = processes.Pool.map

    def record(self, call, arguments, number):
        used.append(number)
        return map_them(self, call, arguments, number)

    monkeypatch.setattr(processes.Pool, "map", record)
    convert(folder, tmp_path / "out", beam_pipeline_args=["--direct_num_workers=3"])
    assert used == [3]
    assert contents(tmp_path / "out") == reference


def test_place_time_and_order_of_writing_of_the_photos_do_not_matter(folder, reference, tmp_path):
    files = list(tree_of(120).items())
    random.Random(0).shuffle(files)
    base = write_tree(tmp_path / "else where" / "ü", dict(files))
    for number, (name, _) in enumerate(files):
        os.utime(base / name, (number, number))
    convert(base, tmp_path / "out")
    made = contents(tmp_path / "out")
    said = made["lineage.json"].decode().replace(str(base), str(folder))
    made |= {"lineage.json": seal(said).encode()}
    assert _without_times(made) == _without_times(reference)


def _without_times(files: dict[str, bytes | None]) -> dict[str, Any]:
    """A dataset but for what tells an update which files were not touched since."""
    inputs = json.loads(files["inputs.json"] or b"")
    shards = [{**shard, "listing": None} for shard in inputs["shards"]]
    return {**files, "inputs.json": shards}
