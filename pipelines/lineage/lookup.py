"""Look up an artifact or all runs, in a store of ML Metadata or in datasets.

lineage = describe_artifact("runs/artifacts/ShardBalancer/balanced_examples/4", record="cat/1.jpg")
print(lineage)
lineage.to_json()["made_by"]["settings"]
print(list_runs("out/"))
"""

import dataclasses
import functools
import glob
import importlib.util
import os
import posixpath
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from types import ModuleType

from components.report.records import Place, find_places, name_features
from pipelines.lineage.datasets import load_datasets
from pipelines.lineage.graph import (
    DATASET_TYPE,
    METADATA_FORMS,
    RUN_UNKNOWN,
    Execution,
    Id,
    Lineage,
    RecordStep,
)
from pipelines.tools.conversion import METADATA_FILE
from trainer_utils.core.errors import ConfigError, InputError
from trainer_utils.core.extras import HOW_TO_GET_TFX
from trainer_utils.core.json_text import JsonObject, json_lines
from trainer_utils.core.text_output import as_text
from trainer_utils.dataset import open_dataset
from trainer_utils.dataset.location import newest_dataset
from trainer_utils.format.naming import MANIFEST_FILE, NAME_FEATURES, REJECTS_FILE, SPLIT_PREFIX
from trainer_utils.storage import (
    display_path,
    exists,
    is_folder,
    is_object_store,
    is_remote,
    join,
    path_of,
    read_text,
)

# TFX writes `metadata.sqlite` in notebooks, and one `metadata.db` per pipeline in its templates.
_OWN = (METADATA_FILE, "metadata.db")
_FOLDERS = ("", "tfx_metadata", "tfx_metadata/*", "metadata", "metadata/*")


def describe_artifact(
    uri: str | os.PathLike[str],
    *,
    metadata: str | os.PathLike[str] | None = None,
    record: str | None = None,
) -> Lineage:
    """Return the ancestors and descendants of an artifact.

    Datasets written by tfx-shards that no store has are described by their own files.

    Args:
        uri: the uri of the artifact.
        metadata: a sqlite file, `grpc://host:port`, or a folder with such a file or with datasets
            below it. None: a store in a folder above the uri, or else the dataset and its inputs.
        record: the `filename` or `id` of a record to find in the dataset and in its inputs.

    Raises:
        ConfigError: `metadata` or `record` is not allowed.
        InputError: there is no such store or artifact, or no dataset has the record.
    """
    if record == "":
        raise ConfigError.of("record", record, allowed="the filename or id of a record")
    uri = path_of("uri", uri)
    graph = _look_up(uri, metadata=None if metadata is None else os.fspath(metadata))
    if record is None:
        return graph
    artifacts = graph.artifacts
    places = [*graph.ancestors(graph.artifact_id), graph.artifact_id]
    datasets = [i for i in places if artifacts[i].type == DATASET_TYPE or i in graph.summaries]
    steps = [_search(place, artifacts[place].uri, record) for place in datasets]
    if not any(step.outcome in ("found", "rejected") for step in steps):
        sentences = "; ".join(
            f"{artifacts[s.artifact].uri}: {s.outcome}, {s.detail}" for s in steps
        )
        raise InputError(
            f"record {record!r}: expected the filename or id of a record of {uri!r}, the "
            "path relative to the input base or file:row, found none. "
            f"{sentences or 'It is not a dataset.'}"
        )
    bases = (base for place in datasets for base in _bases(graph, place))
    source = next((join(base, record) for base in bases), None)
    return dataclasses.replace(graph, record=record, source=source, steps=steps)


def _search(artifact: Id, uri: str, name: str) -> RecordStep:
    """Search the shards and rejects of a dataset for a name."""
    places, rejects, outcome = list[Place](), list[JsonObject](), "unknown"
    detail = f"its files are gone ({uri})"
    try:
        if is_folder(uri):
            dataset, path = open_dataset(uri), join(uri, REJECTS_FILE)
            entries = json_lines(read_text(path), path=path) if exists(path) else ()
            rejects = [entry for entry in entries if entry.get("source") == display_path(name)]
            features, places = name_features(dataset), find_places(dataset, name)
            if places or rejects:
                outcome, detail = "found" if places else "rejected", ""
            elif features:
                outcome, detail = "not found", f"no record has this {' or '.join(features)}"
                if dataset.manifest and (skipped := dataset.manifest.total.skipped):
                    detail += f"; {skipped} inputs were skipped by a setting, which are not listed"
            else:
                wanted = " nor ".join(sorted(NAME_FEATURES))
                detail = f"its records have no feature that names their source: neither {wanted}"
    except (ValueError, OSError) as error:
        detail, rejects = f"it cannot be read: {error}", []
    return RecordStep(
        artifact=artifact, outcome=outcome, detail=detail, places=places, rejects=rejects
    )


def _bases(graph: Lineage, artifact: Id) -> Iterator[str]:
    """Yield the raw inputs of an artifact, from the settings of its makers."""
    for maker in graph.makers(artifact)[:1]:
        roots = maker.settings.get("file_roots") or maker.settings.get("image_roots")
        for base in (maker.settings.get("input_base"), *(roots if isinstance(roots, list) else ())):
            if isinstance(base, str) and base:
                yield posixpath.dirname(base) if os.path.isfile(base) else base


