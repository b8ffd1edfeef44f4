"""Files opened and bytes read until a first batch, early and late, in fresh processes."""

import collections
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.make import write_rows

REPOSITORY = Path(__file__).parents[3]
NUM_SHARDS, RECORDS = 20, 4000
LATE = 100_000  # steps
COUNT = """
import json, os, sys
import trainer_utils, trainer_utils.reading.batches
opened, listed = [], []
def note(event, arguments):
    if event == "open" and sys.argv[1] in str(arguments[0]):
        opened.append(os.path.relpath(str(arguments[0]), sys.argv[1]))
    if event in ("os.listdir", "os.scandir"):
        listed.append(str(arguments[0]))
sys.addaudithook(note)
def counts():
    lines = open("/proc/self/io").read().splitlines()
    return {name: int(value) for name, value in (line.split(": ") for line in lines)}
before = counts()
settings = json.loads(sys.argv[2])
source = trainer_utils.iterate(sys.argv[1], "train", batch_size=16, prefetch=0, **settings)
next(iter(source))
after = counts()
listed = [path for path in listed if path.startswith(sys.argv[1])]
read = {name: after[name] - before[name] for name in ("rchar", "syscr")}
print(json.dumps({"opened": opened, "listed": listed, **read}))
sys.stdout.flush()
os._exit(0)
"""


@pytest.fixture(scope="module")
def dataset(tmp_path_factory):
    rows = ({"id": number, "text": f"{number:06d}" * 20} for number in range(RECORDS))
    folder = tmp_path_factory.mktemp("rows") / "out"
    return write_rows(folder, rows, num_shards={"train": NUM_SHARDS})


def count(uri, **settings):
    done = subprocess.run(
        [sys.executable, "-c", COUNT, str(uri), json.dumps(settings)],
        env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert not done.returncode, done.stderr[-2000:]
    return json.loads(done.stdout)


SHUFFLES = pytest.mark.parametrize("shuffle", [False, True, "global"])


@SHUFFLES
def test_first_batch_opens_a_shard_twice_at_most(dataset, shuffle):
    counted = count(dataset, shuffle=shuffle)
    opened = collections.Counter(counted["opened"])
    shards = {path: n for path, n in opened.items() if path.startswith("Split-train/")}
    others = {path: n for path, n in opened.items() if path not in shards}
    assert {*shards.values()} <= {1, 2}, shards  # to check its size, then to read
    assert {*others.values()} == {1}, others
    assert len(others) <= len(shards) + 3, others  # their indices, and the dataset's description
    assert len(counted["listed"]) <= 3, counted["listed"]


@SHUFFLES
def test_resuming_late_costs_what_starting_costs(dataset, shuffle):
    early, late = (count(dataset, shuffle=shuffle, repeat=True, state=step) for step in (0, LATE))
    assert len(late["opened"]) == len(early["opened"])
    assert late["listed"] == early["listed"]
    assert late["syscr"] <= early["syscr"] + NUM_SHARDS
    assert late["rchar"] <= 1.1 * early["rchar"]
