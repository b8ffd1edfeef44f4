"""Refuses a shard whose records claim more bytes than it has, before TensorFlow reads it.

refuse_made_up_lengths(path, location, entry)     # CorruptShardError with record and offset

TensorFlow's reader allocates what a length says before it looks for as many bytes: a length of 2^40
with a good checksum ends the process. So the headers of a file, and nothing else of it, are looked
at when it is opened; once, as long as it stays as it is. They are read, and the file is not mapped:
a look behind the end of one that is being cut would end the process.
"""

import os

import numpy as np

from trainer_utils.dataset.open_shard import naming_what_went
from trainer_utils.dataset.record_index import indexed_offsets
from trainer_utils.dataset.shards import open_records
from trainer_utils.format import CorruptShardError, RecordIndex, Shard, scan_lengths
from trainer_utils.format.framing import (
    HEADER_BYTES,
    RECORD_OVERHEAD_BYTES,
    frame_headers,
)
from trainer_utils.format.tfrecord import length_at, whole_frames
from trainer_utils.storage import file_version, is_remote, open_for_reading

__all__ = ["refuse_made_up_lengths"]

_WINDOW_BYTES = 256 << 10  # 256 KiB, which stay in the cache of a core
_APART_BYTES = 4 << 10  # from header to header: of shorter records several come with one read

# Files whose lengths were found to fit, by their state.
_good: set[tuple[str, str]] = set()


def refuse_made_up_lengths(path: str, location: str, entry: Shard | None) -> None:
    """Looks at every record's header; what is remote is left to whoever copies it.

    Args:
        path: of the shard, as the dataset names it.
        location: where it is read from.
        entry: what the manifest says of it, where there is one.

    Raises:
        CorruptShardError: a record claims more than the file has, its header is damaged, or it
            is there no more.
        OSError: it cannot be read.
    """
    if is_remote(location):
        return
    with naming_what_went(path):
        state = location, file_version(location)
        if state not in _good:
            if not _fits(path, location, entry):
                with open_records(location) as stream:
                    scan_lengths(stream, path=path)  # which says what is wrong, and where
            _good.add(state)


def _fits(path: str, location: str, entry: Shard | None) -> bool:
    """Whether the headers alone show that all is well."""
    if path.endswith(".gz"):
        return False
    with open_for_reading(location) as stream:
        size = stream.seek(0, os.SEEK_END)
        offsets = indexed_offsets(path, size=size, entry=entry)
        if offsets is None:
            return _end_of_frames(stream.fileno(), size) == size
        index = RecordIndex(np.diff(offsets) - RECORD_OVERHEAD_BYTES)
        try:
            return _are_there(stream.fileno(), index, size, path)
        except CorruptShardError:
            return False


def _are_there(descriptor: int, index: RecordIndex, size: int, path: str) -> bool:
    """Whether headers are where the index says; each by itself where there is much between them."""
    if size > _APART_BYTES * len(index):
        places = index.offsets[:-1].tolist()
        found = b"".join([os.pread(descriptor, HEADER_BYTES, place) for place in places])
        return found == frame_headers(index.lengths).tobytes()
    for begin in range(0, size, _WINDOW_BYTES - HEADER_BYTES + 1):
        data = os.pread(descriptor, _WINDOW_BYTES, begin)
        if len(data) < min(_WINDOW_BYTES, size - begin):  # cut meanwhile
            return False
        index.check_headers(data, offset=begin, path=path)
    return True


def _end_of_frames(descriptor: int, size: int) -> int:
    """Where the last frame ends by what the lengths say, unchecked; below `size` if that is cut."""
    position, window = 0, _WINDOW_BYTES
    while position + RECORD_OVERHEAD_BYTES <= size:
        data = os.pread(descriptor, window, position)
        if len(data) < HEADER_BYTES:  # cut meanwhile
            break
        records, end = whole_frames(data)
        if len(data) - end >= HEADER_BYTES:  # the header of one that ends behind the window
            end += length_at(data, end) + RECORD_OVERHEAD_BYTES
            records += 1
        position += end
        window = HEADER_BYTES if end > _APART_BYTES * records else _WINDOW_BYTES
    return position
