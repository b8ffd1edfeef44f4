"""Where lineage is looked up: a store of ML Metadata, or the datasets themselves.

found = look_up("out/latest", metadata=None)     # graph, location, summaries
print(list_runs("out/"))
"""

import contextlib
import dataclasses
import glob
import importlib
import importlib.util
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from pipelines.lineage.datasets import load_datasets
from pipelines.lineage.graph import DATASET_TYPE, Found, Id
from pipelines.lineage.run_list import Runs
from pipelines.tools.conversion import METADATA_FILE
from trainer_utils.dataset.files import read_manifest
from trainer_utils.extras import HOW_TO_GET_TFX
from trainer_utils.format import ConfigError, InputError
from trainer_utils.format.naming import MANIFEST_FILE, SPLIT_PREFIX
from trainer_utils.format.origin import DatasetSummary
from trainer_utils.storage import exists, is_folder, is_object_store, is_remote, join

__all__ = ["METADATA_FORMS", "list_runs", "look_up", "stores_above"]

METADATA_FORMS = "a sqlite file or grpc://host:port"
# TFX has `metadata.sqlite` in notebooks and `metadata.db` in its templates, one a pipeline.
_OWN = (METADATA_FILE, "metadata.db")
_FOLDERS = ("", "tfx_metadata", "tfx_metadata/*", "metadata", "metadata/*")
_SHOWN = 5


def look_up(uri: str, *, metadata: str | None) -> Found:
    """An artifact and its lineage, for `describe_artifact`."""
    if metadata is not None:
        if not _is_root(metadata):
            return _in_store(uri, metadata)
        stores = [] if is_remote(metadata) else stores_in(metadata)
        return (
            _in_first(uri, stores) if stores else load_datasets(_dataset_folder(uri), root=metadata)
        )
    stores = list(stores_above(uri))
    if not exists(join(_dataset_folder(uri), MANIFEST_FILE)):
        if stores:
            return _in_first(uri, stores)
        raise InputError(
            f"metadata: expected a {METADATA_FILE} in a folder above {uri!r}, or a dataset with a "
            f"manifest there, found none. Name where ML Metadata is: {METADATA_FORMS}."
        )
    try:
        return _in_first(uri, stores)
    except (_UnknownArtifactError, _NoReaderError):
        return load_datasets(_dataset_folder(uri))


class _UnknownArtifactError(InputError):
    """A store can be read, and does not have the artifact."""


class _NoReaderError(ConfigError):
    """ML Metadata, which reads stores, is not installed."""


def _in_first(uri: str, stores: Sequence[str]) -> Found:
    """In the first of some stores that has it."""
    missing = _UnknownArtifactError(f"artifact {uri!r}: expected a store, found none")
    for place, store in enumerate(stores):
        try:
            return _in_store(uri, store)
        except _UnknownArtifactError as error:
            missing = missing if place else error
    raise missing


def _in_store(uri: str, metadata: str) -> Found:
    with _open(metadata) as (module, store):
        artifacts = _located(store, uri)
        if not artifacts:
            known = sorted(store.get_artifacts(), key=lambda artifact: -artifact.id)
            newest = ", ".join([artifact.uri for artifact in known if artifact.uri][:_SHOWN])
            raise _UnknownArtifactError(
                f"artifact {uri!r}: expected the uri of an artifact of {metadata}, which has "
                f"{len(known)}. " + (f"The newest: {newest}." if newest else "None has a uri.")
            )
        events = store.get_events_by_artifact_ids([one.id for one in artifacts])
        made = {event.artifact_id for event in events if event.type == event.OUTPUT}
        *others, last = sorted((one.id for one in artifacts), key=lambda i: (i in made, i))
        graph = module.load_graph(store, last)
    others.sort()
    found = Found(metadata=metadata, artifact_id=last, graph=graph, same_uri=others)
    return dataclasses.replace(found, summaries=_summaries(found))


