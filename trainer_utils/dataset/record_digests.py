"""The names and content sums of a shard's records, as its dataset has them beside the record index.

digests = read_record_digests(shard)               # None: the shard itself says them
find_numbers(dataset, shard, [b"cat/1.jpg"])       # [17], or None: the shard itself says it
"""

import functools
import logging
import math
from collections.abc import Collection

from trainer_utils.dataset.opening import Dataset, ShardFile
from trainer_utils.format import DatasetError
from trainer_utils.format.naming import NAME_FEATURES
from trainer_utils.format.record_digests import RecordDigests
from trainer_utils.storage import read_bytes

__all__ = ["find_numbers", "read_record_digests"]

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


def find_numbers(dataset: Dataset, shard: ShardFile, names: Collection[bytes]) -> list[int] | None:
    """The numbers of a shard's records of some names, in order, without reading the shard.

    Args:
        dataset: that the shard is of.
        shard: one of its files.
        names: each of which may be that of several records, or of none.

    Returns:
        None where the shard has to be read for that: nothing is written of its records, or they
        may have further names, of which the first alone is written.
    """
    digests = read_record_digests(shard) if _has_one_name(dataset) else None
    return None if digests is None else digests.numbers_of(names)


def _has_one_name(dataset: Dataset) -> bool:
    named = [dataset.features[name] for name in NAME_FEATURES if name in dataset.features]
    return len(named) == 1 and named[0].dense and math.prod(named[0].shape) == 1


@functools.lru_cache(maxsize=4096)  # once each
def _warn_of(path: str, why: str) -> None:
    _logger.warning("%r is not used, the shard is read through instead: %s", path, why)
