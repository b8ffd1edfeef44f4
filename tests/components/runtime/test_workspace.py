"""Only one run at a time writes into an output folder, and never over unknown files."""

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

from components.runtime.dataset_folder import FolderState, Workspace
from components.runtime.publish import publish_dataset
from components.runtime.workspace import prepare_workspace, run_in
from pipelines.tools.verification import verify_dataset
from tests.make import everything as contents
from trainer_utils import iterate, storage
from trainer_utils.core.errors import ConfigError, DatasetError
from trainer_utils.format import (
    Accounting,
    Feature,
    Manifest,
    Shard,
    ShardName,
    ShardWriter,
    encode_example,
)
from trainer_utils.storage import exists
from trainer_utils.writing.shards import write_shard
from trainer_utils.writing.working_folder import working_folder

SECONDS = 60  # another process that takes longer hangs
REPOSITORY = Path(__file__).parents[3]
OTHER = """
import sys
from components.runtime.workspace import run_in, prepare_workspace
with run_in(sys.argv[1]):
    prepare_workspace(sys.argv[1])
    print("begun", flush=True)
    sys.stdin.read()
    raise SystemExit("it failed")
"""


def write(uri: str, labels: list[int], shards: int = 1) -> list[Shard]:
    def fill(writer: ShardWriter) -> None:
        for label in labels:
            writer.write(encode_example({"label": label}))

    names = (ShardName(split="train", shard_index=n, num_shards=shards) for n in range(shards))
    return [write_shard(name, fill, uri=uri) for name in names]


def publish(uri: str, shards: list[Shard]) -> None:
    records = sum(shard.records for shard in shards)
    manifest = Manifest(
        shards=tuple(shards),
        accounting={"train": Accounting(found=records, written=records)},
        producer="test",
        config={},
        input_fingerprint="",
    )
    vocabularies = {"label": [*"abcdefghij"]}
    publish_dataset(uri, manifest, {"label": Feature(type="int")}, vocabularies=vocabularies)


def run(uri: str, labels: list[int], shards: int = 1) -> None:
    with run_in(uri):
        prepare_workspace(uri)
        publish(uri, write(uri, labels, shards))


def labels_of(uri: str) -> list[int]:
    assert verify_dataset(uri).problems == []
    assert not exists(working_folder(uri))
    batches = iterate(uri, "train", batch_size=8, features=["label"], shuffle=False)
    return [int(label) for batch in batches for label in batch["label"]]


@contextlib.contextmanager
def another_run(uri: str) -> Iterator[subprocess.Popen[str]]:
    """Start a process that writes there, and fails once its input is closed."""
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
    """Return an output folder without locks."""

    def refuse(descriptor: int, operation: int) -> None:
        raise OSError(errno.ENOTSUP, os.strerror(errno.ENOTSUP))

    without = types.SimpleNamespace(**{**vars(fcntl), "flock": refuse})
    monkeypatch.setattr("components.runtime.dataset_folder.fcntl", without)
    return f"memory://{uuid.uuid4().hex}/out" if request.param == "store" else str(tmp_path / "out")


def test_second_run_is_refused_and_the_first_loses_nothing(tmp_path):
    uri = str(tmp_path / "out")
    with another_run(uri) as first:
        before = sorted(tmp_path.rglob("*"))
        who = rf"{re.escape(uri)}.*another run, process {first.pid} on "
        with pytest.raises(DatasetError, match=who) as refused:
            run(uri, [1])
        assert refused.value.path == uri
        with pytest.raises(ZeroDivisionError), run_in(uri):
            raise ZeroDivisionError  # such as while planning, before it writes
        assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize("end", [signal.SIGKILL, None])
def test_run_starts_after_another_was_killed_or_failed(tmp_path, end):
    uri = str(tmp_path / "out")
    with another_run(uri) as first:
        if end is None:
            first.communicate(timeout=SECONDS)
        else:
            first.send_signal(end)
        assert first.wait(SECONDS) == (1 if end is None else -end)
        run(uri, [1, 2])
    assert labels_of(uri) == [1, 2]


def test_without_locks_the_earlier_of_two_runs_fails(unlocked):
    refused = pytest.raises(DatasetError, match=rf"{re.escape(unlocked)}.*another run")
    with refused, run_in(unlocked):
        prepare_workspace(unlocked)
        earlier = contextvars.copy_context()
        with run_in(unlocked):
            prepare_workspace(unlocked)
            later = write(unlocked, [4, 5])
            with pytest.raises(DatasetError, match=f"another run, process {os.getpid()} on "):
                earlier.run(publish, unlocked, later)
            publish(unlocked, later)
        publish(unlocked, later)  # the earlier run, after the later one is done
    assert labels_of(unlocked) == [4, 5]


def test_without_locks_a_failed_run_keeps_the_later_ones_files(unlocked):
    later, ends = contextvars.Context(), contextlib.ExitStack()
    fails = pytest.raises(ZeroDivisionError)
    with fails, run_in(unlocked):
        prepare_workspace(unlocked)
        later.run(ends.enter_context, run_in(unlocked))
        later.run(prepare_workspace, unlocked)
        shard = later.run(write, unlocked, [9])
        raise ZeroDivisionError
    later.run(publish, unlocked, shard)
    later.run(ends.close)
    assert labels_of(unlocked) == [9]


