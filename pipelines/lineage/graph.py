"""Artifacts and executions, and what of them came before and after one artifact.

    graph = load_graph(store, artifact_id)      # of pipelines.lineage.store
    graph.makers(artifact_id)[0].component      # 'ShardBalancer'
    graph.sources(artifact_id)                  # ids of the artifacts that it was made from

Ids are those of a store, or the digests of datasets that tell their lineage themselves.
An execution that TFX took from its cache has events like one that ran; the one that made an
artifact is the first that was none of these.
"""

import dataclasses
import functools
from collections.abc import Callable, Iterable, Mapping, Sequence

from trainer_utils.format.json_text import JsonObject
from trainer_utils.format.origin import DatasetSummary

DATASET_TYPE = "Examples"  # what TFX calls datasets
MISSING_PREFIX = "digest:"  # of the uri of a dataset that is known by its digest alone

Id = int | str
Ports = Mapping[str, tuple[Id, ...]]  # ids of artifacts, by the name of the input or output


@dataclasses.dataclass(frozen=True, kw_only=True)
class Artifact:
    """An artifact; `uri` is `digest:…` of a dataset that no store has and that is not found."""

    id: Id
    type: str
    uri: str
    name: str = ""
    state: str = "LIVE"
    created: str | None = None
    properties: JsonObject = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Execution:
    """A component in one run; times are ISO 8601 in UTC, `settings` its properties."""

    id: Id
    type: str
    component: str
    pipeline: str | None = None
    run: str | None = None
    state: str = "COMPLETE"
    started: str | None = None
    ended: str | None = None
    settings: JsonObject = dataclasses.field(default_factory=dict)
    inputs: Ports = dataclasses.field(default_factory=dict)
    outputs: Ports = dataclasses.field(default_factory=dict)

    @property
    def is_cached(self) -> bool:
        """Whether it made nothing, as what it would make was there."""
        return self.state == "CACHED"


@dataclasses.dataclass(frozen=True)
class Graph:
    """Artifacts and executions by id, what was made first first."""

    artifacts: Mapping[Id, Artifact]
    executions: Mapping[Id, Execution]

    def makers(self, artifact: Id) -> list[Execution]:
        """Executions whose output it is: the one that made it, then those that used it again."""
        return sorted(self._makers.get(artifact, []), key=lambda execution: execution.is_cached)

    def users(self, artifact: Id) -> list[Execution]:
        """Executions that read it and made something, or tried to; none from the cache."""
        return [
            user
            for user in self._users.get(artifact, [])
            if not user.is_cached or any(self.makers(i)[0] is user for i in ids_of(user.outputs))
        ]

    @functools.cached_property
    def _makers(self) -> Mapping[Id, list[Execution]]:
        return self._by_artifact(lambda execution: execution.outputs)

    @functools.cached_property
    def _users(self) -> Mapping[Id, list[Execution]]:
        return self._by_artifact(lambda execution: execution.inputs)

    def _by_artifact(self, ports: Callable[[Execution], Ports]) -> dict[Id, list[Execution]]:
        found: dict[Id, list[Execution]] = {}
        for execution in self.executions.values():
            for artifact in ids_of(ports(execution)):
                found.setdefault(artifact, []).append(execution)
        return found

    def sources(self, artifact: Id) -> list[Id]:
        """What it was made from, in the order of the inputs' names."""
        makers = self.makers(artifact)[:1]
        return [i for maker in makers for i in ids_of(maker.inputs) if i in self.artifacts]

    def ancestors(self, artifact: Id) -> list[Id]:
        """All that it was made from, directly or not: what was made first comes first."""
        found = {*self._reached(artifact, self.sources)}
        return [i for i in self.artifacts if i in found]

    def descendants(self, artifact: Id) -> list[Id]:
        """All that was made from it, directly or not: the nearest come first."""
        return self._reached(
            artifact, lambda i: [o for u in self.users(i) for o in ids_of(u.outputs)]
        )

    def _reached(self, artifact: Id, following: Callable[[Id], Iterable[Id]]) -> list[Id]:
        found = {artifact: None}
        for place in (queue := [artifact]):
            new = [i for i in following(place) if i in self.artifacts and i not in found]
            new = list(dict.fromkeys(new))
            found |= dict.fromkeys(new)
            queue += new
        return list(found)[1:]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Found:
    """An artifact, where it was looked up; `knows_runs` is not so where datasets told it."""

    metadata: str
    artifact_id: Id
    graph: Graph
    summaries: Mapping[Id, DatasetSummary] = dataclasses.field(default_factory=dict)
    same_uri: Sequence[Id] = ()
    knows_runs: bool = True


def ids_of(ports: Ports) -> list[Id]:
    """Each artifact once, by the ports' names: within one execution ids follow no order."""
    return list(dict.fromkeys(artifact for name in sorted(ports) for artifact in ports[name]))
