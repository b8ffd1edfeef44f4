"""Takes records out of all that lies below some folders, and leaves a certificate.

    found = Forgetting.find(["cat/1.jpg"], ["runs/"])       # nothing is changed yet
    found.carry_out()
    found.certificate.is_complete

What is to be done is written down before anything is changed: after a kill the same request goes on
with it, searches nothing anew, and so ends with the same certificate.
"""

import contextlib
import dataclasses
import datetime
import fcntl
import hashlib
import os
from collections.abc import Callable, Iterator, Mapping, Sequence

from pipelines.tools.forget.certificate import Certificate
from pipelines.tools.forget.labels import decide_labels
from pipelines.tools.forget.names import Names, name_digest
from pipelines.tools.forget.rewriting import finish_swap, rewrite_dataset
from pipelines.tools.forget.search import (
    JOURNAL_FOLDER,
    FoundDataset,
    holds,
    search_dataset,
    survey,
)
from trainer_utils.dataset.files import read_manifest
from trainer_utils.format import ConfigError, DatasetError
from trainer_utils.format.json_text import JsonObject, parse_json_object, render_json
from trainer_utils.format.layouts import is_named_as_records
from trainer_utils.storage import (
    exists,
    is_folder,
    is_remote,
    join,
    make_folder,
    read_text,
    remove_tree,
    write_text,
)
from trainer_utils.storage.cache_folder import (
    COPIES_FOLDER,
    COPY_NAME,
    OWN_FILES,
    CacheFolder,
    default_cache_dir,
)
from trainer_utils.text_output import Part, Shown, list_counts

__all__ = ["Forgetting"]

Advance = Callable[[int, int], None]


def _unseen(done: int, total: int) -> None:
    """Shows nothing of the progress."""


