"""Runs a pipeline on this machine, and says what it made, whoever else writes the same metadata.

uris = run_here(pipeline, "out/metadata.sqlite")
uris["ShardBalancer"]
"""

import contextlib
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

from pipelines.tools.conversion.runs import artifacts_of_run

__all__ = ["run_here"]

_ATTEMPTS = 10


class _Runner(LocalDagRunner):
    """TFX's runner, which keeps the name that it gives to the run."""

    run_id = ""

    def run_with_ir(self, pipeline: Any, run_options: Any = None) -> None:
        super().run_with_ir(pipeline, run_options)
        self.run_id = pipeline.runtime_spec.pipeline_run_id.field_value.string_value


def run_here(pipeline: Pipeline, metadata: str) -> dict[str, str]:
    """Runs component after component.

    Args:
        pipeline: whose metadata is kept in `metadata`.
        metadata: the path of the sqlite file.

    Returns:
        The uri that each component gave, be it from the cache.
    """
    _make_store(metadata)
    runner = _Runner()
    runner.run(pipeline)
    return artifacts_of_run(metadata, runner.run_id)[0]


def _make_store(metadata: str) -> None:
    """Lets one process at a time make the tables: ML Metadata fails where two are at it.

    All that comes after that it waits for and tries again by itself.
    """
    for attempt in range(_ATTEMPTS):
        with _alone_in(os.path.dirname(metadata)):
            try:
                MetadataStore(sqlite_metadata_connection_config(metadata))
                return
            except RuntimeError:  # a process that knows nothing of our lock
                if attempt == _ATTEMPTS - 1:
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
