"""Datasets with more shards than a process may open files."""

import os
from pathlib import Path

import pytest

import trainer_utils
from tests.make import run_python, write_rows
from trainer_utils import CorruptShardError
from trainer_utils.reading import shard_files

SHARDS, RECORDS, LIMIT = 150, 600, 64

PROGRAM = """
import os, resource, sys
resource.setrlimit(resource.RLIMIT_NOFILE, (int(sys.argv[2]), int(sys.argv[2])))
import trainer_utils
shuffle = {"global": "global", "True": True, "False": False}[sys.argv[3]]
most, seen = 0, []
batches = trainer_utils.iterate(sys.argv[1], "train", batch_size=50, features="id", shuffle=shuffle)
for epoch in range(2):
    for batch in batches:
        most = max(most, len(os.listdir("/proc/self/fd")))
        seen += batch.tolist()
print(most, len(seen), len(set(seen)))
"""


@pytest.fixture(scope="module", params=["none", "gzip"])
def uri(request, tmp_path_factory) -> str:
    settings = {"num_shards": SHARDS, "compression": request.param}
    rows = ({"id": number} for number in range(RECORDS))
    return write_rows(tmp_path_factory.mktemp("shards") / "set", rows, **settings)


@pytest.mark.parametrize("shuffle", [False, True, "global"])
def test_every_record_is_read_with_few_open_files(uri, shuffle):
    run = run_python(PROGRAM, uri, LIMIT, shuffle)
    assert (run.returncode, run.stderr) == (0, "")
    most, rows, different = map(int, run.stdout.split())
    assert (rows, different) == (2 * RECORDS, RECORDS)
    assert most < LIMIT / 2


HELD = """
import os, resource, sys
import trainer_utils
hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
resource.setrlimit(resource.RLIMIT_NOFILE, (256, hard))
batches = trainer_utils.iterate(sys.argv[1], "train", batch_size=50, shuffle="global")
seen = [number for batch in batches for number in batch["id"].tolist()]
folder = "/proc/self/fd"
open_files = {int(name): os.path.realpath(f"{folder}/{name}") for name in os.listdir(folder)}
shards = [number for number, path in open_files.items() if "Split-train" in path]
print(len(seen), len(set(seen)), len(shards), min(shards))
"""


def test_global_shuffle_keeps_shards_open_above_select(tmp_path):
    rows = ({"id": number} for number in range(RECORDS))
    uri = write_rows(tmp_path / "set", rows, num_shards=SHARDS)
    run = run_python(HELD, uri)
    assert (run.returncode, run.stderr) == (0, "")
    rows_read, different, shards, smallest = map(int, run.stdout.split())
    assert (rows_read, different, shards) == (RECORDS, RECORDS, SHARDS)
    assert smallest >= 1024


@pytest.mark.parametrize("size", [-1, 100])
def test_shard_that_stays_open_is_checked(tmp_path, monkeypatch, size):
    monkeypatch.setattr(shard_files, "_CHECK_SECONDS", 0.0)
    rows = ({"id": number} for number in range(RECORDS))
    uri = write_rows(tmp_path / "set", rows, num_shards=SHARDS)
    source = trainer_utils.iterate(uri, "train", batch_size=RECORDS, shuffle="global")
    source.batch(0, 0)
    shard = min(Path(uri, "Split-train").iterdir())
    os.truncate(shard, shard.stat().st_size + size)
    with pytest.raises(CorruptShardError, match="has been modified") as caught:
        source.batch(1, 0)
    assert caught.value.path == str(shard)
