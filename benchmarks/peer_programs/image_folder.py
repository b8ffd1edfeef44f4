"""torchvision's ImageFolder: the folder of photos in a DataLoader with two processes."""

import torch
from torchvision.datasets import ImageFolder

from peer_programs.common import PHOTO_BATCH, PROCESSES, RAW, Reader, decode, read_bytes

TITLE = "ImageFolder"
SETUP = "a `DataLoader` with `shuffle=True` and two processes over the folder of photos"
DISTRIBUTIONS = ("torchvision",)
READS = RAW


def _load(path: str) -> torch.Tensor:
    return torch.from_numpy(decode(read_bytes(path)))


def photo_reader(uri: str) -> Reader:
    def make(_: None) -> torch.utils.data.DataLoader:
        dataset = ImageFolder(uri, loader=_load)
        return torch.utils.data.DataLoader(
            dataset, batch_size=PHOTO_BATCH, shuffle=True, num_workers=PROCESSES
        )

    return Reader(make)
