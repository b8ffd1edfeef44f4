"""The graph of artifacts and executions before and after one artifact, and its text form.

    lineage.makers(artifact_id)[0].component      # 'ShardBalancer'
    lineage.sources(artifact_id)                  # ids of its inputs

Ids come from a store, or are the digests of datasets. An execution that TFX took from its cache has
the same events as one that ran. The maker of an artifact is the first one that really ran.
"""

import dataclasses
import functools
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TypeAlias

from components.report.records import Place
from trainer_utils.core.json_text import Json, JsonObject
from trainer_utils.core.text_output import as_text, quantity
from trainer_utils.format.lineage import DatasetSummary

DATASET_TYPE = "Examples"  # TFX's type of datasets
MISSING_PREFIX = "digest:"  # prefix of the uri of a dataset that is known by its digest only
_FINGERPRINT = "input_fingerprint"  # the property's name in TFX and in tfx-shards
_MODELS = ("Model", "PushedModel", "system.Model")
RUN_UNKNOWN = "not known: datasets name none, a store of ML Metadata does"
_MAX_LEVELS = 50  # levels of a tree: models that warm-start from each other form long chains
_MAX_CHARACTERS = 100  # characters of a setting that are shown

Id = int | str
Ports = Mapping[str, list[Id]]  # ids of artifacts by the name of the input or output
_Branch: TypeAlias = tuple[list[str], list["_Branch"]]
"""The lines of a node in a tree, and the branches below it."""
METADATA_FORMS = "a sqlite file or grpc://host:port"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Artifact:
    """An artifact. `uri` is `digest:…` for a dataset that was not found."""

    id: Id
    type: str
    uri: str
    name: str = ""
    state: str = "LIVE"
    created: str | None = None
    properties: JsonObject = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Execution:
    """An execution of a component. Times are ISO 8601 in UTC; `settings` are its properties."""

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
        """Whether its outputs came from a cache."""
        return self.state == "CACHED"


@dataclasses.dataclass(frozen=True, kw_only=True)
class RecordStep:
    """The outcome of a search for a record in one dataset.

    `outcome` is `found`, `rejected`, `not found` or `unknown`.
    """

    artifact: Id
    outcome: str
    detail: str = ""
    places: Sequence[Place] = ()
    rejects: Sequence[Mapping[str, Json]] = ()