@dataclasses.dataclass(kw_only=True)
class Forgetting(Shown):
    """What is to be taken out of what.

    Args:
        names: of the records.
        shown: the same by what stands for them in the certificate.
        journal: the folder of the draft.
        draft: the certificate but for what comes after, its `path`, and the label counts of what
            stays by dataset.
    """

    names: Names
    shown: Mapping[str, str]
    journal: str
    draft: JsonObject

    @classmethod
    def find(
        cls,
        names: Sequence[str],
        roots: Sequence[str],
        *,
        output: str | None = None,
        caches: Sequence[str] = (),
        plain_names: bool = False,
        advance: Advance = _unseen,
    ) -> "Forgetting":
        """Looks through all datasets and files; or reads what a run that was killed has found.

        Args:
            names: of the records, as their `filename`, `id` or `record_id` has them.
            roots: the folders to search. Nothing else may write to them meanwhile.
            output: of the certificate; None: `forgotten-….json` in the first folder.
            caches: folders that trainers were given as `cache=`, beside this user's own cache.
            plain_names: whether the certificate has the names, and not their SHA-256.
            advance: called with the bytes that were looked at, and all of them.

        Raises:
            ConfigError: a setting is not allowed, or another request was killed here.
            DatasetError: nothing has any of the names, or a folder is not there.
        """
        wanted = Names(name for name in names if name)
        roots = [os.path.realpath(r) if os.path.islink(r) else r.rstrip("/") or r for r in roots]
        if not (wanted.names and roots):
            raise ConfigError.of("names", [*names], allowed="a name of a record and a folder")
        for root in roots:
            finish_swap(root)  # of a dataset, which a kill may have left without its folder
            if not is_folder(root):
                raise DatasetError.at(root, expected="a folder to search", got="none")
        shown = {name if plain_names else name_digest(name): name for name in wanted.names}
        journal, asked = join(roots[0], JOURNAL_FOLDER), f"{sorted(shown)} {roots}"
        request = hashlib.sha256(asked.encode("utf-8", "surrogateescape")).hexdigest()
        draft = _read_draft(journal, request)
        if draft is None:
            now = datetime.datetime.now(datetime.timezone.utc)
            path = output or join(roots[0], f"forgotten-{now:%Y%m%dT%H%M%SZ}.json")
            if exists(path):
                raise ConfigError.of("output", path, allowed="a file that is not there yet")
            folders = [os.path.join(each, COPIES_FOLDER) for each in (default_cache_dir(), *caches)]
            folders = [*roots, *filter(os.path.isdir, folders)]
            counts, facts = _search(wanted, folders, shown, advance)
            facts |= {"requested_at": f"{now:%FT%TZ}", "roots": roots}
            draft = {
                "request": request,
                "path": path,
                "label_counts": counts,
                "certificate": facts,
            }
        return cls(names=wanted, shown=shown, journal=journal, draft=draft)

    @property
    def path(self) -> str:
        """Where the certificate goes."""
        return str(self.draft["path"])

    @property
    def certificate(self) -> Certificate:
        """As it is now: a draft, until it was carried out."""
        return Certificate(**self.draft["certificate"])

    def parts(self) -> list[Part]:
        """What a person sees: the certificate with the names."""
        return self.certificate.parts(self.shown)

    def carry_out(self, *, advance: Advance = _unseen) -> None:
        """Rewrites the datasets, removes the copies, and writes the certificate.

        Args:
            advance: called with the datasets that were rewritten, and all of them.

        Raises:
            DatasetError: a dataset is not whole, or damaged; the same request goes on with it.
        """
        with _alone(os.path.dirname(self.journal)):
            _write(join(self.journal, _DRAFT), render_json(self.draft))
            certificate = self.certificate
            for copy in certificate.removed:
                with contextlib.suppress(ConfigError, OSError):  # what stays is told below
                    folder, name = os.path.split(copy)
                    CacheFolder(os.path.dirname(folder), None).remove(name)
            for entry in certificate.datasets:
                self._rewrite(entry)
                advance(1, len(certificate.datasets))
            self.draft["certificate"] = vars(self._finished(certificate))
            _write(self.path, self.certificate.render())
            remove_tree(join(os.path.dirname(self.path), JOURNAL_FOLDER))
            remove_tree(self.journal)

    def _rewrite(self, entry: JsonObject) -> None:
        uri, places = entry["uri"], dict[str, set[int]]()
        finish_swap(uri)
        manifest = read_manifest(uri)
        if manifest is None or manifest.digest != entry["digest_before"]:
            return  # a run before did it; what else it may be is searched at the end
        for record in entry["records"]:
            places.setdefault(record["shard"], set()).add(record["number"])
        counts = self.draft["label_counts"][uri]
        rewrite_dataset(uri, places, self.names, lines=entry["labels"], label_counts=counts)

    def _finished(self, certificate: Certificate) -> Certificate:
        """The certificate, with what the rewritten datasets are now."""
        remains = {e["path"]: e["why"] for e in certificate.remains if exists(e["path"])}
        datasets = []
        for entry in certificate.datasets:
            found = search_dataset(entry["uri"], self.names)
            if found.records or found.rejects or found.is_told:
                remains[entry["uri"]] = "another program has written to it: run this again"
            datasets.append({**entry, "digest_after": found.dataset.digest})
        for copy in filter(exists, certificate.removed):
            remains[copy] = "a copy in a cache that is in use: end the trainer, and remove it"
        return dataclasses.replace(certificate, datasets=datasets, remains=_listed(remains))


_DRAFT = "draft.json"


def _read_draft(journal: str, request: str) -> JsonObject | None:
    """What a run that was killed has found.

    Raises:
        ConfigError: it was asked for something else.
    """
    path = join(journal, _DRAFT)
    if not exists(path):
        return None
    draft = parse_json_object(read_text(path), path=path)
    if draft["request"] != request:
        raise ConfigError(
            f"names: expected those of the run that was killed here, got others ({path!r}). "
            "Finish it first: give it the same names and folders again; or remove that file.",
            setting="names",
        )
    return draft


def _write(path: str, text: str) -> None:
    temporary = join(os.path.dirname(path), JOURNAL_FOLDER)
    make_folder(temporary)
    write_text(path, text, temporary_folder=temporary, is_durable=True)


