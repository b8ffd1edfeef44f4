"""What lies below some folders, and what of it names records.

    datasets, files, closed = survey(["runs/"])
    found = search_dataset("runs/examples/5", names)    # its records, rejects and labels of these
    holds("runs/report.html", names)                    # True

Records are decoded, texts unescaped, and what zip, gzip, bzip2 or xz has packed is unpacked.
"""

import bz2
import collections
import contextlib
import dataclasses
import gzip
import lzma
import os
import zipfile
import zlib
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import IO, Any

from pipelines.tools.forget.names import Names, forgotten_label
from trainer_utils.dataset import Dataset, open_dataset, read_shard_blocks
from trainer_utils.dataset.files import read_manifest, read_origin
from trainer_utils.format import DatasetError
from trainer_utils.format.example_decoding import decode_example
from trainer_utils.format.json_text import JsonObject, json_lines
from trainer_utils.format.layouts import is_named_as_records
from trainer_utils.format.manifest import FORGOTTEN_KEY
from trainer_utils.format.naming import LINEAGE_FILE, MANIFEST_FILE, NAME_FEATURES, REJECTS_FILE
from trainer_utils.storage import (
    display_path,
    exists,
    join,
    list_files,
    open_for_reading,
    read_range,
)

__all__ = [
    "JOURNAL_FOLDER",
    "FoundDataset",
    "holds",
    "rejects_without",
    "search_dataset",
    "survey",
]

JOURNAL_FOLDER = ".tfx-shards-forget"
"""Where a run writes down what it is about to do, until its certificate is written."""

_BLOCK_BYTES = 8 << 20
_NEEDLE_BYTES = 4096  # of a record's middle, by which a copy of it is known
_PACKED: dict[bytes, Callable[..., Any]] = {
    b"\x1f\x8b": gzip.open,
    b"BZh": bz2.open,
    b"\xfd7zXZ": lzma.open,
}
_CLOSED = {
    b"PAR1": "Parquet",
    b"ARROW1": "Arrow",
    b"ORC": "ORC",
    b"\x89HDF": "HDF5",
    b"%PDF": "PDF",
    b"\x28\xb5\x2f\xfd": "zstd",
    b"7z\xbc\xaf": "7-Zip",
}
_DAMAGED = (EOFError, zlib.error, lzma.LZMAError, zipfile.BadZipFile, RuntimeError)

Sizes = dict[str, int]


def survey(roots: Sequence[str]) -> tuple[Sizes, Sizes, dict[str, str]]:
    """Sorts all files below some folders by what they are of. No record is read.

    Returns:
        Datasets with a manifest of ours, and the bytes of their shards; all other files, and
        theirs; what cannot be looked into, and why.

    Raises:
        OSError: a folder cannot be listed.
    """
    datasets, files, closed = Sizes(), Sizes(), dict[str, str]()
    for root in roots:
        listed = {file.path: file for file in list_files(root)}
        own = set[str]()
        for path in listed:
            folder, _, name = path.rpartition("/")
            manifest = None
            if name == MANIFEST_FILE:
                uri = join(root, folder) if folder else root
                with contextlib.suppress(ValueError, OSError):  # else it is as any file
                    manifest = read_manifest(uri)
            if manifest is not None:
                datasets[uri] = sum(shard.bytes for shard in manifest.shards)
                inner = [MANIFEST_FILE, LINEAGE_FILE, *(s.path for s in manifest.shards)]
                own |= {join(folder, each) for each in [*inner, *manifest.published]}
        for path, file in listed.items():
            whole = join(root, path)
            if path in own or JOURNAL_FOLDER in path.split("/"):
                continue
            if file.problem is None:
                files[whole] = file.size
            elif file.is_folder or not _leads_inside(whole, root):
                closed[whole] = file.problem[1]
    return datasets, files, closed


def _leads_inside(path: str, root: str) -> bool:
    return os.path.realpath(path).startswith(f"{os.path.realpath(root)}{os.sep}")


@dataclasses.dataclass(kw_only=True)
class FoundDataset:
    """What of a dataset names records.

    Args:
        dataset: opened.
        records: those of the names, each with its `name` and place.
        needles: bytes by which copies of these are known.
        rejects: the names of its rejected inputs.
        is_told: whether its settings, its lineage or the details of its rejects name one.
        others: in how many other records a feature does.
        lines: labels that name one: ids by feature.
    """

    dataset: Dataset
    records: list[JsonObject] = dataclasses.field(default_factory=list)
    needles: set[bytes] = dataclasses.field(default_factory=set)
    rejects: list[str] = dataclasses.field(default_factory=list)
    is_told: bool = False
    others: "collections.Counter[str]" = dataclasses.field(default_factory=collections.Counter)
    lines: dict[str, set[int]] = dataclasses.field(default_factory=dict)


