import gzip
import json
import re
import shutil

import pytest

from pipelines.tools.verification import verify_dataset
from tests.make import write_rows
from tests.pipelines.rewriting import rewrite
from trainer_utils.core.errors import DatasetError
from trainer_utils.format import Feature

TRAIN = "Split-train/data_tfrecord-00001-of-00002"
EVAL = "Split-eval/data_tfrecord-00000-of-00001"
PLACE = re.compile(r"\b(record|byte) (\d+)\b")


def flip(path, place):
    data = bytearray(path.read_bytes())
    data[place] ^= 1
    path.write_bytes(data)


def cut(path, number):
    path.write_bytes(path.read_bytes()[:-number])


def again(path, source):
    path.write_bytes(path.read_bytes() + source.read_bytes())


INDEX = "index/eval-00000-of-00001.npy"
FIRST = TRAIN.replace("1-of", "0-of")


def change(name, how):
    return lambda d: rewrite(d / name, how)


@pytest.mark.parametrize(
    ("damage", "path", "expected"),
    [
        # damage                               file               message
        (lambda d: flip(d / TRAIN, 40), TRAIN, "payload CRC mismatch.*record 0, byte 0"),
        (lambda d: flip(d / TRAIN, 2), TRAIN, "length CRC mismatch .*record 0, byte 0"),
        (lambda d: cut(d / TRAIN, 3), TRAIN, r"end of the file \(record 9, byte \d+\)"),
        (lambda d: cut(d / EVAL, 5), EVAL, r"end of the file \(record 4, byte \d+\)"),
        (lambda d: (d / EVAL).unlink(), EVAL, "is missing"),
        (lambda d: (d / "Split-eval/x").touch(), "Split-eval/x", "is not in the dataset"),
        (
            lambda d: again(d / TRAIN, d / TRAIN),
            TRAIN,
            r"as the manifest says, .*\(record 10, byte",
        ),
        (lambda d: shutil.copy(d / FIRST, d / TRAIN), TRAIN, "intact, but they are other records"),
        (lambda d: flip(d / INDEX, -1), INDEX, "expected the index of 5 records"),
        (lambda d: (d / INDEX).unlink(), INDEX, "is missing"),
        (change("shard_info.json", lambda v: v["eval"].update({EVAL: 4})), "shard_info.json", ""),
        (lambda d: (d / "shard_info.json").unlink(), "shard_info.json", "is missing"),
        (lambda d: (d / "rejects.jsonl").unlink(), "rejects.jsonl", "is missing"),
        (change("manifest.json", lambda v: v["shards"][0].update(content="ff")), FIRST, "the sum"),
        (
            change("manifest.json", lambda v: v["splits"]["eval"].update(written=4, found=4)),
            "manifest.json",
            "4 records as were written, got 5",
        ),
    ],
)
def test_damage_is_found_at_its_place(dataset, damage, path, expected):
    damage(dataset)
    found = verify_dataset(str(dataset))
    assert not found.is_good
    (problem,) = found.problems
    assert problem.path == path
    assert re.search(expected, problem.message), problem.message
    said = {what: int(number) for what, number in PLACE.findall(problem.message)}
    places = {"record": problem.record, "byte": problem.offset}
    assert {what: number for what, number in places.items() if number is not None} == said
    assert problem.to_json() == {"path": path, "message": problem.message, **said}


@pytest.mark.parametrize(
    ("damaged", "named"),
    [([2, 3, 7], [2, 3, 7]), (range(1, 30), [*range(1, 11), None]), ([29], [29])],
)
def test_every_damaged_record_of_a_shard_is_named(tmp_path, damaged, named):
    uri = write_rows(tmp_path / "out", ({"label": n} for n in range(30)), num_shards=1)
    shard = next(tmp_path.glob("out/Split-train/*"))
    size = shard.stat().st_size // 30
    for number in damaged:
        flip(shard, number * size + 14)
    found = verify_dataset(uri)
    assert [problem.record for problem in found.problems] == named
    assert (found.records, found.damaged) == ({"train": 30 - len(damaged)}, len(damaged))
    place = f"Split-train/{shard.name}, record {damaged[0]}, byte {found.problems[0].offset}"
    assert f"{len(damaged)} of 30 records damaged, the first in {place}: " in str(found)
    assert named[-1] or "19 more of records 11 to 29" in found.problems[-1].message
    cut(shard, 7 * size // 2)  # missing records are reported once
    assert [p.record for p in verify_dataset(uri).problems][-1] in (26, None)


def test_damage_in_gzip_shards_is_reported(tmp_path, write_dataset):
    rows = [{"label": [number]} for number in range(50)]
    uri = write_dataset(tmp_path, {"train": [rows]}, {"label": Feature(type="int")}, gzip=True)
    assert verify_dataset(uri).records == {"train": 50}
    shard = next(tmp_path.glob("Split-train/*.gz"))
    whole = shard.read_bytes()
    shard.write_bytes(whole[: len(whole) // 2])
    assert "expected a whole gzip stream" in verify_dataset(uri).problems[0].message
    flip(shard, 20)
    assert not verify_dataset(uri).is_good
    shard.write_bytes(whole + gzip.compress(b""))  # the same records, but a different file
    assert "bytes as the manifest says" in verify_dataset(uri).problems[0].message


def test_wrong_count_in_datum_dataset_is_reported(datum_photos, tmp_path):
    found = verify_dataset(datum_photos)
    assert found.is_good
    assert not found.has_manifest
    assert found.records == {"train": 23, "val": 7}
    copy = shutil.copytree(datum_photos, tmp_path / "copy")
    info = json.loads((copy / "shard_info.json").read_text())
    path = next(iter(info["val"]))
    info["val"][path] += 1
    (copy / "shard_info.json").write_text(json.dumps(info))
    (problem,) = verify_dataset(str(copy)).problems
    assert "as shard_info.json says" in problem.message


def test_bare_files_are_read_even_if_one_is_missing(dataset, tmp_path):
    bare = tmp_path / "bare"
    bare.mkdir()
    for number in (0, 2):
        data = (dataset / TRAIN).read_bytes()
        (bare / f"a-train.tfrecord-{number:05d}-of-00003").write_bytes(data)
    flip(bare / "a-train.tfrecord-00002-of-00003", -1)
    found = verify_dataset(str(bare))
    assert "a-train.tfrecord-00001-of-00003" in found.problems[0].message
    assert "record 9" in found.problems[1].message
    assert found.records == {"unknown": 19}


@pytest.mark.parametrize("make", [lambda p: None, lambda p: p.mkdir()], ids=["missing", "empty"])
def test_nothing_to_verify_is_an_error(tmp_path, make):
    make(tmp_path / "data")
    with pytest.raises(DatasetError, match="expected"):
        verify_dataset(str(tmp_path / "data"))
