"""What is known of one artifact: how it was made, what was made from it, where a record is.

lineage = describe_artifact("runs/artifacts/ShardBalancer/balanced_examples/4", record="cat/1.jpg")
print(lineage)
lineage.to_json()["made_by"]["settings"]
"""

import dataclasses
import os
import posixpath
from collections.abc import Iterator, Mapping, Sequence

from components.report.records.lookup import Place, find_places, name_features
from pipelines.lineage.graph import DATASET_TYPE, Artifact, Execution, Found, Id
from pipelines.lineage.lookup import look_up
from trainer_utils.dataset import open_dataset
from trainer_utils.format import ConfigError, InputError
from trainer_utils.format.json_text import Json, JsonObject, json_lines
from trainer_utils.format.naming import NAME_FEATURES, REJECTS_FILE
from trainer_utils.storage import display_path, exists, is_folder, join, read_text

_FINGERPRINT = "input_fingerprint"  # TFX's word for it, and ours
_MODELS = ("Model", "PushedModel", "system.Model")
_TFX_VERSION = "tfx_version"  # a property of each artifact that TFX makes


@dataclasses.dataclass(frozen=True, kw_only=True)
class RecordStep:
    """One dataset: `found`, `rejected`, `not found`, or `unknown`; places and rejects."""

    artifact: Id
    outcome: str
    detail: str = ""
    places: Sequence[Place] = ()
    rejects: Sequence[Mapping[str, Json]] = ()


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
        record = {
            "name": self.record,
            "source": self.source,
            "steps": [
                {
                    **dataclasses.asdict(step),
                    "places": [dataclasses.asdict(place) for place in step.places],
                    "rejects": [*step.rejects],
                    "uri": graph.artifacts[step.artifact].uri,
                }
                for step in self.steps
            ],
        }
        return {
            "metadata": self.metadata,
            **self._artifact_json(found),
            "same_uri": list(self.same_uri),
            "used_again_by": [_execution_json(each) for each in graph.makers(found)[1:]],
            "used_by": [_execution_json(each) for each in graph.users(found)],
            "ancestors": [self._artifact_json(each) for each in graph.ancestors(found)],
            "descendants": [self._artifact_json(each) for each in graph.descendants(found)],
            "models": [model.id for model in self.models],
            "record": None if self.record is None else record,
        }

    def _artifact_json(self, artifact: Id) -> JsonObject:
        makers, summary = self.graph.makers(artifact), self.summaries.get(artifact)
        return {
            "artifact": dataclasses.asdict(self.graph.artifacts[artifact]),
            "fingerprint": self.fingerprint(artifact),
            "content": self.content(artifact),
            "versions": self.versions(artifact),
            "splits": {
                split: {**dataclasses.asdict(of), "num_shards": summary.num_shards[split]}
                for split, of in summary.accounting.items()
            }
            if summary
            else {},
            "made_by": _execution_json(makers[0]) if makers else None,
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
        raise ConfigError.of("record", record, allowed="the filename or id of a record")
    found = Lineage(**vars(look_up(uri, metadata=metadata)))
    if record is None:
        return found
    artifacts = found.graph.artifacts
    places = [*found.graph.ancestors(found.artifact_id), found.artifact_id]
    datasets = [i for i in places if artifacts[i].type == DATASET_TYPE or i in found.summaries]
    steps = [_search(place, artifacts[place].uri, record) for place in datasets]
    if not any(step.outcome in ("found", "rejected") for step in steps):
        told = "; ".join(f"{artifacts[s.artifact].uri}: {s.outcome}, {s.detail}" for s in steps)
        raise InputError(
            f"record {record!r}: expected the filename or id of a record of {uri!r}, the path "
            f"relative to the input base or file:row, found none. {told or 'It is no dataset.'}"
        )
    bases = (base for place in datasets for base in _bases(found, place))
    source = next((join(base, record) for base in bases), None)
    return dataclasses.replace(found, record=record, source=source, steps=steps)


def _search(artifact: Id, uri: str, name: str) -> RecordStep:
    """Looks for one name among the shards and the rejects of a dataset."""
    rejects: list[JsonObject] = []
    try:
        if not is_folder(uri):
            detail = f"its files are gone ({uri})"
            return RecordStep(artifact=artifact, outcome="unknown", detail=detail)
        dataset = open_dataset(uri)
        if exists(path := join(uri, REJECTS_FILE)):
            entries = json_lines(read_text(path), path=path)
            rejects = [entry for entry in entries if entry.get("source") == display_path(name)]
        features, places = name_features(dataset), find_places(dataset, name)
    except (ValueError, OSError) as error:
        detail = f"it cannot be read: {error}"
        return RecordStep(artifact=artifact, outcome="unknown", detail=detail)
    outcome, detail = "found" if places else "rejected", ""
    if not places and not rejects and not features:
        outcome = "unknown"
        wanted = " nor ".join(sorted(NAME_FEATURES))
        detail = f"its records have no feature that says what they are from: neither {wanted}"
    elif not places and not rejects:
        outcome, detail = "not found", f"no record has this {' or '.join(features)}"
        if dataset.manifest and (skipped := dataset.manifest.total.skipped):
            detail += f"; {skipped} inputs were skipped by a setting, which are not listed"
    return RecordStep(
        artifact=artifact, outcome=outcome, detail=detail, places=places, rejects=rejects
    )


def _bases(found: Found, artifact: Id) -> Iterator[str]:
    """What an artifact's examples were made from, by the settings of what made it."""
    for maker in found.graph.makers(artifact)[:1]:
        roots = maker.settings.get("image_roots")
        for base in (maker.settings.get("input_base"), *(roots if isinstance(roots, list) else ())):
            if isinstance(base, str) and base:
                yield posixpath.dirname(base) if os.path.isfile(base) else base
