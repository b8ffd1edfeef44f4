"""Artifacts and executions, and what of them came before and after one artifact.

    graph = load_graph(store, artifact_id)      # of pipelines.lineage.reading
    graph.makers(artifact_id)[0].component       # 'ShardBalancer'
    graph.sources(artifact_id)                   # ids of the artifacts that it was made from

An execution that TFX took from its cache has events like one that ran; the one that made an
artifact is the first that was none of these.
"""

import dataclasses
import functools
from collections.abc import Iterable, Iterator, Mapping

from trainer_utils.format.json_text import JsonObject

__all__ = ["DATASET_TYPE", "MISSING_PREFIX", "Artifact", "Execution", "Graph", "Ports"]

DATASET_TYPE = "Examples"  # what TFX calls datasets
MISSING_PREFIX = "digest:"  # of the uri of a dataset that is known by its digest alone

Ports = Mapping[str, tuple[int, ...]]  # ids of artifacts, by the name of the input or output


@dataclasses.dataclass(frozen=True, kw_only=True)
class Artifact:
    """One artifact.

    Args:
        id: in the store.
        type: its name, such as `Examples`.
        uri: as the store has it; `digest:…` of a dataset that no store has and that is not found.
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
    properties: JsonObject


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
    settings: JsonObject
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
        """What it was made from, in the order of the inputs' names."""
        makers = self.makers(artifact)[:1]
        return [i for maker in makers for i in _ids(maker.inputs) if i in self.artifacts]

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
                for output in _ids(user.outputs):
                    if output in self.artifacts and output not in seen:
                        seen[output] = None
                        queue.append(output)
        del seen[artifact]
        return list(seen)


def _ids(ports: Ports) -> list[int]:
    """Each artifact once, by the ports' names: within one execution ids follow no order."""
    return list(dict.fromkeys(artifact for name in sorted(ports) for artifact in ports[name]))


def _by_artifact(pairs: Iterable[tuple[Execution, list[int]]]) -> dict[int, list[Execution]]:
    found: dict[int, list[Execution]] = {}
    for execution, artifacts in pairs:
        for artifact in artifacts:
            found.setdefault(artifact, []).append(execution)
    return found
