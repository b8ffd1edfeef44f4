"""Lineage as text for a terminal.

print(render_lineage(facts))
"""

import json
from collections.abc import Iterator, Sequence
from typing import TypeAlias

from pipelines.lineage.graph import MISSING_PREFIX, Artifact, Execution, Id, Lineage, RecordStep
from pipelines.lineage.lookup import RUN_UNKNOWN
from trainer_utils.format.json_text import JsonObject
from trainer_utils.text_output import as_text, quantity

_MOST_LEVELS = 50  # of a tree: models that each start from the one before make chains of any length
_MOST_CHARACTERS = 100  # of a setting

_Branch: TypeAlias = tuple[list[str], list["_Branch"]]
"""Lines of a tree, and the branches below them."""


def render_lineage(lineage: Lineage) -> str:
    """The artifact, what it was made from, what was made of it, and where a record is in them."""
    found = lineage.artifact_id
    lines = [_artifact(lineage.artifact), *_facts(lineage)]
    if lineage.same_uri:
        lines.append(f"  same uri: artifacts {', '.join(map(str, lineage.same_uri))}")
    lines.append("")
    if makers := lineage.makers(found):
        own = makers[0]
        lines.append(f"Made by {_execution(own)}")
        lines += [f"  started {own.started}, ended {own.ended}"] if own.started else []
        lines += [] if lineage.knows_runs else [f"  run: {RUN_UNKNOWN} (--metadata)"]
        lines += [f"  {line}" for line in _settings(own)]
        lines += [f"  used again by {_execution(maker)}" for maker in makers[1:]]
    else:
        lines.append("Made by nothing that this store knows of")
    for title, is_back in (("Made from", True), ("Made of it", False)):
        tree = _branches(lineage, found, {found}, is_back=is_back)
        lines += ["", title, *(_drawn(tree) if tree else ["  nothing"])]
    if lineage.models:
        lines += ["", "Models that came of it"]
        lines += [f"  {_artifact(model)}" for model in lineage.models]
    if lineage.record is not None:
        source = lineage.source or "a file that the store does not name"
        lines += ["", f"Record {lineage.record}", f"  from {source}"]
        lines += [line for step in lineage.steps for line in _step(lineage, step)]
    return as_text(lines)


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
    """What it was made from, or what of it; what stands elsewhere already is not followed again."""
    if level == _MOST_LEVELS:
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
            for own in lineage.makers(place)[:1] if is_back else ():
                lines += [*_fingerprints(lineage, place), f"by {_execution(own)}", *_settings(own)]
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
    """Properties on one line: `num_shards=8, seed=0`; long values are cut."""
    parts = []
    for name, value in properties.items():
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        text = " ".join(text.split())
        is_long = len(text) > _MOST_CHARACTERS
        parts.append(f"{name}={text[: _MOST_CHARACTERS - 3]}..." if is_long else f"{name}={text}")
    return ", ".join(parts)
