"""Remove records from all datasets under some folders, and write a certificate.

    found = Forgetting.find(["cat/1.jpg"], ["runs/"])       # nothing is changed yet
    found.carry_out()
    found.certificate["complete"], found.path

A dataset is rewritten without the records, as ShardBalancer does with `exclude` and `keep_shards`,
into a folder next to it. A rename then replaces the old dataset by the new one. A killed run leaves
the old dataset or the new one. Between two renames there is neither, only the new folder next to
its destination; the next run finishes the rename. The certificate contains names as `sha256:…`
unless plain names are requested; docs/changing.md describes its format.
"""

import contextlib
import dataclasses
import datetime
import hashlib
import json
import os
import posixpath
from collections.abc import Callable, Iterable, Mapping, Sequence

from components.report.records import read_places
from trainer_utils.core.errors import ConfigError, DatasetError
from trainer_utils.core.json_text import JsonObject, json_lines, render_json
from trainer_utils.core.text_output import Part, TextReport, make_table, quantity
from trainer_utils.dataset import open_dataset
from trainer_utils.dataset.location import read_manifest, read_origin
from trainer_utils.format.naming import LINEAGE_FILE, MANIFEST_FILE, REJECTS_FILE
from trainer_utils.format.sealing import NO_CHECKSUM, seal
from trainer_utils.storage import (
    copy_file,
    display_path,
    exists,
    file_version,
    is_folder,
    is_remote,
    join,
    list_files,
    make_folder,
    path_of,
    read_text,
    remove_tree,
    rename,
    sync_folder,
    write_text,
)
from trainer_utils.storage.cache_folder import (
    COPIES_FOLDER,
    COPY_NAME,
    OWN_FILES,
    CacheFolder,
    copy_ending,
    default_cache_dir,
    shard_version,
)
from trainer_utils.storage.paths import encode_path
from trainer_utils.writing.uploading import upload_dataset
from trainer_utils.writing.working_folder import working_folder

__all__ = ["Forgetting"]

Advance = Callable[[int, int], None]
_NEW, _OLD = ".forget-new", ".forget-old"
_IN_SCOPE = (
    "records of datasets of tfx-shards below the folders, by record_id, filename and id",
    "their rejected inputs of these names",
    "copies of changed shards in caches of input_fn that were searched",
    "raw inputs of the changed datasets, where lineage.json says that they were: listed only",
)
_OUT_OF_SCOPE = (
    "everything else outside the folders: backups, versions that a bucket keeps, freed blocks of "
    "a disk, caches of other machines, copies of datasets in other places",
    "contents of other files: raw files whose path does not end with a name, tables, archives, "
    "reports, statistics, exported schemas, TFRecords written by other programs",
    "other features of other records that contain a name, and names of classes",
    "records with other names but the same content: tfx-shards audit finds duplicates",
    "trained models, and the rows of ML Metadata: tfx-shards lineage and ledger list them",
)


