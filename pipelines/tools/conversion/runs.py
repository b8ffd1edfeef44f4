"""What the runs of a local pipeline made, from its ML Metadata.

uris, cached = latest_artifacts("runs/metadata.sqlite")
uris["ShardBalancer"]
"""

from typing import Any

from ml_metadata import metadata_store
from tfx.orchestration.metadata import sqlite_metadata_connection_config

__all__ = ["artifacts_of_run", "latest_artifacts"]

_RUN = "pipeline_run"  # TFX's type of the context of a run
_OUTPUT_OF_MANY = {"Trainer": "model_run", "SchemaExport": "datum_schema"}


def latest_artifacts(metadata: str) -> tuple[dict[str, str], list[str]]:
    """The uri that each component of the last run gave, and the components that were cached.

    Args:
        metadata: the path of the sqlite file.
    """
    store = metadata_store.MetadataStore(sqlite_metadata_connection_config(metadata))
    runs = store.get_contexts_by_type(_RUN)
    return _artifacts(store, max(runs, key=lambda run: run.id).id)


def artifacts_of_run(metadata: str, run_id: str) -> tuple[dict[str, str], list[str]]:
    """The same of the run that TFX calls `run_id`."""
    store = metadata_store.MetadataStore(sqlite_metadata_connection_config(metadata))
    run = store.get_context_by_type_and_name(_RUN, run_id)
    assert run is not None, run_id
    return _artifacts(store, run.id)


def _artifacts(store: Any, run: int) -> tuple[dict[str, str], list[str]]:
    executions = store.get_executions_by_context(run)
    types = {kind.id: kind.name.split(".")[-1] for kind in store.get_execution_types()}
    uris: dict[str, str] = {}
    cached = []
    for execution in executions:
        name = types[execution.type_id]
        if execution.last_known_state == type(execution).CACHED:
            cached.append(name)
        events = store.get_events_by_execution_ids([execution.id])
        ids = [event.artifact_id for event in events if event.type == event.OUTPUT]
        for artifact in store.get_artifacts_by_id(ids):
            if _OUTPUT_OF_MANY.get(name, "") in artifact.uri:
                uris[name] = artifact.uri
    return uris, cached
