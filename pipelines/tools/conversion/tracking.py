"""Record runs in ML Metadata in the form of TFX's launcher, without importing TFX.

    with open_store("out/metadata.sqlite") as store:
        record_run(store, "tfx-shards-convert", [Made("ImageExampleGen", {}, {"examples": uri})])

Settings and numbers are read from the datasets.
"""

import contextlib
import dataclasses
import datetime
import errno
import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ml_metadata.metadata_store import MetadataStore
from ml_metadata.proto import metadata_store_pb2 as mlmd

from components.runtime.artifact_properties import SPLIT_NAMES, properties_of_dataset
from components.runtime.workspace import folder_lock
from trainer_utils.core.extras import installed_version
from trainer_utils.core.json_text import Json
from trainer_utils.dataset import open_dataset
from trainer_utils.dataset.location import read_manifest, read_origin

_REFUSALS = {  # messages of sqlite about the disk, and the error numbers of the system
    "database or disk is full": errno.ENOSPC,
    "disk I/O error": errno.EIO,
    "readonly database": errno.EROFS,
}
_EXAMPLES, _OTHERS = "Examples", {"datum_schema": "Schema", "datum_dataset": "Dataset"}
# The properties of the artifact type Examples.
_PROPERTIES = {"span": mlmd.INT, "version": mlmd.INT, SPLIT_NAMES: mlmd.STRING}


@dataclasses.dataclass(frozen=True)
class RecordedStep:
    """A run of a component, with the uris of its inputs and outputs by name."""

    component: str
    inputs: Mapping[str, str] = dataclasses.field(default_factory=dict)
    outputs: Mapping[str, str] = dataclasses.field(default_factory=dict)


@contextlib.contextmanager
def open_store(path: str) -> Iterator[MetadataStore]:
    """Open the store in a sqlite file, creating it if missing, locked for one process at a time.

    Args:
        path: the sqlite file.

    Raises:
        OSError: the disk is full, read-only or failing; the error has the name of the file.
    """
    config = mlmd.ConnectionConfig()
    config.sqlite.filename_uri = path
    config.sqlite.connection_mode = mlmd.SqliteMetadataSourceConfig.READWRITE_OPENCREATE
    try:
        with folder_lock(os.path.dirname(path)):
            yield MetadataStore(config)
    except Exception as error:  # a RuntimeError, or an error class of ML Metadata
        if (number := _refusal_of(error)) is not None:
            raise OSError(number, os.strerror(number), path) from error
        raise


def _refusal_of(error: Exception) -> int | None:
    text = str(error)
    is_of_store = not isinstance(error, OSError) and "query" in text
    return next((n for words, n in _REFUSALS.items() if is_of_store and words in text), None)


def record_run(
    store: MetadataStore, pipeline: str, steps: Sequence[RecordedStep], *, is_cached: bool = False
) -> None:
    """Record a run of a pipeline.

    Args:
        store: a store from `open_store`.
        pipeline: the name of the pipeline.
        steps: the runs of components, in order.
        is_cached: whether all outputs came from the cache.
    """
    now = datetime.datetime.now(datetime.timezone.utc).isoformat()
    run = [_context(store, "pipeline", pipeline), _context(store, "pipeline_run", now)]
    state = mlmd.Execution.CACHED if is_cached else mlmd.Execution.COMPLETE
    for step in steps:
        module = re.sub("(?<=[a-z])(?=[A-Z])", "_", step.component).lower()
        kind = mlmd.ExecutionType(name=f"components.{module}.{step.component}")
        type_id = store.put_execution_type(kind)
        execution, pairs = mlmd.Execution(type_id=type_id, last_known_state=state), []
        for uri in (uri for name, uri in step.outputs.items() if name not in _OTHERS):
            _fill(execution.custom_properties, _settings_of(uri))
        for is_output, ports in ((False, step.inputs), (True, step.outputs)):
            for name, uri in ports.items():
                event = mlmd.Event(type=mlmd.Event.OUTPUT if is_output else mlmd.Event.INPUT)
                event.path.steps.add(key=name)
                event.path.steps.add(index=0)
                is_new = is_output and not is_cached
                pairs.append((_artifact(store, _OTHERS.get(name, _EXAMPLES), uri, is_new), event))
        node = _context(store, "node", f"{pipeline}.{step.component}")
        store.put_execution(execution, pairs, [*run, node], reuse_context_if_already_exist=True)


def _settings_of(uri: str) -> Mapping[str, Json]:
    manifest = read_manifest(uri)
    assert manifest is not None
    made_by = read_origin(uri, manifest).made_by
    return {} if made_by is None else made_by.settings


def _context(store: MetadataStore, kind: str, name: str) -> mlmd.Context:
    known = store.get_context_by_type_and_name(kind, name)
    if known is not None:
        context: mlmd.Context = known
        return context
    return mlmd.Context(type_id=store.put_context_type(mlmd.ContextType(name=kind)), name=name)


def _artifact(store: MetadataStore, kind: str, uri: str, is_new: bool) -> mlmd.Artifact:
    """Return the artifact of the store at a uri, or a new one from the dataset there."""
    known = [artifact for artifact in store.get_artifacts_by_uri(uri) if artifact.type == kind]
    if known and not is_new:
        newest: mlmd.Artifact = known[-1]
        return newest
    is_dataset = kind == _EXAMPLES
    type_ = mlmd.ArtifactType(name=kind, properties=_PROPERTIES if is_dataset else {})
    if is_dataset:
        type_.base_type = mlmd.ArtifactType.DATASET
    created = mlmd.Artifact(
        type_id=store.put_artifact_type(type_), uri=uri, state=mlmd.Artifact.LIVE
    )
    properties: dict[str, Any] = {"tfx_version": installed_version("tfx"), "state": "published"}
    if is_dataset:
        dataset = open_dataset(uri, inspect=False)
        if dataset.manifest is not None:
            is_gzip = any(shard.is_gzip for shard in dataset.shard_files)
            properties |= properties_of_dataset(
                dataset.manifest, dataset.vocabularies, gzip=is_gzip
            )
            properties["input_fingerprint"] = dataset.manifest.input_fingerprint
    declared = {n: properties.pop(n) for n in _PROPERTIES if is_dataset and n in properties}
    _fill(created.properties, declared)
    _fill(created.custom_properties, properties)
    return created


def _fill(properties: Any, values: Mapping[str, Any]) -> None:
    """Set properties: numbers and strings unchanged, other values as JSON; None is skipped."""
    for name, value in values.items():
        if isinstance(value, int):
            properties[name].int_value = value
        elif isinstance(value, float):
            properties[name].double_value = value
        elif value is not None:
            properties[name].string_value = value if isinstance(value, str) else json.dumps(value)
