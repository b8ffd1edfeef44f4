"""Where lineage is looked up: a store of ML Metadata, or the datasets themselves.

found = look_up("out/latest", metadata=None)     # graph, location, summaries
print(list_runs("out/"))
"""

import contextlib
import importlib
import importlib.util
import os
from collections.abc import Sequence
from typing import Any

from pipelines.lineage.facts import LineageFacts
from pipelines.lineage.graph import DATASET_TYPE, Graph
from pipelines.lineage.location import Location, dataset_folder, locate
from pipelines.lineage.manifests import load_datasets
from pipelines.lineage.metadata_address import METADATA_FORMS, without_password
from pipelines.lineage.metadata_files import stores_above, stores_in
from pipelines.lineage.run_list import Runs
from pipelines.tools.conversion import METADATA_FILE
from trainer_utils.dataset.files import read_manifest
from trainer_utils.extras import HOW_TO_GET_TFX
from trainer_utils.format import ConfigError, InputError
from trainer_utils.format.naming import MANIFEST_FILE
from trainer_utils.format.origin import DatasetSummary
from trainer_utils.storage import exists, is_folder, is_object_store, is_remote, join

__all__ = ["list_runs", "look_up"]


def look_up(uri: str, *, metadata: str | None) -> LineageFacts:
    """An artifact and its lineage.

    Args:
        uri: of the artifact.
        metadata: a store, or a folder with one or with datasets; None for a store above the uri,
            else the dataset itself.

    Raises:
        ConfigError: `metadata` is not allowed.
        InputError: there is no such store or artifact.
    """
    if metadata is None:
        return _look_above(uri)
    if not _is_root(metadata):
        return _in_store(uri, metadata)
    stores = [] if is_remote(metadata) else stores_in(metadata)
    return _in_first(uri, stores) if stores else _among_datasets(uri, root=metadata)


def _look_above(uri: str) -> LineageFacts:
    stores = list(stores_above(uri))
    dataset = dataset_folder(uri.rstrip("/"))
    if not exists(join(dataset, MANIFEST_FILE)):
        if stores:
            return _in_first(uri, stores)
        raise InputError(
            f"metadata: expected a {METADATA_FILE} in a folder above {uri!r}, or a dataset with a "
            f"manifest there, found none. Name where ML Metadata is: {METADATA_FORMS}."
        )
    try:
        return _in_first(uri, stores)
    except (_UnknownArtifactError, _NoReaderError):
        return _among_datasets(dataset)


class _UnknownArtifactError(InputError):
    """A store can be read, and does not have the artifact."""


class _NoReaderError(ConfigError):
    """ML Metadata, which reads stores, is not installed."""


def _in_first(uri: str, stores: Sequence[str]) -> LineageFacts:
    """In the first of some stores that has it."""
    missing: _UnknownArtifactError | None = None
    for store in stores:
        try:
            return _in_store(uri, store)
        except _UnknownArtifactError as error:
            missing = missing or error
    raise missing or _UnknownArtifactError(f"artifact {uri!r}: expected a store, found none")


def _in_store(uri: str, metadata: str) -> LineageFacts:
    reading, store_module = _store_modules()
    shown = without_password(metadata)
    with store_module.open_store(metadata) as store:
        try:
            location = locate(reading.StoreArtifacts(store), uri, metadata=shown)
        except InputError as error:
            raise _UnknownArtifactError(str(error)) from error
        graph = reading.load_graph(store, location.artifact)
    return LineageFacts(
        metadata=shown, location=location, graph=graph, summaries=_summaries(graph, location)
    )


def _among_datasets(uri: str, *, root: str | None = None) -> LineageFacts:
    found = load_datasets(dataset_folder(uri.rstrip("/")), root=root)
    assert found.artifact is not None  # one was asked for
    return LineageFacts(
        metadata="manifests" if root is None else f"manifests in {root}",
        location=Location(artifact=found.artifact),
        graph=found.graph,
        summaries=found.summaries,
        knows_runs=False,
    )


def _summaries(graph: Graph, location: Location) -> dict[int, DatasetSummary]:
    """Those that are there and can be read; problems of one are reported by `verify`."""
    found = {}
    for artifact in graph.artifacts.values():
        path = location.path_of(artifact.uri)
        if not artifact.uri or (is_remote(path) and artifact.type != DATASET_TYPE):
            continue
        with contextlib.suppress(ValueError, OSError):
            if (manifest := read_manifest(path)) is not None:
                found[artifact.id] = DatasetSummary.of(manifest)
    return found


def list_runs(metadata: str) -> Runs:
    """All runs of a store.

    Args:
        metadata: a sqlite file, `mysql://user:password@host:port/database` or
            `grpc://host:port`; a folder with such a file, else one below which datasets are.

    Raises:
        ConfigError: `metadata` is not allowed, or leaves open which store is meant.
        InputError: there is no such store and no dataset, or it cannot be read.
    """
    if not _is_root(metadata):
        return _executions_in(metadata)
    stores = [] if is_remote(metadata) else stores_in(metadata)
    if len(stores) > 1 and os.path.basename(stores[0]) != METADATA_FILE:
        raise ConfigError(
            f"metadata {metadata!r}: expected one store, found {', '.join(stores)}. Name one.",
            setting="metadata",
        )
    if stores:
        return _executions_in(stores[0])
    executions = load_datasets(root=metadata).graph.executions
    if not executions:
        raise InputError(
            f"metadata {metadata!r}: expected {METADATA_FORMS}, or a folder with a "
            f"{METADATA_FILE} or with datasets, found no such file"
        )
    return Runs(
        metadata=f"manifests in {metadata}",
        executions=[executions[number] for number in sorted(executions)],
        knows_runs=False,
    )


def _executions_in(metadata: str) -> Runs:
    reading, store_module = _store_modules()
    with store_module.open_store(metadata) as store:
        found = reading.read_executions(store, [node.id for node in store.get_executions()])
    return Runs(metadata=without_password(metadata), executions=list(found))


def _is_root(metadata: str) -> bool:
    """Whether it is a folder, where a store or datasets may be."""
    return is_object_store(metadata) or (not is_remote(metadata) and is_folder(metadata))


def _store_modules() -> tuple[Any, Any]:
    """What reads stores, which needs ML Metadata; datasets by themselves need nothing."""
    if importlib.util.find_spec("ml_metadata") is None:
        raise _NoReaderError(f"ML Metadata's stores need TFX: {HOW_TO_GET_TFX}", setting="metadata")
    names = ("reading", "store")
    reading, store = (importlib.import_module(f"pipelines.lineage.{name}") for name in names)
    return reading, store
