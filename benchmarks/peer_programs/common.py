"""Sizes, the decoder, the listing of a folder and the form of a reader, for all programs."""

import csv
import functools
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

SIZE = (224, 224)
PHOTO_BATCH = 64
TEXT_BATCH = 256
PROCESSES = 2
SEED = 7
SHARD_BYTES = 16 << 20  # for formats whose loader processes share whole shards: several for each
RAW = "raw"


class Photo(NamedTuple):
    """A photo on disk and its class."""

    path: str
    label: int


class Text(NamedTuple):
    """A row of the table of texts."""

    text: str
    label: int


class Reader:
    """A shuffled epoch: `make` returns its batches, from a state if the program can resume.

    Args:
        make: returns something to iterate over, given a state or None.
        state: returns the state, given the object that `make` returned and the number of batches
            that have been read. None: the program documents no way to resume within an epoch.
    """

    def __init__(
        self,
        make: Callable[[Any], Iterable[Any]],
        state: Callable[[Any, int], Any] | None = None,
    ) -> None:
        self.make = make
        self.state = state


def list_photos(folder: str) -> list[Photo]:
    """Return the photos of all class folders, sorted."""
    classes = sorted(path for path in Path(folder).iterdir() if path.is_dir())
    return [
        Photo(str(path), label)
        for label, parent in enumerate(classes)
        for path in sorted(parent.iterdir())
    ]


def read_bytes(path: str) -> bytes:
    with open(path, "rb") as stream:
        return stream.read()


def read_texts(table: str) -> Iterator[Text]:
    with open(table, newline="", encoding="utf-8") as stream:
        for row in csv.DictReader(stream):
            yield Text(row["text"], int(row["label"]))


@functools.cache
def _decoder() -> Any:
    from trainer_utils import InputOptions
    from trainer_utils.reading.images import ImageDecoder

    return ImageDecoder(InputOptions(image_size=SIZE), channels=3)


def decode(data: bytes) -> np.ndarray:
    """Decode a photo to `(224, 224, 3) uint8`, with the decoder of tfx-shards for all programs."""
    return _decoder().decode([data], None)[0]
