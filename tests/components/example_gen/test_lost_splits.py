"""Test that a run fails if all records of a split are rejected."""

import io
import json

import pytest
from PIL import Image

from tests.components.plain_runs import convert, read_records, write_files
from trainer_utils.core.errors import InputError

GOOD = "".join(f'{{"text": "row {n}"}}\n' for n in range(300))


def test_split_that_loses_every_row_fails_the_run(tmp_path):
    source = write_files(tmp_path / "in", {"train.jsonl": "nope\n", "test.jsonl": GOOD})
    with pytest.raises(InputError, match="all 1 texts of the split 'train' were rejected") as info:
        convert(source, tmp_path / "out")
    assert "train.jsonl:1: BAD_JSON" in str(info.value).replace("'", "")
    rejects = (tmp_path / "out.rejects.jsonl").read_text().splitlines()
    assert [json.loads(line)["source"] for line in rejects] == ["train.jsonl:1"]
    (source / "train.jsonl").unlink()  # the fix that the message recommends
    converted = convert(source, tmp_path / "out")
    assert len(read_records(tmp_path / "out", converted)["test"]) == 300


def test_split_that_loses_one_row_is_kept(tmp_path):
    train = 'nope\n{"text": "a"}\n'
    source = write_files(tmp_path / "in", {"train.jsonl": train, "test.jsonl": GOOD})
    converted = convert(source, tmp_path / "out")
    assert [record["text"] for record in read_records(tmp_path / "out", converted)["train"]] == [
        [b"a"]
    ]


def test_split_with_only_damaged_images_fails_the_run(tmp_path):
    stream = io.BytesIO()
    Image.new("RGB", (20, 10)).save(stream, "JPEG")
    jpeg = stream.getvalue()
    photos = {f"test/cat/{n}.jpg": jpeg for n in range(150)}
    source = write_files(tmp_path / "in", {**photos, "train/cat/0.jpg": jpeg[:100]})
    with pytest.raises(InputError, match="of the split 'train' were rejected"):
        convert(source, tmp_path / "out", media="image", layout="folder")
