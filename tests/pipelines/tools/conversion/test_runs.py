"""Runs on this machine: what the disk under ML Metadata's file refuses."""

import contextlib
import errno
import resource
from collections.abc import Iterator

import pytest

pytest.importorskip("tfx", reason="a pipeline is TFX's")
from tfx.dsl.component.experimental.decorators import component
from tfx.orchestration.metadata import sqlite_metadata_connection_config
from tfx.orchestration.pipeline import Pipeline

from pipelines.lineage import list_runs
from pipelines.tools.conversion.runs import run_here


@contextlib.contextmanager
def quota(file_bytes: int) -> Iterator[None]:
    """The most that a file of this process may get."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (file_bytes, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)


@pytest.mark.parametrize("file_bytes", [0, 1000, 20_000])
def test_a_disk_that_takes_no_more_is_an_error_that_names_the_store(tmp_path, file_bytes):
    store = tmp_path / "metadata.sqlite"
    with pytest.raises(OSError, match=r"metadata\.sqlite") as caught, quota(file_bytes):
        run_here(None, str(store))
    assert caught.value.errno in (errno.ENOSPC, errno.EIO)


@component
def pressed() -> None:
    raise KeyboardInterrupt


def test_a_run_that_ctrl_c_ended_is_not_said_to_go_on(tmp_path):
    metadata = str(tmp_path / "metadata.sqlite")
    config = sqlite_metadata_connection_config(metadata)
    pipeline = Pipeline(
        "stopped", str(tmp_path), components=[pressed()], metadata_connection_config=config
    )
    with pytest.raises(KeyboardInterrupt):
        run_here(pipeline, metadata)
    (run,) = list_runs(metadata).runs
    assert run.state == "CANCELED"
