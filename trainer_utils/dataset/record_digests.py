"""The names and content sums of a shard's records, as its dataset has them beside the record index.

digests = read_record_digests(shard)               # None: the shard itself says them
find_numbers(dataset, shard, [b"cat/1.jpg"])       # [17], or None: the shard itself says it
"""

import functools
import io
import logging
import math
from collections.abc import Collection, Sequence

import numpy as np
import numpy.typing as npt

from trainer_utils.dataset.opening import Dataset, ShardFile
from trainer_utils.format import DatasetError
from trainer_utils.format.naming import NAME_FEATURES
from trainer_utils.format.record_digests import RecordDigests
from trainer_utils.storage import open_for_reading, read_bytes

__all__ = ["find_numbers", "payload_crcs_of", "read_record_digests"]

_READ_WHOLE_BYTES = 1 << 20  # in one request
_NPY_LENGTH_END = 10  # bytes of an array's file, of which the last two say how long its header is

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


def payload_crcs_of(shard: ShardFile, numbers: Sequence[int]) -> npt.NDArray[np.uint32] | None:
    """The masked CRC-32C of some records as their frames have it, of a file not read whole.

    Unlike `read_record_digests` it looks at four bytes a record, and compares nothing.

    Args:
        shard: of a dataset of ours.
        numbers: of its records.

    Returns:
        `(numbers,) uint32`, little-endian; None where there is no such file.

    Raises:
        OSError: it cannot be read.
    """
    if shard.names_path is None:
        return None
    is_small = shard.entry is not None and (shard.entry.names_bytes or 0) <= _READ_WHOLE_BYTES
    path = shard.names_path
    with io.BytesIO(read_bytes(path)) if is_small else open_for_reading(path) as stream:
        begin = _NPY_LENGTH_END
        for item_bytes in (8, 0):  # behind the folds, and behind the header of the sums
            stream.seek(begin - 2)
            begin += int.from_bytes(stream.read(2), "little")
            begin += item_bytes and item_bytes * shard.num_records + _NPY_LENGTH_END
        parts = []
        for number in numbers:
            stream.seek(begin + 4 * number)
            parts.append(stream.read(4))
    return np.frombuffer(b"".join(parts).ljust(4 * len(numbers), b"\0"), "<u4")


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
