"""Opens a dataset wherever it is and whoever wrote it: ours, Datum's, TFDS's, TFX's, bare files.

dataset = open_dataset("gs://bucket/examples/5")
dataset.records           # {'train': 2000, 'eval': 1000}
dataset.features          # {'image': Feature(…), …}
"""

import contextlib
import dataclasses
import gzip
import hashlib
import io
import posixpath
import re
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, BinaryIO, cast

import tensorflow as tf

from trainer_utils.dataset.location import newest_dataset
from trainer_utils.dataset.sampling import sample_features
from trainer_utils.format import (
    CorruptShardError,
    DatasetError,
    Feature,
    Shard,
    SplitRange,
    count_records,
)
from trainer_utils.format.layouts import FoundShard, find_layout
from trainer_utils.format.naming import (
    INDEX_FOLDER,
    SHARD_PREFIX,
    SPLIT_PREFIX,
    VOCABULARY_FOLDER,
    WORKING_FOLDER,
)
from trainer_utils.format.texts import text_of

__all__ = [
    "Dataset",
    "FileRange",
    "ShardFile",
    "gzip_content_bytes",
    "open_dataset",
    "open_file",
    "open_records",
    "split_of",
    "uri_of",
]

_SPLIT_PATTERN = re.compile(rf"/{SPLIT_PREFIX}(\w+)(/([^/]*\*[^/]*|{SHARD_PREFIX}[^/]*))?$")
_NO_FILE_SYSTEM = (
    "{uri!r}: expected a local folder or gs://, since TensorFlow has no file system for "
    "'{scheme}://' here. For s3://, hdfs:// and az:// install tensorflow-io and import "
    "tensorflow_io before; or copy the dataset to a local folder."
)


@dataclasses.dataclass(frozen=True)
class ShardFile:
    """A shard's full path, its records, its size in bytes, and what the manifest says of it."""

    path: str
    records: int
    bytes: int
    entry: Shard | None = None


@dataclasses.dataclass(frozen=True)
class FileRange:
    """`take` records of a file, after the first `skip`; `to_end`: it should have no more."""

    path: str
    skip: int
    take: int
    to_end: bool


@dataclasses.dataclass(frozen=True)
class Dataset:
    """An opened dataset: where it is, its features by name, its shards by split."""

    uri: str
    features: Mapping[str, Feature]
    shards: Mapping[str, Sequence[ShardFile]]
    manifest: str | None = None  # its text, where there is one

    @property
    def digest(self) -> str:
        """Of what the dataset holds, wherever it lies: its manifest, else sizes and counts."""
        text = self.manifest
        if text is None:
            text = repr(
                [
                    (split, s.path.removeprefix(self.uri), s.records, s.bytes)
                    for split, shards in self.shards.items()
                    for s in shards
                ]
            )
        return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()

    @property
    def records(self) -> dict[str, int]:
        """Records by split."""
        return {split: sum(s.records for s in shards) for split, shards in self.shards.items()}

    def file_ranges(self, wanted: SplitRange) -> list[FileRange]:
        """The parts of files that hold a range of a split's records, in order."""
        ranges = []
        first = 0
        for shard in self.shards[wanted.split]:
            skip = max(wanted.start - first, 0)
            take = min(wanted.stop - first, shard.records) - skip
            if take > 0:
                to_end = skip + take == shard.records
                ranges.append(FileRange(shard.path, skip, take, to_end))
            first += shard.records
        return ranges


def uri_of(artifact: Any) -> str:
    """The uri of a TFX artifact, of a str, or of a pattern in TFX's `fn_args.train_files`.

    Raises:
        DatasetError: it is none of these.
    """
    uri = artifact if isinstance(artifact, str) else getattr(artifact, "uri", None)
    if not isinstance(uri, str) or not uri:
        raise DatasetError(f"artifact_uri: expected a uri or an artifact, got {artifact!r}")
    return _SPLIT_PATTERN.sub("", uri.rstrip("/"))


def split_of(artifact: Any) -> str | None:
    """The split that a pattern in TFX's `fn_args.train_files` names; of a uri None."""
    found = _SPLIT_PATTERN.search(artifact.rstrip("/")) if isinstance(artifact, str) else None
    return found[1] if found else None