def _located(store: Any, uri: str) -> Sequence[Any]:
    """The artifacts at a uri, however it is spelt."""
    folder = _dataset_folder(uri)
    spellings = [folder]
    if "://" not in folder:
        spellings += [f(folder) for f in (os.path.abspath, os.path.realpath, os.path.relpath)]
    asked = (store.get_artifacts_by_uri(s + end) for s in spellings for end in ("", "/"))
    return next(filter(None, asked), [])


def _dataset_folder(uri: str) -> str:
    """The folder of a dataset, where the uri is of a split or of a file in it."""
    uri = uri.rstrip("/")
    folder, _, name = uri.rpartition("/")
    if name.startswith(SPLIT_PREFIX):
        return folder or "."
    above, _, split = folder.rpartition("/")
    if split.startswith(SPLIT_PREFIX):
        return above or "."
    return folder or "." if os.path.isfile(uri) else uri


def _summaries(found: Found) -> dict[Id, DatasetSummary]:
    """Those that are there and can be read; problems of one are reported by `verify`."""
    summaries = {}
    for artifact in found.graph.artifacts.values():
        if not artifact.uri or (is_remote(artifact.uri) and artifact.type != DATASET_TYPE):
            continue
        with contextlib.suppress(ValueError, OSError):
            if (manifest := read_manifest(artifact.uri)) is not None:
                summaries[artifact.id] = DatasetSummary.of(manifest)
    return summaries


def list_runs(metadata: str) -> Runs:
    """All runs of a store.

    Args:
        metadata: a sqlite file or `grpc://host:port`; a folder with such a file, else one below
            which datasets are.

    Raises:
        ConfigError: `metadata` is not allowed, or leaves open which store is meant.
        InputError: there is no such store and no dataset, or it cannot be read.
    """
    stores = [metadata]
    if _is_root(metadata):
        stores = [] if is_remote(metadata) else stores_in(metadata)
    if len(stores) > 1 and os.path.basename(stores[0]) != METADATA_FILE:
        raise ConfigError(
            f"metadata {metadata!r}: expected one store, found {', '.join(stores)}. Name one.",
            setting="metadata",
        )
    if stores:
        with _open(stores[0]) as (module, store):
            executions = module.read_executions(store, [n.id for n in store.get_executions()])
        return Runs(metadata=stores[0], executions=executions)
    executions = list(load_datasets(root=metadata).graph.executions.values())
    if not executions:
        raise InputError(
            f"metadata {metadata!r}: expected {METADATA_FORMS}, or a folder with a "
            f"{METADATA_FILE} or with datasets, found no such file"
        )
    return Runs(metadata=f"manifests in {metadata}", executions=executions, knows_runs=False)


def _is_root(metadata: str) -> bool:
    """Whether it is a folder, where a store or datasets may be."""
    return is_object_store(metadata) or (not is_remote(metadata) and is_folder(metadata))


@contextlib.contextmanager
def _open(metadata: str) -> Iterator[tuple[Any, Any]]:
    """What reads stores, which needs ML Metadata, and a store; datasets alone need nothing."""
    if importlib.util.find_spec("ml_metadata") is None:
        raise _NoReaderError(f"ML Metadata's stores need TFX: {HOW_TO_GET_TFX}", setting="metadata")
    module = importlib.import_module("pipelines.lineage.store")
    with module.open_store(metadata) as store:
        yield module, store


def stores_above(uri: str) -> Iterator[str]:
    """The stores in the folder of a uri and in those above it, the nearest first."""
    if not is_remote(uri):
        folder = Path(os.path.abspath(uri))
        for each in (folder, *folder.parents):
            yield from stores_in(str(each))


def stores_in(folder: str) -> list[str]:
    """The stores of a folder: the likeliest first, those in TFX's folders for them last."""
    patterns = [os.path.join(glob.escape(folder), inner, own) for inner in _FOLDERS for own in _OWN]
    return [path for pattern in patterns for path in sorted(glob.glob(pattern))]
