"""Where lineage is looked up: a store of ML Metadata, or the datasets themselves.

found = look_up("out/latest", metadata=None)     # graph, location, summaries
print(list_runs("out/"))
"""

import contextlib
import dataclasses
import functools
import glob
import importlib
import importlib.util
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from pipelines.lineage.datasets import load_datasets
from pipelines.lineage.graph import DATASET_TYPE, Execution, Found, Id
from pipelines.tools.conversion import METADATA_FILE
from trainer_utils.dataset.files import read_manifest
from trainer_utils.dataset.location import newest_dataset
from trainer_utils.extras import HOW_TO_GET_TFX
from trainer_utils.format import ConfigError, InputError
from trainer_utils.format.json_text import JsonObject
from trainer_utils.format.naming import MANIFEST_FILE, SPLIT_PREFIX
from trainer_utils.format.origin import DatasetSummary
from trainer_utils.storage import exists, is_folder, is_object_store, is_remote, join
from trainer_utils.text_output import as_text

METADATA_FORMS = "a sqlite file or grpc://host:port"
RUN_UNKNOWN = "not known: datasets name none, a store of ML Metadata does"
# TFX has `metadata.sqlite` in notebooks and `metadata.db` in its templates, one a pipeline.
_OWN = (METADATA_FILE, "metadata.db")
_FOLDERS = ("", "tfx_metadata", "tfx_metadata/*", "metadata", "metadata/*")
_SHOWN = 5


def look_up(uri: str, *, metadata: str | None) -> Found:
    """An artifact and its lineage, for `describe_artifact`; of `convert`'s folder the newest."""
    folder = _dataset_folder(uri := newest_dataset(uri))
    if metadata is not None:
        if not _is_root(metadata):
            return _in_store(uri, metadata)
        stores = [] if is_remote(metadata) else stores_in(metadata)
        return _in_first(uri, stores) if stores else load_datasets(folder, root=metadata)
    stores = list(stores_above(uri))
    if exists(join(folder, MANIFEST_FILE)):
        try:
            return _in_first(uri, stores)
        except (_UnknownArtifactError, _NoReaderError):
            return load_datasets(folder)
    if stores:
        return _in_first(uri, stores)
    raise InputError(
        f"metadata: expected a {METADATA_FILE} in a folder above {uri!r}, or a dataset with a "
        f"manifest there, found none. Name where ML Metadata is: {METADATA_FORMS}."
    )


class _UnknownArtifactError(InputError):
    """A store can be read, and does not have the artifact."""


class _NoReaderError(ConfigError):
    """ML Metadata, which reads stores, is not installed."""


def _in_first(uri: str, stores: Sequence[str]) -> Found:
    """In the first of some stores that has it; the first one's error where none has."""
    missing = [_UnknownArtifactError(f"artifact {uri!r}: expected a store, found none")]
    for store in stores:
        try:
            return _in_store(uri, store)
        except _UnknownArtifactError as error:
            missing.append(error)
    raise missing[bool(stores)]


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
    summaries: dict[Id, DatasetSummary] = {}
    for node in graph.artifacts.values():
        if node.uri and (node.type == DATASET_TYPE or not is_remote(node.uri)):
            with contextlib.suppress(ValueError, OSError):  # `verify` tells what is wrong
                if (manifest := read_manifest(node.uri)) is not None:
                    summaries[node.id] = DatasetSummary.of(manifest)
    return Found(
        metadata=metadata,
        artifact_id=last,
        graph=graph,
        summaries=summaries,
        same_uri=sorted(others),
    )


def _located(store: Any, uri: str) -> Sequence[Any]:
    """The artifacts at a uri, however it is spelt."""
    spellings = [folder := _dataset_folder(uri)]
    if "://" not in folder:
        spellings += [f(folder) for f in (os.path.abspath, os.path.realpath, os.path.relpath)]
    asked = (store.get_artifacts_by_uri(s + end) for s in spellings for end in ("", "/"))
    return next(filter(None, asked), [])


def _dataset_folder(uri: str) -> str:
    """The folder of a dataset, where the uri is of a split or of a file in it."""
    uri = uri.rstrip("/")
    if os.path.isfile(uri) or uri.rpartition("/")[0].rpartition("/")[2].startswith(SPLIT_PREFIX):
        uri = uri.rpartition("/")[0] or "."
    above, _, name = uri.rpartition("/")
    return (above or ".") if name.startswith(SPLIT_PREFIX) else uri


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


@dataclasses.dataclass(frozen=True, kw_only=True)
class Run:
    """One run of a pipeline; without a name, executions that belong to none."""

    name: str | None
    pipeline: str | None
    executions: Sequence[Execution]

    @property
    def state(self) -> str:
        """`FAILED`, `RUNNING`, `CANCELED` or `COMPLETE`; `UNKNOWN` where nothing says."""
        states = {execution.state for execution in self.executions} - {"SKIPPED"}  # a branch
        for state in ("FAILED", "RUNNING", "CANCELED", "NEW"):
            if state in states:
                return "RUNNING" if state == "NEW" else state
        return "COMPLETE" if states and states <= {"COMPLETE", "CACHED"} else "UNKNOWN"

    def to_json(self) -> JsonObject:
        """Plain JSON types."""
        return {
            "run": self.name,
            "pipeline": self.pipeline,
            "state": self.state,
            "started": min((e.started for e in self.executions if e.started), default=None),
            "ended": max((e.ended for e in self.executions if e.ended), default=None),
            "components": [
                {
                    "component": execution.component,
                    "type": execution.type,
                    "execution": execution.id,
                    "state": execution.state,
                    "outputs": {name: list(ids) for name, ids in execution.outputs.items()},
                }
                for execution in self.executions
            ],
        }


@dataclasses.dataclass(frozen=True, kw_only=True)
class Runs:
    """All runs of a store, or what datasets tell of, the latest first."""

    metadata: str
    executions: Sequence[Execution]
    knows_runs: bool = True

    @functools.cached_property
    def runs(self) -> list[Run]:
        """Those of pipelines, then executions that belong to none."""
        grouped: dict[tuple[str | None, str | None], list[Execution]] = {}
        for execution in self.executions:
            pipeline = execution.pipeline if execution.run else None
            grouped.setdefault((execution.run, pipeline), []).append(execution)
        runs = [Run(name=n, pipeline=p, executions=some) for (n, p), some in grouped.items()]
        return sorted(reversed(runs), key=lambda run: run.name is None)

    def to_json(self) -> JsonObject:
        """Plain JSON types."""
        return {"metadata": self.metadata, "runs": [run.to_json() for run in self.runs]}

    def __str__(self) -> str:
        lines = [] if self.runs else [f"{self.metadata}: no run"]
        without_run = "(of no run)" if self.knows_runs else f"(run {RUN_UNKNOWN})"
        for run in self.runs:
            told = run.to_json()
            pipeline = f" of {run.pipeline}" if run.pipeline else ""
            times = f", {told['started']} to {told['ended']}" if told["started"] else ""
            lines.append(f"{run.name or without_run}{pipeline}: {run.state}{times}")
            for each in run.executions:
                number = f" (execution {each.id})" if self.knows_runs else ""
                lines.append(f"  {each.component}{number}: {each.state}")
        return as_text(lines)


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
        raise ConfigError.of("metadata", metadata, allowed=f"one store of {', '.join(stores)}")
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
