"""What each record of a shard is called, and a sum of its content, so that datasets are compared
without being read.

    digests = RecordDigests.from_bytes(data, path=…, shard=shard)    # compared with the manifest
    digests.name(17)                                                 # b'cat/1.jpg'
    digests.numbers_of([b"cat/1.jpg"])                               # [17]

A record's content is its fold (`folding.py`) and the CRC-32C that its frame has, 96 bits in all.
On disk these are four NumPy arrays (`.npy`) one after the other: folds, CRCs, lengths of names, and
the names end to end.
"""

import dataclasses
import functools
from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from trainer_utils.format.crc32c import extend_crc32c
from trainer_utils.format.errors import CorruptShardError, DatasetError
from trainer_utils.format.example_decoding import decode_example
from trainer_utils.format.folding import fold_bytes, fold_frames
from trainer_utils.format.framing import (
    FOOTER_BYTES,
    HEADER_BYTES,
    RECORD_OVERHEAD_BYTES,
    Lengths,
)
from trainer_utils.format.manifest import Shard
from trainer_utils.format.name_places import find_names
from trainer_utils.format.naming import NAME_FEATURES
from trainer_utils.format.npy import npy_bytes, parse_npy
from trainer_utils.format.tfrecord import compact

__all__ = ["DigestCollector", "Names", "RecordDigests", "name_of_features"]

_WHAT = "names and sums of records"
_MOST_NAME_BYTES = 4096  # as of a path; a longer `id` is content, which shards may be full of
_TAIL_BYTES = 8  # of names that are compared at once
_FEW = 32  # records that are looked at one by one sooner than all together


class Names(NamedTuple):
    """What some records are called.

    Args:
        lengths: `(records,)`, of each name in bytes.
        data: the names end to end.
    """

    lengths: Lengths
    data: bytes

    @classmethod
    def of(cls, names: Sequence[bytes | None]) -> "Names | None":
        """Of names one by one; None where one of them is."""
        known = [name for name in names if name is not None]
        if len(known) != len(names):
            return None
        return cls(np.array([len(name) for name in known], np.int64), b"".join(known))


@dataclasses.dataclass(frozen=True, eq=False, kw_only=True)
class RecordDigests:
    """The names and sums of the records of one shard, in file order.

    Args:
        folds: `(records,) uint64`.
        payload_crcs: `(records,) uint32`, each payload's masked CRC-32C as its frame has it.
        names: of all records.
    """

    folds: npt.NDArray[np.uint64]
    payload_crcs: npt.NDArray[np.uint32]
    names: Names

    def __len__(self) -> int:
        return len(self.folds)

    @functools.cached_property
    def name_bounds(self) -> npt.NDArray[np.int64]:
        """`(records + 1,) int64`: where each name begins in `names.data`, and the last one ends."""
        bounds = np.zeros(len(self) + 1, np.int64)
        np.cumsum(self.names.lengths, out=bounds[1:])
        return bounds

    def name(self, number: int) -> bytes:
        """What a record is called."""
        return self.names.data[self.name_bounds[number] : self.name_bounds[number + 1]]

    def numbers_of(self, names: Collection[bytes]) -> list[int]:
        """The numbers of the records that have one of some names, in order."""
        wanted = frozenset(names)
        lengths = np.array([len(name) for name in wanted], np.int64)
        places = np.flatnonzero(np.isin(self.names.lengths, lengths))
        # Names differ in their last bytes first of all: most others are ruled out at once by them.
        tail = min(_TAIL_BYTES, int(lengths.min(initial=_TAIL_BYTES)))
        octets = np.frombuffer(self.names.data, np.uint8)
        tails = np.zeros((len(places), _TAIL_BYTES), np.uint8)
        tails[:, :tail] = octets[self.name_bounds[places + 1][:, np.newaxis] + np.arange(-tail, 0)]
        ends = b"".join(name[len(name) - tail :].ljust(_TAIL_BYTES, b"\0") for name in wanted)
        places = places[np.isin(tails.view("<u8")[:, 0], np.frombuffer(ends, "<u8"))]
        return [number for number in places.tolist() if self.name(number) in wanted]

    def to_bytes(self) -> bytes:
        """As they lie on disk."""
        names = np.frombuffer(self.names.data, np.uint8)
        arrays = (
            self.folds.astype("<u8"),
            self.payload_crcs.astype("<u4"),
            compact(self.names.lengths, least_bytes=1),
            names,
        )
        return b"".join(map(npy_bytes, arrays))

    @classmethod
    def from_bytes(cls, data: bytes, *, path: str, shard: Shard | None = None) -> "RecordDigests":
        """Reads what `to_bytes` made.

        Args:
            data: the file's.
            path: its name, for error messages.
            shard: what the manifest says of its shard, to be compared with.

        Raises:
            CorruptShardError: it is no such file, or not the one of the manifest's shard.
        """
        if shard is not None and shard.names_crc32c is not None:
            found = len(data), extend_crc32c(0, data)
            if found != (shard.names_bytes, shard.names_crc32c):
                raise CorruptShardError.at(
                    path,
                    expected=f"{shard.names_bytes} bytes with checksum {shard.names_crc32c:08x} as "
                    "the manifest says",
                    got=f"{found[0]} with {found[1]:08x}",
                    offset=min(found[0], shard.names_bytes or 0),
                    advice="It was changed: write the dataset again.",
                )
        arrays, stop = [], 0
        for _ in range(4):
            array, stop = parse_npy(data, path=path, what=_WHAT, start=stop)
            arrays.append(array)
        folds, crcs, lengths, names = arrays
        records = len(folds) if shard is None else shard.records
        is_whole = len(folds) == len(crcs) == len(lengths) == records and stop == len(data)
        kinds = [array.dtype for array in (folds, crcs, names)] == ["<u8", "<u4", "|u1"]
        if not is_whole or not kinds or _total(lengths) != len(names):
            raise CorruptShardError.at(
                path,
                expected=f"{_WHAT}, of {records} records",
                got=f"sums of {len(folds)} and {len(crcs)}, names of {len(lengths)}",
                advice="It is of another shard, or damaged: write the dataset again.",
            )
        return cls(
            folds=folds.astype(np.uint64),
            payload_crcs=crcs.astype(np.uint32),
            names=Names(lengths, names.tobytes()),
        )


