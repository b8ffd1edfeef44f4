"""Takes records out of all that lies below some folders, and leaves a certificate.

    done = forget(["cat/1.jpg"], ["runs/"], with_content=True)
    done.certificate.render()

What is found is written down before anything is changed, in a draft of the certificate: a run that
is killed is finished by the next of the same names, and its certificate tells of both. Copies and
temporary files go first and datasets last, since by these the others are found. At the end all is
searched once more: what is found then is what remains.
"""

import contextlib
import dataclasses
import datetime
import fcntl
import hashlib
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence

from pipelines.tools.forget.certificate import Certificate
from pipelines.tools.forget.files import JOURNAL_FOLDER, survey_folder
from pipelines.tools.forget.records import find_named
from pipelines.tools.forget.rewriting import finish_rewriting, rewrite_dataset
from pipelines.tools.forget.search import Found, FoundDataset, search
from pipelines.tools.forget.wanted import Content, Names, name_digest
from pipelines.tools.ledger import RunLedger
from trainer_utils.dataset.files import read_manifest
from trainer_utils.dataset.location import newest_dataset
from trainer_utils.format import ConfigError, DatasetError, Manifest
from trainer_utils.format.json_text import JsonObject
from trainer_utils.format.naming import INDEX_FOLDER, SPLIT_PREFIX, VOCABULARY_FOLDER
from trainer_utils.recording import read_ledger
from trainer_utils.storage import (
    exists,
    is_folder,
    is_remote,
    join,
    make_folder,
    read_text,
    remove_file,
    remove_tree,
    write_text,
)
from trainer_utils.storage.cache_folder import CacheFolder
from trainer_utils.writing.publishing import working_folder

__all__ = ["Forgotten", "Traced", "forget"]

_TEMPORARY = re.compile(r"[0-9a-f]{32}")  # what a killed run was writing

Advance = Callable[[int, int], None]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Traced:
    """What lineage tells of a dataset.

    Args:
        models: that were made of it.
        relatives: datasets that it was made of, or that were made of it.
    """

    models: Sequence[JsonObject] = ()
    relatives: Sequence[str] = ()


@dataclasses.dataclass(frozen=True, kw_only=True)
class Forgotten:
    """What `forget` did, or would do.

    Args:
        certificate: of it.
        path: where that was written; None: nothing was changed.
        names: of records by what stands for them in the certificate.
    """

    certificate: Certificate
    path: str | None
    names: Mapping[str, str]


def forget(
    names: Sequence[str],
    roots: Sequence[str],
    *,
    with_content: bool = False,
    output: str | None = None,
    caches: Sequence[str] = (),
    plain_names: bool = False,
    is_dry_run: bool = False,
    trace: Callable[[str], Traced] = lambda uri: Traced(),
    advance: Advance = lambda done, total: None,
) -> Forgotten:
    """Takes records out of all datasets of ours, copies of shards and unfinished runs.

    Args:
        names: of the records, as their `filename`, `id` or `record_id` has them.
        roots: the folders to search. Nothing else may write to them meanwhile.
        with_content: whether records are taken out that hold the same under another name.
        output: of the certificate; None: `forgotten-….json` in the first folder.
        caches: values of `cache_dir` of trainers, beside this user's own cache.
        plain_names: whether the certificate has the names, and not their SHA-256.
        is_dry_run: whether nothing is changed.
        trace: what lineage tells of a dataset.
        advance: called with the bytes that were looked at, and all of them.

    Raises:
        ConfigError: a setting is not allowed.
        DatasetError: nothing has any of the names, or a folder is not there; or a dataset is not
            whole, or damaged, and all others are rewritten by the next run.
    """
    wanted = Names(name for name in names if name)
    _check(wanted, roots)
    task = _Task(wanted, roots, with_content, output, plain_names)
    with contextlib.nullcontext() if is_dry_run else _alone(task.journal):
        earlier = task.earlier()
        if not is_dry_run:
            _finish_all(roots)
        known = {} if earlier is None else earlier.contents
        before = Found(contents=[Content(key, size, b"") for key, size in known.items()])
        found = task.search(caches, before, advance)
        if found.is_nothing and earlier is None:
            raise DatasetError(
                f"names: expected names of records as filename, id or record_id have them, found "
                f"none of {len(wanted.names)} in {', '.join(map(repr, roots))}, such as "
                f"{wanted.names[0]!r}. `tfx-shards show` lists records with their names"
            )
        certificate = task.certificate(found, earlier)
        certificate = _traced(certificate, found, wanted, roots, trace)
        if is_dry_run:
            return Forgotten(certificate=certificate, path=None, names=task.shown)
        task.keep(certificate)
        _remove(found)
        for uri, one in found.datasets.items():
            if one.is_of(with_content):
                rewrite_dataset(uri, _places(one, with_content), wanted, request=task.request)
        left = task.search(caches, found, lambda done, total: None)
        remains = [*certificate.remains, *_remains(left, with_content)]
        certificate = _finished(certificate, remains)
        task.publish(certificate)
    return Forgotten(certificate=certificate, path=task.output, names=task.shown)


