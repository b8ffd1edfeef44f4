"""Lineage as text for a terminal.

print(render_lineage(facts))
"""

from collections.abc import Iterator, Sequence

from pipelines.lineage.facts import LineageFacts
from pipelines.lineage.graph import MISSING_PREFIX, Artifact, Execution
from pipelines.lineage.manifests import RUN_UNKNOWN
from pipelines.lineage.record_trace import RecordStep
from pipelines.lineage.source_files import SourceFile
from pipelines.lineage.values import one_line
from trainer_utils.format.printable import printable
from trainer_utils.text_output import as_text, quantity

__all__ = ["render_lineage"]

_MOST_LEVELS = 50  # of a tree: models that each start from the one before make chains of any length

_Tree = tuple[str, list["_Tree"]]


def render_lineage(lineage: LineageFacts) -> str:
    """The artifact, what it was made from, what was made of it, and where a record is in them."""
    found = lineage.artifact.id
    makers = lineage.graph.makers(found)
    lines = [_artifact(lineage.artifact), *_facts(lineage, found)]
    if lineage.location.others:
        lines.append(f"  same uri: artifacts {', '.join(map(str, lineage.location.others))}")
    lines += [""]
    if makers:
        lines += [f"Made by {_execution(makers[0])}", *_times(makers[0])]
        lines += [] if lineage.knows_runs else [f"  run: {RUN_UNKNOWN} (--metadata)"]
        lines += [f"  {line}" for line in _settings(makers[0])]
        lines += [f"  used again by {_execution(maker)}" for maker in makers[1:]]
    else:
        lines += ["Made by nothing that this store knows of"]
    lines += ["", "Made from", *_branches(_ancestor_trees(lineage, found, {found}))]
    lines += ["", "Made of it", *_branches(_descendant_trees(lineage, found, {found}))]
    if lineage.models:
        lines += ["", "Models that came of it"]
        lines += [f"  {_artifact(model)}" for model in lineage.models]
    if lineage.record is not None:
        lines += ["", *_record(lineage)]
    return as_text(lines)


def _artifact(artifact: Artifact) -> str:
    name = f" {artifact.name!r}" if artifact.name else ""
    state = "" if artifact.state in ("LIVE", "UNKNOWN") else f" ({artifact.state})"
    return printable(f"{artifact.type} {artifact.id}{name}{state}  {_place(artifact)}")


def _place(artifact: Artifact) -> str:
    if artifact.uri.startswith(MISSING_PREFIX):
        return f"not found here; digest {artifact.uri.removeprefix(MISSING_PREFIX)}"
    return artifact.uri or "without a uri"


def _execution(execution: Execution) -> str:
    run = f" in run {execution.run}" if execution.run else ""
    pipeline = f" of {execution.pipeline}" if execution.pipeline else ""
    state = "" if execution.state == "COMPLETE" else f", {execution.state}"
    return printable(f"{execution.component} (execution {execution.id}{state}){run}{pipeline}")


def _facts(lineage: LineageFacts, artifact: int) -> Iterator[str]:
    node = lineage.graph.artifacts[artifact]
    path = lineage.location.path_of(node.uri)
    if path != node.uri:
        yield f"  now at {path}"
    if node.created:
        yield f"  made {node.created}"
    if summary := lineage.summaries.get(artifact):
        for split, accounting in summary.accounting.items():
            yield f"  {split}: {accounting}, {quantity(summary.num_shards[split], 'shard')}"
    if sums := _fingerprints(lineage, artifact):
        yield f"  {sums}"
    if versions := lineage.versions(artifact):
        yield f"  versions: {one_line(versions)}"


def _fingerprints(lineage: LineageFacts, artifact: int) -> str:
    sums = []
    if fingerprint := lineage.fingerprint(artifact):
        sums.append(f"fingerprint of the inputs {fingerprint}")
    if content := lineage.content(artifact):
        sums.append(f"content {one_line(content)}")
    return "; ".join(sums)


def _times(execution: Execution) -> Iterator[str]:
    if execution.started:
        yield f"  started {execution.started}, ended {execution.ended}"


def _settings(execution: Execution) -> Iterator[str]:
    if settings := {n: v for n, v in execution.settings.items() if v not in (None, "")}:
        yield f"settings: {one_line(settings)}"