def search_dataset(
    uri: str, names: Names, *, advance: Callable[[int], None] = lambda size: None
) -> FoundDataset:
    """Looks at every record and every small file of a dataset of ours.

    Raises:
        DatasetError: it is not whole, or damaged.
        OSError: it cannot be read.
    """
    dataset = open_dataset(uri, inspect=False)
    manifest = dataset.manifest
    assert manifest is not None
    found = FoundDataset(dataset=dataset)
    for shard in manifest.shards:
        first = 0
        for block in read_shard_blocks(join(uri, shard.path)):
            records = block.records() if names.may_be_of(block.data) else ()
            for number, record in enumerate(records, first):
                named, features = _look_at(record, names)
                found.others.update(features)
                if named:
                    place = {"split": shard.split, "shard": shard.path, "number": number}
                    found.records.append({"name": named[0], **place, "bytes": len(record)})
                    start = max(len(record) - _NEEDLE_BYTES, 0) // 2
                    found.needles.add(record[start : start + _NEEDLE_BYTES])
            first += len(block)
        advance(shard.bytes)
    _, found.rejects, is_told = rejects_without(dataset, names)
    origin = read_origin(uri, manifest)
    steps = [origin.made_by, *(each.made_by for each in origin.ancestors)]
    settings = [manifest.config, *(step.settings for step in steps if step is not None)]
    for given in settings:
        own = {name: value for name, value in given.items() if name != FORGOTTEN_KEY}
        is_told |= names.without(own) != own
    found.is_told = is_told
    for feature, labels in dataset.vocabularies.items():
        lines = {
            number
            for number, label in enumerate(labels)
            if label != forgotten_label(number) and names.are_in(label.encode())
        }
        found.lines |= {feature: lines} if lines else {}
    return found


def _look_at(record: bytes, names: Names) -> tuple[list[str], list[str]]:
    """The names that a record has; of another, the features that name one."""
    try:
        named = names.of(decode_example(record, NAME_FEATURES))
        if named or not names.may_be_of(record):
            return named, []
        values = decode_example(record)
    except DatasetError:  # no example, or one with feature lists
        return [], ["feature lists"] if names.are_in(record) else []
    return [], [
        feature
        for feature, found in values.items()
        if feature not in NAME_FEATURES
        and any(isinstance(v, memoryview) and names.are_in(bytes(v)) for v in found)
    ]


def rejects_without(dataset: Dataset, names: Names) -> tuple[list[JsonObject], list[str], bool]:
    """The rejects of a dataset but for those of some names, with no name in their details.

    Returns:
        These; the names of the others; whether a detail had one.
    """
    if not exists(join(dataset.uri, REJECTS_FILE)):
        return [], [], False
    entries = json_lines(dataset.read_text(REJECTS_FILE), path=join(dataset.uri, REJECTS_FILE))
    sources = {display_path(name): name for name in names.names}
    gone = [sources[e["source"]] for e in entries if e.get("source") in sources]
    kept = [entry for entry in entries if entry.get("source") not in sources]
    told = [
        {key: names.without(value) if key == "detail" else value for key, value in entry.items()}
        for entry in kept
    ]
    return told, gone, told != kept


def holds(path: str, names: Names, needles: Collection[bytes] = ()) -> bool:
    """Whether a file names a record, or has a copy of one.

    Args:
        path: of the file.
        names: to look for; in TFRecords, in the values of each record.
        needles: bytes of the records themselves.

    Raises:
        DatasetError: it is packed in a way that is not known here, or damaged.
        OSError: it cannot be read.
    """
    if is_named_as_records(path):
        with contextlib.suppress(DatasetError):
            for block in read_shard_blocks(path):
                if names.may_be_of(block.data) and any(
                    any(_look_at(record, names)) for record in block.records()
                ):
                    return True
    overlap = max(names.overlap, _NEEDLE_BYTES)
    try:
        for stream in _streams(path):
            tail = b""
            while chunk := stream.read(_BLOCK_BYTES):
                data = tail + chunk
                if names.are_in_file(data) or any(needle in data for needle in needles):
                    return True
                tail = data[-overlap:]
    except _DAMAGED as error:
        raise DatasetError(f"{path!r}: it is damaged: {error}") from error
    return False


def _streams(path: str) -> Iterator[IO[bytes]]:
    """A file's bytes, unpacked."""
    head = read_range(path, start=0, stop=8)
    for sign, kind in _CLOSED.items():
        if head.startswith(sign):
            raise DatasetError(f"{path!r}: it is {kind}, which is not unpacked here")
    with open_for_reading(path) as stream:
        if head.startswith(b"PK\3\4"):
            with zipfile.ZipFile(stream) as archive:
                for member in archive.infolist():
                    with archive.open(member) as unpacked:
                        yield unpacked
            return
        unpack = next((unpack for sign, unpack in _PACKED.items() if head.startswith(sign)), None)
        yield stream if unpack is None else unpack(stream)
