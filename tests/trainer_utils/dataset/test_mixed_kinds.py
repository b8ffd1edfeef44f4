"""Test TFRecords with a feature of one kind in most records and of another in some."""

import collections

import pytest

import trainer_utils
from trainer_utils.core.errors import DatasetError
from trainer_utils.dataset import open_dataset
from trainer_utils.format.example import encode_example
from trainer_utils.format.tfrecord import frame_parts

COUNT, SHARDS = 40, 3
BAD = {n for n in range(COUNT * SHARDS) if n % 10 == 9}


@pytest.fixture
def uri(tmp_path) -> str:
    """Write records with floats, but bytes in every tenth; return the folder."""
    for shard in range(SHARDS):
        records = b""
        for number in range(shard * COUNT, (shard + 1) * COUNT):
            value = [b""] if number in BAD else [number / 4]
            payload = b"".join(encode_example({"number": [number], "similarity": value}))
            header, footer = frame_parts([payload])
            records += header + payload + footer
        (tmp_path / f"train-{shard:05d}-of-00003.tfrecord").write_bytes(records)
    return str(tmp_path)


def read(uri: str, workers: int, name: str = "number", **settings) -> list[float]:
    """Return a feature's values in one epoch, of all workers."""
    found = []
    for worker in range(workers):
        batches = trainer_utils.iterate(
            uri, "train", batch_size=12, worker=worker, num_workers=workers, **settings
        )
        for batch in batches:
            found += (batch[name] if isinstance(batch, dict) else batch).tolist()
    return found


def test_most_frequent_kind_is_used_with_a_warning(uri, caplog):
    feature = open_dataset(uri).features["similarity"]
    assert (feature.type, feature.shape, feature.dense) == ("float", (), True)
    assert "float in 108 examples, string in 12 examples" in caplog.text


@pytest.mark.parametrize("workers", [1, 2, 3, 4])
def test_skipping_reads_the_same_records_on_any_workers(uri, workers):
    expected = collections.Counter(n for n in range(COUNT * SHARDS) if n not in BAD)
    expected.update((n + 1) % (COUNT * SHARDS) for n in BAD)  # the next record replaces it
    found = read(uri, workers, on_corrupt="skip")
    assert collections.Counter(found) == expected
    values = read(uri, workers, "similarity", on_corrupt="skip", features=["similarity"])
    assert sorted(values) == sorted(number / 4 for number in found)


@pytest.mark.parametrize("workers", [1, 3])
@pytest.mark.parametrize("on_corrupt", ["raise", "skip"])
def test_other_features_are_read_from_every_record(uri, workers, on_corrupt):
    found = read(uri, workers, features=["number"], on_corrupt=on_corrupt)
    assert sorted(found) == [*range(COUNT * SHARDS)]


def test_record_of_another_kind_raises_with_its_index(uri):
    with pytest.raises(DatasetError, match="feature 'similarity': expected float") as info:
        read(uri, 1, shuffle=False)
    assert info.value.record is not None
    assert info.value.record % 10 == 9
