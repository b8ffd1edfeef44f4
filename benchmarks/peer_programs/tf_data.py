"""Plain TensorFlow: a `TFRecordWriter` loop, and tf.data as its guide to performance says."""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import tensorflow as tf

from peer_programs.common import (
    PHOTO_BATCH,
    SEED,
    SHARD_BYTES,
    SIZE,
    TEXT_BATCH,
    Reader,
    list_photos,
    read_bytes,
    read_texts,
)

TITLE = "tf.data"
SETUP = (
    "a `TFRecordWriter` loop with shards of 16 MB; `interleave`, `shuffle`, `map`, `batch` and "
    "`prefetch` with `AUTOTUNE`"
)
DISTRIBUTIONS = ("tensorflow-cpu",)
_TEXT_BUFFER = 10_000
_PHOTO_BUFFER = 1000


def _write(rows: Iterable[tuple[str, bytes, int]], target: str) -> None:
    Path(target).mkdir(parents=True, exist_ok=True)
    shard, size, writer = 0, 0, None
    for name, data, label in rows:
        if writer is None or size > SHARD_BYTES:
            if writer is not None:
                writer.close()
            writer, size = tf.io.TFRecordWriter(f"{target}/{shard:06d}.tfrecord"), 0
            shard += 1
        features = {
            name: tf.train.Feature(bytes_list=tf.train.BytesList(value=[data])),
            "label": tf.train.Feature(int64_list=tf.train.Int64List(value=[label])),
        }
        example = tf.train.Example(features=tf.train.Features(feature=features))
        writer.write(example.SerializeToString())
        size += len(data)
    if writer is not None:
        writer.close()


def convert_photos(photos: str, target: str) -> None:
    _write(
        (("image", read_bytes(photo.path), photo.label) for photo in list_photos(photos)), target
    )


def convert_texts(table: str, target: str) -> None:
    _write((("text", row.text.encode(), row.label) for row in read_texts(table)), target)


def decode_photo(data: tf.Tensor) -> tf.Tensor:
    pixels = tf.io.decode_image(data, channels=3, expand_animations=False)
    return tf.cast(tf.image.resize(pixels, SIZE), tf.uint8)


def _dataset(
    uri: str, name: str, work: Callable[[tf.Tensor], Any], buffer: int, batch_size: int
) -> Any:
    features = {name: tf.io.FixedLenFeature([], tf.string)}
    features["label"] = tf.io.FixedLenFeature([], tf.int64)

    def parse(record: tf.Tensor) -> Any:
        example = tf.io.parse_single_example(record, features)
        return work(example[name]), example["label"]

    shards = tf.data.Dataset.list_files(f"{uri}/*.tfrecord", shuffle=True, seed=SEED)
    records = shards.interleave(tf.data.TFRecordDataset, num_parallel_calls=tf.data.AUTOTUNE)
    parsed = records.shuffle(buffer, seed=SEED).map(parse, num_parallel_calls=tf.data.AUTOTUNE)
    return parsed.batch(batch_size).prefetch(tf.data.AUTOTUNE)


def photo_reader(uri: str) -> Reader:
    return Reader(lambda _: _dataset(uri, "image", decode_photo, _PHOTO_BUFFER, PHOTO_BATCH))


def text_reader(uri: str) -> Reader:
    return Reader(lambda _: _dataset(uri, "text", tf.identity, _TEXT_BUFFER, TEXT_BATCH))
