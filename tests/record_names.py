"""What a dataset has of its records' names and content sums, against the records as TensorFlow
reads them."""

from pathlib import Path

import google_crc32c
import tensorflow as tf

from trainer_utils.format import Manifest
from trainer_utils.format.naming import index_file
from trainer_utils.format.record_digests import RecordDigests


def fold(payload: bytes) -> int:
    """The sum of a record beside its CRC, as docs/format.md says it."""
    found = len(payload)
    for start in range(0, len(payload), 8):
        found ^= int.from_bytes(payload[start : start + 8], "little")
    return found


def masked_crc(payload: bytes) -> int:
    """The CRC of a record as its frame has it."""
    crc = google_crc32c.value(payload)
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def name_of(record: bytes) -> bytes | None:
    """What a record is called."""
    features = tf.train.Example.FromString(record).features.feature
    for name in ("record_id", "filename", "id"):
        if name in features and features[name].bytes_list.value:
            return features[name].bytes_list.value[0]
    return None


def check_record_names(uri: Path) -> int:
    """Compares the files of all shards; returns how many records they are of."""
    text = (uri / "manifest.json").read_text()
    manifest, checked, expected = Manifest.from_json(text, path=str(uri)), 0, set()
    for shard in manifest.shards:
        kind = "GZIP" if shard.path.endswith(".gz") else ""
        path = index_file(shard.path).replace(".npy", ".names.npy")
        records = [*tf.data.TFRecordDataset(str(uri / shard.path), kind).as_numpy_iterator()]
        names = [name_of(record) for record in records]
        if None in names:
            continue
        expected.add(path)
        digests = RecordDigests.from_bytes((uri / path).read_bytes(), path=path, shard=shard)
        assert [digests.name(number) for number in range(len(digests))] == names
        assert digests.folds.tolist() == [fold(record) for record in records]
        assert digests.payload_crcs.tolist() == [masked_crc(record) for record in records]
        checked += len(records)
    found = {str(path.relative_to(uri)) for path in uri.glob("index/*.names.npy")}
    assert found == expected
    return checked
