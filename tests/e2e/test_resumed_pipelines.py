"""A failed run of TFX's launcher, and the next run, which resumes it."""

import errno
import os
from pathlib import Path

import pytest
from tfx import v1 as tfx
from tfx.orchestration import metadata

from components import ImageExampleGen
from tests.make import everything, photo, refusing, write_files
from trainer_utils.storage import MachineError

pytestmark = pytest.mark.e2e


def run(base: Path, root: Path, metadata_path: Path) -> None:
    example_gen = ImageExampleGen(input_base=str(base), target_shard_bytes=4000)
    pipeline = tfx.dsl.Pipeline(
        pipeline_name="resumed",
        pipeline_root=str(root),
        components=[example_gen],
        metadata_connection_config=metadata.sqlite_metadata_connection_config(str(metadata_path)),
        beam_pipeline_args=["--direct_num_workers=1"],
    )
    tfx.orchestration.LocalDagRunner().run(pipeline)


def test_a_failed_pipeline_is_resumed_by_the_next_run(tmp_path, monkeypatch, our_messages):
    files = {f"{'ab'[n % 2]}/{n}.png": photo(n, "PNG", size=(20, 30)) for n in range(40)}
    base = write_files(tmp_path / "in", files)

    def fail(*args: object, **named: object) -> None:
        raise MachineError("the disk failed", errno=errno.EIO)

    with monkeypatch.context() as patched:
        patched.setattr("components.steps.publish_dataset", fail)
        with pytest.raises(MachineError):
            run(base, tmp_path / "root", tmp_path / "metadata.db")
    place = tmp_path / "root/ImageExampleGen/examples"
    (left,) = os.listdir(place)
    assert left.endswith(".unfinished")
    run(base, tmp_path / "root", tmp_path / "metadata.db")
    assert any("resuming: " in line for line in our_messages())
    run(base, tmp_path / "other", tmp_path / "other.db")
    (resumed,) = place.iterdir()
    (undisturbed,) = (tmp_path / "other/ImageExampleGen/examples").iterdir()
    assert everything(resumed) == everything(undisturbed)


def test_a_pipeline_below_its_inputs_is_refused_in_the_first_run(tmp_path):
    files = {f"{'ab'[n % 2]}/{n}.png": photo(n, "PNG", size=(20, 30)) for n in range(4)}
    base = write_files(tmp_path / "in", files)
    with refusing("pipeline_root"):
        run(base, base / "runs", tmp_path / "metadata.db")
