"""Reads artifacts and executions from a store, with batches of ids, by calls that any version has.

graph = load_graph(store, artifact_id)
executions = read_executions(store, execution_ids)
"""

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TypeAlias

from ml_metadata import errors
from ml_metadata.metadata_store import MetadataStore
from ml_metadata.proto import metadata_store_pb2

from pipelines.lineage.graph import Artifact, Execution, Graph, Ports
from pipelines.lineage.location import KnownArtifact
from pipelines.lineage.values import properties_of, time_of

__all__ = ["StoreArtifacts", "load_graph", "read_executions"]

_Event: TypeAlias = metadata_store_pb2.Event
_Events: TypeAlias = dict[str, list[_Event]]  # by the name of the input or output
_INPUTS = {_Event.INPUT, _Event.DECLARED_INPUT, _Event.INTERNAL_INPUT}
_OUTPUTS = {_Event.OUTPUT, _Event.DECLARED_OUTPUT}  # others are of what failed, or not its own
_PIPELINES = {"pipeline", "system.Pipeline"}
_RUNS = {"pipeline_run", "run", "system.PipelineRun", "KfpRun"}
_NODES = {"node", "component_run"}
_NAMES = ("display_name", "task_name", "component_id")  # properties that Kubeflow and old TFX keep
_AT_ONCE = 200  # ids a request


class StoreArtifacts:
    """The artifacts of a store, as `locate` asks for them.

    Args:
        store: to be asked.
    """

    def __init__(self, store: MetadataStore) -> None:
        self._store = store

    def at(self, uri: str) -> Sequence[KnownArtifact]:
        """The artifacts of exactly this uri."""
        found: list[KnownArtifact] = self._store.get_artifacts_by_uri(uri)
        return found

    def everything(self) -> Sequence[KnownArtifact]:
        """All artifacts."""
        found: list[KnownArtifact] = self._store.get_artifacts()
        return found

    def made(self, artifacts: Sequence[KnownArtifact]) -> set[int]:
        """The ids of those that an execution made."""
        events = self._store.get_events_by_artifact_ids([one.id for one in artifacts])
        return {event.artifact_id for event in events if event.type == event.OUTPUT}


def load_graph(store: MetadataStore, artifact: int) -> Graph:
    """What came before and after an artifact, over any number of steps.

    Args:
        store: to be asked.
        artifact: the id.
    """
    artifacts, executions = {artifact}, set[int]()
    for towards, back in ((_OUTPUTS, _INPUTS), (_INPUTS, _OUTPUTS)):  # before it, then after it
        frontier, visited = {artifact}, set[int]()
        while frontier:
            events = _events(store.get_events_by_artifact_ids, frontier)
            found = {e.execution_id for e in events if e.type in towards} - visited
            visited |= found
            events = _events(store.get_events_by_execution_ids, found)
            frontier = {e.artifact_id for e in events if e.type in back} - artifacts
            artifacts |= frontier
        executions |= visited
    return Graph(
        {
            node.id: _artifact(node)
            for some in _chunks(artifacts)
            for node in store.get_artifacts_by_id(some)
        },
        {node.id: node for node in read_executions(store, executions)},
    )


def read_executions(store: MetadataStore, ids: Iterable[int]) -> list[Execution]:
    """Executions, with their contexts and what they read and made, in the order of the ids."""
    ids = sorted(ids)
    ports: dict[int, tuple[_Events, _Events]] = {i: ({}, {}) for i in ids}
    for event in _events(store.get_events_by_execution_ids, ids):
        for side, kinds in enumerate((_INPUTS, _OUTPUTS)):
            if event.type in kinds:
                ports[event.execution_id][side].setdefault(_port(event), []).append(event)
    return [
        _execution(node, _contexts(store, node.id), *map(_in_order, ports[node.id]))
        for some in _chunks(ids)
        for node in sorted(store.get_executions_by_id(some), key=lambda node: node.id)
    ]


def _contexts(store: MetadataStore, execution: int) -> list[metadata_store_pb2.Context]:
    try:
        contexts: list[metadata_store_pb2.Context] = store.get_contexts_by_execution(execution)
    except errors.NotFoundError:  # where another would give an empty list
        return []
    return contexts


def _artifact(node: metadata_store_pb2.Artifact) -> Artifact:
    return Artifact(
        id=node.id,
        type=node.type or f"type {node.type_id}",
        uri=node.uri,
        name=node.name,
        state=metadata_store_pb2.Artifact.State.Name(node.state),
        created=time_of(node.create_time_since_epoch),
        properties=properties_of(node),
    )


def _execution(
    node: metadata_store_pb2.Execution,
    contexts: Sequence[metadata_store_pb2.Context],
    inputs: Ports,
    outputs: Ports,
) -> Execution:
    def named(types: set[str]) -> str | None:
        return next((context.name for context in contexts if context.type in types), None)

    settings = properties_of(node)
    kind = node.type or f"type {node.type_id}"
    pipeline, own = named(_PIPELINES), named(_NODES)
    if pipeline and own:  # TFX's node contexts begin with the pipeline's name
        own = own.removeprefix(f"{pipeline}.")
    own_name = next((str(settings[name]) for name in _NAMES if settings.get(name)), None)
    return Execution(
        id=node.id,
        type=kind,
        component=own or own_name or kind.rpartition(".")[2],
        pipeline=pipeline,
        run=named(_RUNS),
        state=metadata_store_pb2.Execution.State.Name(node.last_known_state),
        started=time_of(node.create_time_since_epoch),
        ended=time_of(node.last_update_time_since_epoch),
        settings=settings,
        inputs=inputs,
        outputs=outputs,
    )


def _port(event: _Event) -> str:
    return next((step.key for step in event.path.steps if step.HasField("key")), "")


def _in_order(ports: Mapping[str, Sequence[_Event]]) -> dict[str, tuple[int, ...]]:
    """Ids by port, in the order of the events' indices, each once."""

    def index(event: _Event) -> int:
        return next((step.index for step in event.path.steps if step.HasField("index")), 0)

    return {
        name: tuple(dict.fromkeys(event.artifact_id for event in sorted(events, key=index)))
        for name, events in sorted(ports.items())
    }


def _events(ask: Callable[[list[int]], list[_Event]], ids: Iterable[int]) -> list[_Event]:
    return [event for some in _chunks(ids) for event in ask(some)]


def _chunks(ids: Iterable[int]) -> Iterator[list[int]]:
    rest = iter(sorted(ids))
    while some := list(itertools.islice(rest, _AT_ONCE)):
        yield some