def _look_up(uri: str, *, metadata: str | None) -> Lineage:
    """Return the lineage of an artifact; in a folder of `convert`, of the newest dataset."""
    folder = _dataset_folder(uri := newest_dataset(uri))
    stores: Iterable[str]
    if metadata is None:
        tells_itself = exists(join(folder, MANIFEST_FILE))
        has_no_reader = importlib.util.find_spec("ml_metadata") is None
        stores = () if tells_itself and has_no_reader else stores_above(uri)
    else:
        stores = _stores_of(metadata)
        tells_itself = not stores
    missing: InputError | None = None
    for store in stores:
        answer = _store_reader().find_artifact(store, folder)
        if isinstance(answer, Lineage):
            return answer
        missing = missing or InputError(f"artifact {uri!r}: {answer}")
    if tells_itself:
        return load_datasets(folder, root=metadata)
    raise missing or InputError(
        f"metadata: expected a {METADATA_FILE} in a folder above {uri!r}, or a dataset with a "
        f"manifest there, found none. Name where ML Metadata is: {METADATA_FORMS}."
    )


def _store_reader() -> ModuleType:
    """Import the module that reads stores; unlike datasets, it needs ML Metadata."""
    if importlib.util.find_spec("ml_metadata") is None:
        raise ConfigError(f"ML Metadata's stores need TFX: {HOW_TO_GET_TFX}", setting="metadata")
    from pipelines.lineage import store

    return store


def _dataset_folder(uri: str) -> str:
    """Return the folder of the dataset that contains a split or file."""
    parts = uri.rstrip("/").split("/")
    for place in (-1, -2):
        if len(parts) >= -place and parts[place].startswith(SPLIT_PREFIX):
            return "/".join(parts[:place]) or "."
    return "/".join(parts[:-1]) or "." if os.path.isfile("/".join(parts)) else "/".join(parts)


def _stores_of(metadata: str) -> list[str]:
    """Return the stores in a folder, possibly none, or the store that `metadata` names."""
    if is_object_store(metadata):
        return []
    is_root = not is_remote(metadata) and is_folder(metadata)
    return stores_in(metadata) if is_root else [metadata]


def stores_above(uri: str) -> Iterator[str]:
    """Yield the stores in the folder of a uri and in the folders above it, nearest first."""
    if not is_remote(uri):
        folder = Path(os.path.abspath(uri))
        for each in (folder, *folder.parents):
            yield from stores_in(str(each))


def stores_in(folder: str) -> list[str]:
    """Return the stores in a folder, followed by stores in TFX's metadata folders."""
    patterns = [
        os.path.join(glob.escape(folder), inner, file_name)
        for inner in _FOLDERS
        for file_name in _OWN
    ]
    return [path for pattern in patterns for path in sorted(glob.glob(pattern))]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Run:
    """One run of a pipeline, or, without a name, executions outside of any run."""

    name: str | None
    pipeline: str | None
    executions: Sequence[Execution]

    @property
    def state(self) -> str:
        """State of the run: `FAILED`, `RUNNING`, `CANCELED`, `COMPLETE` or `UNKNOWN`."""
        states = {execution.state for execution in self.executions} - {"SKIPPED"}  # branches
        for state in ("FAILED", "RUNNING", "CANCELED", "NEW"):
            if state in states:
                return "RUNNING" if state == "NEW" else state
        return "COMPLETE" if states and states <= {"COMPLETE", "CACHED"} else "UNKNOWN"

    def to_json(self) -> JsonObject:
        """Return the run as plain JSON types."""
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
    """All runs of a store or of a folder of datasets, latest first."""

    metadata: str
    executions: Sequence[Execution]
    knows_runs: bool = True

    @functools.cached_property
    def runs(self) -> list[Run]:
        """Runs of pipelines, then executions outside of any run."""
        grouped: dict[tuple[str | None, str | None], list[Execution]] = {}
        for execution in self.executions:
            pipeline = execution.pipeline if execution.run else None
            grouped.setdefault((execution.run, pipeline), []).append(execution)
        runs = [Run(name=n, pipeline=p, executions=group) for (n, p), group in grouped.items()]
        return sorted(reversed(runs), key=lambda run: run.name is None)

    def to_json(self) -> JsonObject:
        """Return the runs as plain JSON types."""
        return {"metadata": self.metadata, "runs": [run.to_json() for run in self.runs]}

    def __str__(self) -> str:
        lines = [] if self.runs else [f"{self.metadata}: no run"]
        without_run = "(of no run)" if self.knows_runs else f"(run {RUN_UNKNOWN})"
        for run in self.runs:
            fields = run.to_json()
            pipeline = f" of {run.pipeline}" if run.pipeline else ""
            times = f", {fields['started']} to {fields['ended']}" if fields["started"] else ""
            lines.append(f"{run.name or without_run}{pipeline}: {run.state}{times}")
            for each in run.executions:
                number = f" (execution {each.id})" if self.knows_runs else ""
                lines.append(f"  {each.component}{number}: {each.state}")
        return as_text(lines)


def list_runs(metadata: str | os.PathLike[str]) -> Runs:
    """Return all runs of a store.

    Args:
        metadata: a sqlite file, `grpc://host:port`, or a folder with such a file or with datasets
            below it.

    Raises:
        ConfigError: `metadata` is not allowed, or names several stores.
        InputError: there is no store and no dataset, or the store cannot be read.
    """
    metadata = os.fspath(metadata)
    stores = _stores_of(metadata)
    if len(stores) > 1 and os.path.basename(stores[0]) != METADATA_FILE:
        raise ConfigError.of("metadata", metadata, allowed=f"one store of {', '.join(stores)}")
    if stores:
        executions = _store_reader().list_executions(stores[0])
        return Runs(metadata=stores[0], executions=executions)
    executions = list(load_datasets(root=metadata).executions.values())
    if not executions:
        raise InputError(
            f"metadata {metadata!r}: expected {METADATA_FORMS}, or a folder with a "
            f"{METADATA_FILE} or with datasets, found no such file"
        )
    return Runs(metadata=f"manifests in {metadata}", executions=executions, knows_runs=False)
