"""Grain with ArrayRecord: records one by one in a file, read by a MapDataset in two processes."""

import pickle
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import grain
from array_record.python.array_record_module import ArrayRecordWriter

from peer_programs.common import (
    PHOTO_BATCH,
    PROCESSES,
    SEED,
    TEXT_BATCH,
    Reader,
    decode,
    list_photos,
    read_bytes,
    read_texts,
)

TITLE = "Grain, ArrayRecord"
SETUP = (
    "`ArrayRecordWriter` with `group_size:1`; `MapDataset.source(…).shuffle(…).map(…).batch(…)`, "
    "`to_iter_dataset().mp_prefetch` with two workers"
)
DISTRIBUTIONS = ("grain", "array-record")


def _write(rows: Iterable[tuple[Any, int]], target: str) -> None:
    Path(target).mkdir(parents=True, exist_ok=True)
    writer = ArrayRecordWriter(f"{target}/data.array_record", "group_size:1")
    for row in rows:
        writer.write(pickle.dumps(row))
    writer.close()


def convert_photos(photos: str, target: str) -> None:
    _write(((read_bytes(photo.path), photo.label) for photo in list_photos(photos)), target)


def convert_texts(table: str, target: str) -> None:
    _write(((row.text, row.label) for row in read_texts(table)), target)


class _DecodePhoto(grain.transforms.Map):
    def map(self, element: bytes) -> Any:
        data, label = pickle.loads(element)
        return decode(data), label


class _DecodeText(grain.transforms.Map):
    def map(self, element: bytes) -> Any:
        return pickle.loads(element)


class _Batches:
    """An iterable whose iterator has the state."""

    def __init__(self, dataset: Any, state: Any) -> None:
        self.iterator = iter(dataset)
        if state is not None:
            self.iterator.set_state(state)

    def __iter__(self) -> Any:
        return self.iterator


def _reader(uri: str, work: Any, batch_size: int) -> Reader:
    def make(state: Any) -> _Batches:
        source = grain.sources.ArrayRecordDataSource(f"{uri}/data.array_record")
        dataset = grain.MapDataset.source(source).shuffle(seed=SEED).map(work)
        dataset = dataset.batch(batch_size).to_iter_dataset()
        options = grain.multiprocessing.MultiprocessingOptions(num_workers=PROCESSES)
        return _Batches(dataset.mp_prefetch(options), state)

    return Reader(make, lambda batches, _: batches.iterator.get_state())


def photo_reader(uri: str) -> Reader:
    return _reader(uri, _DecodePhoto(), PHOTO_BATCH)


def text_reader(uri: str) -> Reader:
    return _reader(uri, _DecodeText(), TEXT_BATCH)
