"""What is known of an artifact and of those before and after it, as data.

facts.fingerprint(artifact_id), facts.content(artifact_id)
facts.to_json()["made_by"]["settings"]
"""

import dataclasses
from collections.abc import Mapping, Sequence

from pipelines.lineage.graph import Artifact, Execution, Graph
from pipelines.lineage.location import Location
from pipelines.lineage.record_trace import RecordStep
from pipelines.lineage.source_files import SourceFile
from trainer_utils.format.json_text import JsonObject
from trainer_utils.format.origin import DatasetSummary

__all__ = ["LineageFacts"]

_FINGERPRINT = "input_fingerprint"  # TFX's word for it, and ours
_MODELS = ("Model", "PushedModel", "system.Model")
_TFX_VERSION = "tfx_version"  # a property of each artifact that TFX makes


@dataclasses.dataclass(frozen=True, kw_only=True)
class LineageFacts:
    """What the store, the datasets and their manifests say.

    Args:
        metadata: where it was looked up, without a password.
        location: of the artifact.
        graph: what came before and after it.
        summaries: of those datasets that have a manifest, by artifact.
        knows_runs: whether it was looked up where runs are known, which datasets do not.
        record: what the record is called that was looked for.
        source: the file that it was made of.
        steps: the datasets on its way, the first one first.
    """

    metadata: str
    location: Location
    graph: Graph
    summaries: Mapping[int, DatasetSummary] = dataclasses.field(default_factory=dict)
    knows_runs: bool = True
    record: str | None = None
    source: SourceFile | None = None
    steps: Sequence[RecordStep] = ()

    @property
    def artifact(self) -> Artifact:
        """The artifact that was asked for."""
        return self.graph.artifacts[self.location.artifact]

    @property
    def models(self) -> list[Artifact]:
        """The models that were made from it."""
        found = self.graph.descendants(self.artifact.id)
        return [a for a in map(self.graph.artifacts.__getitem__, found) if a.type in _MODELS]

    def fingerprint(self, artifact: int) -> str | None:
        """Of what an artifact was made of, where TFX or the dataset itself keeps one."""
        fingerprints = [self.graph.artifacts[artifact].properties.get(_FINGERPRINT)]
        fingerprints += [
            maker.settings.get(_FINGERPRINT) for maker in self.graph.makers(artifact)[:1]
        ]
        if artifact in self.summaries:  # of contents, where TFX's is of names and times
            fingerprints.insert(0, self.summaries[artifact].input_fingerprint)
        return next((str(value) for value in fingerprints if value), None)

    def content(self, artifact: int) -> dict[str, str]:
        """The order-free checksum of a dataset's records, by split, where its manifest has one."""
        summary = self.summaries.get(artifact)
        return {} if summary is None else dict(summary.content)

    def versions(self, artifact: int) -> dict[str, str]:
        """Of the packages that made it."""
        if artifact in self.summaries:
            return dict(self.summaries[artifact].versions)
        version = self.graph.artifacts[artifact].properties.get(_TFX_VERSION)
        return {} if version is None else {"tfx": str(version)}

    def to_json(self) -> JsonObject:
        """Plain JSON types: the artifact, `made_by`, `ancestors`, `descendants`, `record`."""
        found = self.artifact.id
        return {
            "metadata": self.metadata,
            **self._artifact_json(found),
            "same_uri": list(self.location.others),
            "used_again_by": [self._execution_json(e) for e in self.graph.makers(found)[1:]],
            "used_by": [self._execution_json(e) for e in self.graph.users(found)],
            "ancestors": [self._artifact_json(i) for i in self.graph.ancestors(found)],
            "descendants": [self._artifact_json(i) for i in self.graph.descendants(found)],
            "models": [model.id for model in self.models],
            "record": self._record_json(),
        }

    def _artifact_json(self, artifact: int) -> JsonObject:
        makers = self.graph.makers(artifact)
        summary = self.summaries.get(artifact)
        node = self.graph.artifacts[artifact]
        return {
            "artifact": {**dataclasses.asdict(node), "path": self.location.path_of(node.uri)},
            "fingerprint": self.fingerprint(artifact),
            "content": self.content(artifact),
            "versions": self.versions(artifact),
            "splits": {}
            if summary is None
            else {
                split: {
                    **dataclasses.asdict(counts),
                    "num_shards": summary.num_shards[split],
                }
                for split, counts in summary.accounting.items()
            },
            "made_by": self._execution_json(makers[0]) if makers else None,
        }

    def _execution_json(self, execution: Execution) -> JsonObject:
        ports: JsonObject = {
            side: {name: list(ids) for name, ids in getattr(execution, side).items()}
            for side in ("inputs", "outputs")
        }
        return {**dataclasses.asdict(execution), **ports}

    def _record_json(self) -> JsonObject | None:
        if self.record is None:
            return None
        return {
            "name": self.record,
            "source": None if self.source is None else dataclasses.asdict(self.source),
            "steps": [
                {
                    "artifact": step.artifact,
                    "uri": self.graph.artifacts[step.artifact].uri,
                    **step.search.to_json(),
                }
                for step in self.steps
            ],
        }