@contextlib.contextmanager
def _alone(root: str) -> Iterator[None]:
    """Keeps a second run off a local folder; raises ConfigError where there is one."""
    if is_remote(root):
        yield
        return
    descriptor = os.open(root, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    except BlockingIOError as error:
        allowed = "a folder that no other run works on"
        raise ConfigError.of("in", root, allowed=allowed, advice="Wait for it") from error
    finally:
        os.close(descriptor)


def _search(
    names: Names, folders: Sequence[str], shown: Mapping[str, str], advance: Advance
) -> tuple[JsonObject, JsonObject]:
    """The label counts of what stays, and what the certificate says, as far as it is known."""
    sizes, files, closed = survey(folders)
    total = sum(sizes.values()) + sum(files.values())
    found: dict[str, FoundDataset] = {}
    for uri in sizes:
        try:
            found[uri] = search_dataset(uri, names, advance=lambda size: advance(size, total))
        except (ValueError, OSError) as error:
            closed[uri] = str(error)
    labels, counts = decide_labels(found, names)
    needles = set[bytes]().union(*(one.needles for one in found.values()))
    remains, removed = _of_other_records(found, labels), []
    for path, size in files.items():
        why = ""
        try:
            why = _why_it_remains(path, folders, names, needles)
        except (ValueError, OSError) as error:
            closed[path] = str(error)
        if _is_copy(path):  # it is made again where it is needed
            removed += [path] if why or closed.pop(path, "") else []
        elif why:
            remains[path] = why
        advance(size, total)
    rewritten = {
        uri: one
        for uri, one in found.items()
        if one.records or one.rejects or one.is_told or labels[uri]
    }
    if not (rewritten or removed or remains):
        raise DatasetError(
            "names: expected names of records as filename, id or record_id have them, found none "
            f"of {len(names.names)} in {', '.join(map(repr, folders))}, such as "
            f"{names.names[0]!r}. `tfx-shards show` lists records with their names"
        )
    digests = {name: digest for digest, name in shown.items()}
    have = {record["name"] for one in found.values() for record in one.records}
    have |= {name for one in found.values() for name in one.rejects}
    remains |= {path: f"it cannot be searched: {why}" for path, why in closed.items()}
    return {uri: counts[uri] for uri in rewritten}, {
        "records": sorted(shown),
        "not_found": sorted(digests[name] for name in digests.keys() - have),
        "searched": {"datasets": len(found), "files": len(files)},
        "datasets": [
            {
                "uri": uri,
                "digest_before": one.dataset.digest,
                "digest_after": None,
                "records": [{**r, "name": digests[r["name"]]} for r in one.records],
                "rejects": [digests[name] for name in one.rejects],
                "labels": labels[uri],
            }
            for uri, one in rewritten.items()
        ],
        "removed": removed,
        "remains": _listed(remains),
    }


def _of_other_records(
    found: Mapping[str, FoundDataset], labels: Mapping[str, Mapping[str, Sequence[int]]]
) -> dict[str, str]:
    """What of datasets names a record and stays, since other records have it."""
    remains = {}
    for uri, one in found.items():
        if one.others:
            remains[uri] = f"other records name one: {list_counts(one.others)}"
        for feature, ids in one.lines.items():
            if left := ids - {*labels[uri].get(feature, ())}:
                path = join(uri, one.dataset.vocabulary_files[feature])
                remains[path] = f"a label of other records: id {min(left)}"
    return remains


def _why_it_remains(path: str, roots: Sequence[str], names: Names, needles: set[bytes]) -> str:
    """Why a file of another program is listed; nothing of one that names no record."""
    inner = path[max(len(root) for root in roots if path.startswith(root)) :]
    forms = f"/{inner}/", f"/{os.path.splitext(inner)[0]}/"
    is_called_so = any(f"/{name}/" in form for name in names.names for form in forms)
    if is_called_so or names.are_in(os.fsencode(os.path.basename(inner))):
        return "a file or folder of this name: remove it, or it is converted again"
    if not holds(path, names, needles):
        return ""
    if is_named_as_records(path):
        return "TFRecords of another program: write them again without it"
    return "it names one: remove it, make it again, or take out what it says"


def _is_copy(path: str) -> bool:
    """Whether a file is a copy of a shard, in the cache of a trainer."""
    folder, name = os.path.split(path)
    is_called_so = COPY_NAME.fullmatch(name) and os.path.basename(folder) == COPIES_FOLDER
    return bool(is_called_so) and all(exists(join(folder, own)) for own in OWN_FILES)


def _listed(remains: Mapping[str, str]) -> list[JsonObject]:
    return [{"path": path, "why": why} for path, why in sorted(remains.items())]
