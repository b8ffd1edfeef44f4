"""WebDataset: tar files by `ShardWriter`, read with its fluent interface and a `WebLoader`."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import webdataset

from peer_programs.common import (
    PHOTO_BATCH,
    PROCESSES,
    SEED,
    SHARD_BYTES,
    TEXT_BATCH,
    Reader,
    decode,
    list_photos,
    read_bytes,
    read_texts,
)

TITLE = "WebDataset"
SETUP = (
    "`ShardWriter` with shards of 16 MB or 5,000 texts; `shardshuffle`, `shuffle(1000)` and a "
    "`WebLoader` with two processes"
)
DISTRIBUTIONS = ("webdataset",)
_BUFFER = 1000
_TEXTS = 5000  # of a shard: each loader process needs one at least


def _writer(target: str, **limit: int) -> Any:
    Path(target).mkdir(parents=True, exist_ok=True)
    return webdataset.ShardWriter(f"{target}/%06d.tar", verbose=0, **limit)


def convert_photos(photos: str, target: str) -> None:
    with _writer(target, maxsize=SHARD_BYTES) as writer:
        for number, photo in enumerate(list_photos(photos)):
            data = read_bytes(photo.path)
            writer.write({"__key__": f"{number:08d}", "jpg": data, "cls": photo.label})


def convert_texts(table: str, target: str) -> None:
    with _writer(target, maxcount=_TEXTS) as writer:
        for number, row in enumerate(read_texts(table)):
            writer.write({"__key__": f"{number:08d}", "txt": row.text, "cls": row.label})


def _as_int(data: bytes) -> int:
    return int(data)


def _loader(urls: Sequence[str], part: str, batch_size: int, work: Any) -> Any:
    dataset = (
        webdataset.WebDataset(
            [*urls], shardshuffle=len(urls), seed=SEED, workersplitter=webdataset.split_by_worker
        )
        .shuffle(_BUFFER)
        .to_tuple(part, "cls")
        .map_tuple(work, _as_int)
        .batched(batch_size)
    )
    return webdataset.WebLoader(dataset, batch_size=None, num_workers=PROCESSES)


def _paths(uri: str) -> list[str]:
    return sorted(map(str, Path(uri).glob("*.tar")))


def photo_reader(uri: str) -> Reader:
    return Reader(lambda _: _loader(_paths(uri), "jpg", PHOTO_BATCH, decode))


def text_reader(uri: str) -> Reader:
    return Reader(lambda _: _loader(_paths(uri), "txt", TEXT_BATCH, bytes.decode))


def remote_photo_reader(uri: str, cache: str) -> Reader:
    """Read signed urls through curl, as WebDataset's documentation does; nothing is cached."""
    import boto3
    import botocore.config

    bucket, _, prefix = uri.removeprefix("s3://").partition("/")
    signing = botocore.config.Config(signature_version="s3v4")
    client = boto3.client("s3", endpoint_url=os.environ["AWS_ENDPOINT_URL"], config=signing)
    names = [
        file["Key"] for file in client.list_objects_v2(Bucket=bucket, Prefix=prefix)["Contents"]
    ]
    urls = [
        "pipe:curl -s -L -f '{}'".format(
            client.generate_presigned_url("get_object", Params={"Bucket": bucket, "Key": name})
        )
        for name in sorted(names)
    ]
    del cache  # the output of a pipe has no name to cache it by
    return Reader(lambda _: _loader(urls, "jpg", PHOTO_BATCH, decode))
