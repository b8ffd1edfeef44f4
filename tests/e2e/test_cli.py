"""The command line as users call it: a conversion, and the queries of its results.

The same texts are also converted in this process with TensorFlow and TFX, and the results compared.
"""

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
from pipelines.lineage import list_runs
from tests.make import table, write_files

pytestmark = [pytest.mark.e2e, pytest.mark.slow]
REPOSITORY = Path(__file__).parents[2]
TABLE = "Bücher & Söhne/meine Texte.csv"
OUT = "aus gabe/ö"
COMMAND = """
import sys
from pipelines.cli.app import main
try:
    main(sys.argv[1:])
finally:
    heavy = ("tensorflow", "keras", "tfx.v1", "google.cloud.aiplatform", "kfp")
    print([name for name in heavy if name in sys.modules], file=open("imported", "a"))
"""
OF_A_RUN = re.compile(
    r"\d{4}-\d\d-\d\dT[\d:.]+"  # its name
    r"|[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"  # unnamed contexts
    r"|[0-9a-f]{64}"  # the key of a cache, which depends on the folder
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Write a table of 90 texts and a link to it."""
    folder = tmp_path_factory.mktemp("cli")
    rows = [{"text": f"text {number}", "label": f"class {number % 3}"} for number in range(90)]
    write_files(folder, {TABLE: table(rows, "csv")})
    (folder / "link.csv").symlink_to(folder / TABLE)
    return folder


@pytest.fixture(scope="module")
def converted(folder):
    """Convert the table in a process without TensorFlow, and return the output of the command."""
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY)}
    environment.pop("TF_CPP_MIN_LOG_LEVEL", None)
    done = subprocess.run(
        [sys.executable, "-c", COMMAND, "convert", TABLE, OUT, "--json"],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert (folder / "imported").read_text() == "[]\n"
    for noise in ("cuFFT", "oneDNN", "FutureWarning", "cpu_feature_guard"):
        assert noise not in done.stderr
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def by_tfx(converted, folder):
    """Convert the link in this process, with TensorFlow, and return the result."""
    made = pipelines.convert(folder / "link.csv", folder / "python")
    assert "tensorflow" in sys.modules  # otherwise both runs would be without it
    return made


def invoke(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def test_convert_prints_counts_and_output_verifies(converted, folder):
    assert converted["kind"] == "text"
    assert converted["accounting"]["total"]["written"] == 90
    assert converted["metadata"] == f"{OUT}/metadata.sqlite"
    for name in ("uri", "examples", "schema"):
        assert (folder / converted[name]).is_dir()
    verified = invoke("verify", folder / OUT)
    assert verified.exit_code == 0, verified.stdout
    facts = json.loads(invoke("inspect", folder / OUT, "--json").stdout)
    assert sum(split["records"] for split in facts["splits"].values()) == 90
    assert "steps" in invoke("plan", folder / OUT, "--workers", 2, "--batch-size", 8).stdout
    measured = invoke("bench", folder / OUT, "--seconds", 0.05, "--batch-size", 8)
    assert "never waits for this input" in measured.stdout, measured.output


def facts_of(out: Path) -> list[str]:
    """Return the content of a store, unordered, without values that differ between runs."""
    store = MetadataStore(sqlite_metadata_connection_config(str(out / "metadata.sqlite")))
    names = {context.id: OF_A_RUN.sub("RUN", context.name) for context in store.get_contexts()}
    uris = {artifact.id: artifact.uri for artifact in store.get_artifacts()}
    steps = {execution.id: execution.type for execution in store.get_executions()}
    types = [*store.get_artifact_types(), *store.get_execution_types(), *store.get_context_types()]
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
    """Remove ids, which depend on the order of rows, and times; replace `out` by a word."""
    if isinstance(fact, dict):
        left = {"id", "typeId", "createTimeSinceEpoch", "lastUpdateTimeSinceEpoch"}
        return {k: without_numbers(v, out) for k, v in sorted(fact.items()) if k not in left}
    if isinstance(fact, (list, tuple)):
        return [without_numbers(part, out) for part in fact]
    return fact.replace(out, "OUT") if isinstance(fact, str) else fact


def test_metadata_and_bytes_equal_a_run_with_tfx(by_tfx, folder):
    outs = folder / OUT, folder / "python"
    ours, theirs = map(facts_of, outs)
    assert len(ours) > 20
    assert ours == theirs
    files = [
        {p.relative_to(out): p.read_bytes() for p in (out / "artifacts").rglob("*") if p.is_file()}
        for out in outs
    ]
    assert files[0] == files[1]


def test_command_output_is_cached_for_tfx_and_listed(converted, by_tfx, folder):
    assert (by_tfx.found, by_tfx.written, by_tfx.rejected, by_tfx.cached) == (90, 90, 0, False)
    assert f"{by_tfx}" == os.fspath(by_tfx) == by_tfx.uri
    again = pipelines.convert(folder / TABLE, folder / OUT)
    assert again.cached
    assert Path(again).samefile(folder / converted["uri"])
    last = list_runs(str(folder / OUT / "metadata.sqlite")).runs[0]
    assert {(e.component, e.state) for e in last.executions} == {
        (name, "CACHED") for name in ("SchemaExport", "ShardBalancer", "TextExampleGen")
    }
