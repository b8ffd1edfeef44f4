"""A balancing that is killed goes on: the same bytes, at most one task a process made again."""

import hashlib
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.docs.markdown import REPOSITORY
from trainer_utils.writing.dataset_writer import DatasetWriter

PROCESSES = 2
SCRIPT = """
import sys
from absl import logging
from components import steps
from components.balancing.settings import BalancerSettings
from components.common import processes
from components.common.tasks import Runner

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
    uri = tmp_path_factory.mktemp("in") / "dataset"
    generator = random.Random(5)
    with DatasetWriter(str(uri), num_shards={"train": 3}) as writer:
        for number in range(600):
            writer.write("train", {"data": generator.randbytes(9000), "number": number})
    return uri


def begin(source: Path, uri: Path, compression: str) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-c", SCRIPT, str(source), str(uri), compression],
        cwd=REPOSITORY,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def finish(process: "subprocess.Popen[str]") -> tuple[str, str]:
    out, err = process.communicate(timeout=300)
    assert process.returncode == 0, err
    return out, err


def shards_at(uri: Path) -> dict[str, Path]:
    return {path.name: path for path in sorted(uri.glob("Split-*/*"))}


def digests_at(uri: Path) -> dict[str, str]:
    return {n: hashlib.sha256(p.read_bytes()).hexdigest() for n, p in shards_at(uri).items()}


@pytest.mark.parametrize("compression", ["none", "gzip"])  # picked, and through runs
def test_a_killed_balancing_goes_on(source, tmp_path, compression):
    whole, uri = tmp_path / "whole", tmp_path / "out"
    out, _ = finish(begin(source, whole, compression))
    assert len(shards_at(whole)) == 60
    process = begin(source, uri, compression)
    while len(shards_at(uri)) < 20 and process.poll() is None:
        time.sleep(0.002)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    before = {name: path.stat().st_ino for name, path in shards_at(uri).items()}
    assert 0 < len(before) < 60
    again, err = finish(begin(source, uri, compression))
    assert "continuing: " in err
    assert again == out
    assert digests_at(uri) == digests_at(whole)
    after = {name: path.stat().st_ino for name, path in shards_at(uri).items()}
    made_again = [name for name, inode in before.items() if after[name] != inode]
    most = 1 if compression == "none" else 10  # shards of a task of the external shuffle
    assert len(made_again) <= PROCESSES * most
