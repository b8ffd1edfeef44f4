"""What each written shard reports: a small JSON file that its retry writes over.

A Beam worker cannot hand values back to the executor, but both see the output's file system.

    write_summary(folder, "train-00000", {"records": 12})
    read_summaries(folder)      # [{'records': 12}, …], sorted by name

Where a worker does not see it, as with a local path on another machine, `check_shared` refuses.
"""

import contextlib
import json
import os
import socket
from collections.abc import Collection, Iterable, Iterator, Mapping

from absl import logging

from components.common.claims import claiming, current_claim
from trainer_utils.format import ConfigError, DatasetError, Manifest
from trainer_utils.format.json_text import Json, JsonObject
from trainer_utils.format.naming import (
    DATASET_FILES,
    INDEX_FOLDER,
    MANIFEST_FILE,
    SPLIT_PREFIX,
    VOCABULARY_FOLDER,
    is_index_file,
    is_shard_file,
)
from trainer_utils.format.printable import printable
from trainer_utils.storage import (
    MachineError,
    exists,
    is_folder,
    is_remote,
    join,
    list_files,
    list_names,
    make_folder,
    read_text,
    remove_file,
    remove_tree,
    write_text,
)
from trainer_utils.writing.publishing import working_folder

__all__ = [
    "announce_files",
    "check_finished",
    "check_shared",
    "finished_names",
    "read_finished",
    "read_summaries",
    "read_summary",
    "remove_dataset",
    "removed_on_failure",
    "start_working",
    "working_folder",
    "write_summary",
]

_SHARE = "Give an absolute path on a file system that is mounted alike on all of them, or a bucket"
_FOLDERS = (INDEX_FOLDER, VOCABULARY_FOLDER)
_ANNOUNCED = "published.json"
_SHOWN = 5


def start_working(uri: str, *, keeps_dataset: bool = False) -> None:
    """Makes the working folder, and removes what an earlier attempt or run left of a dataset.

    Args:
        keeps_dataset: whether a whole one stays until `remove_dataset` is called, once nothing is
            left that a setting could be wrong for.

    Raises:
        DatasetError: another run is writing there.
        ConfigError: in a folder of a dataset's are files that no run of this program wrote; they
            are named, and nothing is removed.
    """
    claim = current_claim(uri)
    if claim is not None:
        claim.take()
    if keeps_dataset and exists(join(uri, MANIFEST_FILE)):
        _refuse_others(uri)
    else:
        remove_dataset(uri)
    remove_tree(working_folder(uri))
    make_folder(working_folder(uri))
    if claim is not None:
        claim.mark()


@contextlib.contextmanager
def removed_on_failure(uri: str) -> Iterator[None]:
    """Removes what a run that fails has written, working files and all.

    A whole dataset stays: the run has not begun to replace it, or is done. So does everything
    where files of others are among what the run wrote, and what another run is writing.

    Args:
        uri: of the dataset; what a caller keeps of a failed run goes beside it.
    """
    with claiming(uri) as claim:
        try:
            yield
        except BaseException:
            try:
                if exists(working_folder(uri)) and claim.may_remove():
                    if not exists(join(uri, MANIFEST_FILE)):
                        remove_dataset(uri)
                    remove_tree(working_folder(uri))
            except Exception as error:  # the one that made the run fail says more
                logging.warning("%s: what the run wrote is left there: %s", printable(uri), error)
            raise


def remove_dataset(uri: str) -> None:
    """Removes all of a dataset but the working folder, by which the rest is known for ours.

    Raises:
        ConfigError: as `start_working`.
    """
    own = _refuse_others(uri)
    make_folder(working_folder(uri))
    announce_files(uri, own)  # for the next run, if this one is killed among the next lines
    if exists(join(uri, MANIFEST_FILE)):
        remove_file(join(uri, MANIFEST_FILE))  # first, so that nothing passes for whole
    for name in list_names(uri):
        if name in DATASET_FILES:
            remove_file(join(uri, name))
        elif name.startswith(SPLIT_PREFIX) or name in _FOLDERS:
            remove_tree(join(uri, name))


