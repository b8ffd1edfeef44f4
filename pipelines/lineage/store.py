"""Read stores of ML Metadata, local or remote, with calls that every version has.

    find_artifact("runs/metadata.sqlite", "runs/artifacts/ShardBalancer/balanced_examples/4")
    list_executions("grpc://host:8080")

A store is never written.
"""

import collections
import contextlib
import datetime
import json
import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TypeAlias

from google.protobuf import json_format
from ml_metadata import errors
from ml_metadata.metadata_store import MetadataStore
from ml_metadata.proto import metadata_store_pb2

from pipelines.lineage.graph import DATASET_TYPE, METADATA_FORMS, Artifact, Execution, Id, Lineage
from trainer_utils.core.errors import ConfigError, InputError
from trainer_utils.core.json_text import Json, JsonObject
from trainer_utils.dataset.location import read_manifest
from trainer_utils.format.lineage import DatasetSummary
from trainer_utils.storage import is_remote

_GRPC_TIMEOUT_SECONDS = 60.0
_Event: TypeAlias = metadata_store_pb2.Event
_INPUTS = {_Event.INPUT, _Event.DECLARED_INPUT, _Event.INTERNAL_INPUT}
_OUTPUTS = {_Event.OUTPUT, _Event.DECLARED_OUTPUT}  # other events belong to failed executions
_PIPELINES = {"pipeline", "system.Pipeline"}
_RUNS = {"pipeline_run", "run", "system.PipelineRun", "KfpRun"}
_NODES = {"node", "component_run"}
_NAMES = ("display_name", "task_name", "component_id")  # properties set by Kubeflow and old TFX
_AT_ONCE = 200  # ids per request
_SHOWN = 5  # artifacts listed in the message for an unknown uri


@contextlib.contextmanager
def open_store(metadata: str) -> Iterator[MetadataStore]:
    """Open a store read-only; errors while reading it become an `InputError`."""
    config = _config(metadata)
    try:
        yield MetadataStore(config)
    except (errors.StatusError, RuntimeError) as error:  # RuntimeError: the connection
        raise InputError(
            f"metadata {metadata!r}: cannot be read: {type(error).__name__}: {error}. Check that "
            "it is an ML Metadata store, that you may read it, and that its server runs. If "
            "another version wrote it, open it once with the newer ml-metadata, or use a copy."
        ) from error


def _config(metadata: str) -> Any:
    """Return the connection to a sqlite file, read-only, or to a server."""
    if "://" not in metadata:
        if not os.path.isfile(metadata):
            raise InputError(
                f"metadata {metadata!r}: expected {METADATA_FORMS}, found no such file"
            )
        config = metadata_store_pb2.ConnectionConfig()
        config.sqlite.filename_uri = metadata
        config.sqlite.connection_mode = metadata_store_pb2.SqliteMetadataSourceConfig.READONLY
        return config
    address = re.fullmatch(r"grpc://([^/:]+|\[[^/\]]+\]):(\d{1,5})/?", metadata)
    if address is None:
        raise ConfigError.of("metadata", metadata, allowed=METADATA_FORMS)
    client = metadata_store_pb2.MetadataStoreClientConfig(
        host=address[1], port=int(address[2]), client_timeout_sec=_GRPC_TIMEOUT_SECONDS
    )
    client.channel_arguments.max_receive_message_length = -1  # no limit
    return client


def list_executions(metadata: str) -> list[Execution]:
    """Return all executions of a store."""
    with open_store(metadata) as store:
        return _executions(store, [node.id for node in store.get_executions()])


def find_artifact(metadata: str, uri: str) -> Lineage | str:
    """Return the lineage of an artifact, for any spelling of its uri, or a message without one."""
    spellings = [uri]
    if "://" not in uri:
        spellings += [f(uri) for f in (os.path.abspath, os.path.realpath, os.path.relpath)]
    with open_store(metadata) as store:
        results = (store.get_artifacts_by_uri(s + end) for s in spellings for end in ("", "/"))
        matches = next(filter(None, results), list[Any]())
        if not matches:
            return _message_without_match(store, metadata)
        ids = [artifact.id for artifact in matches]
        events = store.get_events_by_artifact_ids(ids)
        outputs = {event.artifact_id for event in events if event.type == event.OUTPUT}
        # Take the newest output of an execution, or else the newest artifact with the uri.
        *others, last = sorted(ids, key=lambda artifact_id: (artifact_id in outputs, artifact_id))
        artifacts, executions = _graph(store, last)
    summaries: dict[Id, DatasetSummary] = {}
    for node in artifacts.values():
        if node.uri and (node.type == DATASET_TYPE or not is_remote(node.uri)):
            with contextlib.suppress(ValueError, OSError):  # `verify` reports damage
                if (manifest := read_manifest(node.uri)) is not None:
                    summaries[node.id] = DatasetSummary.of(manifest)
    return Lineage(
        metadata=metadata,
        artifact_id=last,
        artifacts=artifacts,
        executions=executions,
        summaries=summaries,
        same_uri=sorted(others),
    )


def _message_without_match(store: Any, metadata: str) -> str:
    """Return a message with the newest artifacts of a store."""
    artifacts = sorted(store.get_artifacts(), key=lambda artifact: -artifact.id)
    newest = ", ".join([artifact.uri for artifact in artifacts if artifact.uri][:_SHOWN])
    return (
        f"expected the uri of an artifact of {metadata}, which has {len(artifacts)}. "
        f"{f'The newest: {newest}' if newest else 'None has a uri'}."
    )