def _check(wanted: Names, roots: Sequence[str]) -> None:
    if not wanted.names:
        raise ConfigError.of("names", [], allowed="one name of a record or more")
    for root in roots:
        if not is_folder(root):
            raise DatasetError.at(root, expected="a folder to search", got="none")
    if not roots:
        raise ConfigError.of("in", [], allowed="a folder or more")


class _Task:
    """What was asked for, and where it is written down."""

    def __init__(
        self,
        names: Names,
        roots: Sequence[str],
        with_content: bool,
        output: str | None,
        plain_names: bool,
    ) -> None:
        self._names, self._roots = names, [root.rstrip("/") or root for root in roots]
        self._with_content, self._plain = with_content, plain_names
        asked = f"{names.digest} {with_content} {plain_names}"
        self.request = hashlib.sha256(asked.encode()).hexdigest()
        own = f"forgotten-{self.request[:12]}.json"
        self.output = output or join(self._roots[0], own)
        self.journal = join(self._roots[0], JOURNAL_FOLDER)
        self._draft = join(self.journal, own)
        self._temporary = self.journal if output is None else os.path.dirname(output) or "."
        self.shown: dict[str, str] = {self._shown(name): name for name in names.names}

    def _shown(self, name: str) -> str:
        return name if self._plain else name_digest(name)

    def earlier(self) -> Certificate | None:
        """What earlier runs of the same request found: their draft and their certificate.

        Raises:
            DatasetError: there is another file where the certificate is to be.
        """
        found = None
        for path in (self.output, self._draft):
            if not exists(path):
                continue
            one = Certificate.from_json(read_text(path), path=path)
            if one.request != self.request:
                raise ConfigError.of(
                    "output",
                    path,
                    allowed="a file that is not there",
                    advice="It is the certificate of another request: name another",
                )
            found = one if found is None else one.merged(found)
        return found

    def search(self, caches: Sequence[str], before: Found, advance: Advance) -> Found:
        """All that holds the records now, with what is known of them from a search before."""
        return search(
            self._names,
            self._roots,
            caches=caches,
            contents=before.contents,
            needles=before.needles,
            with_content=self._with_content,
            left_out={os.path.realpath(self.output)},
            advance=advance,
        )

    def certificate(self, found: Found, earlier: Certificate | None) -> Certificate:
        """The draft of it: what was found, and what earlier runs tell."""
        with_content = self._with_content
        hits = [hit for one in found.datasets.values() for hit in one.hits]
        self.shown |= {self._shown(hit.name): hit.name for hit in hits}
        have = {hit.name for hit in hits if hit.by == "name"}
        have |= {name for one in found.datasets.values() for name in one.rejects}
        same = [
            {"uri": uri, **entry}
            for uri, one in found.datasets.items()
            for entry in self._records(one, "content")
            if not with_content
        ]
        now = Certificate(
            request=self.request,
            with_content=with_content,
            roots=self._roots,
            records=[self._shown(name) for name in self._names.names],
            not_found=[self._shown(name) for name in self._names.names if name not in have],
            datasets=[
                self._dataset(uri, one)
                for uri, one in found.datasets.items()
                if one.is_of(with_content)
            ],
            same_content=same + [{"path": path} for path in found.same_files],
            removed=_to_remove(found),
            remains=_remains(found, with_content, is_before=True),
            contents={content.key: content.size for content in found.contents},
        )
        return now if earlier is None else now.merged(earlier)

    def _dataset(self, uri: str, one: FoundDataset) -> JsonObject:
        places = _places(one, self._with_content)
        by = ("name", "content") if self._with_content else ("name",)
        return {
            "uri": uri,
            "digest_before": one.manifest.digest,
            "digest_after": None,
            "records": [entry for kind in by for entry in self._records(one, kind)],
            "rejects": [self._shown(name) for name in one.rejects],
            "texts": list(one.texts),
            "shards": [
                {"path": shard.path, "before": _sums(one.manifest, shard.path), "after": None}
                for shard in one.manifest.shards
                if shard.path in places
            ],
        }

    def _records(self, one: FoundDataset, by: str) -> list[JsonObject]:
        return [
            {
                "record": self._shown(hit.name),
                "by": hit.by,
                "split": hit.split,
                "shard": hit.shard,
                "number": hit.number,
                "bytes": hit.size,
            }
            for hit in one.hits
            if hit.by == by
        ]

    def keep(self, certificate: Certificate) -> None:
        """Writes the draft, before anything is changed."""
        write_text(
            self._draft, certificate.render(), temporary_folder=self.journal, is_durable=True
        )

    def publish(self, certificate: Certificate) -> None:
        """Writes the certificate; the draft has served."""
        text = certificate.render()
        write_text(self.output, text, temporary_folder=self._temporary, is_durable=True)
        remove_file(self._draft)


