"""Hugging Face datasets: `imagefolder` and `csv` to Arrow files, read through a DataLoader."""

from pathlib import Path
from typing import Any

import datasets
import torch

from peer_programs.common import PHOTO_BATCH, PROCESSES, TEXT_BATCH, Reader, decode

TITLE = "HF datasets"
SETUP = (
    "`load_dataset('imagefolder')` with two processes and `save_to_disk`; a `DataLoader` with "
    "`shuffle=True` and two processes"
)
DISTRIBUTIONS = ("datasets",)
datasets.disable_progress_bars()


def _save(kind: str, target: str, **files: str) -> None:
    loaded = datasets.load_dataset(
        kind, split="train", cache_dir=f"{target}-cache", num_proc=PROCESSES, **files
    )
    loaded.save_to_disk(target, num_proc=PROCESSES)


def convert_photos(photos: str, target: str) -> None:
    _save("imagefolder", target, data_dir=photos)


def convert_texts(table: str, target: str) -> None:
    loaded = datasets.load_dataset(
        "csv", split="train", cache_dir=f"{target}-cache", data_files=table
    )
    loaded.save_to_disk(target)


def _decoded(rows: dict[str, list[Any]]) -> dict[str, list[Any]]:
    photos = [decode(photo["bytes"]) for photo in rows["image"]]
    return {"image": photos, "label": rows["label"]}


def _in_order(loader: Any, *names: str) -> Any:
    for batch in loader:
        yield tuple(batch[name] for name in names)


def _loader(dataset: Any, batch_size: int) -> Any:
    return torch.utils.data.DataLoader(
        dataset, batch_size=batch_size, shuffle=True, num_workers=PROCESSES
    )


def photo_reader(uri: str, **storage: Any) -> Reader:
    def make(_: None) -> Any:
        dataset = datasets.load_from_disk(uri, **storage)
        dataset = dataset.cast_column("image", datasets.Image(decode=False))
        dataset.set_transform(_decoded)
        return _in_order(_loader(dataset, PHOTO_BATCH), "image", "label")

    return Reader(make)


def text_reader(uri: str) -> Reader:
    def make(_: None) -> Any:
        dataset = datasets.load_from_disk(uri)
        return _in_order(_loader(dataset, TEXT_BATCH), "text", "label")

    return Reader(make)


def remote_photo_reader(uri: str, cache: str) -> Reader:
    """Download the dataset, which `load_from_disk` does for a bucket, then read it."""
    Path(cache).mkdir(exist_ok=True)
    return photo_reader(uri, storage_options={})
