"""Refuses a shard whose records claim more bytes than it has, before TensorFlow reads it.

refuse_made_up_lengths(path, location, entry)     # CorruptShardError with record and offset

TensorFlow's reader allocates what a length says before it looks for as many bytes: a length of 2^40
with a good checksum ends the process. So the headers of a file, and nothing else of it, are looked
at when it is opened; once, as long as it stays as it is.
"""

import mmap
from typing import cast

import numpy as np

from trainer_utils.dataset.open_shard import naming_what_went
from trainer_utils.dataset.record_index import indexed_offsets
from trainer_utils.dataset.shards import open_records
from trainer_utils.format import CorruptShardError, RecordIndex, Shard, scan_lengths
from trainer_utils.format.crc32c import Buffer
from trainer_utils.format.framing import RECORD_OVERHEAD_BYTES
from trainer_utils.format.tfrecord import end_of_frames
from trainer_utils.storage import file_version, is_remote, open_for_reading

__all__ = ["refuse_made_up_lengths"]

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
        size = stream.seek(0, 2)
        if not size:
            return True
        with mmap.mmap(stream.fileno(), size, prot=mmap.PROT_READ) as data:
            offsets = indexed_offsets(path, size=size, entry=entry)
            if offsets is None:
                return end_of_frames(data) == size
            index = RecordIndex(np.diff(offsets) - RECORD_OVERHEAD_BYTES)
            try:
                index.check_headers(cast(Buffer, data), offset=0, path=path)
            except CorruptShardError:
                return False
            return True
