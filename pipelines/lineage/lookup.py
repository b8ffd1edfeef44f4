"""Where lineage is looked up: a store of ML Metadata, or the datasets themselves.

found = look_up("out/latest", metadata=None)
print(list_runs("out/"))
"""

import dataclasses
import functools
import glob
import importlib.util
import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from types import ModuleType

from pipelines.lineage.datasets import load_datasets
from pipelines.lineage.graph import Execution, Lineage
from pipelines.tools.conversion import METADATA_FILE
from trainer_utils.dataset.location import newest_dataset
from trainer_utils.extras import HOW_TO_GET_TFX
from trainer_utils.format import ConfigError, InputError
from trainer_utils.format.json_text import JsonObject
from trainer_utils.format.naming import MANIFEST_FILE, SPLIT_PREFIX
from trainer_utils.storage import exists, is_folder, is_object_store, is_remote, join
from trainer_utils.text_output import as_text

METADATA_FORMS = "a sqlite file or grpc://host:port"
RUN_UNKNOWN = "not known: datasets name none, a store of ML Metadata does"
# TFX has `metadata.sqlite` in notebooks and `metadata.db` in its templates, one a pipeline.
_OWN = (METADATA_FILE, "metadata.db")
_FOLDERS = ("", "tfx_metadata", "tfx_metadata/*", "metadata", "metadata/*")


def look_up(uri: str, *, metadata: str | None) -> Lineage:
    """An artifact and its lineage, for `describe_artifact`; of `convert`'s folder the newest."""
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
        found = _store_reader().find_artifact(store, folder)
        if isinstance(found, Lineage):
            return found
        missing = missing or InputError(f"artifact {uri!r}: {found}")
    if tells_itself:
        return load_datasets(folder, root=metadata)
    raise missing or InputError(
        f"metadata: expected a {METADATA_FILE} in a folder above {uri!r}, or a dataset with a "
        f"manifest there, found none. Name where ML Metadata is: {METADATA_FORMS}."
    )


def _store_reader() -> ModuleType:
    """What reads stores, which needs ML Metadata; datasets alone need nothing."""
    if importlib.util.find_spec("ml_metadata") is None:
        raise ConfigError(f"ML Metadata's stores need TFX: {HOW_TO_GET_TFX}", setting="metadata")
    from pipelines.lineage import store

    return store


def _dataset_folder(uri: str) -> str:
    """The folder of a dataset, where the uri is of a split or of a file in it."""
    parts = uri.rstrip("/").split("/")
    for place in (-1, -2):
        if len(parts) >= -place and parts[place].startswith(SPLIT_PREFIX):
            return "/".join(parts[:place]) or "."
    return "/".join(parts[:-1]) or "." if os.path.isfile("/".join(parts)) else "/".join(parts)


def _stores_of(metadata: str) -> list[str]:
    """The stores in a folder, where the datasets tell if there are none; else what is named."""
    if is_object_store(metadata):
        return []
    is_root = not is_remote(metadata) and is_folder(metadata)
    return stores_in(metadata) if is_root else [metadata]


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
