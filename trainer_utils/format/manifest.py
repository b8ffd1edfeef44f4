"""Read and write `manifest.json`, which marks a dataset as complete.

    manifest = Manifest.from_json(text, path=…)
    manifest.shards[0].records, manifest.accounting["train"].rejected

The manifest is written last. It contains no time, no host and no absolute path, and its keys are
sorted. Equal datasets have equal manifests, byte for byte.

It has the size and CRC-32C of every other small file that is published (`files`), and a checksum
of itself (`checksum`). Two older format versions can still be read: in version 3, record indices
have no offsets, and in version 2, they have lengths only.
"""

import dataclasses
import functools
import hashlib
from collections.abc import Mapping, Sequence
from typing import Annotated, NamedTuple

from trainer_utils.core.decoding import Count, Crc32c, HexDigits, decode, encode_fields
from trainer_utils.core.errors import DatasetError
from trainer_utils.core.json_text import Json, JsonObject, parse_json_object, render_json
from trainer_utils.format.accounting import Accounting
from trainer_utils.format.naming import (
    ShardName,
    check_inner_path,
    check_split_name,
    index_file,
    is_shard_file,
)
from trainer_utils.format.sealing import NO_CHECKSUM, is_sealed, seal
from trainer_utils.format.tfrecord import Buffer, combine_checksums, extend_crc32c

FORMAT_VERSION = 4

_VERSIONS = (2, 3, FORMAT_VERSION)  # versions that can be read

ContentSum = Annotated[int, HexDigits(16)]
"""An order-free checksum of records (`multiset_checksum`), stored as hexadecimal digits."""


@dataclasses.dataclass(frozen=True)
class FileDigest:
    """The size in bytes and the CRC-32C of a small file that is published."""

    bytes: Count
    crc32c: Crc32c

    @classmethod
    def of(cls, data: Buffer) -> "FileDigest":
        """Return the digest of a file's content."""
        return cls(len(data), extend_crc32c(0, data))

    def to_entry(self) -> JsonObject:
        """Return the manifest's entry for the file."""
        return encode_fields(self)


class Shard(NamedTuple):
    """One file of records.

    Attributes:
        path: the path relative to the dataset's uri, with `/`.
        split: the split it belongs to.
        records: the number of records.
        bytes: the size of the file as stored.
        crc32c: the CRC-32C of all bytes of the file as stored.
        content: the order-free checksum of its records (`multiset_checksum`); None if unknown.
        index_crc32c: the CRC-32C of its record index; None without an index.
    """

    path: str
    split: str
    records: Count
    bytes: Count
    crc32c: Crc32c
    content: ContentSum | None = None
    index_crc32c: Crc32c | None = None

    def to_entry(self) -> JsonObject:
        """Return the shard as JSON: checksums in hexadecimal, unknown values left out."""
        return encode_fields(self)

    def check_path(self) -> None:
        """Raise DatasetError if its path leaves the dataset, or is not of a shard with an index."""
        if self.index_crc32c is None:
            check_inner_path(self.path)
        elif not is_shard_file(self.path):
            ShardName.parse(self.path)  # raises an error that describes the expected form


