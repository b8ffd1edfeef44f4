"""What is known of one artifact: how it was made, and what was made from it.

lineage = describe_artifact("runs/artifacts/ShardBalancer/balanced_examples/4", record="cat/1.jpg")
print(lineage)
lineage.to_json()["made_by"]["settings"]
"""

import contextlib
import dataclasses

from pipelines.lineage.facts import LineageFacts
from pipelines.lineage.graph import Graph
from pipelines.lineage.location import Location, locate
from pipelines.lineage.reading import load_graph
from pipelines.lineage.record_trace import trace_record
from pipelines.lineage.store import find_metadata, open_store, without_password
from pipelines.lineage.text import render_lineage
from trainer_utils.format import ConfigError, Manifest
from trainer_utils.format.naming import MANIFEST_FILE
from trainer_utils.storage import exists, is_remote, join, read_text

__all__ = ["Lineage", "describe_artifact", "find_lineage"]

_DATASET = "Examples"


class Lineage(LineageFacts):
    """What `describe_artifact` found; as JSON by `to_json`, as text by `str`."""

    def __str__(self) -> str:
        return render_lineage(self)


def describe_artifact(
    uri: str, *, metadata: str | None = None, record: str | None = None
) -> Lineage:
    """Looks up in ML Metadata how an artifact came to be, and what came of it.

    Args:
        uri: of the artifact.
        metadata: a sqlite file, `mysql://user:password@host:port/database` or `grpc://host:port`;
            None for the `metadata.sqlite` in a folder above the uri.
        record: the `filename` or `id` of one record to be looked for in the dataset and in those
            that it was made from, or the path of the raw file. All their shards are read.

    Raises:
        ConfigError: `metadata` or `record` is not allowed.
        InputError: there is no such store or artifact, or the record is in none of the datasets.
    """
    if record == "":
        raise ConfigError(
            "record: expected the filename or id of a record, got ''", setting="record"
        )
    metadata = find_metadata(uri) if metadata is None else metadata
    with open_store(metadata) as store:
        location = locate(store, uri, metadata=without_password(metadata))
        graph = load_graph(store, location.artifact)
    found = Lineage(
        metadata=without_password(metadata),
        location=location,
        graph=graph,
        manifests=_manifests(graph, location),
    )
    if record is None:
        return found
    trace = trace_record(record, graph, location, datasets=_datasets(found))
    return dataclasses.replace(found, record=record, source=trace.source, steps=trace.steps)


def find_lineage(uri: str) -> str | None:
    """The lineage as text, where a store of ML Metadata above the artifact knows of it."""
    with contextlib.suppress(ValueError, OSError):
        return str(describe_artifact(uri))
    return None


def _datasets(lineage: Lineage) -> list[int]:
    """The datasets that an artifact was made from, the first one first, and itself if it is one."""
    found = lineage.artifact.id
    return [
        place
        for place in [*lineage.graph.ancestors(found), found]
        if lineage.graph.artifacts[place].type == _DATASET or place in lineage.manifests
    ]


def _manifests(graph: Graph, location: Location) -> dict[int, Manifest]:
    """Those that are there and can be read; problems of one are reported by `verify`."""
    found = {}
    for artifact in graph.artifacts.values():
        path = join(location.path_of(artifact.uri), MANIFEST_FILE)
        if not artifact.uri or (is_remote(path) and artifact.type != _DATASET):
            continue
        try:
            if exists(path):
                found[artifact.id] = Manifest.from_json(read_text(path), path=path)
        except (ValueError, OSError):
            continue
    return found
