"""Datasets with more shards than a process may open files."""

from pathlib import Path

import pytest

from tests.make import run_python, write_rows

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
    if shuffle == "global" and any(Path(uri, "Split-train").glob("*.gz")):
        pytest.skip("a global shuffle is not for gzip")
    run = run_python(PROGRAM, uri, LIMIT, shuffle)
    assert (run.returncode, run.stderr) == (0, "")
    most, rows, different = map(int, run.stdout.split())
    assert (rows, different) == (2 * RECORDS, RECORDS)
    assert most < LIMIT / 2