@dataclasses.dataclass(frozen=True, kw_only=True)
class Manifest:
    """The contents of a dataset and how it was made.

    Args:
        shards: every shard, splits in order and shards in order within a split.
        accounting: the accounting by split.
        producer: the component that wrote it.
        config: the settings that shaped it, without paths.
        input_fingerprint: a hexadecimal hash of the names and contents of the inputs: the same for
            every conversion of the same inputs, with any settings.
        label_counts: the frequency of each label, by split; empty without a label.
        conversions: the number of inputs that are not kept byte for byte, by the change made.
        reject_counts: the number of rejected inputs by code.
        versions: the versions of the packages that shaped its bytes.
        files: every other published file except record indices, by path relative to the dataset's
            uri.
        format_version: the version of the manifest's format.
    """

    shards: tuple[Shard, ...]
    accounting: Mapping[str, Accounting]
    producer: str
    config: Mapping[str, Json]
    input_fingerprint: str
    label_counts: Mapping[str, Mapping[str, int]] = dataclasses.field(default_factory=dict)
    conversions: Mapping[str, int] = dataclasses.field(default_factory=dict)
    reject_counts: Mapping[str, int] = dataclasses.field(default_factory=dict)
    versions: Mapping[str, str] = dataclasses.field(default_factory=dict)
    files: Mapping[str, FileDigest] = dataclasses.field(default_factory=dict)
    format_version: int = FORMAT_VERSION

    def __post_init__(self) -> None:
        for shard in self.shards:
            shard.check_path()

    @functools.cached_property
    def digest(self) -> str:
        """Hexadecimal hash of the manifest as stored, the same for equal datasets."""
        return _digest(self.to_json())

    @property
    def published(self) -> dict[str, FileDigest | None]:
        """All files except the manifest and the shards, by path; None if the content is unknown."""
        indexed = [shard.path for shard in self.shards if shard.index_crc32c is not None]
        return {**self.files, **dict.fromkeys(map(index_file, indexed))}

    @property
    def total(self) -> Accounting:
        """The accounting of all splits together."""
        return sum(self.accounting.values(), Accounting())

    @property
    def splits(self) -> tuple[str, ...]:
        """The splits' names, in order."""
        return tuple(self.accounting)

    def shards_of(self, split: str) -> tuple[Shard, ...]:
        """Return the shards of one split, in order."""
        return tuple(shard for shard in self.shards if shard.split == split)

    def content_of(self, split: str) -> int | None:
        """Return the order-free checksum of a split's records; None if a shard's is unknown.

        Two datasets with the same records have the same checksum, in any order and any shards.
        """
        sums = [shard.content for shard in self.shards_of(split)]
        return None if None in sums else combine_checksums(filter(None, sums))

    @property
    def contents(self) -> dict[str, str]:
        """The `content_of` each split, in hexadecimal; empty strings if it is unknown."""
        sums = {split: self.content_of(split) for split in self.splits}
        return {split: "" if sum_ is None else f"{sum_:016x}" for split, sum_ in sums.items()}

    def to_json(self) -> str:
        """Return the manifest as stored: JSON with sorted keys, ending with a newline."""
        value = {
            "format_version": self.format_version,
            "producer": self.producer,
            "config": dict(self.config),
            "input_fingerprint": self.input_fingerprint,
            "versions": dict(self.versions),
            "shards": [shard.to_entry() for shard in self.shards],
            "split_order": list(self.splits),
            "splits": {name: self._split_entry(name) for name in self.splits},
            "total": dataclasses.asdict(self.total),
            "conversions": dict(self.conversions),
            "rejects": dict(self.reject_counts),
            "files": {path: digest.to_entry() for path, digest in self.files.items()},
            "checksum": NO_CHECKSUM,
        }
        return seal(render_json(value))

    def _split_entry(self, split: str) -> JsonObject:
        shards, content = self.shards_of(split), self.content_of(split)
        return {
            **({} if content is None else {"content": f"{content:016x}"}),
            **dataclasses.asdict(self.accounting[split]),
            "records": sum(shard.records for shard in shards),
            "bytes": sum(shard.bytes for shard in shards),
            "num_shards": len(shards),
            "labels": dict(self.label_counts.get(split, {})),
        }

    @classmethod
    def from_json(cls, text: str, *, path: str, is_checked: bool = True) -> "Manifest":
        """Parse a manifest made by `to_json`.

        Args:
            text: the content of the file.
            path: the path of the file, for messages.
            is_checked: whether its own checksum must agree.

        Raises:
            DatasetError: it is not a manifest, was changed, or has a newer format; it has `path`.
        """
        is_whole = is_sealed(text)
        value = parse_json_object(text, path=path, is_ours=is_whole)
        version = value.get("format_version")
        if version not in _VERSIONS:
            raise DatasetError.at(
                path,
                expected=f"format version {' or '.join(map(str, _VERSIONS))}",
                got="none" if version is None else repr(version),
                advice="Read it with the tfx-shards that wrote it, or convert it again.",
            )
        try:
            if is_checked and not is_whole:
                raise ValueError("its own checksum does not agree")
            manifest = cls._from_value(value)
            if is_checked:  # the text is then exactly what `to_json` returns
                vars(manifest)["digest"] = _digest(text)  # 100,000 shards take 2 s to render
            return manifest
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            raise DatasetError.at(
                path,
                expected="a valid, unchanged manifest",
                got=f"an invalid one ({type(error).__name__}: {error})",
                advice="The dataset is incomplete or was changed: write it again.",
            ) from error

    @classmethod
    def _from_value(cls, value: JsonObject) -> "Manifest":
        """Return the manifest that a parsed JSON object declares; raise if it breaks a rule."""
        # Sums and the checksum are keys that are not read. A shard's key that is not known might
        # change how it is read.
        ignoring = _StoredManifest, _StoredSplit, FileDigest
        stored: _StoredManifest = decode(_StoredManifest, value, takes_unknown=ignoring)
        for path in stored.files:
            check_inner_path(path)
        return cls(
            shards=stored.shards,
            accounting={
                check_split_name(split): stored.splits[split].accounting
                for split in stored.split_order
            },
            producer=stored.producer,
            config=stored.config,
            input_fingerprint=stored.input_fingerprint,
            label_counts={
                name: entry.labels for name, entry in stored.splits.items() if entry.labels
            },
            conversions=stored.conversions,
            reject_counts=stored.rejects,
            versions=stored.versions,
            files=stored.files,
            format_version=stored.format_version,
        )

    def check_text(self, name: str, text: str | bytes, *, path: str) -> None:
        """Compare the content of a small file with its checksum, if the manifest has one.

        Args:
            name: the path of the file relative to the dataset's uri.
            text: the content of the file.
            path: the full path of the file, for messages.

        Raises:
            DatasetError: the content differs.
        """
        digest = self.files.get(name)
        actual = FileDigest.of(text.encode() if isinstance(text, str) else text)
        if digest is not None and digest != actual:
            said = f"{digest.bytes} bytes with checksum {digest.crc32c:08x} as the manifest says"
            got, advice = (
                f"{actual.bytes} with {actual.crc32c:08x}",
                "It was changed: write it again.",
            )
            raise DatasetError.at(path, expected=said, got=got, advice=advice)

    def check_files(self, sizes: Mapping[str, int]) -> None:
        """Compare the manifest with the files in the split folders.

        Args:
            sizes: the size of each file in bytes, by path relative to the dataset's uri.

        Raises:
            DatasetError: a shard is missing, unexpected, or has another size.
        """
        expected = {shard.path: shard.bytes for shard in self.shards}
        if expected == sizes:
            return
        for path in sorted(expected.keys() | sizes.keys()):
            size, actual = expected.get(path), sizes.get(path)
            if size == actual:
                continue
            offset = None
            if actual is None:
                problem = "missing from the dataset by its manifest"
            elif size is None:
                problem = "no part of the dataset by its manifest"
            else:
                offset = min(size, actual)
                problem = f"not as long as its manifest says: expected {size} bytes, got {actual}"
            message = f"shard {path!r}: is {problem}. Write the dataset again."
            raise DatasetError(message, path=path, offset=offset)


def _digest(text: str) -> str:
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


@dataclasses.dataclass(frozen=True, kw_only=True)
class _StoredSplit:
    """The entry of a split in `manifest.json`; sums over its shards are not read."""

    found: Count
    written: Count
    rejected: Count
    skipped: Count
    labels: Mapping[str, Count]

    @property
    def accounting(self) -> Accounting:
        """The number of inputs by outcome."""
        return Accounting(
            found=self.found, written=self.written, rejected=self.rejected, skipped=self.skipped
        )


@dataclasses.dataclass(frozen=True, kw_only=True)
class _StoredManifest:
    """The form of `manifest.json`. JSON keys are sorted, so `split_order` has the splits' order."""

    format_version: int
    producer: str
    config: Mapping[str, Json]
    input_fingerprint: str
    versions: Mapping[str, str]
    shards: tuple[Shard, ...]
    split_order: Sequence[str]
    splits: Mapping[str, _StoredSplit]
    conversions: Mapping[str, Count]
    rejects: Mapping[str, Count]
    files: Mapping[str, FileDigest]
