"""MosaicML Streaming: MDS files by parallel writers, read by StreamingDataset and its loader."""

import multiprocessing
import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from streaming import MDSWriter, StreamingDataLoader, StreamingDataset
from streaming.base.util import clean_stale_shared_memory, merge_index

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

TITLE = "Streaming"
SETUP = (
    "`MDSWriter` in two processes and `merge_index`; `StreamingDataset(shuffle=True)` in a "
    "`StreamingDataLoader` with two processes"
)
DISTRIBUTIONS = ("mosaicml-streaming",)


class _Photos(StreamingDataset):
    def __getitem__(self, index: int) -> Any:
        sample = super().__getitem__(index)
        return decode(sample["image"]), sample["label"]


class _Texts(StreamingDataset):
    def __getitem__(self, index: int) -> Any:
        sample = super().__getitem__(index)
        return sample["text"], sample["label"]


def _write_photos(job: tuple[str, list[Any]]) -> None:
    out, photos = job
    with MDSWriter(out=out, columns={"image": "bytes", "label": "int"}) as writer:
        for photo in photos:
            writer.write({"image": read_bytes(photo.path), "label": photo.label})


def _write_texts(job: tuple[str, list[Any]]) -> None:
    out, rows = job
    with MDSWriter(out=out, columns={"text": "str", "label": "int"}) as writer:
        for row in rows:
            writer.write({"text": row.text, "label": row.label})


def _write(work: Callable[[Any], None], rows: Iterable[Any], target: str) -> None:
    rows = [*rows]
    each = -(-len(rows) // PROCESSES)
    jobs = [
        (f"{target}/{part}", rows[part * each : (part + 1) * each]) for part in range(PROCESSES)
    ]
    with multiprocessing.Pool(PROCESSES) as pool:
        pool.map(work, jobs)
    merge_index(target, keep_local=True)


def convert_photos(photos: str, target: str) -> None:
    _write(_write_photos, list_photos(photos), target)


def convert_texts(table: str, target: str) -> None:
    _write(_write_texts, read_texts(table), target)


def _reader(kind: type, batch_size: int, **places: str) -> Reader:
    def make(state: Any) -> StreamingDataLoader:
        clean_stale_shared_memory()
        dataset = kind(shuffle=True, shuffle_seed=SEED, batch_size=batch_size, **places)
        for stream in dataset.streams:
            # The client has an open connection. Forked workers that share it mix up its responses:
            # the first batch took 61 seconds, or reading failed.
            stream._downloader.clean_up()
        loader = StreamingDataLoader(dataset, batch_size=batch_size, num_workers=PROCESSES)
        if state is not None:
            loader.load_state_dict(state)
        return loader

    return Reader(make, lambda loader, _: loader.state_dict())


def photo_reader(uri: str) -> Reader:
    return _reader(_Photos, PHOTO_BATCH, local=uri)


def text_reader(uri: str) -> Reader:
    return _reader(_Texts, TEXT_BATCH, local=uri)


def remote_photo_reader(uri: str, cache: str) -> Reader:
    os.environ["S3_ENDPOINT_URL"] = os.environ["AWS_ENDPOINT_URL"]
    Path(cache).mkdir(exist_ok=True)
    return _reader(_Photos, PHOTO_BATCH, remote=uri, local=cache)
