"""What lies below a folder: datasets, runs that were never finished, copies of shards, the rest.

    below = survey_folder("runs/")
    below.datasets, below.unfinished, below.caches, below.others
    FileSearch(names, contents).finds("runs/report.html")       # {'name'}

Files are looked through as bytes, those compressed with gzip decompressed.
"""

import contextlib
import dataclasses
import gzip
import hashlib
import posixpath
import re
import zlib
from collections.abc import Iterable, Iterator
from typing import BinaryIO, cast

from pipelines.tools.forget.wanted import Content, Names
from trainer_utils.dataset.files import read_manifest
from trainer_utils.format import Manifest
from trainer_utils.format.json_text import parse_json_object
from trainer_utils.format.naming import (
    DATASET_FILES,
    INDEX_FOLDER,
    LINEAGE_FILE,
    MANIFEST_FILE,
    SPLIT_PREFIX,
    VOCABULARY_FOLDER,
    WORKING_FOLDER,
)
from trainer_utils.storage import (
    exists,
    file_size,
    is_remote,
    join,
    list_files,
    open_for_reading,
    read_bytes,
    read_range,
    read_text,
)
from trainer_utils.storage.cache_folder import COPIES_FOLDER, COPY_NAME, OWN_FILES

__all__ = ["JOURNAL_FOLDER", "Below", "FileSearch", "is_page_or_findings", "survey_folder"]

JOURNAL_FOLDER = ".tfx-shards-forget"
"""Where a run that takes records out keeps what it has found, until its certificate is written."""

