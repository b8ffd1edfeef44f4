"""Takes records out of all datasets below some folders, and leaves a certificate.

    found = Forgetting.find(["cat/1.jpg"], ["runs/"])       # nothing is changed yet
    found.carry_out()
    found.certificate["complete"]

What is to be done is written down before anything is changed: after a kill the same request goes on
with it, searches nothing anew, and so ends with the same certificate. Names are in it as `sha256:…`
unless they are asked for; docs/changing.md says its form.
"""

import contextlib
import dataclasses
import datetime
import fcntl
import os
from collections.abc import Callable, Iterator, Mapping, Sequence

from pipelines.tools.forget.names import LEAST_BYTES, Names, name_digest
from pipelines.tools.forget.rewriting import finish_swap, rewrite_dataset
from pipelines.tools.forget.search import (
    JOURNAL_FOLDER,
    decide_labels,
    search_dataset,
    survey,
    why_it_remains,
)
from trainer_utils.dataset.files import read_manifest
from trainer_utils.format import ConfigError, DatasetError
from trainer_utils.format.json_text import JsonObject, parse_json_object, render_json
from trainer_utils.format.sealing import NO_CHECKSUM, seal
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
from trainer_utils.text_output import Part, Shown, make_table, quantity

__all__ = ["Forgetting"]

Advance = Callable[[int, int], None]
_DRAFT = "draft.json"
_OUT_OF_SCOPE = (
    "whatever lies outside of roots and caches: backups, versions that a bucket keeps, freed "
    "blocks of a disk, caches of other machines, copies of datasets that lie elsewhere",
    "records of other names whose content is the same: tfx-shards audit finds copies",
    "trained models, and the rows of ML Metadata: tfx-shards lineage and ledger tell of them",
    "numbers in records, but for record_id, filename and id",
    "pictures and figures without a name, such as thumbnails and statistics",
    "files of other programs that hold a name encrypted, compressed in parts, or escaped in ways "
    "other than those of JSON, protobuf, Python, HTML, URLs and CSV",
    f"names of fewer than {LEAST_BYTES} bytes within files that are no text",
)


