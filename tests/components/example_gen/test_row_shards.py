"""Rows keep the names that their records have, through buckets and shards."""

import json

import pytest

from tests.components.text_runs import run
from tests.make import write_files
from tests.record_names import check_record_names

ROWS = 60
TABLES = {
    "ids of ours": [{"text": f"{n} a"} for n in range(ROWS)],
    "some file names": [
        {"text": f"{n} a"} | ({"filename": ["", f"{n}.txt"][n % 3 - 1]} if n % 3 else {})
        for n in range(ROWS)
    ],
    "ids of theirs": [{"text": f"{n} a", "id": f"id {n % 7}"} for n in range(ROWS)],
    "lists": [
        {"text": f"{n} a", "filename": [f"{m}.txt" for m in range(n % 3)]} for n in range(ROWS)
    ],
}


@pytest.mark.parametrize("rows", TABLES.values(), ids=TABLES)
def test_names_are_those_of_the_records(tmp_path, rows):
    lines = "".join(json.dumps(row) + "\n" for row in rows)
    base = write_files(tmp_path / "in", {"t.jsonl": lines})
    run(base, tmp_path / "out", target_shard_bytes=1500)
    assert check_record_names(tmp_path / "out") == ROWS
