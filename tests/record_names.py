"""Compare the index of a dataset with its records as read by TensorFlow."""

from pathlib import Path

import google_crc32c
import tensorflow as tf

from trainer_utils.format import Manifest, RecordIndex
from trainer_utils.format.naming import index_file


def masked_crc(payload: bytes) -> int:
    """Return the masked CRC of a record, as stored in its frame."""
    crc = google_crc32c.value(payload)
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def name_of(record: bytes) -> bytes | None:
    """Return the name of a record, or None."""
    features = tf.train.Example.FromString(record).features.feature
    for name in ("record_id", "filename", "id"):
        if name in features and features[name].bytes_list.value:
            return features[name].bytes_list.value[0]
    return None


def check_record_names(uri: Path) -> int:
    """Check the indices of all shards; return the number of records with a name."""
    manifest = Manifest.from_json((uri / "manifest.json").read_text(), path=str(uri))
    named = 0
    for shard in manifest.shards:
        kind = "GZIP" if shard.path.endswith(".gz") else ""
        path = index_file(shard.path)
        records = [*tf.data.TFRecordDataset(str(uri / shard.path), kind).as_numpy_iterator()]
        names = [name_of(record) for record in records]
        index = RecordIndex.from_bytes((uri / path).read_bytes(), path=path, shard=shard)
        assert index.lengths.tolist() == [len(record) for record in records]
        assert index.payload_crcs.tolist() == [masked_crc(record) for record in records]
        assert index.name_crcs.tolist() == [
            0 if name is None else google_crc32c.value(name) for name in names
        ]
        named += sum(name is not None for name in names)
    return named
