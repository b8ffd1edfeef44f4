"""The tables of peers come from `benchmarks/peers.json`, and the programs of both sides run."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

REPOSITORY = Path(__file__).parents[2]
BENCHMARKS = REPOSITORY / "benchmarks"


@pytest.fixture(scope="module")
def tables():
    sys.path.insert(0, str(BENCHMARKS))
    import peer_tables

    yield peer_tables
    sys.path.remove(str(BENCHMARKS))


@pytest.fixture(scope="module")
def photos(tmp_path_factory):
    folder = tmp_path_factory.mktemp("photos")
    state = np.random.default_rng(0)
    for number in range(80):
        path = folder / f"class-{number % 4}" / f"{number}.jpg"
        path.parent.mkdir(exist_ok=True)
        Image.fromarray(state.integers(0, 255, (40, 50, 3), np.uint8)).save(path)
    return folder


def run(*command):
    done = subprocess.run(
        [sys.executable, *map(str, command)],
        cwd=REPOSITORY,
        env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert not done.returncode, done.stderr[-2000:]
    return done.stdout


def run_task(*task):
    return json.loads(run(BENCHMARKS / "peer_task.py", *task))["runs"]


def test_docs_have_the_tables_of_the_results(tables):
    results = tables.load(tables.RESULTS)
    assert [path.name for path in tables.outdated(results)] == []


def test_a_figure_is_shown_with_its_ratio_to_ours(tables):
    programs = {
        "tfx_shards": {
            "cold": {"imports": 1.0, "seconds": 4.0},
            "warm": {"seconds": 1.0, "cpu": 1.5},
        },
        "fast": {
            "cold": {"imports": 0.5, "seconds": 2.0},
            "warm": {"seconds": 0.5, "cpu": 1.0},
        },
        "absent": {"error": "ImportError: no | wheel"},
    }
    described = {"setup": "as it is", "versions": {"fast": "1.2"}}
    results = {
        "machine": {"cores": 2},
        "programs": {name: {"title": name, **described} for name in programs},
        "rows": [],
    }
    row = {"task": "convert_photos", "records": 1000, "repeat": 3, "programs": programs}
    tables.replace_row(results, row | {"repeat": 1})
    tables.replace_row(results, row)
    text = tables.full_tables(results)
    assert text.count("Convert 1,000 photos") == 1
    assert "| fast | 2.50 (2.00) | 2.00 (2.00) | 0.50 (2.00) | 1.00 (1.50) |" in text
    assert "| absent | did not run: `ImportError: no \\| wheel` | | | |" in text
    assert "fast (fast 1.2): as it is" in text.replace("**", "")
    line = "| convert 1,000 photos | 1.00 s | fast 0.50 s (2.00) |"
    assert line in tables.summary(results, largest_only=True)


def test_every_program_has_a_task_and_a_source(tables):
    import peers

    programs = peers.load_programs()
    assert next(iter(programs)) == "tfx_shards"
    for program in programs.values():
        assert program.tasks, program.name
        assert program.reads == peers.RAW or "convert_photos" in programs[program.reads].tasks
        assert {"TITLE", "SETUP", "DISTRIBUTIONS"} == {*program.constants}, program.name


def test_conversion_and_reading_are_timed_cold_and_warm(photos, tmp_path):
    target = tmp_path / "out"
    runs = run_task("tfx_shards", "convert_photos", photos, target)
    assert [{*run} for run in runs] == [{"imports", "seconds", "cpu"}, {"seconds", "cpu"}]
    epochs = run_task("tfx_shards", "photo_reader", target)
    assert [(epoch["records"], epoch["steps"]) for epoch in epochs] == [(80, 2)] * 2
    assert 0 < epochs[0]["first"] < epochs[0]["seconds"]
    assert epochs[1]["resume"] > 0


def test_a_program_that_fails_is_reported(tmp_path, tables):
    import peers

    error = peers.run_task("no_such_program", "photo_reader", tmp_path)["error"]
    assert error.startswith("ModuleNotFoundError")