@dataclasses.dataclass(frozen=True, kw_only=True)
class Lineage:
    """The lineage of an artifact, from a store or from manifests.

    `artifacts` and `executions` are by id, oldest first. `knows_runs` is False if the lineage comes
    from datasets only. `record`, `source` and `steps` are the results of searching for a record.
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
        """The artifact that the lineage is about."""
        return self.artifacts[self.artifact_id]

    @property
    def models(self) -> list[Artifact]:
        """Models among its descendants."""
        descendants = map(self.artifacts.__getitem__, self.descendants(self.artifact_id))
        return [artifact for artifact in descendants if artifact.type in _MODELS]

    def makers(self, artifact: Id) -> list[Execution]:
        """Return the executions with this output: its maker, then cached executions."""
        makers = self._by_artifact["outputs"].get(artifact, [])
        return sorted(makers, key=lambda execution: execution.is_cached)

    def users(self, artifact: Id) -> list[Execution]:
        """Return the executions that read it, without cached ones."""
        return [
            user
            for user in self._by_artifact["inputs"].get(artifact, [])
            if not user.is_cached or any(self.makers(i)[0] is user for i in ids_of(user.outputs))
        ]

    @functools.cached_property
    def _by_artifact(self) -> Mapping[str, Mapping[Id, list[Execution]]]:
        by_side: dict[str, dict[Id, list[Execution]]] = {"inputs": {}, "outputs": {}}
        for execution in self.executions.values():
            for side, by_id in by_side.items():
                for artifact in ids_of(getattr(execution, side)):
                    by_id.setdefault(artifact, []).append(execution)
        return by_side

    def sources(self, artifact: Id) -> list[Id]:
        """Return the direct inputs of its maker, by the names of the inputs."""
        makers = self.makers(artifact)[:1]
        return [i for maker in makers for i in ids_of(maker.inputs) if i in self.artifacts]

    def ancestors(self, artifact: Id) -> list[Id]:
        """Return all direct and indirect inputs, oldest first."""
        reached = {*self._reached(artifact, self.sources)}
        return [i for i in self.artifacts if i in reached]

    def descendants(self, artifact: Id) -> list[Id]:
        """Return all artifacts made from it, directly or not, nearest first."""
        return self._reached(
            artifact, lambda i: [o for u in self.users(i) for o in ids_of(u.outputs)]
        )

    def _reached(self, artifact: Id, following: Callable[[Id], Iterable[Id]]) -> list[Id]:
        reached = {artifact: None}
        for place in (queue := [artifact]):
            new = [i for i in following(place) if i in self.artifacts and i not in reached]
            queue += dict.fromkeys(new)
            reached |= dict.fromkeys(new)
        return list(reached)[1:]

    def fingerprint(self, artifact: Id) -> str | None:
        """Return the fingerprint of an artifact's inputs, if TFX or the manifest has one."""
        summary, makers = self.summaries.get(artifact), self.makers(artifact)[:1]
        fingerprints = [
            summary and summary.input_fingerprint,  # based on contents; TFX uses names and times
            self.artifacts[artifact].properties.get(_FINGERPRINT),
            *(maker.settings.get(_FINGERPRINT) for maker in makers),
        ]
        return next((str(value) for value in fingerprints if value), None)

    def content(self, artifact: Id) -> dict[str, str]:
        """Return the order-independent checksum of each split, if there is a manifest."""
        summary = self.summaries.get(artifact)
        return {} if summary is None else dict(summary.content)

    def versions(self, artifact: Id) -> dict[str, str]:
        """Return the versions of the packages that made it, from the manifest or from TFX."""
        if artifact in self.summaries:
            return dict(self.summaries[artifact].versions)
        version = self.artifacts[artifact].properties.get("tfx_version")
        return {} if version is None else {"tfx": str(version)}

    def to_json(self) -> JsonObject:
        """Return the lineage as plain JSON types.

        Keys include `artifact`, `made_by`, `ancestors`, `descendants` and `record`.
        """
        artifact_id = self.artifact_id
        steps = [
            {**dataclasses.asdict(step), "uri": self.artifacts[step.artifact].uri}
            for step in self.steps
        ]
        record = {"name": self.record, "source": self.source, "steps": steps}
        return {
            "metadata": self.metadata,
            **self._artifact_json(artifact_id),
            "same_uri": list(self.same_uri),
            "used_again_by": [dataclasses.asdict(each) for each in self.makers(artifact_id)[1:]],
            "used_by": [dataclasses.asdict(each) for each in self.users(artifact_id)],
            "ancestors": [self._artifact_json(each) for each in self.ancestors(artifact_id)],
            "descendants": [self._artifact_json(each) for each in self.descendants(artifact_id)],
            "models": [model.id for model in self.models],
            "record": None if self.record is None else record,
        }

    def _artifact_json(self, artifact: Id) -> JsonObject:
        """Return the facts about one artifact as plain JSON types."""
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
        """Return the artifact, its maker, the artifacts before and after it, and the record."""
        artifact_id = self.artifact_id
        lines = [_artifact(self.artifact), *_facts(self)]
        if self.same_uri:
            lines.append(f"  same uri: artifacts {', '.join(map(str, self.same_uri))}")
        lines.append("")
        if makers := self.makers(artifact_id):
            first_maker = makers[0]
            lines.append(f"Made by {_execution(first_maker)}")
            lines += (
                [f"  started {first_maker.started}, ended {first_maker.ended}"]
                if first_maker.started
                else []
            )
            lines += [] if self.knows_runs else [f"  run: {RUN_UNKNOWN} (--metadata)"]
            lines += [f"  {line}" for line in _settings(first_maker)]
            lines += [f"  used again by {_execution(maker)}" for maker in makers[1:]]
        else:
            lines.append("Made by an unknown run: not in this store")
        for title, is_back in (("Made from", True), ("Used to make", False)):
            tree = _branches(self, artifact_id, {artifact_id}, is_back=is_back)
            lines += ["", title, *(_drawn(tree) if tree else ["  nothing"])]
        if self.models:
            lines += ["", "Models trained on it"]
            lines += [f"  {_artifact(model)}" for model in self.models]
        if self.record is not None:
            source = self.source or "a file that the store does not name"
            lines += ["", f"Record {self.record}", f"  from {source}"]
            lines += [line for step in self.steps for line in _step(self, step)]
        return as_text(lines)


def ids_of(ports: Ports) -> list[Id]:
    """Return each artifact once, ordered by port name: ids of one execution have no order."""
    return list(dict.fromkeys(artifact for name in sorted(ports) for artifact in ports[name]))


def _artifact(artifact: Artifact) -> str:
    place = artifact.uri or "without a uri"
    if artifact.uri.startswith(MISSING_PREFIX):
        place = f"not found here; digest {artifact.uri.removeprefix(MISSING_PREFIX)}"
    number = "" if isinstance(artifact.id, str) else f" {artifact.id}"
    name = f" {artifact.name!r}" if artifact.name else ""
    state = "" if artifact.state in ("LIVE", "UNKNOWN") else f" ({artifact.state})"
    return f"{artifact.type}{number}{name}{state}  {place}"