@contextlib.contextmanager
def _alone(journal: str) -> Iterator[None]:
    """Keeps a second run off, where folders are local; the journal's folder goes once it is empty.

    Raises:
        ConfigError: there is one.
    """
    make_folder(journal)
    if is_remote(journal):
        yield
        return
    lock = os.path.join(journal, "lock")
    descriptor = os.open(lock, os.O_CREAT | os.O_RDWR, 0o600)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise ConfigError(
                f"in: expected a folder that no other `tfx-shards forget` works on, got one that "
                f"does ({lock!r}). Wait for it",
                setting="in",
            ) from error
        for name in os.listdir(journal):
            if _TEMPORARY.fullmatch(name):
                os.remove(os.path.join(journal, name))
        try:
            yield
        finally:
            if os.listdir(journal) == [os.path.basename(lock)]:
                os.remove(lock)
                os.rmdir(journal)
    finally:
        os.close(descriptor)


def _finish_all(roots: Sequence[str]) -> None:
    """Finishes what killed runs have begun, of these names or others."""
    for root in roots:
        below = survey_folder(root)
        for uri in (*below.unfinished, *below.leftovers):
            finish_rewriting(uri)


def _places(one: FoundDataset, with_content: bool) -> dict[str, set[int]]:
    places: dict[str, set[int]] = {}
    for hit in one.hits:
        if with_content or hit.by == "name":
            places.setdefault(hit.shard, set()).add(hit.number)
    return places


def _sums(manifest: Manifest, path: str) -> JsonObject | None:
    """What a manifest says of a shard."""
    entries = (shard.to_entry() for shard in manifest.shards if shard.path == path)
    names = ("records", "bytes", "crc32c", "content")
    return next(({n: e[n] for n in names if n in e} for e in entries), None)


def _to_remove(found: Found) -> list[JsonObject]:
    listed = [
        {"path": join(folder, name), "what": "a copy of a shard, in a cache"}
        for folder, names in found.copies.items()
        for name in names
    ]
    listed += [{"path": uri, "what": "what an unfinished run left"} for uri in found.unfinished]
    listed += [
        {"path": working_folder(uri), "what": "temporary files of a run"} for uri in found.leftovers
    ]
    return listed + [{"path": path, "what": "a page or findings"} for path in found.pages]


def _remove(found: Found) -> None:
    """Removes what is not rewritten."""
    for folder, names in found.copies.items():
        with contextlib.suppress(ConfigError, OSError):  # what is left is found again
            cache = CacheFolder(os.path.dirname(folder), None)
            for name in names:
                cache.remove(name)
    for uri, paths in found.unfinished.items():
        for path in paths:
            with contextlib.suppress(FileNotFoundError):
                remove_file(path)
        inner = {path[len(uri) :].lstrip("/").partition("/")[0] for path in paths}
        for name in inner:
            if name.startswith(SPLIT_PREFIX) or name in (INDEX_FOLDER, VOCABULARY_FOLDER):
                remove_tree(join(uri, name))
        remove_tree(working_folder(uri))  # last: by it the rest is known for what it is
    for uri in found.leftovers:
        remove_tree(working_folder(uri))
    for path in found.pages:
        remove_file(path)


