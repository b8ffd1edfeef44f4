"""Exported lineage, read by the libraries of the formats."""

import json
import uuid
from pathlib import Path

import pytest
from click.testing import CliRunner

from components import steps
from components.balancing.settings import BalancerSettings
from components.example_gen.input_selection import InputSelection
from components.example_gen.settings import TextSettings
from pipelines.cli.app import app
from pipelines.lineage import describe_artifact
from pipelines.lineage.exports import prov_document


@pytest.fixture(scope="module")
def balanced(tmp_path_factory) -> str:
    folder = tmp_path_factory.mktemp("lineage")
    table = folder / "rows of it.csv"
    table.write_text("text,label\n" + "".join(f"row {n},{'ab'[n % 2]}\n" for n in range(40)))
    made, done = str(folder / "made"), str(folder / "made anew")
    steps.convert(InputSelection(base=str(table)), made, TextSettings())
    steps.balance([made], done, BalancerSettings(num_shards=2))
    return done


def exported(uri: str, form: str, *more: str) -> str:
    found = CliRunner().invoke(app, ["lineage", uri, "--format", form, *more])
    assert found.exit_code == 0, found.output
    return found.stdout


def test_openlineage_client_reads_each_event_unchanged(balanced):
    client = pytest.importorskip("openlineage.client.event_v2", reason="the oracle")
    serde = pytest.importorskip("openlineage.client.serde")
    facets = pytest.importorskip("openlineage.client.facet_v2")
    events, again = (
        [json.loads(line) for line in exported(balanced, "openlineage").splitlines()] for _ in "12"
    )
    assert [e["run"]["runId"] for e in events] == [e["run"]["runId"] for e in again]
    assert [(e["job"]["name"], e["eventType"]) for e in events] == [
        *(("TextExampleGen", end) for end in ("START", "COMPLETE")),
        *(("ShardBalancer", end) for end in ("START", "COMPLETE")),
    ]
    assert len({uuid.UUID(event["run"]["runId"]) for event in events}) == 2
    for event in events:
        taken = client.RunEvent(
            eventType=client.RunState[event["eventType"]],
            eventTime=event["eventTime"],
            producer=event["producer"],
            run=client.Run(**event["run"]),
            job=client.Job(**event["job"]),
            inputs=[client.InputDataset(**one) for one in event["inputs"]],
            outputs=[client.OutputDataset(**one) for one in event["outputs"]],
        )
        said = json.loads(serde.Serde.to_json(taken))
        assert said["schemaURL"] == event["schemaURL"]
        assert said["outputs"][0]["name"] == event["outputs"][0]["name"]
        (output,) = event["outputs"]
        for told, kind in (
            (output["facets"]["version"], facets.dataset_version_dataset),
            (output["outputFacets"]["outputStatistics"], facets.output_statistics_output_dataset),
        ):
            own = [v for n, v in vars(kind).items() if n.endswith("DatasetFacet")]
            known = {one._get_schema().rpartition("/")[2]: one for one in own}
            facet = known[told["_schemaURL"].rpartition("/")[2]]
            assert facet._get_schema() == told["_schemaURL"]
            facet(**{name: value for name, value in told.items() if not name.startswith("_")})
    first, last = events[0], events[-1]
    assert first["inputs"][0]["name"] == str(Path(balanced).parent)
    assert last["inputs"][0]["name"] == first["outputs"][0]["name"]
    assert last["outputs"][0]["outputFacets"]["outputStatistics"]["rowCount"] == 40


def test_mlcroissant_and_rdflib_read_the_origin(balanced, tmp_path):
    croissant = pytest.importorskip("mlcroissant", reason="the oracle")
    rdflib = pytest.importorskip("rdflib")
    path = tmp_path / "prov.json"
    path.write_text(exported(balanced, "prov"))
    metadata = croissant.Dataset(jsonld=str(path)).metadata
    assert metadata.ctx.conforms_to.value == "http://mlcommons.org/croissant/1.1"
    assert metadata.ctx.issues.errors == set()
    graph = rdflib.Graph().parse(path, format="json-ld")
    prov = rdflib.Namespace("http://www.w3.org/ns/prov#")
    folder = Path(balanced).parent.as_uri()
    assert {(str(s), str(o)) for s, o in graph[: prov.wasDerivedFrom]} == {
        (f"{folder}/made%20anew", f"{folder}/made"),
        (f"{folder}/made", folder),
    }
    labels = {
        str(graph.value(activity, rdflib.RDFS.label))
        for _, activity in graph[: prov.wasGeneratedBy]
    }
    assert labels == {"TextExampleGen", "ShardBalancer"}
    activities = set(graph[: rdflib.RDF.type : prov.Activity])
    assert {s for s, _ in graph[: prov.used]} == activities


def test_artifact_without_croissant_is_only_an_entity(balanced, tmp_path):
    Path(balanced, "croissant.json").rename(tmp_path / "kept")
    try:
        document = prov_document(describe_artifact(balanced))
    finally:
        (tmp_path / "kept").rename(Path(balanced, "croissant.json"))
    assert document["@type"] == "prov:Entity"
    assert len(document["prov:wasInfluencedBy"]) == 1