@dataclasses.dataclass(kw_only=True)
class Forgetting(TextReport):
    """The records to remove and their datasets.

    Args:
        names: the names of the records, by their form in the certificate.
        path: the path of the certificate.
        facts: the fields of the certificate that depend on the search and the removal.
    """

    names: Mapping[str, str]
    path: str
    facts: JsonObject

    @classmethod
    def find(
        cls,
        names: Sequence[str],
        roots: Sequence[str | os.PathLike[str]],
        *,
        output: str | os.PathLike[str] | None = None,
        caches: Sequence[str | os.PathLike[str]] = (),
        plain_names: bool = False,
        advance: Advance = lambda done, total: None,
    ) -> "Forgetting":
        """Read every record of every dataset under the folders, without trusting an index.

        Args:
            names: values of `filename`, `id` or `record_id` of the records to remove.
            roots: the folders to search. No other process may write to them meanwhile.
            output: path of the certificate; None: `forgotten-….json` in the first folder.
            caches: folders passed to trainers as `cache=`, in addition to this user's cache.
            plain_names: whether the certificate contains the names instead of their SHA-256.
            advance: called after each dataset with 1 and the number of datasets.

        Raises:
            ConfigError: a setting is invalid.
            DatasetError: no record has any of the names, or a folder is missing.
        """
        wanted = sorted({name for name in names if name})
        folders = [path_of("roots", root) for root in roots]
        folders = [
            os.path.realpath(f) if os.path.islink(f) else f.rstrip("/") or f for f in folders
        ]
        if not (wanted and folders):
            raise ConfigError.of("names", [*names], allowed="a name of a record and a folder")
        for root in folders:
            _finish(root)  # a killed run may have left a dataset without its folder
            if not is_folder(root):
                raise DatasetError.at(root, expected="a folder to search", got="none")
        now = datetime.datetime.now(datetime.timezone.utc)
        copies = [path_of("caches", cache) for cache in caches]
        for cache in copies:
            if not os.path.isdir(os.path.join(cache, COPIES_FOLDER)):
                rule = f"the folder of a cache, with {COPIES_FOLDER}/ in it"
                raise ConfigError.of("cache", cache, allowed=rule)
        path = (
            path_of("output", output)
            if output
            else join(folders[0], f"forgotten-{now:%Y%m%dT%H%M%SZ}.json")
        )
        if exists(path):
            raise ConfigError.of("output", path, allowed="a file that is not there yet")
        shown = {name: name if plain_names else _digest_of(name) for name in wanted}
        uris, remains = _survey(folders, wanted)
        datasets = []
        for uri in uris:
            try:
                datasets.append(_search(uri, shown))
            except (ValueError, OSError) as error:
                remains[uri] = f"it cannot be searched: {error}"
            advance(1, len(uris))
        datasets = [each for each in datasets if each["records"] or each["rejects"]]
        have = {record["name"] for each in datasets for record in each["records"]}
        have |= {name for each in datasets for name in each["rejects"]}
        held = [name for name, digest in shown.items() if digest in have]
        for uri in (each["uri"] for each in datasets):
            remains = {**_raw_inputs(uri, held), **remains}
        if not have and not remains:
            raise DatasetError(
                "names: expected names of records as filename, id or record_id have them, found "
                f"none of {len(wanted)} in {', '.join(map(repr, folders))}, such as {wanted[0]!r}. "
                "`tfx-shards show` lists records with their names"
            )
        facts = {
            "requested_at": f"{now:%FT%TZ}",
            "roots": folders,
            "records": sorted(shown.values()),
            "not_found": sorted({*shown.values()} - have),
            "searched": len(uris),
            "datasets": datasets,
            "removed": _copies([default_cache_dir(), *copies], folders, datasets),
            "remains": _listed(remains),
        }
        return cls(names={digest: name for name, digest in shown.items()}, path=path, facts=facts)

    @property
    def certificate(self) -> JsonObject:
        """The request and its results so far."""
        is_done = all(each["digest_after"] for each in self.facts["datasets"])
        return {
            "kind": "tfx-shards forget",
            "format_version": 3,
            "checksum": NO_CHECKSUM,
            "complete": is_done and not self.facts["remains"],
            "in_scope": list(_IN_SCOPE),
            "out_of_scope": list(_OUT_OF_SCOPE),
            **self.facts,
        }

    def to_json(self) -> JsonObject:
        """Return the certificate."""
        return self.certificate

    def parts(self) -> list[Part]:
        """Return the parts that `print_parts` prints: the certificate with the plain names."""
        datasets, removed = self.facts["datasets"], self.facts["removed"]
        records = [
            [self.names[record["name"]], record["shard"], record["number"], each["uri"]]
            for each in datasets
            for record in each["records"]
        ]
        lost = [[self.names[name]] for name in self.facts["not_found"]]
        remains = [[each["path"], each["why"]] for each in self.facts["remains"]]
        parts: list[Part] = [
            f"{quantity(len(records), 'record')} of {quantity(len(datasets), 'dataset')}, "
            f"{quantity(len(removed), 'copy', 'copies')} in caches"
        ]
        for header, rows in (
            (["record", "shard", "number", "dataset"], records),
            (["no record of this name"], lost),
            (["remains", "why"], remains),
        ):
            parts += ["", make_table(header, rows)] if rows else []
        return parts

    def carry_out(self, *, advance: Advance = lambda done, total: None) -> None:
        """Rewrite the datasets, remove the copies in caches, and write the certificate.

        The certificate is written first, as incomplete, and again at the end. So even a killed run
        leaves a certificate of the datasets that it may have changed.

        Args:
            advance: called after each dataset with 1 and the number of datasets.

        Raises:
            DatasetError: a dataset is incomplete or damaged, or another run is writing it.
        """
        self._write()
        for copy in self.facts["removed"]:
            with contextlib.suppress(ConfigError, OSError):  # copies that stay are reported below
                folder, name = os.path.split(copy)
                CacheFolder(os.path.dirname(folder), None).remove(name)
        remains = {each["path"]: each["why"] for each in self.facts["remains"]}
        for entry in self.facts["datasets"]:
            uri = entry["uri"]
            _rewrite(uri, sorted({self.names[record["name"]] for record in entry["records"]}))
            entry["digest_after"] = open_dataset(uri, inspect=False).digest
            if still := _small_files_with(uri, self.names.values()):
                remains[uri] = f"{', '.join(still)} name one: in a setting or a class"
            advance(1, len(self.facts["datasets"]))
        for copy in filter(exists, self.facts["removed"]):
            remains[copy] = "a copy in a cache that is in use: end the trainer, and remove it"
        self.facts["remains"] = _listed(remains)
        self._write()

    def _write(self) -> None:
        folder = os.path.dirname(self.path)
        text = seal(render_json(self.certificate))
        write_text(self.path, text, temporary_folder=folder, is_durable=True)


