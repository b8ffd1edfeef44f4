"""Writes a shard with its record index, and reads it back before the manifest may name it.

Reading back shows that size and CRC-32C of both files are what was handed to the file system, and
so every record's own, too. That the disk has them `fsync` is asked for before the manifest.
"""

import dataclasses
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, BinaryIO, cast

import numpy as np

from trainer_utils import storage
from trainer_utils.format import CorruptShardError, RecordIndex, Shard, ShardName, ShardWriter
from trainer_utils.format.checksums import extend_crc32c
from trainer_utils.format.naming import index_file
from trainer_utils.format.shard_writer import ShardDigest
from trainer_utils.format.tfrecord import BLOCK_BYTES
from trainer_utils.writing.publishing import working_folder

_READ_BYTES = 1 << 20  # of a local file: what a core's cache holds, and few system calls


def write_shard(name: ShardName, fill: Callable[[ShardWriter], None], *, uri: str) -> Shard:
    """Writes a shard, whose records `fill` appends, and its index; it is not read back yet."""
    path = storage.join(uri, name.path)
    with _writing(path, uri) as stream:
        writer = ShardWriter(stream, gzip=name.gzip)
        fill(writer)
        digest = writer.finish()
    storage.begin_sync(path)
    return finish_shard(name, digest, writer, uri=uri)


def finish_shard(name: ShardName, digest: ShardDigest, writer: ShardWriter, *, uri: str) -> Shard:
    """Writes the index of a shard that is finished; returns what the manifest says of both."""
    data = writer.index.to_bytes()
    with _writing(storage.join(uri, index_file(name.path)), uri) as stream:
        stream.write(data)
    crc = extend_crc32c(0, data)
    return Shard(path=name.path, split=name.split, **digest._asdict(), index_crc32c=crc)


def verify_shard(shard: Shard, *, uri: str, block_bytes: int = BLOCK_BYTES) -> None:
    """Reads a shard and its index back; a CorruptShardError where they are not what was written."""
    path, index_path = storage.join(uri, shard.path), storage.join(uri, index_file(shard.path))
    RecordIndex.from_bytes(storage.read_bytes(index_path), path=index_path, shard=shard)
    size = crc = 0
    # The same memory each time: new memory costs the system twice what the reading does.
    most = block_bytes if storage.is_remote(path) else min(block_bytes, _READ_BYTES)
    memory = np.empty(most, np.uint8)
    with storage.naming_file(path), storage.open_for_reading(path) as stream:
        while count := cast(Any, stream).readinto(memory):
            size, crc = size + count, extend_crc32c(crc, memory[:count])
    if (size, crc) != (shard.bytes, shard.crc32c):
        raise CorruptShardError.at(
            path,
            expected=f"the {shard.bytes} bytes with checksum {shard.crc32c:08x} that were written",
            got=f"{size} with {crc:08x}",
            offset=min(size, shard.bytes),
            advice="The disk or file system lost data: run it again elsewhere.",
        )
    if shard.path.endswith(".gz"):
        from trainer_utils.dataset import read_shard_blocks  # 60 ms, which workers need not take

        records = sum(map(len, read_shard_blocks(path, block_bytes=block_bytes)))
        if records != shard.records:
            said = f"{shard.records} records as were written"
            raise CorruptShardError.at(path, expected=said, got=str(records))


def files_of_shard(shard: Shard) -> list[str]:
    """A shard and what belongs to it, by paths relative to the dataset; the shard comes first."""
    return [shard.path] + [index_file(shard.path)] * (shard.index_crc32c is not None)


def copy_shard(shard: Shard, name: ShardName, *, source: str, uri: str) -> Shard:
    """Puts a shard of the dataset `source` into that at `uri`, as hard links or as copies, which
    are read back, but for those that a store makes of its own objects."""
    copied = dataclasses.replace(shard, path=name.path, split=name.split)
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
    """Removes a shard and what belongs to it."""
    for path in files_of_shard(shard):
        storage.remove_file(storage.join(uri, path))


def rename_shard(shard: Shard, name: ShardName, *, uri: str) -> Shard:
    """Gives a shard, and what belongs to it, another name; returns what the manifest says of it."""
    renamed = dataclasses.replace(shard, path=name.path)
    for old, new in zip(files_of_shard(shard), files_of_shard(renamed), strict=True):
        storage.rename(storage.join(uri, old), storage.join(uri, new))
    return renamed


def _writing(path: str, uri: str) -> AbstractContextManager[BinaryIO]:
    storage.make_folder(path.rpartition("/")[0])
    storage.make_folder(working_folder(uri))
    return storage.write_atomically(path, temporary_folder=working_folder(uri))
