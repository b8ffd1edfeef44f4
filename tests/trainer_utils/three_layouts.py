"""One dataset as we write it, as Datum does, and as TFDS does."""

import json
import shutil
from pathlib import Path

import tensorflow as tf

from trainer_utils.dataset import open_dataset
from trainer_utils.format import Feature

FEATURES = {"id": Feature(type="int"), "text": Feature(type="string")}
TFDS_INFO = {
    "fileFormat": "tfrecord",
    "name": "set",
    "splits": [
        {
            "name": "train",
            "shardLengths": ["6"],
            "filepathTemplate": "{DATASET}-{SPLIT}.{FILEFORMAT}-{SHARD_X_OF_Y}",
        }
    ],
}
TFDS_FEATURES = {
    "pythonClassName": "tensorflow_datasets.core.features.features_dict.FeaturesDict",
    "featuresDict": {
        "features": {
            "id": {
                "pythonClassName": "tensorflow_datasets.core.features.scalar.Scalar",
                "tensor": {"shape": {}, "dtype": "int64", "encoding": "none"},
            }
        }
    },
}


def write_layouts(base: Path, write_dataset, serialize) -> dict[str, Path]:
    """The folder of each, by name."""
    rows = [{"id": [n], "text": [b"text"]} for n in range(6)]
    ours, datum, tfds = (base / name for name in ("ours", "datum", "tfds"))
    write_dataset(ours, {"train": [rows]}, FEATURES)
    shutil.copytree(ours, datum)
    (datum / "manifest.json").unlink()
    tfds.mkdir()
    with tf.io.TFRecordWriter(str(tfds / "set-train.tfrecord-00000-of-00001")) as writer:
        for row in rows:
            writer.write(serialize(**row))
    (tfds / "dataset_info.json").write_text(json.dumps(TFDS_INFO, indent=1))
    (tfds / "features.json").write_text(json.dumps(TFDS_FEATURES, indent=1))
    for uri in (ours, datum, tfds):
        assert open_dataset(str(uri)).records == {"train": 6}
    return {"ours": ours, "datum": datum, "tfds": tfds}
