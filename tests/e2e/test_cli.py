"""The command line as users call it: a conversion, and the queries of its results.

The same texts are also converted by TFX's launcher, and the results compared.
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
from ml_metadata.metadata_store import MetadataStore
from tfx import v1 as tfx
from tfx.orchestration.metadata import sqlite_metadata_connection_config

import pipelines
from components import SchemaExport, ShardBalancer, TextExampleGen
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
    r"\d{4}-\d\d-\d\dT[\d:.]+(\+00:00)?"  # its name; only convert adds the zone
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
def in_this_process(converted, folder):
    """Convert the link to the table in this process, and return the result."""
    return pipelines.convert(folder / "link.csv", folder / "python")


def invoke(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def test_convert_prints_counts_and_output_verifies(converted, folder, subtests):
    assert converted["kind"] == "text"
    assert converted["accounting"]["total"]["written"] == 90
    assert converted["metadata"] == f"{OUT}/metadata.sqlite"
    for name in ("uri", "examples", "schema"):
        with subtests.test(name=name):
            assert (folder / converted[name]).is_dir()
    verified = invoke("verify", folder / OUT)
    assert verified.exit_code == 0, verified.stdout
    facts = json.loads(invoke("inspect", folder / OUT, "--json").stdout)
    assert sum(split["records"] for split in facts["splits"].values()) == 90
    assert "steps" in invoke("plan", folder / OUT, "--workers", 2, "--batch-size", 8).stdout
    measured = invoke("bench", folder / OUT, "--seconds", 0.05, "--batch-size", 8)
    assert "never waits for this input" in measured.stdout, measured.output


LAUNCHERS_OWN = {  # what only TFX's launcher records
    "is_external",
    "span",
    "state",  # in a custom property too, where convert writes it
    "input_fingerprint",  # by TFX's driver from the times of files
    "memory_bytes",
    "tfds",
    "num_features",
}


@pytest.fixture(scope="module")
def launched(folder):
    """Run the same three components by TFX's own launcher, and return its folder."""
    examples = TextExampleGen(input_base=str(folder / TABLE))
    balanced = ShardBalancer(examples=examples.outputs["examples"])
    schema = SchemaExport(examples=balanced.outputs["balanced_examples"])
    out = folder / "launched"
    pipeline = tfx.dsl.Pipeline(
        pipeline_name="tfx-shards-convert",
        pipeline_root=str(out / "artifacts"),
        components=[examples, balanced, schema],
        metadata_connection_config=sqlite_metadata_connection_config(str(out / "metadata.sqlite")),
    )
    tfx.orchestration.LocalDagRunner().run(pipeline)
    return out


def store_of(out: Path) -> MetadataStore:
    return MetadataStore(sqlite_metadata_connection_config(str(out / "metadata.sqlite")))


def values_of(properties) -> dict[str, object]:
    """Return properties as plain values, without the ones that only the launcher records."""
    values = {name: getattr(v, v.WhichOneof("value")) for name, v in properties.items()}
    return {name: value for name, value in values.items() if name not in LAUNCHERS_OWN}


def test_types_equal_tfx(converted, launched, folder):
    def types_of(out: Path) -> dict[str, dict[str, int]]:
        store = store_of(out)
        kinds = (store.get_artifact_types(), store.get_execution_types(), store.get_context_types())
        types = [one for kind in kinds for one in kind]
        return {one.name: {**dict(one.properties), "base": one.base_type} for one in types}

    theirs = types_of(launched)
    del theirs["execution_cache"]
    assert types_of(folder / OUT) == theirs


def test_artifacts_have_the_properties_that_tfx_writes(converted, launched, folder):
    def artifacts_of(out: Path) -> dict[str, tuple[object, ...]]:
        return {
            # The launcher numbers outputs by execution, convert by run.
            str(Path(one.uri).parent.relative_to(out / "artifacts")): (
                one.type,
                one.state,
                values_of(one.properties),
                values_of(one.custom_properties),
            )
            for one in store_of(out).get_artifacts()
        }

    theirs = artifacts_of(launched)
    assert len(theirs) == 4
    assert artifacts_of(folder / OUT) == theirs


def test_executions_have_the_settings_of_tfx(converted, launched, folder):
    def executions_of(out: Path) -> dict[str, tuple[object, ...]]:
        settings = {e.type: values_of(e.custom_properties) for e in store_of(out).get_executions()}
        for values in settings.values():
            values.pop("input_base", None)  # convert names the folder of a table
            for name in values.keys() & {"input_config", "output_config"}:
                values[name] = json.loads(str(values[name]))
        states = {e.type: e.last_known_state for e in store_of(out).get_executions()}
        return {kind: (states[kind], values) for kind, values in settings.items()}

    theirs = executions_of(launched)
    assert len(theirs) == 3
    ours = executions_of(folder / OUT)
    name = "components.text_example_gen.TextExampleGen"
    ours[name][1].pop("input_config"), theirs[name][1].pop("input_config")
    assert ours == theirs


def test_events_and_contexts_equal_tfx(converted, launched, folder):
    def graph_of(out: Path) -> tuple[list[object], list[object]]:
        store = store_of(out)
        artifacts = {one.id: one.type for one in store.get_artifacts()}
        executions = {one.id: one.type for one in store.get_executions()}
        events = [
            (
                event.type,
                [(step.key, step.index) for step in event.path.steps],
                artifacts[event.artifact_id],
                executions[event.execution_id],
            )
            for event in store.get_events_by_execution_ids(list(executions))
        ]
        contexts = [
            (executions[number], one.type, OF_A_RUN.sub("RUN", one.name))
            for number in executions
            for one in store.get_contexts_by_execution(number)
            if one.type != "execution_cache"  # which only the launcher needs
        ]
        return sorted(events), sorted(contexts)

    events, contexts = graph_of(launched)
    assert (len(events), len(contexts)) == (6, 9)
    assert graph_of(folder / OUT) == (events, contexts)


def test_bytes_equal_a_run_by_tfx(converted, launched, folder):
    def files_of(out: Path) -> dict[str, bytes]:
        names = ("TextExampleGen/examples", "ShardBalancer/balanced_examples")
        folders = [next((out / "artifacts" / name).iterdir()) for name in names]
        return {
            f"{name}/{path.relative_to(folder)}": path.read_bytes()
            for name, folder in zip(names, folders, strict=True)
            for path in folder.rglob("*")
            if path.is_file() and path.name not in ("manifest.json", "lineage.json", "listing.json")
        }

    theirs = files_of(launched)
    assert len(theirs) > 10
    assert files_of(folder / OUT) == theirs


def test_command_output_is_cached_for_tfx_and_listed(converted, in_this_process, folder):
    assert (
        in_this_process.found,
        in_this_process.written,
        in_this_process.rejected,
        in_this_process.cached,
    ) == (90, 90, 0, False)
    assert f"{in_this_process}" == os.fspath(in_this_process) == in_this_process.uri
    again = pipelines.convert(folder / TABLE, folder / OUT)
    assert again.cached
    assert Path(again).samefile(folder / converted["uri"])
    last = list_runs(str(folder / OUT / "metadata.sqlite")).runs[0]
    assert {(e.component, e.state) for e in last.executions} == {
        (name, "CACHED") for name in ("SchemaExport", "ShardBalancer", "TextExampleGen")
    }
