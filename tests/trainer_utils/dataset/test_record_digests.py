"""Names and sums are taken from where the manifest says, if they are what it says."""

import trainer_utils
from trainer_utils.dataset import open_dataset
from trainer_utils.dataset.record_digests import read_record_digests


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
