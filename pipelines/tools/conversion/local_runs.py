"""Runs a pipeline on this machine, and says what it made, whoever else writes the same metadata.

uris, cached = run_here(pipeline, "out/metadata.sqlite")
uris["ShardBalancer"]
uris, cached = latest_artifacts("out/metadata.sqlite")     # of the last run, whoever ran it
"""

import contextlib
import errno
import fcntl
import os
import random
import time
from collections.abc import Iterator
from typing import Any

from ml_metadata.metadata_store import MetadataStore
from tfx.orchestration.local.local_dag_runner import LocalDagRunner
from tfx.orchestration.metadata import sqlite_metadata_connection_config
from tfx.orchestration.pipeline import Pipeline

__all__ = ["artifacts_of_run", "latest_artifacts", "run_here"]

_ATTEMPTS = 10
_REFUSALS = {  # what sqlite says of the disk, and the system's number of it
    "database or disk is full": errno.ENOSPC,
    "disk I/O error": errno.EIO,
    "readonly database": errno.EROFS,
}
_RUN = "pipeline_run"  # TFX's type of the context of a run
_OUTPUT_OF_MANY = {"Trainer": "model_run", "SchemaExport": "datum_schema"}


class _Runner(LocalDagRunner):
    """TFX's runner, which keeps the name that it gives to the run."""

    run_id = ""

    def run_with_ir(self, pipeline: Any, run_options: Any = None) -> None:
        try:
            super().run_with_ir(pipeline, run_options)
        finally:
            self.run_id = pipeline.runtime_spec.pipeline_run_id.field_value.string_value


def run_here(pipeline: Pipeline, metadata: str) -> tuple[dict[str, str], list[str]]:
    """Runs component after component.

    Args:
        pipeline: whose metadata is kept in `metadata`.
        metadata: the path of the sqlite file.

    Returns:
        The uri that each component gave, be it from the cache, and the components that were cached.

    Raises:
        OSError: the disk does not take what is to be kept in `metadata`, which it names.
    """
    with _naming_store(metadata):
        _make_store(metadata)
        runner = _Runner()
        try:
            runner.run(pipeline)
        except (KeyboardInterrupt, SystemExit):  # TFX says only of an Exception that it ended a run
            _cancel(metadata, runner.run_id)
            raise
        return artifacts_of_run(metadata, runner.run_id)


@contextlib.contextmanager
def _naming_store(metadata: str) -> Iterator[None]:
    """Makes the system's error, with the file's name, of what ML Metadata says of a disk."""
    try:
        yield
    except Exception as error:  # a RuntimeError, or one of ML Metadata's own
        number = _refusal_of(error)
        if number is None:
            raise
        raise OSError(number, os.strerror(number), metadata) from error


def _refusal_of(error: Exception) -> int | None:
    text = str(error)
    is_of_store = not isinstance(error, OSError) and "query" in text
    return next((n for words, n in _REFUSALS.items() if is_of_store and words in text), None)


def _make_store(metadata: str) -> None:
    """Lets one process at a time make the tables: ML Metadata fails where two are at it.

    All that comes after that it waits for and tries again by itself.
    """
    for attempt in range(_ATTEMPTS):
        with _alone_in(os.path.dirname(metadata)):
            try:
                MetadataStore(sqlite_metadata_connection_config(metadata))
                return
            except RuntimeError as error:  # a process that knows nothing of our lock
                if attempt == _ATTEMPTS - 1 or _refusal_of(error) is not None:
                    raise
        time.sleep(random.random())


@contextlib.contextmanager
def _alone_in(folder: str) -> Iterator[None]:
    """Holds other processes off, where the file system knows locks; it leaves no file behind."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        with contextlib.suppress(OSError):
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _cancel(metadata: str, run_id: str) -> None:
    """Says of what a run was at that it goes on no more."""
    store = MetadataStore(sqlite_metadata_connection_config(metadata))
    if (run := store.get_context_by_type_and_name(_RUN, run_id)) is None:
        return
    executions = store.get_executions_by_context(run.id)
    going_on = [e for e in executions if e.last_known_state in (type(e).NEW, type(e).RUNNING)]
    for execution in going_on:
        execution.last_known_state = type(execution).CANCELED
    if going_on:
        store.put_executions(going_on)


def latest_artifacts(metadata: str) -> tuple[dict[str, str], list[str]]:
    """The uri that each component of the last run gave, and the components that were cached.

    Args:
        metadata: the path of the sqlite file.
    """
    store = MetadataStore(sqlite_metadata_connection_config(metadata))
    runs = store.get_contexts_by_type(_RUN)
    return _artifacts(store, max(runs, key=lambda run: run.id).id)


def artifacts_of_run(metadata: str, run_id: str) -> tuple[dict[str, str], list[str]]:
    """The same of the run that TFX calls `run_id`."""
    store = MetadataStore(sqlite_metadata_connection_config(metadata))
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
        made = [event for event in events if event.type == event.OUTPUT]
        if wanted := _OUTPUT_OF_MANY.get(name):
            made = [event for event in made if event.path.steps[0].key == wanted]
        for artifact in store.get_artifacts_by_id([event.artifact_id for event in made]):
            uris[name] = artifact.uri
    return uris, cached
