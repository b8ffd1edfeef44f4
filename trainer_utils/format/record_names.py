"""What records are called: the first of `NAME_FEATURES` that has a text.

name_of(decode_example(record, NAME_FEATURES))     # b"cat/1.jpg"
name_crcs(data, begins, ends)                      # CRC-32C of each record's name, 0 of none
"""

from collections.abc import Mapping
from typing import Any

import google_crc32c
import numpy as np
import numpy.typing as npt

from trainer_utils.format.crc32c import Buffer
from trainer_utils.format.errors import DatasetError
from trainer_utils.format.example_columns import parse_examples
from trainer_utils.format.example_decoding import decode_context
from trainer_utils.format.naming import NAME_FEATURES

_FEW = 32  # records that are looked at one by one sooner than all together

Positions = npt.NDArray[np.int64]


def name_of(features: Mapping[str, Any]) -> bytes | None:
    """What an example is called; None: it is not.

    Args:
        features: by name, as `encode_example` takes them or `decode_example` gives them.
    """
    for feature in NAME_FEATURES:
        value = features.get(feature)
        first = value[0] if isinstance(value, list | tuple) and value else value
        if isinstance(first, bytes | memoryview):
            return bytes(first)
    return None


def name_crc(name: bytes | None) -> int:
    """As a record index has it."""
    return 0 if name is None else int(google_crc32c.value(name))


def name_crcs(data: Buffer, begins: Positions, ends: Positions) -> npt.NDArray[np.uint32]:
    """The same of the records `[begins, ends)` in some bytes: `(records,) uint32`."""
    found = np.zeros(len(begins), np.uint32)
    if len(begins) < _FEW or not _found_together(data, begins, ends, found):
        view = memoryview(data)  # type: ignore[arg-type]
        bounds = zip(begins.tolist(), ends.tolist(), strict=True)
        found[:] = [name_crc(name_in(view[begin:end])) for begin, end in bounds]
    return found


def name_in(record: bytes | memoryview) -> bytes | None:
    """What a serialized example is called; None of what is none, too."""
    try:
        return name_of(decode_context(record, NAME_FEATURES))
    except DatasetError:
        return None


def _found_together(
    data: Buffer, begins: Positions, ends: Positions, found: npt.NDArray[np.uint32]
) -> bool:
    try:
        columns = parse_examples(data, begins, ends, NAME_FEATURES)
    except DatasetError:
        return False
    is_found = np.zeros(len(begins), bool)
    for name in NAME_FEATURES:
        kind, counts, values = columns[name]
        rows = np.flatnonzero((counts > 0) & ~is_found)
        if kind == "string" and len(rows):
            firsts = values[(np.cumsum(counts) - counts)[rows]]
            found[rows] = [google_crc32c.value(value) for value in firsts]
            is_found[rows] = True
    return True
