"""What the runs of a local pipeline made, from its ML Metadata.

uris, cached = latest_artifacts("runs/metadata.sqlite")
uris["ShardBalancer"]
"""

from ml_metadata import metadata_store
from tfx.orchestration.metadata import sqlite_metadata_connection_config

__all__ = ["latest_artifacts"]


def latest_artifacts(metadata: str) -> tuple[dict[str, str], list[str]]:
    """The uri that each component of the last run gave, and the components that were cached.

    Args:
        metadata: the path of the sqlite file.
    """
    store = metadata_store.MetadataStore(sqlite_metadata_connection_config(metadata))
    runs = store.get_contexts_by_type("pipeline_run")
    executions = store.get_executions_by_context(max(runs, key=lambda run: run.id).id)
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
            if name != "Trainer" or "model_run" in artifact.uri:
                uris[name] = artifact.uri
    return uris, cached
