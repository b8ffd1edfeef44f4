"""Write, copy, rename and remove the shards of a dataset, and read them back to verify them.

    shard = write_shard(name, fill, uri=uri)
    verify_shard(shard, uri=uri)

If the size and CRC-32C of a shard and of its index are right, every record's checksum is, too.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, BinaryIO, cast

import numpy as np

from trainer_utils import storage
from trainer_utils.core.errors import CorruptShardError
from trainer_utils.format import (
    RecordIndex,
    Shard,
    ShardName,
    ShardWriter,
)
from trainer_utils.format.index import ShardDigest
from trainer_utils.format.naming import index_file
from trainer_utils.format.tfrecord import BLOCK_BYTES, extend_crc32c
from trainer_utils.writing.working_folder import working_folder

_READ_BYTES = 1 << 20  # of a local file: fits into a core's cache, with few system calls


def write_shard(name: ShardName, fill: Callable[[ShardWriter], None], *, uri: str) -> Shard:
    """Write a shard with the records that `fill` appends, and its index, without verification."""
    path = storage.join(uri, name.path)
    with _writing(path, uri) as stream:
        writer = ShardWriter(stream, gzip=name.gzip)
        fill(writer)
        digest = writer.finish()
    storage.begin_sync(path)
    return finish_shard(name, digest, writer, uri=uri)


def finish_shard(name: ShardName, digest: ShardDigest, writer: ShardWriter, *, uri: str) -> Shard:
    """Write the index of a finished shard; return the manifest entry of both."""
    data = writer.index.to_bytes()
    with _writing(storage.join(uri, index_file(name.path)), uri) as stream:
        stream.write(data)
    crc = extend_crc32c(0, data)
    return Shard(path=name.path, split=name.split, **digest._asdict(), index_crc32c=crc)


def verify_shard(shard: Shard, *, uri: str, block_bytes: int = BLOCK_BYTES) -> None:
    """Read a shard and its index back; raise CorruptShardError if they have changed."""
    path, index_path = storage.join(uri, shard.path), storage.join(uri, index_file(shard.path))
    RecordIndex.from_bytes(storage.read_bytes(index_path), path=index_path, shard=shard)
    size = crc = 0
    # Reuse one buffer: new memory costs the system twice as much as reading.
    most = block_bytes if storage.is_remote(path) else min(block_bytes, _READ_BYTES)
    memory = np.empty(most, np.uint8)
    with storage.naming_file(path), storage.open_for_reading(path) as stream:
        while count := cast(Any, stream).readinto(memory):
            size, crc = size + count, extend_crc32c(crc, memory[:count])
    if (size, crc) != (shard.bytes, shard.crc32c):
        raise CorruptShardError.at(
            path,
            expected=f"the {shard.bytes} bytes written, with checksum {shard.crc32c:08x}",
            got=f"{size} bytes with {crc:08x}",
            offset=min(size, shard.bytes),
            advice="The disk or file system lost data: run it again elsewhere.",
        )


def files_of_shard(shard: Shard) -> list[str]:
    """Return the paths of a shard and its index relative to the dataset, the shard first."""
    if shard.index_crc32c is None:
        return [shard.path]
    return [shard.path, index_file(shard.path)]


def copy_shard(shard: Shard, name: ShardName, *, source: str, uri: str) -> Shard:
    """Copy a shard of the dataset `source` to `uri`, as hard links if possible.

    Copies are verified, unless the store itself has copied its objects.
    """
    copied = shard._replace(path=name.path, split=name.split)
    linked = []
    for old, new in zip(files_of_shard(shard), files_of_shard(copied), strict=True):
        target, folder = storage.join(uri, new), working_folder(uri)
        storage.make_folder(target.rpartition("/")[0])
        storage.make_folder(folder)
        linked.append(storage.copy_file(storage.join(source, old), target, temporary_folder=folder))
    path = storage.join(uri, copied.path)
    is_one_system = storage.file_system_of(uri) is storage.file_system_of(source)
    if storage.is_remote(uri) and is_one_system:  # the store's own copy
        if (size := storage.file_size(path)) != shard.bytes:
            raise CorruptShardError.at(path, expected=f"{shard.bytes} bytes", got=str(size))
    elif not all(linked):
        verify_shard(copied, uri=uri)
    return copied


def remove_shard(shard: Shard, *, uri: str) -> None:
    """Remove a shard and its index."""
    for path in files_of_shard(shard):
        storage.remove_file(storage.join(uri, path))


def rename_shard(shard: Shard, name: ShardName, *, uri: str) -> Shard:
    """Rename a shard and its index; return the new manifest entry."""
    renamed = shard._replace(path=name.path)
    for old, new in zip(files_of_shard(shard), files_of_shard(renamed), strict=True):
        storage.rename(storage.join(uri, old), storage.join(uri, new))
    return renamed


def _writing(path: str, uri: str) -> AbstractContextManager[BinaryIO]:
    storage.make_folder(path.rpartition("/")[0])
    storage.make_folder(working_folder(uri))
    return storage.write_atomically(path, temporary_folder=working_folder(uri))