def open_dataset(artifact: Any) -> Dataset:
    """Reads what says what a dataset holds, and compares it with the files that are there.

    Args:
        artifact: as `uri_of` takes; of the folder that `convert` was given, its newest dataset.

    Raises:
        DatasetError: there is no dataset, or it is not whole; the message names what is amiss.
    """
    uri = newest_dataset(uri_of(artifact))
    try:
        return _opened_at(uri)
    except tf.errors.UnimplementedError as error:
        scheme = uri.partition("://")[0]
        raise DatasetError(_NO_FILE_SYSTEM.format(uri=uri, scheme=scheme)) from error
    except DatasetError:
        raise
    except (
        tf.errors.OpError,
        OSError,
        TypeError,
        ValueError,
    ) as error:  # of a path
        raise DatasetError(f"{uri!r}: cannot be read: {type(error).__name__}: {error}") from error


def _opened_at(uri: str) -> Dataset:
    if not tf.io.gfile.isdir(uri):
        with contextlib.suppress(tf.errors.NotFoundError):
            tf.io.gfile.stat(uri)  # which says why, where that is another reason
        raise DatasetError(f"{uri!r}: expected the folder of a dataset, found none")
    files = _list_files(uri)
    found = find_layout(files, lambda path: _read_text(posixpath.join(uri, path)), uri=uri)
    shards = {
        split: [_opened(uri, shard, files.get(shard.path), found.named_in) for shard in group]
        for split, group in found.shards.items()
    }
    features = found.features
    if features is None:
        paths = [shard.path for group in shards.values() for shard in group]
        features = sample_features(paths, open_records)
    text = None if found.manifest is None else found.manifest.to_json()
    return Dataset(uri, features, shards, text)


def _list_files(uri: str) -> dict[str, int | None]:
    """The files of a folder and of those in it; sizes where a split's folder has them."""
    gfile = tf.io.gfile
    files: dict[str, int | None] = {}
    for name in (name.rstrip("/") for name in gfile.listdir(uri)):
        folder = posixpath.join(uri, name)
        if not gfile.isdir(folder):
            files[name] = None
        elif name == WORKING_FOLDER:
            files[f"{name}/"] = None
        elif name not in (INDEX_FOLDER, VOCABULARY_FOLDER):
            is_split = name.startswith(SPLIT_PREFIX)
            for inner in gfile.listdir(folder):
                path = posixpath.join(uri, name, inner)
                files[f"{name}/{inner}"] = int(gfile.stat(path).length) if is_split else None
    return files


def _opened(uri: str, shard: FoundShard, size: int | None, named_in: str) -> ShardFile:
    path = shard.path if "://" in shard.path else posixpath.join(uri, shard.path)
    if size is None:
        size = _size(path, posixpath.join(uri, named_in))
    records = _count(path) if shard.records is None else shard.records
    return ShardFile(path, records, size, shard.entry)


def _size(path: str, named_in: str) -> int:
    try:
        return int(tf.io.gfile.stat(path).length)
    except tf.errors.NotFoundError as error:
        raise DatasetError(f"shard {path!r}: is missing, though {named_in} names it") from error


def _count(path: str) -> int:
    """The records of a shard that nothing says them of: read once."""
    with open_records(path) as stream:
        return count_records(stream, path=path)[0]


def open_file(path: str) -> AbstractContextManager[Any]:
    """A file's bytes as they lie on disk, local or not."""
    return tf.io.gfile.GFile(path, "rb") if "://" in path else io.FileIO(path)


@contextlib.contextmanager
def open_records(path: str) -> Iterator[BinaryIO]:
    """A shard's uncompressed bytes.

    Raises:
        CorruptShardError: it is no whole gzip stream; the message names the file.
    """
    with open_file(path) as stream:
        if not path.endswith(".gz"):
            yield cast(BinaryIO, stream)
            return
        with gzip.GzipFile(fileobj=stream, mode="rb") as unpacked:
            try:
                yield cast(BinaryIO, unpacked)
            except (EOFError, zlib.error, OSError) as error:
                raise CorruptShardError(
                    f"{path!r}: expected a whole gzip stream: {error} "
                    f"(byte {stream.tell()} at the latest). Write the dataset again."
                ) from error


def gzip_content_bytes(path: str) -> int:
    """How many bytes a gzip file holds, modulo 2**32 (the last field of RFC 1952)."""
    with tf.io.gfile.GFile(path, "rb") as stream:
        stream.seek(max(stream.size() - 4, 0))
        return int.from_bytes(stream.read(), "little")


def _read_text(path: str) -> str:
    with tf.io.gfile.GFile(path, "rb") as stream:
        return text_of(stream.read(), path=path)