@dataclasses.dataclass(kw_only=True)
class Forgetting(Shown):
    """What is to be taken out of what.

    Args:
        names: of the records.
        shown: the same by what stands for them in the certificate.
        path: where the certificate goes.
        facts: what it says; a draft, until it was carried out.
        label_counts: of what stays, by dataset.
    """

    names: Names
    shown: Mapping[str, str]
    path: str
    facts: JsonObject
    label_counts: JsonObject

    @classmethod
    def find(
        cls,
        names: Sequence[str],
        roots: Sequence[str],
        *,
        output: str | None = None,
        caches: Sequence[str] = (),
        plain_names: bool = False,
        advance: Advance = lambda done, total: None,
    ) -> "Forgetting":
        """Looks through all datasets and files; or reads what a run that was killed has found.

        Args:
            names: of the records, as their `filename`, `id` or `record_id` has them.
            roots: the folders to search. Nothing else may write to them meanwhile.
            output: of the certificate; None: `forgotten-….json` in the first folder.
            caches: folders that trainers were given as `cache=`, beside this user's own cache.
            plain_names: whether the certificate has the names, and not their SHA-256.
            advance: called with the datasets and files that were looked at, and all of them.

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
        draft_path = join(roots[0], f"{JOURNAL_FOLDER}/{_DRAFT}")
        if exists(draft_path):
            draft = parse_json_object(read_text(draft_path), path=draft_path)
            facts = draft["facts"]
            if (facts["records"], facts["roots"]) != (sorted(shown), roots):
                raise ConfigError(
                    "names: expected those of the run that was killed here, got others "
                    f"({draft_path!r}). Finish it first: give it the same names and folders again; "
                    "or remove that file.",
                    setting="names",
                )
            return cls(names=wanted, shown=shown, **draft)
        now = datetime.datetime.now(datetime.timezone.utc)
        path = output or join(roots[0], f"forgotten-{now:%Y%m%dT%H%M%SZ}.json")
        if exists(path):
            raise ConfigError.of("output", path, allowed="a file that is not there yet")
        folders = [os.path.join(each, COPIES_FOLDER) for each in (default_cache_dir(), *caches)]
        folders = [*roots, *filter(os.path.isdir, folders)]
        counts, facts = _search(wanted, folders, shown, advance)
        facts |= {"requested_at": f"{now:%FT%TZ}", "roots": roots, "records": sorted(shown)}
        return cls(names=wanted, shown=shown, path=path, facts=facts, label_counts=counts)

    @property
    def certificate(self) -> JsonObject:
        """What was asked for, and what became of it, as far as it was carried out."""
        return {
            "kind": "tfx-shards forget",
            "format_version": 2,
            "checksum": NO_CHECKSUM,
            "complete": not self.facts["remains"],
            "out_of_scope": list(_OUT_OF_SCOPE),
            **self.facts,
        }

    def to_json(self) -> JsonObject:
        """The certificate."""
        return self.certificate

    def parts(self) -> list[Part]:
        """What a person sees: the certificate with the names."""
        datasets, removed = self.facts["datasets"], self.facts["removed"]
        records = [(record, each["uri"]) for each in datasets for record in each["records"]]
        parts: list[Part] = [
            f"{quantity(len(records), 'record')} of {quantity(len(datasets), 'dataset')}, "
            f"{quantity(len(removed), 'copy', 'copies')} in caches"
        ]
        for header, rows in (
            (
                ["record", "shard", "number", "dataset"],
                [[self.shown[r["name"]], r["shard"], r["number"], uri] for r, uri in records],
            ),
            (["no record of this name"], [[self.shown[n]] for n in self.facts["not_found"]]),
            (["still names one", "why"], [[e["path"], e["why"]] for e in self.facts["remains"]]),
        ):
            parts += ["", make_table(header, rows)] if rows else []
        return parts

    def carry_out(self, *, advance: Advance = lambda done, total: None) -> None:
        """Rewrites the datasets, removes the copies, and writes the certificate.

        Args:
            advance: called with the datasets that were rewritten, and all of them.

        Raises:
            DatasetError: a dataset is not whole, or damaged; the same request goes on with it.
        """
        root = self.facts["roots"][0]
        with _alone(root):
            draft = {name: vars(self)[name] for name in ("path", "facts", "label_counts")}
            _write(join(root, f"{JOURNAL_FOLDER}/{_DRAFT}"), render_json(draft))
            for copy in self.facts["removed"]:
                with contextlib.suppress(ConfigError, OSError):  # what stays is told below
                    folder, name = os.path.split(copy)
                    CacheFolder(os.path.dirname(folder), None).remove(name)
            for entry in self.facts["datasets"]:
                self._rewrite(entry)
                advance(1, len(self.facts["datasets"]))
            self.facts = self._finished()
            _write(self.path, seal(render_json(self.certificate)))
            for folder in (os.path.dirname(self.path), root):
                remove_tree(join(folder, JOURNAL_FOLDER))

    def _rewrite(self, entry: JsonObject) -> None:
        uri, places = entry["uri"], dict[str, set[int]]()
        finish_swap(uri)
        manifest = read_manifest(uri)
        if manifest is None or manifest.digest != entry["digest_before"]:
            return  # a run before did it; what else it may be is searched at the end
        for record in entry["records"]:
            places.setdefault(record["shard"], set()).add(record["number"])
        counts = self.label_counts[uri]
        rewrite_dataset(uri, places, self.names, labels=entry["labels"], label_counts=counts)

    def _finished(self) -> JsonObject:
        """What the certificate says, with what the rewritten datasets are now."""
        remains = {e["path"]: e["why"] for e in self.facts["remains"] if exists(e["path"])}
        datasets = []
        for entry in self.facts["datasets"]:
            found = search_dataset(entry["uri"], self.names)
            if found.is_rewritten:
                remains[entry["uri"]] = "another program has written to it: run this again"
            datasets.append({**entry, "digest_after": found.dataset.digest})
        for copy in filter(exists, self.facts["removed"]):
            remains[copy] = "a copy in a cache that is in use: end the trainer, and remove it"
        return {**self.facts, "datasets": datasets, "remains": _listed(remains)}


def _write(path: str, text: str) -> None:
    folder = os.path.dirname(path)
    temporary = folder if folder.endswith(JOURNAL_FOLDER) else join(folder, JOURNAL_FOLDER)
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
    uris, files, remains = survey(folders)
    total = len(uris) + len(files)
    found, removed = {}, []
    for uri in uris:
        try:
            found[uri] = search_dataset(uri, names)
        except (ValueError, OSError) as error:
            remains[uri] = f"it cannot be searched: {error}"
        advance(1, total)
    decide_labels(found.values())
    remains |= {uri: why for uri, one in found.items() if (why := one.remains)}
    have = {record["name"] for one in found.values() for record in one.records}
    have |= {name for one in found.values() for name in one.rejects}
    shards = tuple(
        f"-{os.path.basename(r['shard'])}" for one in found.values() for r in one.records
    )
    for path in files:
        try:
            why = why_it_remains(path, folders, names)
        except OSError as error:
            why = f"it cannot be searched: {error}"
        if _is_copy(path):  # of a shard, which is made again where it is needed
            removed += [path] if why or path.endswith(shards) else []
        elif why:
            remains[path] = why
        advance(1, total)
    rewritten = {uri: one for uri, one in found.items() if one.is_rewritten}
    if not (rewritten or removed or remains):
        raise DatasetError(
            "names: expected names of records as filename, id or record_id have them, found none "
            f"of {len(names.names)} in {', '.join(map(repr, folders))}, such as "
            f"{names.names[0]!r}. `tfx-shards show` lists records with their names"
        )
    digests = {name: digest for digest, name in shown.items()}
    return {uri: one.label_counts for uri, one in rewritten.items()}, {
        "not_found": sorted(digests[name] for name in digests.keys() - have),
        "searched": {"datasets": len(found), "files": len(files)},
        "datasets": [
            {
                "uri": uri,
                "digest_before": one.dataset.digest,
                "digest_after": None,
                "records": [{**r, "name": digests[r["name"]]} for r in one.records],
                "rejects": [digests[name] for name in one.rejects],
                "labels": one.labels,
            }
            for uri, one in rewritten.items()
        ],
        "removed": removed,
        "remains": _listed(remains),
    }


def _is_copy(path: str) -> bool:
    """Whether a file is a copy of a shard, in the cache of a trainer."""
    folder, name = os.path.split(path)
    is_called_so = COPY_NAME.fullmatch(name) and os.path.basename(folder) == COPIES_FOLDER
    return bool(is_called_so) and all(exists(join(folder, own)) for own in OWN_FILES)


def _listed(remains: Mapping[str, str]) -> list[JsonObject]:
    return [{"path": path, "why": why} for path, why in sorted(remains.items())]