def _remains(found: Found, with_content: bool, *, is_before: bool = False) -> list[JsonObject]:
    """What holds the records and is not, or could not be, changed."""
    remains = [{"path": path, "why": why} for path, why in found.remains.items()]
    if is_before:
        return remains
    why = "it is still there: is another program writing here, or reading this copy? Run it again"
    left = [uri for uri, one in found.datasets.items() if one.is_of(with_content)]
    left += [each["path"] for each in _to_remove(found)]
    return remains + [{"path": path, "why": why} for path in left]


def _traced(
    certificate: Certificate,
    found: Found,
    wanted: Names,
    roots: Sequence[str],
    trace: Callable[[str], Traced],
) -> Certificate:
    """With the models and runs of the datasets, and with relatives that lie elsewhere."""
    uris = [dataset["uri"] for dataset in certificate.datasets]
    models: list[JsonObject] = []
    elsewhere: list[JsonObject] = []
    inside = [os.path.realpath(root) + os.sep for root in roots if not is_remote(root)]
    for uri in uris:
        traced = trace(uri)
        models += [{**model, "dataset": uri} for model in traced.models]
        for relative in traced.relatives:
            is_below = not is_remote(relative) and os.path.realpath(relative).startswith(
                tuple(inside)
            )
            if not is_below and _has(relative, wanted):
                why = f"it is in the lineage of {uri!r}: name its folder with another --in"
                elsewhere.append({"path": relative, "why": why})
    runs = [run for folder in found.ledgers for run in _runs(folder, uris, wanted)]
    known = dataclasses.replace(certificate, models=models, runs=runs)
    known = known.merged(dataclasses.replace(certificate, remains=()))
    remains = {each["path"]: each for each in [*certificate.remains, *elsewhere]}
    return dataclasses.replace(known, remains=list(remains.values()))


def _has(uri: str, wanted: Names) -> bool:
    """Whether a dataset elsewhere holds one of the records, as far as it can be read."""
    with contextlib.suppress(ValueError, OSError):
        manifest = read_manifest(uri)
        return manifest is not None and bool(find_named(uri, manifest, wanted))
    return False


def _runs(folder: str, uris: Sequence[str], wanted: Names) -> list[JsonObject]:
    """The training runs whose ledger says that they read one of the datasets."""
    with contextlib.suppress(ValueError, OSError):
        ledger = read_ledger(folder)
        places = [p for plan in ledger.plans for p, _ in plan.datasets if isinstance(p, str)]
        read = {os.path.realpath(newest_dataset(place)) for place in places}
        steps: set[int] = set()
        for name in wanted.names:
            with contextlib.suppress(ValueError, OSError):
                seen = RunLedger(folder).of_record(name)
                steps |= {at.step for sighting in seen.sightings for at in sighting.steps}
        return [
            {"run": folder, "dataset": uri, "steps": ledger.steps, "steps_that_saw": len(steps)}
            for uri in uris
            if os.path.realpath(uri) in read
        ]
    return []


def _finished(certificate: Certificate, remains: Sequence[JsonObject]) -> Certificate:
    """With what is there now."""
    now = datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds")
    unique = {each["path"]: each for each in remains}
    return dataclasses.replace(
        certificate,
        datasets=[_after(dataset) for dataset in certificate.datasets],
        remains=sorted(unique.values(), key=lambda each: str(each["path"])),
        written_at=now.replace("+00:00", "Z"),
    )


def _after(dataset: JsonObject) -> JsonObject:
    """A dataset of the certificate with its digests as they are now, if they are not known."""
    if dataset["digest_after"] is not None or (manifest := read_manifest(dataset["uri"])) is None:
        return dataset
    shards = [{**shard, "after": _sums(manifest, shard["path"])} for shard in dataset["shards"]]
    return {**dataset, "digest_after": manifest.digest, "shards": shards}