_WRITER_FOLDER = re.compile(r"\.[^/]{1,100}\.[0-9a-f]{32}")  # of a `DatasetWriter`, beside its uri
_GZIP = b"\x1f\x8b"
_BLOCK_BYTES = 8 << 20
_HEAD_BYTES = 4096
_RUN_FOLDERS = (SPLIT_PREFIX, f"{INDEX_FOLDER}/", f"{VOCABULARY_FOLDER}/", f"{WORKING_FOLDER}/")
_WORD = frozenset(b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ_abcdefghijklmnopqrstuvwxyz")
_PAGE_MARK = b"default-src &#39;none&#39;; img-src &#39;self&#39; data:; media-src"
_FINDINGS, _ANOMALIES = "findings.json", "SchemaDiff.pb"  # of DatasetAudit


@dataclasses.dataclass(frozen=True, kw_only=True)
class Below:
    """What was found; paths in full.

    Args:
        datasets: uris of those with a manifest of ours.
        unfinished: folders of runs that never wrote one.
        leftovers: working folders within whole datasets.
        caches: the folders of copies, each with the names of the copies.
        others: all other files, and their sizes.
    """

    datasets: dict[str, Manifest] = dataclasses.field(default_factory=dict)
    unfinished: dict[str, list[str]] = dataclasses.field(default_factory=dict)
    leftovers: dict[str, list[str]] = dataclasses.field(default_factory=dict)
    caches: dict[str, list[str]] = dataclasses.field(default_factory=dict)
    others: dict[str, int] = dataclasses.field(default_factory=dict)


def survey_folder(root: str) -> Below:
    """Sorts all files below a folder by what they are of. No record is read.

    Raises:
        OSError: the folder cannot be listed.
    """
    files = {file.path: file.size for file in list_files(root) if file.problem is None}
    below, own = Below(), set[str]()
    for path in files:
        folder, _, name = path.rpartition("/")
        uri = _whole(root, folder)
        if name == MANIFEST_FILE and (manifest := _manifest(uri)) is not None:
            below.datasets[uri] = manifest
            inner = [*(s.path for s in manifest.shards), *manifest.published]
            own |= {posixpath.join(folder, each) for each in [*inner, MANIFEST_FILE, LINEAGE_FILE]}
    runs = _run_folders(files)
    cached = set() if is_remote(root) else _cache_folders(files)
    for path, size in files.items():
        folder, _, name = path.rpartition("/")
        run = next((run for run in _above(path) if run in runs and _is_of_run(path, run)), None)
        if path in own or JOURNAL_FOLDER in path.split("/"):
            continue
        if run is not None:
            uri = _whole(root, run)
            lists = below.leftovers if uri in below.datasets else below.unfinished
            lists.setdefault(uri, []).append(join(root, path))
        elif folder not in cached:
            below.others[join(root, path)] = size
        elif COPY_NAME.fullmatch(name):
            below.caches.setdefault(_whole(root, folder), []).append(name)
    return below


def _whole(root: str, folder: str) -> str:
    return join(root, folder) if folder else root


def _manifest(uri: str) -> Manifest | None:
    """One of ours that can be read; `verify` says what is wrong with another."""
    with contextlib.suppress(ValueError, OSError):
        return read_manifest(uri)
    return None


def _above(path: str) -> Iterator[str]:
    """The folders that a file is in, the nearest first; the last is the root itself, empty."""
    while path:
        path = path.rpartition("/")[0]
        yield path


def _run_folders(files: Iterable[str]) -> set[str]:
    """Folders in which a run left what is temporary."""
    found = set()
    for path in files:
        for folder in _above(path):
            above, _, name = folder.rpartition("/")
            if name == WORKING_FOLDER:
                found.add(above)
            elif _WRITER_FOLDER.fullmatch(name):
                found.add(folder)
    return found


def _is_of_run(path: str, run: str) -> bool:
    """Whether a file below a run's folder is the run's own."""
    if _WRITER_FOLDER.fullmatch(run.rpartition("/")[2]):
        return True
    inner = path[len(run) + 1 :] if run else path
    return inner in DATASET_FILES or inner.startswith(_RUN_FOLDERS)


def _cache_folders(files: Iterable[str]) -> set[str]:
    """Folders of copies: they are called so, and have their own two files."""
    names: dict[str, set[str]] = {}
    for path in files:
        folder, _, name = path.rpartition("/")
        if name in OWN_FILES and folder.rpartition("/")[2] == COPIES_FOLDER:
            names.setdefault(folder, set()).add(name)
    return {folder for folder, found in names.items() if len(found) == len(OWN_FILES)}


class FileSearch:
    """Looks for names and contents in the bytes of files.

    Args:
        names: those too short to be told from chance are not looked for.
        contents: of records.
        needles: bytes of whole records, names among them.
    """

    def __init__(
        self, names: Names, contents: Iterable[Content], needles: Iterable[bytes] = ()
    ) -> None:
        self._names = names.needles
        self._records = [needle for needle in needles if needle]
        contents = list(contents)
        self._needles = [found.needle for found in contents if found.needle]
        self._whole = {found.key: found.size for found in contents}
        parts = [*self._names, *self._records, *self._needles]
        self._overlap = max(map(len, parts), default=0) + 2

    def finds(self, path: str) -> set[str]:
        """`name` and `content`, as far as a file holds them.

        Raises:
            OSError: it cannot be read.
        """
        found: set[str] = set()
        if self._names or self._needles or self._records:
            with _open(path) as stream:
                tail = b""
                while chunk := stream.read(_BLOCK_BYTES):
                    data = tail + chunk
                    found |= self._in(data, is_first=not tail)
                    tail = data[-self._overlap :]
                found |= self._in(tail, is_first=len(tail) < self._overlap, is_last=True)
        if "content" not in found and self._whole and file_size(path) in self._whole.values():
            digest = hashlib.sha256(read_bytes(path)).hexdigest()
            found |= {"content"} if digest in self._whole else set()
        return found

    def _in(self, data: bytes, *, is_first: bool, is_last: bool = False) -> set[str]:
        found = set()
        if any(_stands(data, name, is_first, is_last) for name in self._names):
            found.add("name")
        if any(needle in data for needle in self._records):
            found.add("name")
        if any(needle in data for needle in self._needles):
            found.add("content")
        return found


def _stands(data: bytes, name: bytes, is_first: bool, is_last: bool) -> bool:
    """Whether a name stands by itself: not within a longer word, but for a length before it."""
    place = data.find(name)
    while place >= 0:
        stop = place + len(name)
        before = data[place - 1] if place else (-1 if is_first else None)
        after = data[stop] if stop < len(data) else (-1 if is_last else None)
        is_known = before is not None and after is not None
        if is_known and after not in _WORD and (before not in _WORD or before == len(name)):
            return True
        place = data.find(name, place + 1)
    return False


@contextlib.contextmanager
def _open(path: str) -> Iterator[BinaryIO]:
    """A file's bytes, decompressed where they are gzip's; where it is damaged, as far as it is."""
    with open_for_reading(path) as stream:
        if read_range(path, start=0, stop=len(_GZIP)) != _GZIP:
            yield stream
            return
        with gzip.GzipFile(fileobj=stream) as unzipped:
            yield cast(BinaryIO, _Lenient(unzipped))


class _Lenient:
    """A gzip stream that ends where it is damaged."""

    def __init__(self, stream: gzip.GzipFile) -> None:
        self._stream = stream

    def read(self, size: int) -> bytes:
        """Some bytes; none at the end."""
        try:
            return self._stream.read1(size)
        except (EOFError, zlib.error, gzip.BadGzipFile):
            return b""


def is_page_or_findings(path: str) -> bool:
    """Whether a file is a page or a list of findings of ours, which is made again any time."""
    folder, _, name = path.rpartition("/")
    if name == _ANOMALIES:
        return exists(join(folder.rpartition("/")[0], _FINDINGS))
    if name == _FINDINGS:
        with contextlib.suppress(ValueError, OSError):
            return {"findings", "counts"} <= parse_json_object(read_text(path), path=path).keys()
        return False
    is_page = name.endswith(".html")
    return is_page and _PAGE_MARK in read_range(path, start=0, stop=_HEAD_BYTES)
