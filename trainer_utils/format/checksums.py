"""Sums of a set of records, of a dataset's small files, and of the manifest that holds them.

The manifest's `checksum` is the CRC-32C of its bytes with zeros for the eight digits of it.
"""

import dataclasses
import re
from collections.abc import Iterable, Mapping

import numpy as np
import numpy.typing as npt

from trainer_utils.format.crc32c import extend_crc32c
from trainer_utils.format.json_text import Json, JsonObject
from trainer_utils.format.naming import check_inner_path
from trainer_utils.format.planning import splitmix64

NO_CHECKSUM = "00000000"
# Two blanks of indent are the top level's alone, and no text of JSON holds a newline.
_CHECKSUM = re.compile(r'  "checksum": "([0-9a-f]{8})"')
_ITS_LINE = '\n  "checksum": "'  # found first: a search for the pattern takes longer than the sum


def multiset_checksum(lengths: npt.NDArray[np.int64], payload_crcs: npt.NDArray[np.uint32]) -> int:
    """A checksum of 64 bits, unsigned, of records that does not depend on their order.

    Length and CRC-32C of each are mixed, and these are added: a lost record, one that is there
    twice, or one put in another's stead changes the sum. `lengths` are `(records,) int64`, of the
    payloads in bytes; `payload_crcs` `(records,) uint32`, masked, as frames have them.
    """
    mixed = lengths.astype(np.uint64) << np.uint64(32) | payload_crcs.astype(np.uint64)
    return int(np.sum(splitmix64(mixed, np.uint64(1)), dtype=np.uint64))


def combine_checksums(sums: Iterable[int]) -> int:
    """The `multiset_checksum` of several lots of records together."""
    return sum(sums) % 2**64


@dataclasses.dataclass(frozen=True)
class FileDigest:
    """A small file that is published: its size in bytes, and the CRC-32C of them."""

    size: int
    crc32c: int

    @classmethod
    def of(cls, data: bytes) -> "FileDigest":
        """Of a file's content."""
        return cls(len(data), extend_crc32c(0, data))

    def to_entry(self) -> JsonObject:
        """As the manifest has it."""
        return {"bytes": self.size, "crc32c": f"{self.crc32c:08x}"}

    @classmethod
    def from_entry(cls, path: str, entry: Mapping[str, Json]) -> "FileDigest":
        """Reads what `to_entry` made; raises ValueError, KeyError or TypeError."""
        check_inner_path(path)
        size = entry["bytes"]
        if type(size) is not int or size < 0:
            raise ValueError(f"{path!r}: expected a number of bytes, got {size!r}")
        return cls(size, int(entry["crc32c"], 16))


def seal(text: str) -> str:
    """A text of JSON with its own checksum; a ValueError where it has no place for one, or two."""
    lines = [found.start() + 1 for found in re.finditer(_ITS_LINE, text)]
    places = [found.span(1) for line in lines if (found := _CHECKSUM.match(text, line))]
    if len(places) != 1:
        raise ValueError(f"expected a line with its checksum, got {len(places)}")
    start, stop = places[0]
    crc = extend_crc32c(0, (text[:start] + NO_CHECKSUM + text[stop:]).encode())
    return f"{text[:start]}{crc:08x}{text[stop:]}"


def is_sealed(text: str) -> bool:
    """Whether a text has its own checksum, and the right one."""
    try:
        return seal(text) == text
    except ValueError:
        return False
