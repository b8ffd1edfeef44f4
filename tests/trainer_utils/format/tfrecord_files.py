"""Records, and the file that TensorFlow makes of them."""

import random

import tensorflow as tf

RECORDS = {
    "none": [],
    "an empty one": [b""],
    "several": [b"first", b"", b"third record", bytes(100)],
    "large": [random.Random(0).randbytes(1 << 20), b"x", random.Random(1).randbytes(300_000)],
    "many": [b"%d" % number * (number % 7) for number in range(20_000)],
}


def written_by_tensorflow(path, records) -> bytes:
    with tf.io.TFRecordWriter(str(path)) as writer:
        for record in records:
            writer.write(record)
    return path.read_bytes()
