"""Everything below some folders that holds records of some names.

    found = search(Names(["cat/1.jpg"]), ["runs/"])
    found.datasets["runs/examples/5"].hits
    found.remains           # what cannot be rewritten

Names are looked for first, and then, by what these records hold, all else that holds the same.
"""

import dataclasses
import os
from collections.abc import Callable, Collection, Mapping, Sequence

from pipelines.tools.forget.files import Below, FileSearch, is_page_or_findings, survey_folder
from pipelines.tools.forget.records import Hit, find_named, find_same, find_texts, rejects_without
from pipelines.tools.forget.rewriting import is_half_rewritten
from pipelines.tools.forget.wanted import Content, Names
from trainer_utils.format import Manifest
from trainer_utils.format.layouts import is_named_as_records
from trainer_utils.format.naming import REJECTS_FILE
from trainer_utils.recording import is_ledger_file
from trainer_utils.storage import display_path, join, list_names, read_text
from trainer_utils.storage.cache import default_cache_dir
from trainer_utils.storage.cache_folder import COPIES_FOLDER

__all__ = ["Found", "FoundDataset", "search"]

_FOREIGN = "TFRecords of another program, which are not rewritten: write them again without it"
_OTHER = "a file of another program: remove it, or what it says of the record"
_RAW = "a file of this name: remove it, or it is converted again"

Advance = Callable[[int, int], None]


@dataclasses.dataclass(frozen=True, kw_only=True)
class FoundDataset:
    """A dataset that holds some.

    Args:
        manifest: as it is now.
        hits: its records by name, and those that hold the same.
        texts: its small files that have a name.
        rejects: the names that rejected inputs have.
    """

    manifest: Manifest
    hits: Sequence[Hit]
    texts: Sequence[str] = ()
    rejects: Sequence[str] = ()

    def is_of(self, with_content: bool) -> bool:
        """Whether it is to be rewritten."""
        return bool(self.texts) or any(with_content or hit.by == "name" for hit in self.hits)


@dataclasses.dataclass(kw_only=True)
class Found:
    """What was found.

    Args:
        datasets: by uri.
        copies: names of copies, by their cache's folder.
        unfinished, leftovers: files of runs that were not finished, by the run's folder; what a
            whole dataset has left of its run.
        pages: pages and findings of ours.
        same_files: other files that hold the content alone.
        remains: other files, and why they are named.
        contents: what records of the names hold.
        needles: bytes of the records that are to go.
        ledgers: folders of ledgers of training runs.
    """

    datasets: dict[str, FoundDataset] = dataclasses.field(default_factory=dict)
    copies: dict[str, list[str]] = dataclasses.field(default_factory=dict)
    unfinished: dict[str, list[str]] = dataclasses.field(default_factory=dict)
    leftovers: list[str] = dataclasses.field(default_factory=list)
    pages: list[str] = dataclasses.field(default_factory=list)
    same_files: list[str] = dataclasses.field(default_factory=list)
    remains: dict[str, str] = dataclasses.field(default_factory=dict)
    contents: list[Content] = dataclasses.field(default_factory=list)
    needles: list[bytes] = dataclasses.field(default_factory=list)
    ledgers: list[str] = dataclasses.field(default_factory=list)

    @property
    def is_nothing(self) -> bool:
        """Whether no file has any of the names."""
        named = [hit for one in self.datasets.values() for hit in one.hits if hit.by == "name"]
        texts = any(one.texts for one in self.datasets.values())
        parts = self.copies, self.unfinished, self.leftovers, self.pages, self.remains
        return not named and not texts and not any(parts)


def search(
    names: Names,
    roots: Sequence[str],
    *,
    caches: Sequence[str] = (),
    contents: Sequence[Content] = (),
    needles: Sequence[bytes] = (),
    with_content: bool = False,
    left_out: Collection[str] = (),
    advance: Advance = lambda size, total: None,
) -> Found:
    """Looks through all datasets and files.

    Args:
        names: of the records.
        roots: the folders to search.
        caches: further folders of copies of shards, beside this user's own.
        contents, needles: that are known from a search before.
        with_content: whether what holds only the same content is to go too.
        left_out: files that are not looked at, in full.
        advance: called with the bytes that were looked at, and all of them.

    Raises:
        OSError: a folder cannot be listed.
    """
    below = _survey(roots, caches)
    sizes = {u: sum(s.bytes for s in m.shards) for u, m in below.datasets.items()}
    total = 2 * sum(sizes.values()) + sum(below.others.values())
    found = Found(contents=[*contents], needles=[*needles])

    def read(size: int) -> None:
        advance(size, total)

    for uri, manifest in below.datasets.items():
        _search_dataset(uri, manifest, names, found, read)
    found.contents = [*{content.key: content for content in found.contents}.values()]
    _search_same(below.datasets, found, read)
    hits = [hit for one in found.datasets.values() for hit in one.hits]
    found.needles += [hit.needle for hit in hits if with_content or hit.by == "name"]
    files = FileSearch(names, found.contents, found.needles)
    _search_runs(below, files, found, with_content)
    for path, size in below.others.items():
        if os.path.realpath(path) not in left_out:
            _search_other(path, names, files, found, with_content)
        read(size)
    return found


