"""The names and content sums of a shard's records, as its dataset has them beside the record index.

digests = read_record_digests(shard)       # None: the shard itself says them
"""

import functools
import logging

from trainer_utils.dataset.opening import ShardFile
from trainer_utils.format import DatasetError
from trainer_utils.format.record_digests import RecordDigests
from trainer_utils.storage import read_bytes

__all__ = ["read_record_digests"]

_logger = logging.getLogger(__name__)


def read_record_digests(shard: ShardFile) -> RecordDigests | None:
    """What is written of a shard's records, compared with the manifest.

    Returns:
        None where there is no such file, as of datasets of before there were any, or where it
        cannot be believed: it is damaged, or gone. One warning names it then.
    """
    path = shard.names_path
    if path is None:
        return None
    try:
        return RecordDigests.from_bytes(read_bytes(path), path=path, shard=shard.entry)
    except (DatasetError, OSError) as error:
        _warn_of(path, str(error))
        return None


@functools.lru_cache(maxsize=4096)  # once each
def _warn_of(path: str, why: str) -> None:
    _logger.warning("%r is not used, the shard is read through instead: %s", path, why)
