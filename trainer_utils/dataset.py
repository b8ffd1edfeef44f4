"""Opens a dataset wherever it is and whoever wrote it: ours, Datum's or a stock ExampleGen's.

dataset = open_dataset("gs://bucket/examples/5")
dataset.records           # {'train': 2000, 'eval': 1000}
dataset.features          # {'image': Feature(…), …}
"""

import contextlib
import dataclasses
import gzip
import hashlib
import io
import itertools
import os
import posixpath
import re
import zlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, BinaryIO, cast

import tensorflow as tf

from trainer_utils.format import (
    DatasetError,
    Feature,
    Manifest,
    SplitRange,
    count_records,
    parse_features,
    parse_shard_info,
    read_records,
)
from trainer_utils.format.naming import (
    DATUM_SHARDS_FILE,
    DATUM_TYPES_FILE,
    MANIFEST_FILE,
    SHARD_PREFIX,
    SPLIT_PREFIX,
    WORKING_FOLDER,
)

__all__ = [
    "Dataset",
    "FileRange",
    "ShardFile",
    "gzip_content_bytes",
    "open_dataset",
    "split_of",
    "uri_of",
]

_SPLIT_PATTERN = re.compile(rf"/{SPLIT_PREFIX}(\w+)(/([^/]*\*[^/]*|{SHARD_PREFIX}[^/]*))?$")
_SAMPLE_RECORDS = 256


