"""Write the files of a dataset: shards and indices, which are verified, small files, the manifest.

Verification reads a shard back. If the size and CRC-32C of both files are right, every record's
checksum is, too. The files are synced to the disk before the manifest is written last.
"""

import contextlib
import dataclasses
import os
import socket
import uuid
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, BinaryIO, cast

import numpy as np

from trainer_utils import storage
from trainer_utils.core.errors import ConfigError, CorruptShardError
from trainer_utils.format import (
    Feature,
    Manifest,
    RecordIndex,
    Shard,
    ShardName,
    ShardWriter,
    naming,
)
from trainer_utils.format.croissant import render_croissant
from trainer_utils.format.datum import render_features, render_schema_text, render_shard_info
from trainer_utils.format.index import ShardDigest
from trainer_utils.format.manifest import FileDigest
from trainer_utils.format.naming import index_file
from trainer_utils.format.tfrecord import BLOCK_BYTES, extend_crc32c

_READ_BYTES = 1 << 20  # of a local file: fits into a core's cache, with few system calls
_CLAIMS = f"{naming.WORKING_FOLDER}/writers"


def working_folder(uri: str) -> str:
    """Return the folder for temporary files and summaries, which is removed on publishing."""
    return storage.join(uri, naming.WORKING_FOLDER)


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
    return [shard.path] + [index_file(shard.path)] * (shard.index_crc32c is not None)


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


def describing_texts(
    features: Mapping[str, Feature],
    records_by_shard: Mapping[str, Mapping[str, int]],
    *,
    vocabularies: Mapping[str, Sequence[str]],
    schema: str | None = None,
) -> dict[str, str]:
    """Return vocabularies, Datum's two JSON files and `schema.pbtxt`, by relative path.

    Args:
        features: the features by name.
        records_by_shard: for each split, the number of records by relative path.
        vocabularies: the values of features in the order of their ids.
        schema: the content of `schema.pbtxt`. None: derived from the features.
    """
    texts = {
        naming.vocabulary_file(feature): "".join(f"{value}\n" for value in values)
        for feature, values in vocabularies.items()
    }
    own = render_schema_text(features, vocabularies=vocabularies)
    texts[naming.SCHEMA_FILE] = own if schema is None else schema
    texts[naming.DATUM_TYPES_FILE] = render_features(features)
    texts[naming.DATUM_SHARDS_FILE] = render_shard_info(records_by_shard)
    return texts


def publish(
    uri: str,
    manifest: Manifest,
    features: Mapping[str, Feature],
    *,
    vocabularies: Mapping[str, Sequence[str]],
    others: Mapping[str, str] | None = None,
    beside: Mapping[str, str] | None = None,
    check: Callable[[], None] = lambda: None,
) -> None:
    """Write the small files of a dataset with shards at `uri`, and finally the manifest.

    Args:
        uri: the uri of the dataset.
        manifest: the manifest, except for `files`.
        features: the features by name.
        vocabularies: the values of features in the order of their ids.
        others: further text files by path, such as the list of rejects. The manifest lists them,
            but not the files in the next mapping.
        check: raises if another writer is at work. It is called before the manifest is written, and
            again before the working folder is removed, since that may belong to the other writer.
    """
    records_by_shard = {
        split: {shard.path: shard.records for shard in manifest.shards_of(split)}
        for split in manifest.splits
    }
    texts = describing_texts(features, records_by_shard, vocabularies=vocabularies)
    texts |= others or {}
    texts[naming.CROISSANT_FILE] = render_croissant(
        features,
        {split: sum(records.values()) for split, records in records_by_shard.items()},
        vocabularies=vocabularies,
        files=texts,
        producer=manifest.producer,
        fingerprint=manifest.input_fingerprint,
    )
    written, working = texts | dict(beside or {}), working_folder(uri)
    storage.make_folder(working)
    for path, text in written.items():
        target = storage.join(uri, naming.check_inner_path(path))
        storage.write_text(target, text, temporary_folder=working)
    files = {path: FileDigest.of(text.encode()) for path, text in texts.items()}
    shards = [shard.path for shard in manifest.shards]
    manifest = dataclasses.replace(manifest, files=files)
    storage.sync_files(uri, {*shards, *manifest.published, *written})
    check()
    path = storage.join(uri, naming.MANIFEST_FILE)
    storage.write_text(path, manifest.to_json(), temporary_folder=working, is_durable=True)
    storage.sync_folder(uri)
    check()
    # Last of all: a folder without a manifest counts as unfinished by its working folder.
    remove_working_folder(uri)


def remove_working_folder(uri: str) -> None:
    """Remove the working folder, beginning with the file that identifies the run.

    If the process is killed meanwhile, no later run resumes from the rest.
    """
    if storage.exists(run := storage.join(working_folder(uri), naming.RUN_FILE)):
        storage.remove_file(run)
    storage.remove_tree(working_folder(uri))


def check_is_free(uri: str) -> None:
    """Raise ConfigError if there is something at `uri`; the message names another writer."""
    _check_is_free(uri, claim="")


def _check_is_free(uri: str, *, claim: str) -> None:
    names = [uri] if storage.exists(uri) else []
    if storage.is_folder(uri):
        names = storage.list_names(uri, may_lack=True)
    rule, advice = "an empty or new folder", "Remove what is there, or pass another folder"
    if naming.WORKING_FOLDER in names and storage.is_remote(uri):
        folder, owner = storage.join(uri, _CLAIMS), ""
        others = sorted({*storage.list_names(folder, may_lack=True)} - {claim})
        if others:
            with contextlib.suppress(FileNotFoundError):  # it ended in the meantime
                owner = f" ({storage.read_text(storage.join(folder, others[0]))})"
            rule = f"a folder that no other writer uses{owner}"
            advice = "Pass another folder; if that writer was killed, remove its files first"
        elif len(names) == 1 and (claim or not storage.list_files(uri)):
            return  # after a failed upload to a store with real folders
    if names:
        raise ConfigError.of("uri", uri, allowed=rule, advice=advice)


def upload_dataset(folder: str, uri: str) -> None:
    """Upload all files of a local folder, the manifest last; remove them all if one fails.

    Listings of a store contain all earlier objects. So a writer first puts a claim, an object with
    a unique name, and then lists the folder. If it finds another claim, it gives up. If two writers
    start at the same moment, both may give up.

    Raises:
        ConfigError: there is something at `uri`, or another writer is writing there.
    """
    check_is_free(uri)
    claims, claim, working = storage.join(uri, _CLAIMS), uuid.uuid4().hex, working_folder(uri)
    paths = sorted(file.path for file in storage.list_files(folder))
    is_mine = False
    try:
        owner = f"process {os.getpid()} on {socket.gethostname()}"
        storage.write_text(storage.join(claims, claim), owner, temporary_folder=claims)
        _check_is_free(uri, claim=claim)
        is_mine = True
        for path in sorted(paths, key=lambda path: path == naming.MANIFEST_FILE):
            target = storage.join(uri, path)
            storage.make_folder(target.rpartition("/")[0])
            storage.copy_file(storage.join(folder, path), target, temporary_folder=working)
    except BaseException:
        for entry in storage.list_folder(uri) if is_mine else ():
            if entry.name != naming.WORKING_FOLDER:
                remove = storage.remove_tree if entry.is_folder else storage.remove_file
                remove(storage.join(uri, entry.name))
        with contextlib.suppress(OSError):  # last, since another writer may start now
            storage.remove_file(storage.join(claims, claim))
        raise
    storage.remove_tree(working)