def _survey(roots: Sequence[str], caches: Sequence[str]) -> Below:
    below = Below()
    for root in roots:
        one = survey_folder(root)
        for field in dataclasses.fields(Below):
            getattr(below, field.name).update(getattr(one, field.name))
    for cache in (default_cache_dir(), *caches):
        folder = os.path.join(cache, COPIES_FOLDER)
        if os.path.isdir(folder):
            below.caches.setdefault(folder, list_names(folder))
    return below


def _search_dataset(
    uri: str, manifest: Manifest, names: Names, found: Found, read: Callable[[int], None]
) -> None:
    try:
        hits = find_named(uri, manifest, names, advance=read)
        texts = find_texts(uri, manifest, names)
        rejects = _rejected(uri, names) if REJECTS_FILE in texts else []
    except (ValueError, OSError) as error:
        found.remains[uri] = f"it cannot be searched: {error}"
        return
    if hits or texts:
        found.datasets[uri] = FoundDataset(
            manifest=manifest, hits=hits, texts=texts, rejects=rejects
        )
        found.contents += [hit.content for hit in hits]


def _rejected(uri: str, names: Names) -> list[str]:
    """The names that are among a dataset's rejects."""
    _, entries = rejects_without(read_text(join(uri, REJECTS_FILE)), names)
    sources = {entry["source"] for entry in entries}
    return [name for name in names.names if display_path(name) in sources]


def _search_same(
    datasets: Mapping[str, Manifest], found: Found, read: Callable[[int], None]
) -> None:
    """Adds the records that hold the same as those of the names."""
    for uri, manifest in datasets.items() if found.contents else ():
        if uri in found.remains:
            continue
        one = found.datasets.get(uri, FoundDataset(manifest=manifest, hits=()))
        hits = find_same(uri, manifest, found.contents, known=one.hits, advance=read)
        if hits:
            found.datasets[uri] = dataclasses.replace(one, hits=[*one.hits, *hits])


def _search_runs(below: Below, files: FileSearch, found: Found, with_content: bool) -> None:
    """Copies of shards, and what runs left."""
    for folder, copies in below.caches.items():
        held = [name for name in copies if _holds(join(folder, name), files, with_content)]
        if held:
            found.copies[folder] = held
    for uri, paths in below.unfinished.items():
        if is_half_rewritten(uri):
            found.remains[uri] = "it is half rewritten: run this again without --dry-run"
        elif any(_holds(path, files, with_content) for path in paths):
            found.unfinished[uri] = paths
    found.leftovers += [
        uri
        for uri, paths in below.leftovers.items()
        if any(_holds(path, files, with_content) for path in paths)
    ]


def _holds(path: str, files: FileSearch, with_content: bool) -> bool:
    try:
        found = files.finds(path)
    except OSError:
        return False  # gone, as what is temporary may be
    return "name" in found or (with_content and "content" in found)


def _search_other(
    path: str, names: Names, files: FileSearch, found: Found, with_content: bool
) -> None:
    folder, _, name = path.rpartition("/")
    if is_ledger_file(name):
        found.ledgers += [folder] if folder not in found.ledgers else []
    try:
        held = files.finds(path)
    except OSError as error:
        found.remains[path] = f"it cannot be read: {error.strerror or error}"
        return
    if "name" in held and is_page_or_findings(path):
        found.pages.append(path)
    elif "name" in held or ("content" in held and with_content):
        found.remains[path] = _FOREIGN if is_named_as_records(path) else _OTHER
    elif any(path.endswith(f"/{each}") for each in names.names):
        found.remains[path] = _RAW
    elif "content" in held:
        found.same_files.append(path)