def _digest_of(name: str) -> str:
    return f"sha256:{hashlib.sha256(encode_path(name)).hexdigest()}"


def _survey(roots: Sequence[str], names: Sequence[str]) -> tuple[list[str], dict[str, str]]:
    """Return the uris of our datasets under the folders, and paths that remain with the reasons.

    Raw files with one of the names remain, and so do folders that cannot be listed.
    """
    uris, remains = list[str](), dict[str, str]()
    for root in roots:
        files = list(list_files(root))
        folders = [f.path.rpartition("/")[0] for f in files if f.path.endswith(MANIFEST_FILE)]
        uris += [join(root, folder) if folder else root for folder in folders]
        for file in files:
            if any(f"/{file.path}".endswith(f"/{name}") for name in names):
                remains[join(root, file.path)] = "a file of this name: it would be converted again"
            elif file.problem is not None and file.is_folder:
                remains[join(root, file.path)] = f"it cannot be searched: {file.problem[1]}"
    return uris, remains


def _raw_inputs(uri: str, names: Sequence[str]) -> dict[str, str]:
    """Return the raw inputs of some records that are still where a dataset was converted from.

    The lineage has the places. A record is a file, or is in a table (`reviews.csv:18`) or archive.
    """
    manifest, remains = read_manifest(uri), dict[str, str]()
    assert manifest is not None
    origin = read_origin(uri, manifest)
    steps = [origin.made_by, *(ancestor.made_by for ancestor in origin.ancestors)]
    settings = [step.settings for step in steps if step is not None]
    bases = {str(step["input_base"]) for step in settings if step.get("input_base")}
    for base in sorted(bases):
        try:
            folder = base if is_folder(base) else base.rpartition("/")[0]
            for name in names:
                if ".." not in name.split("/") and (holder := _holder(folder, name)) is not None:
                    remains.update([holder])
        except (DatasetError, OSError) as error:  # a bucket that cannot be reached, for example
            remains[base] = f"raw inputs that cannot be searched: {error}"
    return remains


def _holder(folder: str, name: str) -> tuple[str, str] | None:
    """Return the file below a folder that a record came from and why it remains, if it exists."""
    path = join(folder, name)
    if exists(path) and not is_folder(path):
        return path, "the raw file: it would be converted again"
    table, _, row = name.rpartition(":")
    if row.isdecimal() and exists(path := join(folder, table)) and not is_folder(path):
        return path, f"the table of the record: row {row}, unless it was removed since"
    parts = name.split("/")
    for length in range(1, len(parts)):
        path = join(folder, "/".join(parts[:length]))
        if not exists(path):
            return None
        if not is_folder(path):
            return path, f"the archive of the record: {name}, unless it was removed since"
    return None


def _search(uri: str, shown: Mapping[str, str]) -> JsonObject:
    """Return the certificate's entry of a dataset: its records and rejects with these names."""
    dataset = open_dataset(uri, inspect=False)
    if dataset.manifest is None:
        raise DatasetError.at(uri, expected="a dataset with a tfx-shards manifest", got="another")
    records = [
        {
            "name": shown[place.name],
            "split": place.split,
            "shard": place.shard,
            "number": place.record,
            "bytes": place.bytes,
        }
        for split, shards in dataset.shards.items()
        for shard in shards
        for place in read_places(shard, split, shown)
    ]
    sources, rejects = {display_path(name): shown[name] for name in shown}, []
    if exists(path := join(uri, REJECTS_FILE)):
        rejected_sources = [
            str(entry.get("source")) for entry in json_lines(read_text(path), path=path)
        ]
        rejects = [sources[source] for source in rejected_sources if source in sources]
    digest = {"digest_before": dataset.digest, "digest_after": None}
    return {"uri": uri, **digest, "records": records, "rejects": rejects}


def _copies(
    caches: Sequence[str], roots: Sequence[str], datasets: Sequence[JsonObject]
) -> list[str]:
    """Return the paths of cached copies of the shards that change.

    The name of a copy ends with the version of the shard, which does not depend on the address of
    the dataset. Copies of local files, such as unpacked ones, and of files that were read
    without a manifest end with the version of the file.
    """
    endings = set()
    for dataset in datasets:
        changed = {record["shard"] for record in dataset["records"]}
        for shards in open_dataset(dataset["uri"], inspect=False).shards.values():
            for shard in shards:
                if shard.name in changed:
                    assert shard.entry is not None
                    for version in (shard_version(shard.entry), file_version(shard.path)):
                        endings.add(f"-{copy_ending(shard.path, version)}")
    folders = [os.path.join(cache, COPIES_FOLDER) for cache in caches]
    places = [*filter(is_folder, folders), *(root for root in roots if not is_remote(root))]
    paths = {join(folder, file.path) for folder in places for file in list_files(folder)}
    return sorted(path for path in paths if path.endswith((*endings,)) and _is_copy(path))


