"""Test that a run ends as soon as too many inputs are rejected, and reports how many were read."""

import json
import re

import pytest

from components.example_gen.settings import ImageSettings
from components.inputs.blob_reader import BlobReader
from components.runtime.runners import Runner
from components.steps import convert
from tests.make import photo, write_files
from trainer_utils.core.errors import InputError

BAD = b"These are notes, not a photo.\n"


def run(base, folder, processes, **settings) -> None:
    runner = Runner(processes=processes, module="components.example_gen.file_shards")
    convert(str(base), str(folder / "out"), ImageSettings(**settings), runner=runner)


def rejects_in(folder) -> list[dict]:
    (path,) = folder.glob("**/*.rejects.jsonl")
    return [json.loads(line) for line in path.read_text().splitlines()]


@pytest.fixture
def opened(monkeypatch) -> list[str]:
    """Return the list that collects the names of the files read in this process."""
    names, read = list[str](), BlobReader.read
    monkeypatch.setattr(
        BlobReader, "read", lambda self, blob: (names.append(blob.path), read(self, blob))[1]
    )
    return names


def test_run_with_only_bad_files_ends_after_a_few_reads(tmp_path, opened):
    base = write_files(tmp_path / "in", {f"{'ab'[k % 2]}/{k}.jpg": BAD for k in range(3000)})
    with pytest.raises(InputError) as caught:
        run(base, tmp_path, 1)
    message = str(caught.value)
    assert re.search(r"100 of the first 100 inputs of Split-train/data_tfrecord\S+ were", message)
    assert "of all 3,000, max_reject_fraction=0.01 allows 30" in message
    assert len(opened) < 400  # some are read ahead
    listed = rejects_in(tmp_path)
    assert len(listed) == 100
    assert {(line["code"], bool(line["remedy"])) for line in listed} == {("NOT_AN_IMAGE", True)}


def test_rejects_of_several_shards_are_summed(tmp_path, opened):
    files = {f"{'ab'[k % 2]}/{k}.jpg": photo(k) if k % 3 else BAD for k in range(900)}
    base = write_files(tmp_path / "in", files)
    with pytest.raises(InputError, match=r"1\d\d of the first \d{3} inputs were rejected"):
        run(base, tmp_path, 1, num_shards=10)
    assert len(opened) < 600
    assert 100 <= len(rejects_in(tmp_path)) < 250


def test_few_inputs_are_all_read_and_listed(tmp_path):
    base = write_files(tmp_path / "in", {f"{'ab'[k % 2]}/{k}.jpg": BAD for k in range(60)})
    with pytest.raises(InputError, match="60 of 60 inputs were rejected"):
        run(base, tmp_path, 1)
    assert len(rejects_in(tmp_path)) == 60


def test_missing_listed_files_end_the_run_before_reading(tmp_path, opened):
    rows = [f"{k}.jpg,cat" for k in range(300)]
    files = {f"{k}.jpg": photo(k) for k in range(150)}
    base = write_files(tmp_path / "in", {**files, "list.csv": "\n".join(["image,label", *rows])})
    with pytest.raises(InputError, match="150 FILE_NOT_FOUND"):
        run(base, tmp_path, 1)
    assert not [name for name in opened if name.endswith(".jpg")]


def test_worker_processes_also_end_early(tmp_path):
    base = write_files(tmp_path / "in", {f"{'ab'[k % 2]}/{k}.jpg": BAD for k in range(8000)})
    with pytest.raises(InputError, match=r"of the first [\d,]+ inputs"):
        run(base, tmp_path, 2)
    assert 100 <= len(rejects_in(tmp_path)) < 8000
