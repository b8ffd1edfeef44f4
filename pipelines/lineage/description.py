"""What is known of one artifact: how it was made, and what was made from it.

lineage = describe_artifact("runs/artifacts/ShardBalancer/balanced_examples/4", record="cat/1.jpg")
print(lineage)
lineage.to_json()["made_by"]["settings"]
"""

import dataclasses
from collections.abc import Sequence

from pipelines.lineage.graph import DATASET_TYPE, Artifact, Execution, Found, Id
from pipelines.lineage.lookup import look_up
from pipelines.lineage.record_trace import RecordStep, trace_record
from trainer_utils.format import ConfigError
from trainer_utils.format.json_text import JsonObject

__all__ = ["Lineage", "describe_artifact"]

_FINGERPRINT = "input_fingerprint"  # TFX's word for it, and ours
_MODELS = ("Model", "PushedModel", "system.Model")
_TFX_VERSION = "tfx_version"  # a property of each artifact that TFX makes


@dataclasses.dataclass(frozen=True, kw_only=True)
class Lineage(Found):
    """What the store, the datasets and their manifests say, as JSON or as text."""

    record: str | None = None
    source: str | None = None
    steps: Sequence[RecordStep] = ()

    @property
    def artifact(self) -> Artifact:
        """The artifact that was asked for."""
        return self.graph.artifacts[self.artifact_id]

    @property
    def models(self) -> list[Artifact]:
        """The models that were made from it."""
        found = map(self.graph.artifacts.__getitem__, self.graph.descendants(self.artifact_id))
        return [artifact for artifact in found if artifact.type in _MODELS]

    def fingerprint(self, artifact: Id) -> str | None:
        """Of what an artifact was made of, where TFX or the dataset itself keeps one."""
        summary, makers = self.summaries.get(artifact), self.graph.makers(artifact)[:1]
        fingerprints = [
            summary and summary.input_fingerprint,  # of contents, where TFX's is of names and times
            self.graph.artifacts[artifact].properties.get(_FINGERPRINT),
            *(maker.settings.get(_FINGERPRINT) for maker in makers),
        ]
        return next((str(value) for value in fingerprints if value), None)

    def content(self, artifact: Id) -> dict[str, str]:
        """The order-free checksum of a dataset's records, by split, where its manifest has one."""
        summary = self.summaries.get(artifact)
        return {} if summary is None else dict(summary.content)

    def versions(self, artifact: Id) -> dict[str, str]:
        """Of the packages that made it."""
        if artifact in self.summaries:
            return dict(self.summaries[artifact].versions)
        version = self.graph.artifacts[artifact].properties.get(_TFX_VERSION)
        return {} if version is None else {"tfx": str(version)}

    def to_json(self) -> JsonObject:
        """Plain JSON types: the artifact, `made_by`, `ancestors`, `descendants`, `record`."""
        found, graph = self.artifact_id, self.graph
        return {
            "metadata": self.metadata,
            **self._artifact_json(found),
            "same_uri": list(self.same_uri),
            "used_again_by": [_execution_json(each) for each in graph.makers(found)[1:]],
            "used_by": [_execution_json(each) for each in graph.users(found)],
            "ancestors": [self._artifact_json(each) for each in graph.ancestors(found)],
            "descendants": [self._artifact_json(each) for each in graph.descendants(found)],
            "models": [model.id for model in self.models],
            "record": None if self.record is None else self._record_json(),
        }

    def _artifact_json(self, artifact: Id) -> JsonObject:
        makers = self.graph.makers(artifact)
        summary = self.summaries.get(artifact)
        node = self.graph.artifacts[artifact]
        splits = {} if summary is None else summary.accounting
        return {
            "artifact": dataclasses.asdict(node),
            "fingerprint": self.fingerprint(artifact),
            "content": self.content(artifact),
            "versions": self.versions(artifact),
            "splits": {
                split: {**dataclasses.asdict(of), "num_shards": summary.num_shards[split]}
                for split, of in splits.items()
                if summary
            },
            "made_by": _execution_json(makers[0]) if makers else None,
        }

    def _record_json(self) -> JsonObject:
        return {
            "name": self.record,
            "source": self.source,
            "steps": [
                {**step.to_json(), "uri": self.graph.artifacts[step.artifact].uri}
                for step in self.steps
            ],
        }

    def __str__(self) -> str:
        from pipelines.lineage.text import render_lineage  # which takes this class

        return render_lineage(self)


def _execution_json(execution: Execution) -> JsonObject:
    ports: JsonObject = {
        side: {name: list(ids) for name, ids in getattr(execution, side).items()}
        for side in ("inputs", "outputs")
    }
    return {**dataclasses.asdict(execution), **ports}


def describe_artifact(
    uri: str, *, metadata: str | None = None, record: str | None = None
) -> Lineage:
    """Looks up how an artifact came to be, and what came of it.

    Of datasets of ours that no store has, their own files tell how they came to be.

    Args:
        uri: of the artifact.
        metadata: a sqlite file or `grpc://host:port`; a folder with such a file, or below which
            datasets are. None for a store in a folder above the uri, and for the dataset and those
            that it was made from where none has it.
        record: the `filename` or `id` of one record to be looked for in the dataset and in those
            that it was made from.

    Raises:
        ConfigError: `metadata` or `record` is not allowed.
        InputError: there is no such store or artifact, or the record is in none of the datasets.
    """
    if record == "":
        raise ConfigError(
            "record: expected the filename or id of a record, got ''", setting="record"
        )
    found = Lineage(**vars(look_up(uri, metadata=metadata)))
    if record is None:
        return found
    places = [*found.graph.ancestors(found.artifact_id), found.artifact_id]
    artifacts = found.graph.artifacts
    datasets = [i for i in places if artifacts[i].type == DATASET_TYPE or i in found.summaries]
    source, steps = trace_record(record, found, datasets=datasets)
    return dataclasses.replace(found, record=record, source=source, steps=steps)
