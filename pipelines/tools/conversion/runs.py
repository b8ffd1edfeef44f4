"""The TFX pipelines of `convert` and of `balance`, run on this machine, and what they leave.

run_pipeline(conversion, "/data/out", "tfx-shards-convert", "/data/out/metadata.sqlite")
uris, cached = run_here(pipeline, "out/metadata.sqlite")       # any pipeline, whoever else writes
uris["ShardBalancer"]
uris, cached = latest_artifacts("out/metadata.sqlite")         # of the last run, whoever ran it
"""

import contextlib
import errno
import fcntl
import os
import random
import time
from collections.abc import Mapping, Sequence
from typing import Any

from ml_metadata.metadata_store import MetadataStore

# `tfx.v1` would bring Vertex AI's client: three seconds.
from tfx.dsl.components.base.base_component import BaseComponent
from tfx.dsl.components.common.importer import Importer
from tfx.orchestration.local.local_dag_runner import LocalDagRunner
from tfx.orchestration.metadata import sqlite_metadata_connection_config
from tfx.orchestration.pipeline import Pipeline
from tfx.proto import example_gen_pb2
from tfx.types import standard_artifacts

import components
from pipelines.tools.conversion.settings import EXAMPLE_GENS, Conversion

_ATTEMPTS = 10
_REFUSALS = {  # what sqlite says of the disk, and the system's number of it
    "database or disk is full": errno.ENOSPC,
    "disk I/O error": errno.EIO,
    "readonly database": errno.EROFS,
}
_RUN = "pipeline_run"  # TFX's type of the context of a run
_OUTPUT_OF_MANY = {"Trainer": "model_run", "SchemaExport": "datum_schema"}


def run_pipeline(
    conversion: Conversion, root: str, name: str, metadata: str, *, use_cache: bool = True
) -> tuple[dict[str, str], bool]:
    """The uri that each component gave, by the component's name; and whether all were cached."""
    options = dict(conversion.example_gen)
    if conversion.splits is not None:
        options["output_config"] = example_gen_pb2.Output()
        for split, share in conversion.splits.items():
            options["output_config"].split_config.splits.add(name=split, hash_buckets=share)
    example_gen = getattr(components, EXAMPLE_GENS[conversion.kind])
    examples = example_gen(input_base=conversion.source, **options)
    balanced = components.ShardBalancer(
        examples=examples.outputs["examples"], **conversion.balancer
    )
    exported = components.SchemaExport(examples=balanced.outputs["balanced_examples"])
    nodes, beam = [examples, balanced, exported], conversion.beam_pipeline_args
    made, cached = run_here(_pipeline(nodes, root, name, metadata, use_cache, beam), metadata)
    return made, len(cached) == len(nodes)


def run_balancer(
    examples: str,
    settings: Mapping[str, Any],
    root: str,
    name: str,
    metadata: str,
    beam_pipeline_args: Sequence[str] = (),
) -> str:
    """The uri of the dataset that ShardBalancer made of the one at `examples`."""
    # Imported anew: what lies at a uri may have changed.
    given = Importer(
        source_uri=examples, artifact_type=standard_artifacts.Examples, reimport=True
    ).with_id("Imported")
    balanced = components.ShardBalancer(examples=given.outputs["result"], **settings)
    pipeline = _pipeline([given, balanced], root, name, metadata, False, beam_pipeline_args)
    return run_here(pipeline, metadata)[0]["ShardBalancer"]


def _pipeline(
    nodes: list[BaseComponent],
    root: str,
    name: str,
    metadata: str,
    use_cache: bool,
    beam_pipeline_args: Sequence[str],
) -> Pipeline:
    # Without Beam arguments our components run in process, and TFX does not pack itself up for
    # workers elsewhere, which took longer than converting 10,000 photos.
    return Pipeline(
        pipeline_name=name,
        pipeline_root=os.path.join(root, "artifacts"),
        components=nodes,
        enable_cache=use_cache,
        beam_pipeline_args=list(beam_pipeline_args),
        metadata_connection_config=sqlite_metadata_connection_config(metadata),
    )


class _Runner(LocalDagRunner):
    """TFX's runner, which keeps the name that it gives to the run."""

    run_id = ""

    def run_with_ir(self, pipeline: Any, run_options: Any = None) -> None:
        try:
            super().run_with_ir(pipeline, run_options)
        finally:
            self.run_id = pipeline.runtime_spec.pipeline_run_id.field_value.string_value


def run_here(pipeline: Pipeline, metadata: str) -> tuple[dict[str, str], list[str]]:
    """Runs component after component, its metadata kept in a sqlite file.

    Returns:
        The uri that each component gave, be it from the cache, and the components that were cached.
    """
    runner = _Runner()
    try:
        _make_store(metadata)
        try:
            runner.run(pipeline)
        except (KeyboardInterrupt, SystemExit):  # TFX says only of an Exception that it ended a run
            _cancel(metadata, runner.run_id)
            raise
        store = _store(metadata)
        run = store.get_context_by_type_and_name(_RUN, runner.run_id)
        assert run is not None, runner.run_id
        return _artifacts(store, run.id)
    except Exception as error:  # a RuntimeError, or one of ML Metadata's own
        if (number := _refusal_of(error)) is not None:
            raise OSError(number, os.strerror(number), metadata) from error
        raise


def _store(metadata: str) -> MetadataStore:
    return MetadataStore(sqlite_metadata_connection_config(metadata))


def _refusal_of(error: Exception) -> int | None:
    """The system's number of what ML Metadata says of a disk."""
    text = str(error)
    is_of_store = not isinstance(error, OSError) and "query" in text
    return next((n for words, n in _REFUSALS.items() if is_of_store and words in text), None)


def _make_store(metadata: str) -> None:
    """Lets one process at a time make the tables: ML Metadata fails where two are at it.

    All that comes after that it waits for and tries again by itself.
    """
    for attempt in range(_ATTEMPTS):
        folder = os.open(os.path.dirname(metadata), os.O_RDONLY)
        try:
            with contextlib.suppress(OSError):  # a file system without locks
                fcntl.flock(folder, fcntl.LOCK_EX)
            _store(metadata)
            return
        except RuntimeError as error:  # a process that knows nothing of our lock
            if attempt == _ATTEMPTS - 1 or _refusal_of(error) is not None:
                raise
        finally:
            os.close(folder)
        time.sleep(random.random())


def _cancel(metadata: str, run_id: str) -> None:
    """Says of what a run was at that it goes on no more."""
    store = _store(metadata)
    if (run := store.get_context_by_type_and_name(_RUN, run_id)) is not None:
        going_on = []
        for execution in store.get_executions_by_context(run.id):
            if execution.last_known_state in (type(execution).NEW, type(execution).RUNNING):
                execution.last_known_state = type(execution).CANCELED
                going_on.append(execution)
        if going_on:
            store.put_executions(going_on)


def latest_artifacts(metadata: str) -> tuple[dict[str, str], list[str]]:
    """What `run_here` returned for the last run that a sqlite file knows."""
    store = _store(metadata)
    runs = store.get_contexts_by_type(_RUN)
    return _artifacts(store, max(runs, key=lambda run: run.id).id)


def _artifacts(store: MetadataStore, run: int) -> tuple[dict[str, str], list[str]]:
    types = {kind.id: kind.name.split(".")[-1] for kind in store.get_execution_types()}
    uris: dict[str, str] = {}
    cached = []
    for execution in store.get_executions_by_context(run):
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
