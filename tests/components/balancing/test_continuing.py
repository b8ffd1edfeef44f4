"""Test that a killed balancing resumes with the same bytes and rewrites one task per process."""

import random
from pathlib import Path

import pytest

from tests.components.killed_runs import begin, digests_at, finish, inodes_at, kill_at, shards_at
from tests.make import write_rows

PROCESSES = 2
SCRIPT = """
import sys
from absl import logging
from components import steps
from components.balancing.settings import BalancerSettings
from components.runtime import processes
from components.runtime.runners import Runner

source, uri, compression = sys.argv[1:]
processes._WORTH_SECONDS = 0.0
logging.set_verbosity(logging.INFO)
settings = BalancerSettings(
    num_shards=60, memory_bytes=1 << 20, where="number != 3", compression=compression
)
if compression == "none":  # picked where they lie: with edits they are not
    settings = BalancerSettings(num_shards=60, memory_bytes=1 << 20)
with Runner(processes=2, module="components.balancing.parts") as runner:
    made = steps.balance([source], uri, settings, runner=runner)
print(made.manifest.digest, made.manifest.total.written)
"""


@pytest.fixture(scope="module")
def source(tmp_path_factory) -> Path:
    data = random.Random(5)
    rows = ({"data": data.randbytes(9000), "number": number} for number in range(600))
    return Path(write_rows(tmp_path_factory.mktemp("in") / "dataset", rows, num_shards=3))


@pytest.mark.parametrize("compression", ["none", "gzip"])  # by picking, and through runs
def test_killed_balancing_resumes(source, tmp_path, compression):
    whole, uri = tmp_path / "whole", tmp_path / "out"
    out, _ = finish(begin(SCRIPT, source, whole, compression))
    assert len(shards_at(whole)) == 60
    before = kill_at(begin(SCRIPT, source, uri, compression), uri, shards=20)
    assert 0 < len(before) < 60
    again, err = finish(begin(SCRIPT, source, uri, compression))
    assert "resuming: " in err
    assert again == out
    assert digests_at(uri) == digests_at(whole)
    after = inodes_at(uri)
    made_again = [name for name, inode in before.items() if after[name] != inode]
    most = 1 if compression == "none" else 10  # shards per task of the external shuffle
    assert len(made_again) <= PROCESSES * most
