"""`convert` in a process of its own, and the same conversion through all of TFX, beside it."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("tfx", reason="convert needs TFX")
from click.testing import CliRunner
from google.protobuf.json_format import MessageToDict
from ml_metadata.metadata_store import MetadataStore
from tfx.orchestration.metadata import sqlite_metadata_connection_config

import pipelines
from pipelines.cli.app import app
from pipelines.tools.conversion.runs import latest_artifacts

COMMAND = """
import sys
from pipelines.cli.app import main
try:
    main(sys.argv[1:])
finally:
    print([name for name in ("tensorflow", "keras") if name in sys.modules])
"""
OF_A_RUN = re.compile(
    r"\d{4}-\d\d-\d\dT[\d:.]+"  # its name
    r"|[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"  # unnamed contexts
    r"|[0-9a-f]{64}"  # a cache's key, which knows the folder
)


@pytest.fixture(scope="module")
def converted(tmp_path_factory):
    """Two folders, of the command and of TFX in this process, and what the command printed."""
    folder = tmp_path_factory.mktemp("converted")
    table = folder / "texts.csv"
    table.write_text("text,label\n" + "".join(f"text {n},{'ab'[n % 2]}\n" for n in range(30)))
    done = subprocess.run(
        [sys.executable, "-c", COMMAND, "convert", str(table), str(folder / "command")],
        capture_output=True,
        text=True,
        check=False,
    )
    pipelines.convert(table, folder / "python")
    return folder, done


def facts_of(out: Path) -> list[str]:
    """All that a store holds, in no order, without what differs from run to run."""
    store = MetadataStore(sqlite_metadata_connection_config(str(out / "metadata.sqlite")))
    names = {context.id: OF_A_RUN.sub("RUN", context.name) for context in store.get_contexts()}
    uris = {artifact.id: artifact.uri for artifact in store.get_artifacts()}
    steps = {execution.id: execution.type for execution in store.get_executions()}
    types = [
        *store.get_artifact_types(),
        *store.get_execution_types(),
        *store.get_context_types(),
    ]
    facts = [("type", MessageToDict(one)) for one in types]
    for artifact in store.get_artifacts():
        contexts = [names[c.id] for c in store.get_contexts_by_artifact(artifact.id)]
        facts.append(("artifact", MessageToDict(artifact), sorted(contexts)))
    for execution in store.get_executions():
        contexts = [names[c.id] for c in store.get_contexts_by_execution(execution.id)]
        facts.append(("execution", MessageToDict(execution), sorted(contexts)))
    facts += [("context", MessageToDict(context)) for context in store.get_contexts()]
    for event in store.get_events_by_execution_ids(list(steps)):
        place = [(step.key, step.index) for step in event.path.steps]
        facts.append(("event", event.type, place, uris[event.artifact_id], event.execution_id))
    return sorted(OF_A_RUN.sub("RUN", repr(without_numbers(fact, str(out)))) for fact in facts)


def without_numbers(fact, out: str):
    """Leaves out ids, which are given as rows come, and times; `out` becomes a word."""
    if isinstance(fact, dict):
        left = {"id", "typeId", "createTimeSinceEpoch", "lastUpdateTimeSinceEpoch"}
        return {k: without_numbers(v, out) for k, v in sorted(fact.items()) if k not in left}
    if isinstance(fact, (list, tuple)):
        return [without_numbers(part, out) for part in fact]
    return fact.replace(out, "OUT") if isinstance(fact, str) else fact


@pytest.mark.slow
def test_the_command_does_without_tensorflow(converted):
    folder, done = converted
    assert done.returncode == 0, done.stderr
    assert "\x1b" not in done.stderr + done.stdout
    assert "tensorflow" not in done.stderr
    uri, imported = done.stdout.splitlines()
    assert imported == "[]"
    assert Path(uri).samefile(folder / "command/latest")


@pytest.mark.slow
def test_metadata_and_bytes_are_those_of_a_run_with_all_of_tfx(converted):
    folder, _ = converted
    assert "tensorflow" in sys.modules  # else both runs would be of one kind
    ours, theirs = facts_of(folder / "command"), facts_of(folder / "python")
    assert len(ours) > 20
    assert ours == theirs
    files = [
        {
            path.relative_to(folder / name): path.read_bytes()
            for path in (folder / name / "artifacts").rglob("*")
            if path.is_file()
        }
        for name in ("command", "python")
    ]
    assert files[0] == files[1]


@pytest.mark.slow
def test_what_the_command_made_is_in_tfx_s_cache(converted):
    folder, done = converted
    again = pipelines.convert(folder / "texts.csv", folder / "command")
    assert Path(again).samefile(done.stdout.splitlines()[0])
    _, cached = latest_artifacts(str(folder / "command/metadata.sqlite"))
    assert sorted(cached) == ["SchemaExport", "ShardBalancer", "TextExampleGen"]


def test_what_was_left_out_is_seen_wherever_the_dataset_is_looked_at(tmp_path):
    folder = tmp_path / "datum_schema"  # a name that stands in a schema's uri
    table = tmp_path / "texts.csv"
    table.write_text("text,label\n" + "".join(f"text {n},{n % 2}\n" for n in range(30)) + "a,b,c\n")
    made = pipelines.convert(table, folder, max_reject_fraction=0.1)
    assert (made.found, made.written, made.rejected, made.cached) == (31, 30, 1, False)
    assert made.seconds > 0
    assert f"{made}" == os.fspath(made) == made.uri
    assert Path(made).samefile(folder / "latest")
    assert "/SchemaExport/datum_schema/" in made.schema.removeprefix(str(folder))
    assert pipelines.convert(table, folder, max_reject_fraction=0.1).cached

    def run(*arguments):
        return CliRunner().invoke(app, [*arguments])

    (before,) = json.loads(run("inspect", made, "--json").stdout)["before"]
    assert sum(counts["rejected"] for counts in before["accounting"].values()) == 1
    (code,) = before["rejects"]
    assert code in run("inspect", made).stdout
    assert code in run("doctor", made).stdout
    run("report", made, "--output", str(tmp_path / "report.html"))
    assert code in (tmp_path / "report.html").read_text()
