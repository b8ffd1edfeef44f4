"""What is published is on the disk first, and what others keep in an output folder stays."""

import os
from pathlib import Path

import pytest

from components.common.publish import publish_dataset
from components.common.workspace import start_working
from trainer_utils import storage
from trainer_utils.format import (
    Accounting,
    ConfigError,
    Feature,
    Manifest,
    ShardName,
    encode_example,
)
from trainer_utils.writing.publishing import working_folder
from trainer_utils.writing.shards import write_shard


def write_dataset(uri: Path, *, shards: int = 3) -> None:
    """As a component writes one: two splits, labels, a vocabulary, indices."""
    start_working(str(uri))
    written = []
    for split, number in {"train": shards, "eval": 1}.items():
        for index in range(number):
            name = ShardName(split=split, shard_index=index, num_shards=number)
            record = encode_example({"label": index % 2})
            written.append(write_shard(name, lambda w, r=record: w.write(r), uri=str(uri)))
    manifest = Manifest(
        shards=tuple(written),
        accounting={
            "train": Accounting(found=shards, written=shards),
            "eval": Accounting(found=1, written=1),
        },
        producer="test",
        config={},
        input_fingerprint="",
    )
    publish_dataset(
        str(uri),
        manifest,
        {"label": Feature(type="int")},
        vocabularies={"label": ["cat", "dog"]},
    )


def contents(folder: Path) -> dict[str, bytes | None]:
    return {
        str(path.relative_to(folder)): path.read_bytes() if path.is_file() else None
        for path in folder.rglob("*")
    }


@pytest.fixture
def calls(monkeypatch) -> list[tuple[str, str]]:
    """Each fsync and rename of this process, in order, with what it is of."""
    found: list[tuple[str, str]] = []
    fsync, replace = os.fsync, os.replace

    def record_fsync(descriptor):
        fsync(descriptor)
        found.append(("fsync", os.path.realpath(f"/proc/self/fd/{descriptor}")))

    def record_replace(source, target):
        found.append(("replace", os.path.realpath(target)))
        replace(source, target)

    monkeypatch.setattr(os, "fsync", record_fsync)
    monkeypatch.setattr(os, "replace", record_replace)
    return found


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="descriptors have no names here")
def test_all_is_on_the_disk_before_the_manifest_has_its_name(tmp_path, calls):
    uri = (tmp_path / "out").resolve()
    write_dataset(uri)
    manifest = str(uri / "manifest.json")
    at = calls.index(("replace", manifest))
    synced = {path for call, path in calls[:at] if call == "fsync"}
    published = {path for path in uri.rglob("*") if path.name != "manifest.json"}
    assert {str(path) for path in published} <= synced, "every file, and every folder of files"
    assert {str(uri), str(tmp_path.resolve())} <= synced
    for path in published:  # and with its name
        named = [n for n, call in enumerate(calls) if call == ("replace", str(path))]
        if named:
            assert ("fsync", str(path)) in calls[named[-1] : at]
    assert calls[at - 1][0] == "fsync"
    assert "/.tfx-shards-tmp/" in calls[at - 1][1], "the manifest itself, under its other name"
    assert ("fsync", str(uri)) in calls[at:], "and its name, before the run has ended"


def test_a_disk_that_fails_to_keep_a_file_leaves_no_manifest(tmp_path, monkeypatch):
    def fail(descriptor):
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match="Input/output"):
        write_dataset(tmp_path / "out")
    assert not (tmp_path / "out/manifest.json").exists()


OTHERS = [
    "Split-train/notes.txt",
    "Split-train/data_tfrecord-00000-of-00001.bak",
    "Split-mine/x",
    "Split-train/deep/er/x",
    "index/my.npy",
    "vocab/label.md",
]


@pytest.mark.parametrize("state", ["nothing", "a whole dataset", "a killed run"])
def test_files_of_others_are_named_and_nothing_is_touched(tmp_path, state):
    for number, other in enumerate(OTHERS):
        check_it_is_left(tmp_path / f"{number}", other, state)


def check_it_is_left(uri: Path, other: str, state: str) -> None:
    if state != "nothing":
        write_dataset(uri)
    if state == "a killed run":
        (uri / "manifest.json").unlink()
        (uri / ".tfx-shards-tmp").mkdir()
    (uri / other).parent.mkdir(parents=True, exist_ok=True)
    (uri / other).write_text("mine")
    before = contents(uri)
    with pytest.raises(ConfigError) as raised:
        start_working(str(uri))
    assert "/".join(other.split("/")[:2]) in str(raised.value)
    assert contents(uri) == before


@pytest.mark.parametrize("before", ["nothing", "a dataset"])
def test_a_run_that_is_killed_anywhere_leaves_what_the_next_knows_for_its_own(
    tmp_path, monkeypatch, before
):
    uri, left = tmp_path / "out", -1
    write_dataset(tmp_path / "whole")
    if before == "a dataset":
        write_dataset(uri, shards=5)

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
            write_dataset(uri)
        except KeyboardInterrupt:
            kills += 1
            continue
        break
    left = -1
    assert kills > 15
    assert contents(uri) == contents(tmp_path / "whole")
    assert not os.path.exists(working_folder(str(uri)))
