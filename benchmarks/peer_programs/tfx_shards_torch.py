"""tfx-shards in PyTorch: `torch_dataset` in a DataLoader with two processes."""

from typing import Any

import torch

import trainer_utils
from peer_programs.common import PROCESSES, Reader
from peer_programs.tfx_shards import PHOTOS, TEXTS, state_of

TITLE = "tfx-shards, PyTorch"
SETUP = "`torch_dataset` in a `DataLoader` with two processes"
DISTRIBUTIONS = ("torch",)
READS = "tfx_shards"


class _Loader:
    def __init__(self, uri: str, state: Any, settings: dict[str, Any]) -> None:
        self._dataset = trainer_utils.torch_dataset(uri, "train", state=state, **settings)

    def __iter__(self) -> Any:
        loader = torch.utils.data.DataLoader(self._dataset, batch_size=None, num_workers=PROCESSES)
        return iter(loader)

    def state(self, step: int) -> Any:
        return self._dataset.state(step)


def _reader(uri: str, **settings: Any) -> Reader:
    return Reader(lambda state: _Loader(uri, state, settings), state_of)


def photo_reader(uri: str) -> Reader:
    return _reader(uri, **PHOTOS)


def text_reader(uri: str) -> Reader:
    return _reader(uri, **TEXTS)


def remote_photo_reader(uri: str, cache: str) -> Reader:
    return _reader(uri, cache=cache, **PHOTOS)
