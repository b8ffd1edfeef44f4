"""TFDS: a `GeneratorBasedBuilder`, read by `as_dataset`."""

from pathlib import Path
from typing import Any

import tensorflow as tf
import tensorflow_datasets as tfds
from tfds_photos import make_builder

from peer_programs.common import PHOTO_BATCH, TEXT_BATCH, Reader, read_texts
from peer_programs.tf_data import decode_photo

TITLE = "TFDS"
SETUP = (
    "a `GeneratorBasedBuilder`; `as_dataset(shuffle_files=True)`, `shuffle`, `map`, `batch` and "
    "`prefetch`"
)
DISTRIBUTIONS = ("tensorflow-datasets",)
_BUFFER = 1000
tfds.disable_progress_bar()


class Texts(tfds.core.GeneratorBasedBuilder):
    """Rows of a table, which `table` names."""

    VERSION = tfds.core.Version("1.0.0")
    table = ""

    def _info(self) -> Any:
        features = {"text": tfds.features.Text(), "label": tfds.features.Scalar(tf.int64)}
        return self.dataset_info_from_configs(features=tfds.features.FeaturesDict(features))

    def _split_generators(self, dl_manager: Any) -> Any:
        return {"train": self._generate_examples()}

    def _generate_examples(self) -> Any:
        for number, row in enumerate(read_texts(self.table)):
            yield number, {"text": row.text, "label": row.label}


def convert_photos(photos: str, target: str) -> None:
    make_builder(Path(photos))(data_dir=target).download_and_prepare()


def convert_texts(table: str, target: str) -> None:
    Texts.table = table
    Texts(data_dir=target).download_and_prepare()


def _dataset(uri: str, batch_size: int, work: Any, **settings: Any) -> Any:
    (folder,) = (path.parent for path in Path(uri).rglob("dataset_info.json"))
    reading = tfds.ReadConfig(try_autocache=False)  # the cache would keep a first epoch's pixels
    dataset = tfds.builder_from_directory(folder).as_dataset(
        split="train", shuffle_files=True, read_config=reading, **settings
    )
    dataset = dataset.shuffle(_BUFFER).map(work, num_parallel_calls=tf.data.AUTOTUNE)
    return dataset.batch(batch_size).prefetch(tf.data.AUTOTUNE)


def photo_reader(uri: str) -> Reader:
    def work(example: dict[str, tf.Tensor]) -> Any:
        return decode_photo(example["image"]), example["label"]

    skip = {"image": tfds.decode.SkipDecoding()}  # a shuffle of encoded photos, as TFDS advises
    return Reader(lambda _: _dataset(uri, PHOTO_BATCH, work, decoders=skip))


def text_reader(uri: str) -> Reader:
    return Reader(
        lambda _: _dataset(uri, TEXT_BATCH, lambda example: (example["text"], example["label"]))
    )