def _total(lengths: Lengths) -> int:
    """Their sum, whatever they are."""
    most = int(lengths.max(initial=0))
    return most if most >= 1 << 31 else int(lengths.sum(dtype=np.uint64))


def name_of_features(features: Mapping[str, Any]) -> bytes | None:
    """What an example is called; None: it is not.

    The first of the features that name records counts which has a text.

    Args:
        features: by name, as `encode_example` takes them or `decode_example` gives them.
    """
    for feature in NAME_FEATURES:
        value = features.get(feature)
        first = value[0] if isinstance(value, list | tuple) and value else value
        if isinstance(first, bytes | memoryview):
            return bytes(first)
    return None


class DigestCollector:
    """Gathers the names and folds of a shard's records while they are written.

    From the first record without a name, or with one longer than paths are, it does nothing more:
    there will be no digests.
    """

    def __init__(self) -> None:
        self._folds: list[npt.NDArray[np.uint64]] = []
        self._names: list[Names] = []
        self._is_named = True

    def add(
        self,
        frames: bytes | memoryview | Sequence[memoryview],
        lengths: npt.NDArray[np.int64],
        names: Names | None = None,
    ) -> None:
        """Takes framed records in.

        Args:
            frames: end to end, or one by one.
            lengths: `(records,) int64`, each payload's length in bytes.
            names: of all of them; None: they are looked for in the records.
        """
        if not self._is_named or not len(lengths):
            return
        if isinstance(frames, bytes | memoryview):
            data = np.frombuffer(frames, np.uint8)
            ends = np.cumsum(lengths + RECORD_OVERHEAD_BYTES)
            stops = ends - FOOTER_BYTES
            found = fold_frames(data, stops - lengths, stops)
        else:
            payloads = [frame[HEADER_BYTES:-FOOTER_BYTES] for frame in frames]
            found = np.array([fold_bytes(payload) for payload in payloads], np.uint64)
        if names is None and isinstance(frames, bytes | memoryview):
            names = _names_in(frames, np.concatenate([ends[:1] * 0, ends]))
        elif names is None:
            names = Names.of([_name_in(payload) for payload in payloads])
        if names is None or names.lengths.max() > _MOST_NAME_BYTES:
            self._is_named = False
            self._folds.clear()
            self._names.clear()
            return
        self._folds.append(found)
        self._names.append(names)

    def digests(self, payload_crcs: npt.NDArray[np.uint32]) -> RecordDigests | None:
        """Of all records that were added; None where one of them has no name.

        Args:
            payload_crcs: `(records,) uint32`, masked, as the frames have them.
        """
        if not self._is_named:
            return None
        return RecordDigests(
            folds=np.concatenate([np.zeros(0, np.uint64), *self._folds]),
            payload_crcs=payload_crcs,
            names=Names(
                np.concatenate([np.zeros(0, np.int64), *(n.lengths for n in self._names)]),
                b"".join(names.data for names in self._names),
            ),
        )


def _names_in(frames: bytes | memoryview, offsets: npt.NDArray[np.int64]) -> Names | None:
    """The names of framed records end to end."""
    view = memoryview(frames)
    starts, stops = offsets[:-1] + HEADER_BYTES, offsets[1:] - FOOTER_BYTES
    if len(starts) < _FEW:
        bounds = zip(starts.tolist(), stops.tolist(), strict=True)
        return Names.of([_name_in(view[start:stop]) for start, stop in bounds])
    places = find_names(np.frombuffer(frames, np.uint8), offsets, NAME_FEATURES)
    found = zip(places.begins.tolist(), places.ends.tolist(), strict=True)
    names: list[bytes | None] = [bytes(view[begin:end]) for begin, end in found]
    for number in np.flatnonzero(~places.is_found).tolist():
        names[number] = _name_in(view[starts[number] : stops[number]])
        if names[number] is None:
            return None
    return Names.of(names)


def _name_in(payload: memoryview) -> bytes | None:
    """What one record is called; None where it is not, or is no example."""
    try:
        return name_of_features(decode_example(payload, NAME_FEATURES))
    except DatasetError:
        return None
