"""Export lineage as OpenLineage run events, or as Croissant with PROV-O.

    for event in openlineage_events(describe_artifact("out/latest")):
        client.post(…)                                # Marquez, DataHub, …
    prov_document(describe_artifact("out/latest"))    # JSON-LD for mlcroissant and rdflib

Source: OpenLineage 2-0-2, https://openlineage.io/spec; Croissant 1.1, whose provenance is PROV-O,
https://www.w3.org/TR/prov-o.
"""

import datetime
import json
import os
import urllib.parse
import uuid
from collections.abc import Iterator, Sequence

from pipelines.lineage.graph import MISSING_PREFIX, Execution, Id, Lineage, ids_of
from trainer_utils.core.json_text import JsonObject
from trainer_utils.format.naming import CROISSANT_FILE
from trainer_utils.storage import exists, is_remote, join, read_text

_PRODUCER = "urn:tfx-shards"
_SPEC = "https://openlineage.io/spec"
_RUN_EVENT = f"{_SPEC}/2-0-2/OpenLineage.json#/$defs/RunEvent"
_ENDS = {"COMPLETE": "COMPLETE", "FAILED": "FAIL", "CANCELED": "ABORT", "UNKNOWN": "OTHER"}
_CROISSANT = "http://mlcommons.org/croissant/1.1"
_NAMESPACES = {
    "prov": "http://www.w3.org/ns/prov#",
    "rdfs": "http://www.w3.org/2000/01/rdf-schema#",
    "xsd": "http://www.w3.org/2001/XMLSchema#",
}


def openlineage_events(lineage: Lineage) -> Iterator[JsonObject]:
    """Yield the runs before and after an artifact as events, in the order of the runs.

    Each run has two events: `START`, and its end. If the time is unknown, as for datasets without a
    store of ML Metadata, it is the current time. The id of a run is always the same. Cached
    executions did not run and are left out.
    """
    now = datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="milliseconds")
    for execution in lineage.executions.values():
        if execution.is_cached:
            continue
        name = f"{lineage.metadata}#{execution.id}" if lineage.knows_runs else str(execution.id)
        run = str(uuid.uuid5(uuid.NAMESPACE_URL, name))
        settings = {"_producer": _PRODUCER, "_schemaURL": f"{_PRODUCER}:settings"}
        facets = {"tfxShards_settings": {**settings, **execution.settings}}
        inputs = [_dataset(lineage, i) for i in ids_of(execution.inputs)]
        base = execution.settings.get("input_base")
        common: JsonObject = {
            "producer": _PRODUCER,
            "schemaURL": _RUN_EVENT,
            "run": {"runId": run, "facets": facets},
            "job": {"namespace": execution.pipeline or "tfx-shards", "name": execution.component},
            "inputs": inputs or ([_named(str(base))] if base else []),
            "outputs": [_dataset(lineage, i, is_output=True) for i in ids_of(execution.outputs)],
        }
        yield {"eventType": "START", "eventTime": execution.started or now, **common}
        if end := _ENDS.get(execution.state):
            yield {"eventType": end, "eventTime": execution.ended or now, **common}


def _named(uri: str) -> JsonObject:
    """Return a uri by OpenLineage's naming rules: `file` and a path, or a bucket and a key."""
    parts = urllib.parse.urlsplit(uri)
    if is_remote(uri):
        return {"namespace": f"{parts.scheme}://{parts.netloc}", "name": parts.path.strip("/")}
    if uri.startswith(MISSING_PREFIX):
        return {"namespace": "tfx-shards", "name": uri}
    return {"namespace": "file", "name": os.path.abspath(uri)}


def _dataset(lineage: Lineage, artifact: Id, *, is_output: bool = False) -> JsonObject:
    """Return a dataset in OpenLineage's form, with its version and, for an output, its size."""
    node, summary = lineage.artifacts.get(artifact), lineage.summaries.get(artifact)
    entry = _named(f"{MISSING_PREFIX}{artifact}" if node is None else node.uri)
    if summary is None:
        return entry
    version = json.dumps(dict(summary.content), sort_keys=True)
    facet = _facet("1-0-1/DatasetVersionDatasetFacet", datasetVersion=version)
    entry["facets"] = {"version": facet}
    if is_output:
        facet = _facet(
            "1-0-2/OutputStatisticsOutputDatasetFacet",
            rowCount=summary.total.written,
            fileCount=sum(summary.num_shards.values()),
        )
        entry["outputFacets"] = {"outputStatistics": facet}
    return entry


def _facet(kind: str, **values: object) -> JsonObject:
    schema = f"{_SPEC}/facets/{kind}.json#/$defs/{kind.rpartition('/')[2]}"
    return {"_producer": _PRODUCER, "_schemaURL": schema, **values}


def prov_document(lineage: Lineage) -> JsonObject:
    """Return an artifact and its ancestors as JSON-LD.

    A dataset with a `croissant.json` is represented by it, as Croissant 1.1; any other artifact is
    a PROV-O entity. All direct and indirect inputs are listed in `prov:wasInfluencedBy`.
    """
    document: JsonObject = {"@type": "prov:Entity"}
    if exists(path := join(lineage.artifact.uri, CROISSANT_FILE)):
        document = {**json.loads(read_text(path)), "conformsTo": _CROISSANT}
    document["@context"] = {**document.get("@context", {}), **_NAMESPACES}
    before = lineage.ancestors(lineage.artifact_id)
    entities = [{"@type": "prov:Entity", **_entity(lineage, artifact)} for artifact in before]
    influences = {"prov:wasInfluencedBy": entities} if entities else {}
    return {**document, **_entity(lineage, lineage.artifact_id), **influences}


def _entity(lineage: Lineage, artifact: Id) -> JsonObject:
    """Return an artifact with the activity that made it, and the ids of its inputs."""
    node = lineage.artifacts[artifact]
    entity: JsonObject = {"@id": _iri(node.uri or f"{MISSING_PREFIX}{artifact}")}
    for maker in lineage.makers(artifact)[:1]:
        before = [lineage.artifacts[i].uri for i in lineage.sources(artifact)]
        base = maker.settings.get("input_base")
        sources = [{"@id": _iri(uri)} for uri in before or ([str(base)] if base else [])]
        entity["prov:wasGeneratedBy"] = _activity(maker, entity["@id"], sources)
        entity |= {"prov:wasDerivedFrom": sources} if sources else {}
    return entity


def _activity(execution: Execution, agent: str, sources: Sequence[JsonObject]) -> JsonObject:
    times = {"startedAtTime": execution.started, "endedAtTime": execution.ended}
    return {
        "@id": f"{agent}#{urllib.parse.quote(execution.component)}",
        "@type": "prov:Activity",
        "rdfs:label": execution.component,
        "rdfs:comment": json.dumps(execution.settings, sort_keys=True),
        "prov:used": sources,
        **{
            f"prov:{name}": {"@type": "xsd:dateTime", "@value": time}
            for name, time in times.items()
            if time
        },
    }


def _iri(uri: str) -> str:
    if uri.startswith(MISSING_PREFIX):
        return f"urn:tfx-shards:{uri}"
    quoted = urllib.parse.quote(uri if is_remote(uri) else os.path.abspath(uri), safe="/:@")
    return quoted if is_remote(uri) else f"file://{quoted}"
