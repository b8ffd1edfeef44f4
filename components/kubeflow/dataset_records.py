"""What was written below a `dataset_root`: by the version of the inputs, and by span.

record = DatasetRecord(uri="/mnt/datasets/…", source="image_example_gen /mnt/photos", span=3)
record_dataset("/mnt/datasets", record, input_versions=["5f0c…"])
current_version("/mnt/datasets", "5f0c…")       # another where one of its datasets is gone
records_by_span("/mnt/datasets")                # {3: [record]}
record_stored("minio://mlpipeline/v2/…/examples", versions=["5f0c…"])

Kubeflow takes a step from its cache whether or not the files of its artifacts are still there, and
runs nothing that could look for a span's dataset. Records are small files of their own that are
written once and never changed, so that runs beside each other do not disturb one another.

The launcher copies artifacts with rights of its own, which a step does not have. So the records of
what lies in Kubeflow's own store are where whoever gives the steps the rights to look into it says:
TFX_SHARDS_RECORD_ROOT=minio://mlpipeline/records, a variable of each step.
"""

import contextlib
import dataclasses
import hashlib
import json
import os
import time
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from components.kubeflow.dataset_location import check_dataset_root, write_reference
from trainer_utils.dataset.files import read_manifest
from trainer_utils.format import DatasetError, InputError
from trainer_utils.storage import (
    is_folder,
    join,
    list_names,
    read_text,
    walk_files,
    write_text,
)

__all__ = [
    "RECORD_FOLDER",
    "RECORD_VARIABLE",
    "VERSION_KEY",
    "DatasetRecord",
    "current_version",
    "find_version",
    "is_whole",
    "record_dataset",
    "record_output",
    "record_stored",
    "records_by_span",
    "records_root",
    "split_versions",
]

RECORD_FOLDER = "dataset_records"
RECORD_VARIABLE = "TFX_SHARDS_RECORD_ROOT"
VERSION_KEY = "input_version"
"""The parameter of a step, and the metadata of an artifact, that has the inputs' versions."""

_VERSIONS, _SPANS = "versions", "spans"


@dataclasses.dataclass(frozen=True, kw_only=True)
class DatasetRecord:
    """One dataset that was written.

    Args:
        source: what it was made by, and of what: datasets of one source are spans of each other.
        span: of its inputs; None where they have none.
        version: of the span; None where there is none.
        seconds: since 1970, when it was written: of two of one span and version the later holds.
    """

    uri: str
    source: str = ""
    span: int | None = None
    version: int | None = None
    seconds: float = dataclasses.field(default_factory=time.time)


def record_dataset(root: str, record: DatasetRecord, *, input_versions: Iterable[str]) -> None:
    """Records a dataset that is whole.

    Args:
        root: the `dataset_root` that it lies below.
        input_versions: on which its cache key hangs.
    """
    text = json.dumps(dataclasses.asdict(record), sort_keys=True)
    folders = [f"{_VERSIONS}/{_name(version)}" for version in input_versions]
    if record.span is not None:
        folders.append(f"{_SPANS}/{record.span}")
    for folder in (join(root, f"{RECORD_FOLDER}/{inner}") for inner in folders):
        path = join(folder, f"{_name(record.uri)}.json")
        write_text(path, text, temporary_folder=folder)


def current_version(root: str, fingerprint: str) -> str:
    """The fingerprint, with a number after it where a dataset of the version before is gone.

    Args:
        root: a `dataset_root`.

    Returns:
        The first version that has no record, or none of a dataset that is not whole.
    """
    version, count = fingerprint, 1
    while not all(is_whole(record.uri) for record in _read(root, f"{_VERSIONS}/{_name(version)}")):
        count += 1
        version = f"{fingerprint}-{count}"
    return version


def records_by_span(root: str) -> dict[int, list[DatasetRecord]]:
    """The records of each span below a `dataset_root`, ascending."""
    folder = join(root, f"{RECORD_FOLDER}/{_SPANS}")
    spans = sorted(int(name) for name in _names(folder) if name.isdecimal())
    return {span: _read(root, f"{_SPANS}/{span}") for span in spans}


def split_versions(texts: Iterable[str]) -> list[str]:
    """The versions that artifacts' metadata hold, a line each, of several inputs; in order."""
    return sorted({version for text in texts for version in text.splitlines()})


def is_whole(uri: str) -> bool:
    """Whether a dataset of ours has its manifest and each of its shards."""
    try:
        manifest = read_manifest(uri)
    except DatasetError:
        return False
    if manifest is None:
        return False
    sizes = {file.path: file.size for file in walk_files(uri)}
    return all(sizes.get(shard.path) == shard.bytes for shard in manifest.shards)


def _read(root: str, folder: str) -> list[DatasetRecord]:
    base = join(root, f"{RECORD_FOLDER}/{folder}")
    paths = [join(base, name) for name in sorted(_names(base)) if name.endswith(".json")]
    return [DatasetRecord(**json.loads(read_text(path))) for path in paths]


def _names(folder: str) -> Sequence[str]:
    return list_names(folder) if is_folder(folder) else []


def _name(text: str) -> str:
    """A file's name for any text."""
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def records_root(dataset_root: str) -> str:
    """Where records are: below a `dataset_root`, else where the variable says, else nowhere.

    Raises:
        ConfigError: the place is relative, or a url of no object store.
    """
    check_dataset_root(dataset_root)
    given = os.environ.get(RECORD_VARIABLE, "")
    check_dataset_root(given, RECORD_VARIABLE)
    return dataset_root or given


def record_output(
    path: str, stored: str, uri: str, *, root: str, versions: Sequence[str], **span: Any
) -> None:
    """Records a dataset that a step has written, wherever it will be found.

    Args:
        path: of the output in the pod.
        stored: where the launcher copies it from there.
        uri: where the dataset is: at `path`, or below a `dataset_root`; then `path` refers to it.
        root: that `dataset_root`.
        versions: of the inputs, on which its cache key hangs.
        span: what its record has of spans.
    """
    if uri == path:
        record_stored(stored, versions=versions)
        return
    write_reference(path, uri)
    record_dataset(root, DatasetRecord(uri=uri, **span), input_versions=versions)


def record_stored(uri: str, *, versions: Sequence[str]) -> None:
    """Records a dataset that the launcher is about to copy to Kubeflow's store.

    Args:
        versions: of the inputs, on which its cache key hangs.

    Raises:
        ConfigError: the place of the records is not allowed.
        InputError: it cannot be written to.
    """
    root = records_root("")
    if root and versions:
        with _reaching(root):
            record_dataset(root, DatasetRecord(uri=uri), input_versions=versions)


def find_version(dataset_root: str, fingerprint: str) -> str:
    """The version of inputs, another one where a dataset that was made of them is gone.

    Args:
        dataset_root: of the datasets; may be empty.

    Raises:
        ConfigError: the place of the records is not allowed.
        InputError: records or datasets cannot be looked at.
    """
    root = records_root(dataset_root)
    with _reaching(root):
        return current_version(root, fingerprint) if root else fingerprint


@contextlib.contextmanager
def _reaching(root: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise InputError(
            f"records of datasets in {root!r}: {error}. Give the steps the rights of the store, as "
            f"by --secret, or leave {RECORD_VARIABLE} out."
        ) from error
