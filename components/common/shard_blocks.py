"""A shard's records, read in verified blocks; nothing of TensorFlow, TFX or Beam is imported.

for block in read_shard_blocks("examples/Split-train/data_tfrecord-00000-of-00008.gz"):
    block.records()
"""

import contextlib
import gzip
import zlib
from collections.abc import Iterator
from typing import BinaryIO, cast

from components.common.files import open_for_reading
from trainer_utils.format import CorruptShardError, RecordBlock, RecordIndex, read_blocks
from trainer_utils.format.tfrecord import BLOCK_BYTES

__all__ = ["framed_stream", "read_shard_blocks"]


def read_shard_blocks(
    path: str, *, block_bytes: int = BLOCK_BYTES, index: RecordIndex | None = None
) -> Iterator[RecordBlock]:
    """A shard's verified blocks of about `block_bytes`; gzip is told by the `.gz` suffix.

    With the shard's index short records are found faster.

    Raises:
        CorruptShardError: as `read_blocks`.
    """
    lengths = None if index is None else index.lengths
    with framed_stream(path) as stream:
        yield from read_blocks(stream, path=path, block_bytes=block_bytes, lengths=lengths)


@contextlib.contextmanager
def framed_stream(path: str) -> Iterator[BinaryIO]:
    """The framed records of a file, decompressed where its name says so.

    Raises:
        CorruptShardError: it is no whole gzip stream.
    """
    with open_for_reading(path) as stream:
        if not path.endswith(".gz"):
            yield stream
            return
        try:
            with gzip.GzipFile(fileobj=stream, mode="rb") as unzipped:
                yield cast(BinaryIO, unzipped)
        except (EOFError, zlib.error, OSError) as error:
            raise CorruptShardError(
                f"{path!r}: expected a whole gzip stream: {error} "
                f"(near byte {stream.tell()}). The file is damaged: write it again.",
                path=path,
                offset=stream.tell(),
            ) from error
