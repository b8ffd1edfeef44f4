"""A shard written by picking its records, one after the other, from the files where they lie.

An input that is local, and that the system can keep in memory, is a run as it lies there: a record
costs one read, and none is held.
"""

import os
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from typing import NoReturn

import numpy as np
import numpy.typing as npt

from components.shuffle.external import Lot
from trainer_utils.dataset import read_shard_blocks
from trainer_utils.format import DatasetError
from trainer_utils.format.tfrecord import RECORD_OVERHEAD_BYTES, Lengths, check_frames
from trainer_utils.storage import file_size, naming_file, open_for_reading

Ints = npt.NDArray[np.int64]

LOT_BYTES = 1 << 20
"""What is picked before it is checked and written: a core's cache holds it. A longer record is
picked alone."""

_AHEAD_BYTES = 128 << 10  # Linux reads no more of a file ahead at a time unless it is told to


def picked_lots(
    paths: Sequence[str], files: Lengths, offsets: Ints, lengths: Lengths
) -> Iterator[tuple[Lengths, Lot]]:
    """The records of a shard, each lot with the numbers of the files that its records are from.

    Args:
        paths: of all files, by number; local, and not compressed.
        files: `(records,)`, the number of each record's file, in the order of the shard.
        offsets: `(records,) int64`, where its frame begins there, in bytes.
        lengths: `(records,)`, of its payload, in bytes.

    Raises:
        CorruptShardError: a file is damaged, named as by reading it in order.
        DatasetError: it was changed meanwhile.
    """
    payloads: Ints = lengths.astype(np.int64)
    sizes = payloads + RECORD_OVERHEAD_BYTES
    ends = np.cumsum(sizes)
    start = done = 0
    with ExitStack() as opened:
        streams = [opened.enter_context(open_for_reading(path)) for path in paths]
        while start < len(ends):
            stop = max(int(np.searchsorted(ends, done + LOT_BYTES, side="right")), start + 1)
            frames = []
            of_lot = (array[start:stop].tolist() for array in (files, offsets, sizes))
            for file, offset, size in zip(*of_lot, strict=True):
                with naming_file(paths[file]):
                    frames.append(_read(streams[file].fileno(), size, offset))
                if len(frames[-1]) < size:
                    _raise_damage(paths[file])
            data = b"".join(frames)
            stops = ends[start:stop] - done
            crcs, is_whole = check_frames(data, stops - sizes[start:stop], stops)
            if not is_whole.all():
                _raise_damage(paths[int(files[start + is_whole.argmin()])])
            yield files[start:stop], Lot(data, payloads[start:stop], crcs)
            start, done = stop, int(ends[stop - 1])


def _read(descriptor: int, size: int, offset: int) -> bytes:
    data = os.pread(descriptor, size, offset)
    while len(data) < size and (more := os.pread(descriptor, size - len(data), offset + len(data))):
        data += more
    return data


def changed_meanwhile(path: str) -> DatasetError:
    """The error of a file of which records were planned that are not there, or more of them."""
    rule = "a file that stays as it is while it is read"
    return DatasetError.at(
        path, expected=rule, got="one that was changed meanwhile", advice="Run it again."
    )


def _raise_damage(path: str) -> NoReturn:
    """Reads a file in order, which says what is wrong where."""
    for _ in read_shard_blocks(path):
        pass
    raise changed_meanwhile(path)


def read_ahead(path: str) -> None:
    """Has the system read a file from its beginning to its end while other work is done.

    Records that are picked here and there would have a disk seek for each of them.
    """
    if hasattr(os, "posix_fadvise"):
        with open_for_reading(path) as stream:
            for start in range(0, file_size(path), _AHEAD_BYTES):
                descriptor = stream.fileno()
                os.posix_fadvise(descriptor, start, _AHEAD_BYTES, os.POSIX_FADV_WILLNEED)
