"""tfx-shards: `convert`, and `iterate` in threads."""

from typing import Any

import pipelines
import trainer_utils
from peer_programs.common import PHOTO_BATCH, SEED, SIZE, TEXT_BATCH, Reader

TITLE = "tfx-shards"
SETUP = "`convert` with its defaults, which checks, reads back and syncs; `iterate`"
DISTRIBUTIONS = ("tfx-shards",)
PHOTOS = dict(features="image", label="label", image_size=SIZE, batch_size=PHOTO_BATCH, seed=SEED)
TEXTS = dict(features="text", label="label", batch_size=TEXT_BATCH, seed=SEED)


def convert_photos(photos: str, target: str) -> None:
    pipelines.convert(photos, target, splits={"train": 1})


convert_texts = convert_photos


def state_of(batches: Any, step: int) -> Any:
    return batches.state(step).to_json()


def _reader(uri: str, **settings: Any) -> Reader:
    return Reader(
        lambda state: trainer_utils.iterate(uri, "train", state=state, **settings), state_of
    )


def photo_reader(uri: str) -> Reader:
    return _reader(uri, **PHOTOS)


def text_reader(uri: str) -> Reader:
    return _reader(uri, **TEXTS)


def remote_photo_reader(uri: str, cache: str) -> Reader:
    return _reader(uri, cache=cache, **PHOTOS)
