"""Names and sums are taken from where the manifest says, if they are what it says."""

import pytest

import trainer_utils
from trainer_utils.dataset import open_dataset
from trainer_utils.dataset.record_digests import find_numbers, read_record_digests


def test_they_are_read_or_one_warning_says_why_not(tmp_path, our_messages):
    with trainer_utils.DatasetWriter(str(tmp_path / "out"), num_shards=2) as writer:
        for number in range(6):
            writer.write("train", {"id": f"{number}"})
        writer.write("eval", {"text": "without a name"})
    shards = open_dataset(str(tmp_path / "out")).shards
    read = [read_record_digests(shard) for shard in shards["train"]]
    assert [[each.name(n) for n in range(3)] for each in read] == [
        [b"0", b"2", b"4"],
        [b"1", b"3", b"5"],
    ]
    assert [read_record_digests(shard) for shard in shards["eval"]] == [None]
    for shard in shards["train"]:
        path = tmp_path / "out/index" / shard.names_path.rpartition("/")[2]
        path.write_bytes(path.read_bytes() + b"?")
        assert read_record_digests(shard) is None
        path.unlink()
        assert read_record_digests(shard) is None
    told = our_messages()
    assert len(told) == 4
    assert all("names.npy' is not used, the shard is read through instead" in t for t in told)


@pytest.mark.parametrize(
    ("values", "says"),
    [
        ({}, [1, 2]),
        ({"record_id": "a"}, None),  # by which the index has it, and not by the other name
        ({"filename": ["a", "b"]}, None),
        ({"id": 5}, None),
    ],
)
def test_records_are_found_by_name_where_each_has_one_name(tmp_path, values, says):
    with trainer_utils.DatasetWriter(str(tmp_path / "out"), num_shards=1) as writer:
        for name in ("a", "b", "b"):
            writer.write("train", {"filename": name, **values})
    dataset = open_dataset(str(tmp_path / "out"))
    (shard,) = dataset.shards["train"]
    assert find_numbers(dataset, shard, [b"b", b"c"]) == says
    (tmp_path / "out/index/train-00000-of-00001.names.npy").unlink()
    assert find_numbers(dataset, shard, [b"b"]) is None