def _graph(store: MetadataStore, artifact: int) -> tuple[dict[Id, Artifact], dict[Id, Execution]]:
    """Return all ancestors and descendants of an artifact, and their executions."""
    artifacts, executions = {artifact}, set[int]()
    for towards, back in ((_OUTPUTS, _INPUTS), (_INPUTS, _OUTPUTS)):  # ancestors, then descendants
        frontier, visited = {artifact}, set[int]()
        while frontier:
            events = _all(store.get_events_by_artifact_ids, frontier)
            new = {e.execution_id for e in events if e.type in towards} - visited
            visited |= new
            events = _all(store.get_events_by_execution_ids, new)
            frontier = {e.artifact_id for e in events if e.type in back} - artifacts
            artifacts |= frontier
        executions |= visited
    nodes = sorted(_all(store.get_artifacts_by_id, artifacts), key=lambda node: node.id)
    execution_nodes = _executions(store, executions)
    return {
        node.id: Artifact(
            id=node.id,
            type=node.type or f"type {node.type_id}",
            uri=node.uri,
            name=node.name,
            state=metadata_store_pb2.Artifact.State.Name(node.state),
            created=_time_of(node.create_time_since_epoch),
            properties=_properties_of(node),
        )
        for node in nodes
    }, {node.id: node for node in execution_nodes}


def _executions(store: MetadataStore, ids: Iterable[int]) -> list[Execution]:
    """Return executions with their contexts, inputs and outputs, in the order of their ids."""
    ids = sorted(ids)
    events: dict[int, list[_Event]] = {number: [] for number in ids}
    for event in _all(store.get_events_by_execution_ids, ids):
        events[event.execution_id].append(event)
    nodes = sorted(_all(store.get_executions_by_id, ids), key=lambda node: node.id)
    contexts: dict[int, list[metadata_store_pb2.Context]] = collections.defaultdict(list)
    for node in nodes:
        with contextlib.suppress(errors.NotFoundError):  # raised instead of an empty list
            contexts[node.id] = store.get_contexts_by_execution(node.id)
    return [_execution(node, contexts[node.id], events[node.id]) for node in nodes]


def _execution(
    node: metadata_store_pb2.Execution,
    contexts: Sequence[metadata_store_pb2.Context],
    events: Sequence[_Event],
) -> Execution:
    """Return an execution of the store, named after its node of the pipeline if it has one."""

    def named(types: set[str]) -> str | None:
        return next((context.name for context in contexts if context.type in types), None)

    settings = _properties_of(node)
    kind = node.type or f"type {node.type_id}"
    pipeline, node_name = named(_PIPELINES), named(_NODES)
    if pipeline and node_name:  # TFX prefixes node contexts with the pipeline's name
        node_name = node_name.removeprefix(f"{pipeline}.")
    own_name = next((str(settings[name]) for name in _NAMES if settings.get(name)), None)
    return Execution(
        id=node.id,
        type=kind,
        component=node_name or own_name or kind.rpartition(".")[2],
        pipeline=pipeline,
        run=named(_RUNS),
        state=metadata_store_pb2.Execution.State.Name(node.last_known_state),
        started=_time_of(node.create_time_since_epoch),
        ended=_time_of(node.last_update_time_since_epoch),
        settings=settings,
        inputs=_ports(events, _INPUTS),
        outputs=_ports(events, _OUTPUTS),
    )


def _ports(events: Sequence[_Event], kinds: set[int]) -> dict[str, list[Id]]:
    """Return ids by port in the order of the events' indices, without duplicates."""
    ports: dict[str, dict[int, int]] = {}
    for event in events:
        steps = event.path.steps
        key = next((step.key for step in steps if step.HasField("key")), "")
        index = next((step.index for step in steps if step.HasField("index")), 0)
        if event.type in kinds:
            ports.setdefault(key, {}).setdefault(event.artifact_id, index)
    return {key: [*sorted(of, key=of.__getitem__)] for key, of in sorted(ports.items())}


def _all(ask: Callable[[list[int]], list[Any]], ids: Iterable[int]) -> list[Any]:
    """Query a store for ids in batches."""
    rest = sorted(ids)
    parts = [rest[start : start + _AT_ONCE] for start in range(0, len(rest), _AT_ONCE)]
    return [item for chunk in parts for item in ask(chunk)]


def _properties_of(node: Any) -> JsonObject:
    """Return a node's properties without TFX's private ones. JSON objects and lists are parsed."""
    values = {**node.properties, **node.custom_properties}
    return {name: _value(values[name]) for name in sorted(values) if not name.startswith("__")}


def _value(value: Any) -> Json:
    kind = value.WhichOneof("value")
    content: Any = None if kind is None else getattr(value, kind)
    if kind == "proto_value":
        return {"type_url": content.type_url, "bytes": len(content.value)}
    if kind == "struct_value":
        return json_format.MessageToDict(content)
    if isinstance(content, str) and content[:1] in ("{", "["):
        with contextlib.suppress(ValueError):
            return json.loads(content)
    return content


def _time_of(milliseconds: int) -> str | None:
    """Return milliseconds since 1970 as ISO 8601 in UTC, or None for 0, which means unknown."""
    if not milliseconds:
        return None
    moment = datetime.datetime.fromtimestamp(milliseconds / 1000, datetime.timezone.utc)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