def _refuse_others(uri: str) -> set[str]:
    """The files in a dataset's folders, of which none may be others'."""
    found = {*_files_in_folders(uri)}
    own = _own_files(uri, found)
    if others := sorted(found - own):
        more = f" and {len(others) - _SHOWN} more" if len(others) > _SHOWN else ""
        raise ConfigError(
            f"output {uri!r}: expected a folder without files of others, since a dataset's "
            f"{SPLIT_PREFIX}*/, {INDEX_FOLDER}/ and {VOCABULARY_FOLDER}/ are its own, got "
            f"{', '.join(map(repr, others[:_SHOWN]))}{more}. "
            "Move them away, or name another output."
        )
    return own


def _files_in_folders(uri: str) -> Iterator[str]:
    """What lies in the folders of a dataset, by path relative to `uri`."""
    if not exists(uri):
        return
    for folder in list_names(uri):
        if (folder.startswith(SPLIT_PREFIX) or folder in _FOLDERS) and is_folder(join(uri, folder)):
            yield from (f"{folder}/{name}" for name in list_names(join(uri, folder)))


def _own_files(uri: str, found: Collection[str]) -> set[str]:
    """Those that a run of this program wrote, as a manifest or a working folder shows."""
    manifest = _read_manifest(uri)
    if manifest is None and not exists(working_folder(uri)):
        return set()
    own = {path for path in found if is_shard_file(path) or is_index_file(path)}
    own |= _announced(uri)
    return own | (set(manifest.published) if manifest is not None else set())


def _read_manifest(uri: str) -> Manifest | None:
    path = join(uri, MANIFEST_FILE)
    try:
        text = read_text(path) if exists(path) else ""
        return Manifest.from_json(text, path=path, is_checked=False)
    except MachineError:
        raise
    except (OSError, ValueError):  # none, or one of somebody else's
        return None


def announce_files(uri: str, paths: Iterable[str]) -> None:
    """Says which small files a run is about to write: if it is killed, the next knows them."""
    folder = working_folder(uri)
    write_text(join(folder, _ANNOUNCED), json.dumps(sorted(paths)), temporary_folder=folder)


def _announced(uri: str) -> set[str]:
    path = join(working_folder(uri), _ANNOUNCED)
    return set(json.loads(read_text(path))) if exists(path) else set()


def check_shared(uri: str) -> None:
    """Refuses to write where the executor would not see it; for workers, before each element.

    Raises:
        ConfigError: the folder in which the executor began is not there.
    """
    if not is_remote(uri) and not exists(working_folder(uri)):
        raise ConfigError(
            "pipeline_root: expected storage that all workers share, but on "
            f"{socket.gethostname()}, in {os.getcwd()!r}, there is no {working_folder(uri)!r}, "
            f"which the executor made. {_SHARE}",
            setting="pipeline_root",
        )


def check_finished(uri: str, names: Collection[str]) -> None:
    """Refuses a run in which a part of the work is missing; for the executor, after it.

    Raises:
        DatasetError: one is not.
    """
    if missing := sorted(set(names) - set(finished_names(working_folder(uri)))):
        raise DatasetError.at(
            uri,
            expected=f"{len(names)} parts",
            got=f"{len(names) - len(missing)}; the first that is missing: {missing[0]!r}",
            advice=f"The Beam runner lost it, or a worker wrote to a disk of its own. {_SHARE}",
        )


def write_summary(folder: str, name: str, summary: Mapping[str, Json]) -> None:
    """Keeps one shard's report. Names must differ by shard, and be equal for a retry."""
    path = join(folder, f"summaries/{name}.json")
    write_text(path, json.dumps(summary), temporary_folder=folder)


def read_summary(folder: str, name: str) -> JsonObject:
    """One report."""
    summary: JsonObject = json.loads(read_text(join(folder, f"summaries/{name}.json")))
    return summary


def read_finished(uri: str, names: Collection[str]) -> list[JsonObject]:
    """The reports of these names, in their order, of which none is missing: as `check_finished`."""
    check_finished(uri, names)
    return [read_summary(working_folder(uri), name) for name in names]


def finished_names(folder: str) -> list[str]:
    """The names of the reports that are there."""
    summaries = join(folder, "summaries")
    names = list_names(summaries) if exists(summaries) else []
    return [name.removesuffix(".json") for name in names]


def read_summaries(folder: str) -> list[JsonObject]:
    """All reports, sorted by name."""
    summaries = join(folder, "summaries")
    if not exists(summaries):
        return []
    return [
        json.loads(read_text(os.path.join(summaries, file.path))) for file in list_files(summaries)
    ]
