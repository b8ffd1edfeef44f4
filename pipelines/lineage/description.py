"""What is known of one artifact: how it was made, and what was made from it.

lineage = describe_artifact("runs/artifacts/ShardBalancer/balanced_examples/4", record="cat/1.jpg")
print(lineage)
lineage.to_json()["made_by"]["settings"]
"""

import contextlib
import dataclasses

from pipelines.lineage.facts import LineageFacts
from pipelines.lineage.graph import DATASET_TYPE
from pipelines.lineage.lookup import look_up
from pipelines.lineage.record_trace import trace_record
from pipelines.lineage.text import render_lineage
from trainer_utils.format import ConfigError

__all__ = ["Lineage", "describe_artifact", "find_lineage"]


class Lineage(LineageFacts):
    """What `describe_artifact` found; as JSON by `to_json`, as text by `str`."""

    def __str__(self) -> str:
        return render_lineage(self)


def describe_artifact(
    uri: str, *, metadata: str | None = None, record: str | None = None
) -> Lineage:
    """Looks up how an artifact came to be, and what came of it.

    Of datasets of ours that no store has, their own files tell how they came to be.

    Args:
        uri: of the artifact.
        metadata: a sqlite file, `mysql://user:password@host:port/database` or `grpc://host:port`;
            a folder with such a file, or below which datasets are. None for a store in a folder
            above the uri, and for the dataset and those that it was made from where none has it.
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
    found = Lineage(**vars(look_up(uri, metadata=metadata)))
    if record is None:
        return found
    trace = trace_record(record, found.graph, found.location, datasets=_datasets(found))
    return dataclasses.replace(found, record=record, source=trace.source, steps=trace.steps)


def find_lineage(uri: str) -> str | None:
    """The lineage as text, where a store above the artifact or the dataset itself tells it."""
    with contextlib.suppress(ValueError, OSError):
        return str(describe_artifact(uri))
    return None


def _datasets(lineage: Lineage) -> list[int]:
    """The datasets that an artifact was made from, the first one first, and itself if it is one."""
    found = lineage.artifact.id
    return [
        place
        for place in [*lineage.graph.ancestors(found), found]
        if lineage.graph.artifacts[place].type == DATASET_TYPE or place in lineage.summaries
    ]
