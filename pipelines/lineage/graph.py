"""Artifacts and executions, and what of them came before and after one artifact.

    lineage.makers(artifact_id)[0].component      # 'ShardBalancer'
    lineage.sources(artifact_id)                  # ids of the artifacts that it was made from

Ids are those of a store, or the digests of datasets that tell their lineage themselves.
An execution that TFX took from its cache has events like one that ran; the one that made an
artifact is the first that was none of these.
"""

import dataclasses
import functools
from collections.abc import Callable, Iterable, Mapping, Sequence

from components.report.records import Place
from trainer_utils.format.json_text import Json, JsonObject
from trainer_utils.format.manifest import DatasetSummary

DATASET_TYPE = "Examples"  # what TFX calls datasets
MISSING_PREFIX = "digest:"  # of the uri of a dataset that is known by its digest alone
_FINGERPRINT = "input_fingerprint"  # TFX's word for it, and ours
_MODELS = ("Model", "PushedModel", "system.Model")

Id = int | str
Ports = Mapping[str, list[Id]]  # ids of artifacts, by the name of the input or output


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


@dataclasses.dataclass(frozen=True, kw_only=True)
class RecordStep:
    """One dataset: `found`, `rejected`, `not found`, or `unknown`; places and rejects."""

    artifact: Id
    outcome: str
    detail: str = ""
    places: Sequence[Place] = ()
    rejects: Sequence[Mapping[str, Json]] = ()


@dataclasses.dataclass(frozen=True, kw_only=True)
class Lineage:
    """What the store, the datasets and their manifests say of an artifact, as JSON or as text.

    `artifacts` and `executions` are by id, what was made first first; `knows_runs` is not so where
    datasets told it all; `record`, `source` and `steps` are of a record that was looked for.
    """

    metadata: str
    artifact_id: Id
    artifacts: Mapping[Id, Artifact]
    executions: Mapping[Id, Execution]
    summaries: Mapping[Id, DatasetSummary] = dataclasses.field(default_factory=dict)
    same_uri: Sequence[Id] = ()
    knows_runs: bool = True
    record: str | None = None
    source: str | None = None
    steps: Sequence[RecordStep] = ()

    @property
    def artifact(self) -> Artifact:
        """The artifact that was asked for."""
        return self.artifacts[self.artifact_id]

    @property
    def models(self) -> list[Artifact]:
        """The models that were made from it."""
        found = map(self.artifacts.__getitem__, self.descendants(self.artifact_id))
        return [artifact for artifact in found if artifact.type in _MODELS]

    def makers(self, artifact: Id) -> list[Execution]:
        """Executions whose output it is: the one that made it, then those that used it again."""
        makers = self._by_artifact["outputs"].get(artifact, [])
        return sorted(makers, key=lambda execution: execution.is_cached)

    def users(self, artifact: Id) -> list[Execution]:
        """Executions that read it and made something, or tried to; none from the cache."""
        return [
            user
            for user in self._by_artifact["inputs"].get(artifact, [])
            if not user.is_cached or any(self.makers(i)[0] is user for i in ids_of(user.outputs))
        ]

    @functools.cached_property
    def _by_artifact(self) -> Mapping[str, Mapping[Id, list[Execution]]]:
        found: dict[str, dict[Id, list[Execution]]] = {"inputs": {}, "outputs": {}}
        for execution in self.executions.values():
            for side, by_id in found.items():
                for artifact in ids_of(getattr(execution, side)):
                    by_id.setdefault(artifact, []).append(execution)
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
            queue += dict.fromkeys(new)
            found |= dict.fromkeys(new)
        return list(found)[1:]

    def fingerprint(self, artifact: Id) -> str | None:
        """Of what an artifact was made of, where TFX or the dataset itself keeps one."""
        summary, makers = self.summaries.get(artifact), self.makers(artifact)[:1]
        fingerprints = [
            summary and summary.input_fingerprint,  # of contents, where TFX's is of names and times
            self.artifacts[artifact].properties.get(_FINGERPRINT),
            *(maker.settings.get(_FINGERPRINT) for maker in makers),
        ]
        return next((str(value) for value in fingerprints if value), None)

    def content(self, artifact: Id) -> dict[str, str]:
        """The order-free checksum of a dataset's records, by split, where its manifest has one."""
        summary = self.summaries.get(artifact)
        return {} if summary is None else dict(summary.content)

    def versions(self, artifact: Id) -> dict[str, str]:
        """Of the packages that made it; of TFX's own property where no manifest says them."""
        if artifact in self.summaries:
            return dict(self.summaries[artifact].versions)
        version = self.artifacts[artifact].properties.get("tfx_version")
        return {} if version is None else {"tfx": str(version)}

    def to_json(self) -> JsonObject:
        """Plain JSON types: the artifact, `made_by`, `ancestors`, `descendants`, `record`."""
        found = self.artifact_id
        steps = [
            {**dataclasses.asdict(step), "uri": self.artifacts[step.artifact].uri}
            for step in self.steps
        ]
        record = {"name": self.record, "source": self.source, "steps": steps}
        return {
            "metadata": self.metadata,
            **self._artifact_json(found),
            "same_uri": list(self.same_uri),
            "used_again_by": [dataclasses.asdict(each) for each in self.makers(found)[1:]],
            "used_by": [dataclasses.asdict(each) for each in self.users(found)],
            "ancestors": [self._artifact_json(each) for each in self.ancestors(found)],
            "descendants": [self._artifact_json(each) for each in self.descendants(found)],
            "models": [model.id for model in self.models],
            "record": None if self.record is None else record,
        }

    def _artifact_json(self, artifact: Id) -> JsonObject:
        makers, summary = self.makers(artifact), self.summaries.get(artifact)
        splits = summary.accounting.items() if summary else ()
        return {
            "artifact": dataclasses.asdict(self.artifacts[artifact]),
            "fingerprint": self.fingerprint(artifact),
            "content": self.content(artifact),
            "versions": self.versions(artifact),
            "splits": {
                split: {**dataclasses.asdict(of), "num_shards": summary.num_shards[split]}
                for split, of in splits
                if summary
            },
            "made_by": dataclasses.asdict(makers[0]) if makers else None,
        }

    def __str__(self) -> str:
        from pipelines.lineage.text import render_lineage  # which takes this class

        return render_lineage(self)


def ids_of(ports: Ports) -> list[Id]:
    """Each artifact once, by the ports' names: within one execution ids follow no order."""
    return list(dict.fromkeys(artifact for name in sorted(ports) for artifact in ports[name]))
