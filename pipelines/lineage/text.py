"""Lineage as text for a terminal.

print(render_lineage(facts))
"""

import io
from collections.abc import Iterator

from rich.console import Console
from rich.text import Text
from rich.tree import Tree

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
    before, after = Tree("Made from"), Tree("Made of it")
    _add_ancestors(before, lineage, found, {found})
    _add_descendants(after, lineage, found, {found})
    lines += ["", *_drawn(before), "", *_drawn(after)]
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


def _add_ancestors(
    tree: Tree, lineage: LineageFacts, artifact: int, seen: set[int], level: int = 0
) -> None:
    """What an artifact was made from; one that stands elsewhere already is not followed again."""
    if level == _MOST_LEVELS and lineage.graph.sources(artifact):
        tree.add("… and more before it: ask for the lineage of that artifact")
        return
    for maker in lineage.graph.makers(artifact)[:1]:
        for port, source in ((port, i) for port, ids in maker.inputs.items() for i in ids):
            if (node := lineage.graph.artifacts.get(source)) is None:
                tree.add(_text(f"{port}: artifact {source}, which the store no longer has"))
                continue
            label = _labelled(port, node)
            if source in seen:
                tree.add(_text(f"{label} (see above)"))
                continue
            seen.add(source)
            lines = [label, _fingerprints(lineage, source)]
            for own in lineage.graph.makers(source)[:1]:
                lines += [f"by {_execution(own)}", *_settings(own)]
            branch = tree.add(_text("\n".join(filter(None, lines))))
            _add_ancestors(branch, lineage, source, seen, level + 1)
        if not maker.inputs and (base := maker.settings.get("input_base")):
            tree.add(_text(printable(f"files in {base}")))


def _add_descendants(
    tree: Tree, lineage: LineageFacts, artifact: int, seen: set[int], level: int = 0
) -> None:
    if level == _MOST_LEVELS and lineage.graph.users(artifact):
        tree.add("… and more of it: ask for the lineage of that artifact")
        return
    for user in lineage.graph.users(artifact):
        branch = tree.add(_text(_execution(user)))
        for port, output in ((port, i) for port, ids in user.outputs.items() for i in ids):
            if (node := lineage.graph.artifacts.get(output)) is None:
                continue
            if output in seen:
                branch.add(_text(f"{_labelled(port, node)} (see above)"))
                continue
            seen.add(output)
            _add_descendants(
                branch.add(_text(_labelled(port, node))), lineage, output, seen, level + 1
            )


def _labelled(port: str, node: Artifact) -> str:
    return f"{port}: {_artifact(node)}" if port else _artifact(node)


def _text(line: str) -> Text:
    return Text(line, no_wrap=True, overflow="ignore")


def _drawn(tree: Tree) -> list[str]:
    """A tree's branches as lines of plain text."""
    if not tree.children:
        return [str(tree.label), "  nothing"]
    stream = io.StringIO()
    width = max(len(line) for text in _labels(tree) for line in text.split("\n"))
    Console(file=stream, width=width + 8 * (_MOST_LEVELS + 2), color_system=None).print(tree)
    return [line.rstrip() for line in stream.getvalue().splitlines()]


def _labels(tree: Tree) -> Iterator[str]:
    yield str(tree.label)
    for child in tree.children:
        yield from _labels(child)


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