def test_results_of_a_finished_run_with_the_same_key_are_reused(tmp_path):
    first, second = str(tmp_path / "1"), str(tmp_path / "2")
    with run_in(first):
        prepare_workspace(first, key="k")
        (tmp_path / "1/.tfx-shards-tmp/results").mkdir()
        with run_in(second):
            prepare_workspace(second, key="k")
            assert not (tmp_path / "2/.tfx-shards-tmp/results").exists()
    (tmp_path / "1/.tfx-shards-tmp/results/a").write_text("")
    with run_in(str(tmp_path / "3")):
        prepare_workspace(str(tmp_path / "3"), key="other")
        assert (tmp_path / "1/.tfx-shards-tmp/results/a").exists()
    with run_in(str(tmp_path / "4")):
        prepare_workspace(str(tmp_path / "4"), key="k")
        assert (tmp_path / "4/.tfx-shards-tmp/results/a").exists()


def test_failed_fsync_leaves_no_manifest(tmp_path, monkeypatch):
    def fail(descriptor):
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match="Input/output"):
        run(str(tmp_path / "out"), [1])
    assert not (tmp_path / "out/manifest.json").exists()


OTHERS = [
    "Split-train/notes.txt",
    "Split-train/data_tfrecord-00000-of-00001.bak",
    "Split-mine/x",
    "Split-train/deep/er/x",
    "index/my.npy",
    "vocab/label.md",
]


@pytest.mark.parametrize(
    ("state", "key", "keeps_dataset", "left"),
    [
        (FolderState.NEW, "k", False, set()),
        (FolderState.UNFINISHED, "k", False, {"work"}),
        (FolderState.UNFINISHED, "other", True, set()),
        (FolderState.UNFINISHED, "", False, set()),
        (FolderState.COMPLETE, "k", False, set()),
        (FolderState.COMPLETE, "k", True, {"dataset"}),
        (FolderState.REPLACED, "k", False, {"dataset", "work"}),
        (FolderState.REPLACED, "other", True, {"dataset"}),
        (FolderState.REPLACED, "other", False, set()),
    ],
)
def test_next_run_keeps_the_files_of_the_table(tmp_path, state, key, keeps_dataset, left):
    uri = str(tmp_path / "out")
    if state in (FolderState.COMPLETE, FolderState.REPLACED):
        run(uri, [1])
    if state in (FolderState.UNFINISHED, FolderState.REPLACED):
        prepare_workspace(uri, key="k", keeps_dataset=True)
        result = Path(working_folder(uri), "results/a")
        result.parent.mkdir()
        result.write_text("")
    workspace = Workspace(uri)
    assert workspace.state() is state
    prepare_workspace(uri, key=key, keeps_dataset=keeps_dataset)
    assert left == {
        name
        for name, is_there in (
            ("dataset", workspace.has_dataset()),
            ("work", workspace.count_finished() > 0),
        )
        if is_there
    }


@pytest.mark.parametrize("state", ["nothing", "a whole dataset", "a killed run"])
def test_unknown_files_are_named_and_not_touched(tmp_path, state):
    for number, other in enumerate(OTHERS):
        check_it_is_left(tmp_path / f"{number}", other, state)


def check_it_is_left(uri: Path, other: str, state: str) -> None:
    if state != "nothing":
        run(str(uri), [1], shards=2)
    if state == "a killed run":
        (uri / "manifest.json").unlink()
        (uri / ".tfx-shards-tmp").mkdir()
    (uri / other).parent.mkdir(parents=True, exist_ok=True)
    (uri / other).write_text("mine")
    before = contents(uri)
    with pytest.raises(ConfigError) as raised:
        prepare_workspace(str(uri))
    assert "/".join(other.split("/")[:2]) in str(raised.value)
    assert contents(uri) == before


@pytest.mark.parametrize("before", ["nothing", "a dataset"])
def test_next_run_recognises_files_of_a_killed_run(tmp_path, monkeypatch, before):
    uri, left = tmp_path / "out", -1
    run(str(tmp_path / "whole"), [1, 2], shards=2)
    if before == "a dataset":
        run(str(uri), [3], shards=5)

    def mortal(work):
        def run(*arguments, **settings):
            nonlocal left
            if not left:
                raise KeyboardInterrupt
            left -= 1
            return work(*arguments, **settings)

        return run

    monkeypatch.setattr(storage, "rename", mortal(storage.rename))
    for name in ("remove_file", "remove_tree", "make_folder"):
        monkeypatch.setattr(storage, name, mortal(getattr(storage, name)))
    kills = 0
    while True:
        left = kills
        try:
            prepare_workspace(str(uri))
            publish(str(uri), write(str(uri), [1, 2], shards=2))
        except KeyboardInterrupt:
            kills += 1
            continue
        break
    left = -1
    assert kills > 15
    assert contents(uri) == contents(tmp_path / "whole")
    assert not os.path.exists(working_folder(str(uri)))
