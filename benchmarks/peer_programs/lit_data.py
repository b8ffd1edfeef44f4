"""litData: chunks by `optimize`, read by its StreamingDataset and StreamingDataLoader."""

import functools
import os
from typing import Any

import litdata
from litdata.streaming import downloader

from peer_programs.common import (
    PHOTO_BATCH,
    PROCESSES,
    SEED,
    TEXT_BATCH,
    Photo,
    Reader,
    Text,
    decode,
    list_photos,
    read_bytes,
    read_texts,
)

TITLE = "litData"
SETUP = (
    "`optimize` with chunks of 64 MB and two workers; `StreamingDataset(shuffle=True)` in a "
    "`StreamingDataLoader` with two processes"
)
DISTRIBUTIONS = ("litdata",)


def _photo_sample(photo: Photo) -> dict[str, Any]:
    return {"image": read_bytes(photo.path), "label": photo.label}


@functools.cache
def _rows(table: str) -> list[Text]:
    return [*read_texts(table)]


def _text_sample(index: int, table: str) -> dict[str, Any]:
    row = _rows(table)[index]
    return {"text": row.text, "label": row.label}


def _optimize(work: Any, inputs: list[Any], target: str) -> None:
    litdata.optimize(
        fn=work, inputs=inputs, output_dir=target, chunk_bytes="64MB", num_workers=PROCESSES
    )


def convert_photos(photos: str, target: str) -> None:
    _optimize(_photo_sample, list_photos(photos), target)


def convert_texts(table: str, target: str) -> None:
    # Inputs are numbers of rows, since litData takes strings in inputs for addresses of files.
    work = functools.partial(_text_sample, table=table)
    _optimize(work, [*range(len(_rows(table)))], target)


class _Photos(litdata.StreamingDataset):
    def __getitem__(self, index: Any) -> Any:
        sample = super().__getitem__(index)
        return decode(sample["image"]), sample["label"]


class _Texts(litdata.StreamingDataset):
    def __getitem__(self, index: Any) -> Any:
        sample = super().__getitem__(index)
        return sample["text"], sample["label"]


def _reader(kind: type, uri: str, batch_size: int, **settings: Any) -> Reader:
    def make(state: Any) -> litdata.StreamingDataLoader:
        dataset = kind(uri, shuffle=True, seed=SEED, drop_last=False, **settings)
        loader = litdata.StreamingDataLoader(
            dataset, batch_size=batch_size, num_workers=PROCESSES, shuffle=True, drop_last=False
        )
        if state is not None:
            loader.load_state_dict(state)
        return loader

    return Reader(make, lambda loader, _: loader.state_dict())


def photo_reader(uri: str) -> Reader:
    return _reader(_Photos, uri, PHOTO_BATCH)


def text_reader(uri: str) -> Reader:
    return _reader(_Texts, uri, TEXT_BATCH)


def remote_photo_reader(uri: str, cache: str) -> Reader:
    # litData's client refuses servers without a certificate, such as the one of this benchmark.
    downloader._OBSTORE_CLIENT_OPTIONS["allow_http"] = "true"
    options = {"endpoint_url": os.environ["AWS_ENDPOINT_URL"]}
    return _reader(_Photos, uri, PHOTO_BATCH, cache_dir=cache, storage_options=options)
