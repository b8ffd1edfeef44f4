"""Records, the file that TensorFlow makes of them, and the same by our own code."""

import io
import random

from trainer_utils.format import read_blocks
from trainer_utils.format.tfrecord import frame_parts

RECORDS = {
    "none": [],
    "an empty one": [b""],
    "several": [b"first", b"", b"third record", bytes(100)],
    "large": [random.Random(0).randbytes(1 << 20), b"x", random.Random(1).randbytes(300_000)],
    "many": [b"%d" % number * (number % 7) for number in range(20_000)],
}


def written_by_tensorflow(path, records) -> bytes:
    import tensorflow as tf

    with tf.io.TFRecordWriter(str(path)) as writer:
        for record in records:
            writer.write(record)
    return path.read_bytes()


def frame_records(records) -> bytes:
    parts = [(*frame_parts([record]), record) for record in records]
    return b"".join(header + record + footer for header, footer, record in parts)


def payloads(data: bytes, *, path: str = "x") -> list[bytes]:
    return [one for block in read_blocks(io.BytesIO(data), path=path) for one in block.records()]