def _ancestor_trees(
    lineage: LineageFacts, artifact: int, seen: set[int], level: int = 0
) -> list[_Tree]:
    """What an artifact was made from; one that stands elsewhere already is not followed again."""
    trees: list[_Tree] = []
    if level == _MOST_LEVELS and lineage.graph.sources(artifact):
        return [("… and more before it: ask for the lineage of that artifact", [])]
    for maker in lineage.graph.makers(artifact)[:1]:
        for port, ids in maker.inputs.items():
            trees += [_ancestor_tree(lineage, port, source, seen, level + 1) for source in ids]
        if not maker.inputs and (base := maker.settings.get("input_base")):
            trees.append((printable(f"files in {base}"), []))
    return trees


def _ancestor_tree(
    lineage: LineageFacts, port: str, source: int, seen: set[int], level: int
) -> _Tree:
    node = lineage.graph.artifacts.get(source)
    if node is None:
        return f"{port}: artifact {source}, which the store no longer has", []
    label = f"{port}: {_artifact(node)}" if port else _artifact(node)
    if source in seen:
        return f"{label} (see above)", []
    seen.add(source)
    if sums := _fingerprints(lineage, source):
        label += f"\n{sums}"
    for maker in lineage.graph.makers(source)[:1]:
        label = "\n".join([label, f"by {_execution(maker)}", *_settings(maker)])
    return label, _ancestor_trees(lineage, source, seen, level)


def _descendant_trees(
    lineage: LineageFacts, artifact: int, seen: set[int], level: int = 0
) -> list[_Tree]:
    trees: list[_Tree] = []
    if level == _MOST_LEVELS and lineage.graph.users(artifact):
        return [("… and more of it: ask for the lineage of that artifact", [])]
    for user in lineage.graph.users(artifact):
        inner: list[_Tree] = []
        for port, ids in user.outputs.items():
            for output in ids:
                if (node := lineage.graph.artifacts.get(output)) is None:
                    continue
                label = f"{port}: {_artifact(node)}" if port else _artifact(node)
                if output in seen:
                    inner.append((f"{label} (see above)", []))
                    continue
                seen.add(output)
                inner.append((label, _descendant_trees(lineage, output, seen, level + 1)))
        trees.append((_execution(user), inner))
    return trees


def _branches(trees: Sequence[_Tree], indent: str = "  ") -> list[str]:
    if not trees and indent == "  ":
        return [f"{indent}nothing"]
    lines = []
    for place, (label, inner) in enumerate(trees):
        is_last = place + 1 == len(trees)
        first, *others = label.split("\n")
        below = indent + ("   " if is_last else "│  ")
        lines.append(f"{indent}{'└─' if is_last else '├─'} {first}")
        lines += [f"{below}{'│  ' if inner else '   '}{other}" for other in others]
        lines += _branches(inner, below) if inner else []
    return lines


def _record(lineage: LineageFacts) -> Iterator[str]:
    yield f"Record {lineage.record}"
    yield f"  from {_source_file(lineage.source)}"
    for step in lineage.steps:
        yield from _step(lineage, step)


def _source_file(source: SourceFile | None) -> str:
    if source is None:
        return "a file that the store does not name"
    gone = " (which is not there any more)" if source.exists is False else ""
    member = f", in it {source.member}" if source.member else ""
    row = f", row {source.row}" if source.row is not None else ""
    return f"{source.path}{gone}{member}{row}"


def _step(lineage: LineageFacts, step: RecordStep) -> Iterator[str]:
    makers = lineage.graph.makers(step.artifact)
    by = f" by {makers[0].component}" if makers else ""
    search = step.search
    detail = f", {search.detail}" if search.detail else ""
    yield f"  {_artifact(lineage.graph.artifacts[step.artifact])}{by}: {search.outcome}{detail}"
    for place in search.places:
        yield (
            f"    split {place.split}, {place.shard}, record {place.record}, "
            f"byte {place.byte_offset} ({place.bytes} bytes)"
        )
    for reject in search.rejects:
        yield f"    split {reject.get('split')}: {reject.get('code')} ({reject.get('detail')})"
