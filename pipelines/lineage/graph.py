"""Artifacts and executions, and what of them came before and after one artifact.

    graph = load_graph(store, artifact_id)
    graph.makers(artifact_id)[0].component       # 'ShardBalancer'
    graph.sources(artifact_id)                   # ids of the artifacts that it was made from

An execution that TFX took from its cache has events like one that ran; the one that made an
artifact is the first that was none of these.
"""

import dataclasses
import functools
import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

from ml_metadata import errors
from ml_metadata.metadata_store import MetadataStore
from ml_metadata.proto import metadata_store_pb2

from pipelines.lineage.values import Json, properties_of, time_of

__all__ = ["Artifact", "Execution", "Graph", "Ports", "load_graph", "read_executions"]

Ports = Mapping[str, tuple[int, ...]]  # ids of artifacts, by the name of the input or output

_Event: TypeAlias = metadata_store_pb2.Event
_INPUTS = {_Event.INPUT, _Event.DECLARED_INPUT, _Event.INTERNAL_INPUT}
_OUTPUTS = {_Event.OUTPUT, _Event.DECLARED_OUTPUT}  # others are of what failed, or not its own
_PIPELINES = {"pipeline", "system.Pipeline"}
_RUNS = {"pipeline_run", "run", "system.PipelineRun", "KfpRun"}
_NODES = {"node", "component_run"}
_NAMES = ("display_name", "task_name", "component_id")  # properties that Kubeflow and old TFX keep
_AT_ONCE = 200  # ids a request


@dataclasses.dataclass(frozen=True, kw_only=True)
class Artifact:
    """One artifact.

    Args:
        id: in the store.
        type: its name, such as `Examples`.
        uri: as the store has it.
        name: where it has one.
        state: such as `LIVE` or `DELETED`.
        created: ISO 8601, UTC.
        properties: by name.
    """

    id: int
    type: str
    uri: str
    name: str
    state: str
    created: str | None
    properties: Json


@dataclasses.dataclass(frozen=True, kw_only=True)
class Execution:
    """One execution: a component in one run.

    Args:
        id: in the store.
        type: its name, such as `tfx.components.StatisticsGen`.
        component: the name that it has in its pipeline, else its own or its type's.
        pipeline: the name, where it is of one.
        run: the name of the pipeline's run.
        state: such as `COMPLETE`, `CACHED` or `FAILED`.
        started, ended: ISO 8601, UTC.
        settings: its properties by name.
        inputs, outputs: what it read and made.
    """

    id: int
    type: str
    component: str
    pipeline: str | None
    run: str | None
    state: str
    started: str | None
    ended: str | None
    settings: Json
    inputs: Ports = dataclasses.field(default_factory=dict)
    outputs: Ports = dataclasses.field(default_factory=dict)

    @property
    def is_cached(self) -> bool:
        """Whether it made nothing, as what it would make was there."""
        return self.state == "CACHED"


@dataclasses.dataclass(frozen=True)
class Graph:
    """Artifacts and executions by id; of an artifact only those before and after it."""

    artifacts: Mapping[int, Artifact]
    executions: Mapping[int, Execution]

    def makers(self, artifact: int) -> list[Execution]:
        """Executions whose output it is: the one that made it, then those that used it again."""
        return self._makers.get(artifact, [])

    def users(self, artifact: int) -> list[Execution]:
        """Executions that read it and made something, or tried to; none from the cache."""
        return [user for user in self._users.get(artifact, []) if not self._repeats(user)]

    @functools.cached_property
    def _makers(self) -> Mapping[int, list[Execution]]:
        ordered = sorted(self.executions.values(), key=lambda e: (e.is_cached, e.id))
        return _by_artifact((e, _ids(e.outputs)) for e in ordered)

    @functools.cached_property
    def _users(self) -> Mapping[int, list[Execution]]:
        ordered = sorted(self.executions.values(), key=lambda e: e.id)
        return _by_artifact((e, _ids(e.inputs)) for e in ordered)

    def _repeats(self, execution: Execution) -> bool:
        outputs = _ids(execution.outputs)
        return execution.is_cached and all(
            self.makers(output)[0] is not execution for output in outputs
        )

    def sources(self, artifact: int) -> list[int]:
        """What it was made from, in the order of the ids."""
        makers = self.makers(artifact)[:1]
        return sorted({i for maker in makers for i in _ids(maker.inputs) if i in self.artifacts})

    def ancestors(self, artifact: int) -> list[int]:
        """All that it was made from, directly or not: what was made first comes first."""
        order: dict[int, None] = {}
        path: set[int] = set()

        def visit(place: int) -> Iterator[int]:
            path.add(place)
            return iter(self.sources(place))

        stack = [(artifact, visit(artifact))]
        while stack:
            place, rest = stack[-1]
            following = next((i for i in rest if i not in path), None)
            if following is not None:
                stack.append((following, visit(following)))
                continue
            stack.pop()
            order[place] = None
        del order[artifact]
        return list(order)

    def descendants(self, artifact: int) -> list[int]:
        """All that was made from it, directly or not: the nearest come first."""
        seen = {artifact: None}
        for place in (queue := [artifact]):
            for user in self.users(place):
                for output in sorted(_ids(user.outputs)):
                    if output in self.artifacts and output not in seen:
                        seen[output] = None
                        queue.append(output)
        del seen[artifact]
        return list(seen)


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
    ports: dict[int, tuple[dict[str, Any], dict[str, Any]]] = {i: ({}, {}) for i in ids}
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
        return store.get_contexts_by_execution(execution)
    except errors.NotFoundError:  # where another would give an empty list
        return []


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
    told = next((str(settings[name]) for name in _NAMES if settings.get(name)), None)
    return Execution(
        id=node.id,
        type=kind,
        component=own or told or kind.rpartition(".")[2],
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


def _ids(ports: Ports) -> set[int]:
    return {artifact for ids in ports.values() for artifact in ids}


def _by_artifact(pairs: Iterable[tuple[Execution, set[int]]]) -> dict[int, list[Execution]]:
    found: dict[int, list[Execution]] = {}
    for execution, artifacts in pairs:
        for artifact in artifacts:
            found.setdefault(artifact, []).append(execution)
    return found
