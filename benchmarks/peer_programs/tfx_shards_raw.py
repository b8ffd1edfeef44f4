"""tfx-shards on the folder of photos, without a conversion."""

import trainer_utils
from peer_programs.common import RAW, Reader
from peer_programs.tfx_shards import PHOTOS, state_of

TITLE = "tfx-shards, raw folder"
SETUP = "`iterate` on the folder of photos"
DISTRIBUTIONS = ()
READS = RAW


def photo_reader(uri: str) -> Reader:
    conversion = {"splits": {"train": 1}}
    return Reader(
        lambda state: trainer_utils.iterate(
            uri, "train", state=state, conversion=conversion, **PHOTOS
        ),
        state_of,
    )