def _is_copy(path: str) -> bool:
    folder, name = os.path.split(path)
    is_called_so = COPY_NAME.fullmatch(name) and os.path.basename(folder) == COPIES_FOLDER
    return bool(is_called_so) and all(exists(join(folder, file_name)) for file_name in OWN_FILES)


def _beside(uri: str, ending: str) -> str:
    folder, _, name = (uri if is_remote(uri) else os.path.abspath(uri)).rpartition("/")
    if folder.endswith("/"):
        raise ConfigError.of("in", uri, allowed="datasets in folders", advice="Move it to one")
    return f"{folder}/.{name}{ending}"


def _rewrite(uri: str, names: Sequence[str]) -> None:
    """Rewrite a dataset without some records, and without its list of rejects."""
    from components import steps  # imports Arrow
    from components.balancing.settings import BalancerSettings

    new = _beside(uri, _NEW)
    remove_tree(new)
    manifest = read_manifest(uri)
    is_gzip = manifest is not None and any(shard.path.endswith(".gz") for shard in manifest.shards)
    compression = "gzip" if is_gzip else "none"
    settings = BalancerSettings(exclude=names or None, keep_shards=True, compression=compression)
    steps.balance([uri], new, settings)
    _swap(uri)


def _finish(root: str) -> None:
    """Finish replacing the datasets that a killed run rewrote under this folder."""
    if is_remote(root):
        folders = {os.path.dirname(file.path) for file in list_files(root)}
    else:
        paths = (os.path.join(folder, name) for folder, names, _ in os.walk(root) for name in names)
        folders = {os.path.relpath(folder, root) for folder in paths}
    left = {root}
    for folder in folders:
        for ending in (_NEW, _OLD):
            above, _, name = folder.partition(ending)[0].rpartition("/")
            if ending in folder and name.startswith("."):
                left.add(join(root, posixpath.join(above, name[1:])))
    for uri in sorted(left):
        with contextlib.suppress(ConfigError):  # a whole bucket has no folder next to it
            if exists(join(_beside(uri, _NEW), MANIFEST_FILE)):
                _swap(uri)
            if exists(uri):
                remove_tree(_beside(uri, _NEW))
                remove_tree(_beside(uri, _OLD))


def _swap(uri: str) -> None:
    """Replace the old dataset by the new, complete one; keep files that are not of the dataset."""
    new, old = _beside(uri, _NEW), _beside(uri, _OLD)
    manifest = read_manifest(uri) if exists(join(uri, MANIFEST_FILE)) else None
    if manifest is not None:
        dataset_files = {
            MANIFEST_FILE,
            LINEAGE_FILE,
            *(s.path for s in manifest.shards),
            *manifest.published,
        }
        for file in list_files(uri):
            target = join(new, file.path)
            if file.path not in dataset_files and file.problem is None and not exists(target):
                make_folder(os.path.dirname(target))
                make_folder(working_folder(new))
                temporary_folder = working_folder(new)
                copy_file(join(uri, file.path), target, temporary_folder=temporary_folder)
        remove_tree(working_folder(new))
    if is_remote(uri):
        remove_tree(uri)
        upload_dataset(new, uri)
    else:
        if exists(uri):
            rename(uri, old)
        rename(new, uri)
        sync_folder(os.path.dirname(new))
    for folder in (new, old):
        remove_tree(folder)


def _small_files_with(uri: str, names: Iterable[str]) -> list[str]:
    """Return the small files of a dataset that contain a name, in quotes or as a whole line."""
    manifest, paths = read_manifest(uri), []
    assert manifest is not None
    forms = {form for name in names for form in (name, json.dumps(name)[1:-1])}
    wanted = [mark for form in forms for mark in (f'"{form}"', f"'{form}'", f"\n{form}\n")]
    for path in sorted({MANIFEST_FILE, LINEAGE_FILE, *manifest.files}):
        text = f"\n{read_text(join(uri, path))}" if exists(join(uri, path)) else ""
        paths += [path] if any(mark in text for mark in wanted) else []
    return paths


def _listed(remains: Mapping[str, str]) -> list[JsonObject]:
    return [{"path": path, "why": why} for path, why in sorted(remains.items())]