def _execution(execution: Execution) -> str:
    run = f" in run {execution.run}" if execution.run else ""
    pipeline = f" of {execution.pipeline}" if execution.pipeline else ""
    state = "" if execution.state == "COMPLETE" else f", {execution.state}"
    number = "" if isinstance(execution.id, str) else f" (execution {execution.id}{state})"
    return f"{execution.component}{number}{run}{pipeline}"


def _facts(lineage: Lineage) -> Iterator[str]:
    if lineage.artifact.created:
        yield f"  made {lineage.artifact.created}"
    if summary := lineage.summaries.get(lineage.artifact_id):
        for split, accounting in summary.accounting.items():
            yield f"  {split}: {accounting}, {quantity(summary.num_shards[split], 'shard')}"
    for sums in _fingerprints(lineage, lineage.artifact_id):
        yield f"  {sums}"
    if versions := lineage.versions(lineage.artifact_id):
        yield f"  versions: {_one_line(versions)}"


def _fingerprints(lineage: Lineage, artifact: Id) -> list[str]:
    fingerprint, content = lineage.fingerprint(artifact), lineage.content(artifact)
    sums = [f"fingerprint of the inputs {fingerprint}"] if fingerprint else []
    sums += [f"content {_one_line(content)}"] if content else []
    return ["; ".join(sums)] if sums else []


def _settings(execution: Execution) -> list[str]:
    settings = {n: v for n, v in execution.settings.items() if v not in (None, "")}
    return [f"settings: {_one_line(settings)}"] if settings else []


def _branches(
    lineage: Lineage, artifact: Id, seen: set[Id], *, is_back: bool, level: int = 0
) -> list[_Branch]:
    """Return the tree of ancestors or descendants. Artifacts already shown are not expanded."""
    if level == _MAX_LEVELS:
        return [(["…"], [])]
    branches: list[_Branch] = []
    for step in lineage.makers(artifact)[:1] if is_back else lineage.users(artifact):
        inner: list[_Branch] = []
        ports = step.inputs if is_back else step.outputs
        for port, place in ((port, i) for port, ids in ports.items() for i in ids):
            if (node := lineage.artifacts.get(place)) is None:
                inner.append(([f"{port}: artifact {place}, which the store no longer has"], []))
                continue
            lines = [f"{port}: {_artifact(node)}" if port else _artifact(node)]
            if place in seen:
                inner.append(([f"{lines[0]} (see above)"], []))
                continue
            seen.add(place)
            for maker in lineage.makers(place)[:1] if is_back else ():
                lines += [
                    *_fingerprints(lineage, place),
                    f"by {_execution(maker)}",
                    *_settings(maker),
                ]
            below = _branches(lineage, place, seen, is_back=is_back, level=level + 1)
            inner.append((lines, below))
        if is_back and not step.inputs and (base := step.settings.get("input_base")):
            inner.append(([f"files in {base}"], []))
        branches += inner if is_back else [([_execution(step)], inner)]
    return branches


def _drawn(branches: Sequence[_Branch], before: str = "") -> Iterator[str]:
    for lines, inner in branches:
        is_last = inner is branches[-1][1]
        first, others = ("└── ", "    ") if is_last else ("├── ", "│   ")
        yield f"{before}{first}{lines[0]}"
        yield from (f"{before}{others}{line}" for line in lines[1:])
        yield from _drawn(inner, before + others)


def _step(lineage: Lineage, step: RecordStep) -> Iterator[str]:
    by = "".join(f" by {maker.component}" for maker in lineage.makers(step.artifact)[:1])
    detail = f", {step.detail}" if step.detail else ""
    yield f"  {_artifact(lineage.artifacts[step.artifact])}{by}: {step.outcome}{detail}"
    for place in step.places:
        yield (
            f"    split {place.split}, {place.shard}, record {place.record}, "
            f"byte {place.byte_offset} ({place.bytes} bytes)"
        )
    for reject in step.rejects:
        yield f"    split {reject.get('split')}: {reject.get('code')} ({reject.get('detail')})"


def _one_line(properties: JsonObject) -> str:
    """Format properties on one line, such as `num_shards=8, seed=0`. Long values are cut."""
    parts = []
    for name, value in properties.items():
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        text = " ".join(text.split())
        is_long = len(text) > _MAX_CHARACTERS
        parts.append(f"{name}={text[: _MAX_CHARACTERS - 3]}..." if is_long else f"{name}={text}")
    return ", ".join(parts)
