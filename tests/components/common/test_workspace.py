"""Two runs that write one dataset at the same time: one is whole, the other says so and goes."""

import contextlib
import contextvars
import errno
import fcntl
import os
import re
import signal
import subprocess
import sys
import types
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from components.common.publish import publish_dataset
from components.common.workspace import removed_on_failure, start_working
from pipelines.tools.verification import verify_dataset
from trainer_utils import iterate
from trainer_utils.format import (
    Accounting,
    DatasetError,
    Feature,
    Manifest,
    Shard,
    ShardName,
    ShardWriter,
    encode_example,
)
from trainer_utils.storage import exists
from trainer_utils.writing.publishing import working_folder
from trainer_utils.writing.shards import write_shard

SECONDS = 60  # after which the other process counts as hanging
REPOSITORY = Path(__file__).parents[3]
OTHER = """
import sys
from components.common.workspace import removed_on_failure, start_working
with removed_on_failure(sys.argv[1]):
    start_working(sys.argv[1])
    print("begun", flush=True)
    sys.stdin.read()
    raise SystemExit("it failed")
"""


def write(uri: str, labels: list[int]) -> Shard:
    name = ShardName(split="train", shard_index=0, num_shards=1)

    def fill(writer: ShardWriter) -> None:
        for label in labels:
            writer.write(encode_example({"label": label}))

    return write_shard(name, fill, uri=uri)


def publish(uri: str, shard: Shard) -> None:
    manifest = Manifest(
        shards=(shard,),
        accounting={"train": Accounting(found=shard.records, written=shard.records)},
        producer="test",
        config={},
        input_fingerprint="",
    )
    publish_dataset(uri, manifest, {"label": Feature(type="int")}, vocabularies={})


def run(uri: str, labels: list[int]) -> None:
    with removed_on_failure(uri):
        start_working(uri)
        publish(uri, write(uri, labels))


def labels_of(uri: str) -> list[int]:
    assert verify_dataset(uri).problems == []
    assert not exists(working_folder(uri))
    batches = iterate(uri, "train", batch_size=8, features=["label"], shuffle=False)
    return [int(label) for batch in batches for label in batch["label"]]


@contextlib.contextmanager
def another_run(uri: str) -> Iterator[subprocess.Popen[str]]:
    """A process that has begun to write there, and fails once its input is closed."""
    with subprocess.Popen(
        [sys.executable, "-c", OTHER, uri],
        cwd=REPOSITORY,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "begun\n"
            yield process
        finally:
            process.kill()


@pytest.fixture(params=["folder without locks", "store"])
def unlocked(request, tmp_path, monkeypatch) -> str:
    """Where there are no locks."""

    def refuse(descriptor: int, operation: int) -> None:
        raise OSError(errno.ENOTSUP, os.strerror(errno.ENOTSUP))

    without = types.SimpleNamespace(**{**vars(fcntl), "flock": refuse})
    monkeypatch.setattr("components.common.workspace.fcntl", without)
    return f"memory://{uuid.uuid4().hex}/out" if request.param == "store" else str(tmp_path / "out")


def test_a_second_run_is_refused_and_the_first_loses_nothing(tmp_path):
    uri = str(tmp_path / "out")
    with another_run(uri) as first:
        before = sorted(tmp_path.rglob("*"))
        who = rf"{re.escape(uri)}.*another run, process {first.pid} on "
        with pytest.raises(DatasetError, match=who) as refused:
            run(uri, [1])
        assert refused.value.path == uri
        with pytest.raises(ZeroDivisionError), removed_on_failure(uri):
            raise ZeroDivisionError  # such as of its plan, before it begins to write
        assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize("end", [signal.SIGKILL, None])
def test_a_run_begins_where_another_was_killed_or_failed(tmp_path, end):
    uri = str(tmp_path / "out")
    with another_run(uri) as first:
        if end is None:
            first.communicate(timeout=SECONDS)
        else:
            first.send_signal(end)
        assert first.wait(SECONDS) == (1 if end is None else -end)
        run(uri, [1, 2])
    assert labels_of(uri) == [1, 2]


def test_without_locks_the_later_run_is_whole_and_the_earlier_one_ends_with_an_error(unlocked):
    refused = pytest.raises(DatasetError, match=rf"{re.escape(unlocked)}.*another run")
    with refused, removed_on_failure(unlocked):
        start_working(unlocked)
        earlier = contextvars.copy_context()
        with removed_on_failure(unlocked):
            start_working(unlocked)
            later = write(unlocked, [4, 5])
            with pytest.raises(DatasetError, match=f"another run, process {os.getpid()} on "):
                earlier.run(publish, unlocked, later)
            publish(unlocked, later)
        publish(unlocked, later)  # of the earlier one, when the later one is done
    assert labels_of(unlocked) == [4, 5]


def test_without_locks_a_run_that_fails_leaves_what_the_later_one_writes(unlocked):
    later, ends = contextvars.Context(), contextlib.ExitStack()
    fails = pytest.raises(ZeroDivisionError)
    with fails, removed_on_failure(unlocked):
        start_working(unlocked)
        later.run(ends.enter_context, removed_on_failure(unlocked))
        later.run(start_working, unlocked)
        shard = later.run(write, unlocked, [9])
        raise ZeroDivisionError
    later.run(publish, unlocked, shard)
    later.run(ends.close)
    assert labels_of(unlocked) == [9]


def test_what_is_left_beside_is_taken_over_from_a_run_of_the_same_key_that_is_over(tmp_path):
    first, second = str(tmp_path / "1"), str(tmp_path / "2")
    with removed_on_failure(first):
        start_working(first, key="k")
        (tmp_path / "1/.tfx-shards-tmp/results").mkdir()
        with removed_on_failure(second):
            start_working(second, key="k")
            assert not (tmp_path / "2/.tfx-shards-tmp/results").exists()
    (tmp_path / "1/.tfx-shards-tmp/results/a").write_text("")
    with removed_on_failure(str(tmp_path / "3")):
        start_working(str(tmp_path / "3"), key="other")
        assert (tmp_path / "1/.tfx-shards-tmp/results/a").exists()
    with removed_on_failure(str(tmp_path / "4")):
        start_working(str(tmp_path / "4"), key="k")
        assert (tmp_path / "4/.tfx-shards-tmp/results/a").exists()