@dataclasses.dataclass(frozen=True)
class ShardFile:
    """A shard's full path, its records, and its size in bytes."""

    path: str
    records: int
    bytes: int


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
        artifact: as `uri_of` takes.

    Raises:
        DatasetError: there is no dataset, or it is not whole; the message names what is amiss.
    """
    uri = uri_of(artifact)
    gfile = tf.io.gfile
    manifest = None
    if not gfile.isdir(uri):
        raise DatasetError(f"{uri!r}: expected the folder of a dataset, found none")
    if gfile.exists(posixpath.join(uri, MANIFEST_FILE)):
        manifest = _read_text(posixpath.join(uri, MANIFEST_FILE))
        shards = _shards_of_manifest(uri, manifest)
    elif gfile.exists(posixpath.join(uri, WORKING_FOLDER)):
        raise DatasetError(f"{uri!r}: expected a whole dataset, got one that was never finished")
    elif gfile.exists(posixpath.join(uri, DATUM_SHARDS_FILE)):
        shards = _shards_of_datum(uri)
    else:
        shards = _shards_of_folders(uri)
    types_path = posixpath.join(uri, DATUM_TYPES_FILE)
    if gfile.exists(types_path):
        features = parse_features(_read_text(types_path), path=types_path)
    else:
        features = _sample_features(shards)
    return Dataset(uri, features, shards, manifest)


def _shards_of_manifest(uri: str, text: str) -> dict[str, list[ShardFile]]:
    manifest = Manifest.from_json(text, path=posixpath.join(uri, MANIFEST_FILE))
    manifest.check_files(
        {
            f"{folder}/{name}": tf.io.gfile.stat(posixpath.join(uri, folder, name)).length
            for folder in _split_folders(uri)
            for name in tf.io.gfile.listdir(posixpath.join(uri, folder))
        }
    )
    return {
        split: [
            ShardFile(posixpath.join(uri, shard.path), shard.records, shard.bytes)
            for shard in manifest.shards_of(split)
        ]
        for split in manifest.splits
    }


def _shards_of_datum(uri: str) -> dict[str, list[ShardFile]]:
    info_path = posixpath.join(uri, DATUM_SHARDS_FILE)
    info = parse_shard_info(_read_text(info_path), path=info_path)
    return {
        split: [
            ShardFile(path, records, _size(path, info_path))
            for path, records in ((posixpath.join(uri, p), n) for p, n in shards.items())
        ]
        for split, shards in info.items()
    }


def _shards_of_folders(uri: str) -> dict[str, list[ShardFile]]:
    shards = {
        folder.removeprefix(SPLIT_PREFIX): [
            _counted(posixpath.join(uri, folder, name))
            for name in sorted(tf.io.gfile.listdir(posixpath.join(uri, folder)))
        ]
        for folder in _split_folders(uri)
    }
    if not any(shards.values()):
        raise DatasetError(
            f"{uri!r}: expected a dataset ({MANIFEST_FILE}, {DATUM_SHARDS_FILE} or "
            f"{SPLIT_PREFIX}*/ folders of TFRecord files), found none of these"
        )
    return shards


def _split_folders(uri: str) -> list[str]:
    names = (name.rstrip("/") for name in tf.io.gfile.listdir(uri))
    return sorted(name for name in names if name.startswith(SPLIT_PREFIX))


def _size(path: str, named_in: str) -> int:
    try:
        return int(tf.io.gfile.stat(path).length)
    except tf.errors.NotFoundError as error:
        raise DatasetError(f"shard {path!r}: is missing, though {named_in} names it") from error


def _counted(path: str) -> ShardFile:
    """A shard that nothing says the records of: read once, to count them."""
    with _open_records(path) as stream:
        records, _ = count_records(stream, path=path)
    return ShardFile(path, records, int(tf.io.gfile.stat(path).length))


@contextlib.contextmanager
def _open_records(path: str) -> Iterator[BinaryIO]:
    with contextlib.ExitStack() as stack:
        if "://" in path:
            stream: Any = stack.enter_context(tf.io.gfile.GFile(path, "rb"))
        else:
            stream = stack.enter_context(io.FileIO(path))
        if not path.endswith(".gz"):
            yield stream
            return
        try:
            yield cast(BinaryIO, stack.enter_context(gzip.GzipFile(fileobj=stream, mode="rb")))
        except (EOFError, zlib.error, OSError) as error:
            raise DatasetError(f"{path!r}: expected a whole gzip stream: {error}") from error


def gzip_content_bytes(path: str) -> int:
    """How many bytes a gzip file holds, modulo 2**32 (the last field of RFC 1952)."""
    with tf.io.gfile.GFile(path, "rb") as stream:
        stream.seek(max(stream.size() - 4, 0))
        return int.from_bytes(stream.read(), "little")


def _read_text(path: str) -> str:
    with tf.io.gfile.GFile(path, "rb") as stream:
        return cast(bytes, stream.read()).decode("utf-8")


def _sample_features(shards: Mapping[str, Sequence[ShardFile]]) -> dict[str, Feature]:
    """Works out features from the first records; what is not alike in all of them is sparse."""
    kinds = {"bytes_list": "string", "int64_list": "int", "float_list": "float"}
    types: dict[str, str] = {}
    seen: list[dict[str, int]] = []
    for record, path in itertools.islice(_records(shards), _SAMPLE_RECORDS):
        lengths = {}
        for name, value in _parse(record, path).items():
            if (kind := value.WhichOneof("kind")) is not None:
                types.setdefault(name, kinds[kind])
                lengths[name] = len(getattr(value, kind).value)
        seen.append(lengths)
    features = {}
    for name, kind in sorted(types.items()):
        sizes = {lengths.get(name, 0) for lengths in seen}
        dense = len(sizes) == 1
        shape = () if sizes == {1} else (max(sizes),)
        features[name] = Feature(type=kind, shape=shape, dense=dense)
    return features


def _records(shards: Mapping[str, Sequence[ShardFile]]) -> Iterator[tuple[bytes, str]]:
    for shard in itertools.chain.from_iterable(shards.values()):
        with _open_records(shard.path) as stream:
            for record in read_records(stream, path=shard.path):
                yield record, shard.path


def _parse(record: bytes, path: str) -> Mapping[str, Any]:
    try:
        return cast(Mapping[str, Any], tf.train.Example.FromString(record).features.feature)
    except Exception as error:
        raise DatasetError(
            f"{os.path.basename(path)!r}: expected serialized tf.train.Example: {error}"
        ) from error
