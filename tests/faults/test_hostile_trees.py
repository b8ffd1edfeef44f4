"""Trees that change while they are read, places that take no more: an account or a clear error."""

import json
import os
import random
import shutil
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from pipelines.tools.verification import verify_dataset
from tests.faults.conftest import SETTINGS, STEPS, Undisturbed
from tests.faults.counts import long
from tests.faults.engine import Engine
from tests.faults.outputs import MANIFEST, check_not_half, check_whole, content_of
from tests.faults.tfrecords import read_records
from tests.trainer_utils.storage import test_files

LONG = 25  # runs of each component whose inputs are changed
EMPTY = 20_000
KINDS = ("images", "texts", "audio")
LENIENT = {**SETTINGS, "max_reject_fraction": 1.0}
CHANGES: list[Callable[[Path], None]] = [
    test_files.replace_by_a_pipe,
    test_files.replace_by_a_socket,
    test_files.replace_by_a_folder,
    test_files.link_to_a_device,
    test_files.link_out,
    test_files.link_to_itself,
    test_files.grow,
    test_files.remove,
    lambda path: os.truncate(path, 0),
]


def can_mount() -> bool:
    found = shutil.which("unshare")
    return found is not None and not subprocess.run([found, "-m", "true"], check=False).returncode


needs_mounts = pytest.mark.skipif(not can_mount(), reason="needs a mount namespace")


def change_while_read(
    plain: Undisturbed, engine: Engine, folder: Path, chance: random.Random
) -> None:
    """One run during which files become what they must not be."""
    base, uri = folder / "in", folder / "out"
    shutil.copytree(plain.source, base)
    (folder / "outside").mkdir()
    (folder / "outside/1.jpg").write_bytes(b"nobody may read this")
    files = sorted(path for path in base.rglob("*") if path.is_file())
    originals = {path.read_bytes() for path in files}
    moments = sorted(chance.uniform(0, plain.seconds[1]) for _ in range(len(files) // 2))
    done = threading.Event()

    def change() -> None:
        before = 0.0
        for moment, path in zip(moments, chance.sample(files, len(moments)), strict=True):
            done.wait(moment - before)
            before = moment
            chance.choice(CHANGES)(path)

    changing = threading.Thread(target=change)
    changing.start()
    run = engine.run(plain.step, base, uri, **LENIENT)
    done.set()
    changing.join()
    assert run.status == 0
    if run.error:  # such as that nothing was left to read
        assert "DatasetError" in run.kinds, run
        check_not_half(uri, {MANIFEST: b""})
        return
    assert verify_dataset(str(uri)).problems == []
    payloads = [p for shard in uri.glob("Split-*/*") for _, p in read_records(shard)]
    assert not any(b"nobody may read this" in payload for payload in payloads)
    for payload in payloads:
        assert any(data.strip() in payload for data in originals if data), payload[:200]
    accounts = json.loads((uri / MANIFEST).read_text())["splits"].values()
    for account in accounts:
        assert account["found"] == account["written"] + account["rejected"] + account["skipped"]
    assert sum(account["written"] for account in accounts) == len(payloads)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_files_that_change_while_they_are_read_are_accounted_for(
    undisturbed, engine, tmp_path, chance, kind
):
    change_while_read(undisturbed[kind], engine, tmp_path, chance)


@pytest.mark.faults
@pytest.mark.parametrize("kind", KINDS)
def test_many_times_files_change_while_they_are_read(undisturbed, engine, tmp_path, chance, kind):
    for number in range(long(LONG)):
        folder = tmp_path / str(number)
        folder.mkdir()
        change_while_read(undisturbed[kind], engine, folder, chance)


def check_refused(
    plain: Undisturbed, engine: Engine, uri: Path, said: str, **limits: object
) -> None:
    """A run that cannot write all says so and where; the next one is clean."""
    run = plain.run(engine, uri, **limits)
    assert said in run.error, run
    assert str(uri) in run.error, run
    if "mount" not in limits:  # what lay there is gone with the process
        check_not_half(uri, plain.content)
    assert plain.run(engine, uri).error == ""
    check_whole(uri, plain.content, plain.folders)


@pytest.mark.slow
@pytest.mark.parametrize("file_bytes", [0, 100, 2000])
def test_a_quota_on_files_is_an_error_that_names_the_file(
    undisturbed, engine, tmp_path, file_bytes
):
    for plain in (undisturbed[step] for step in STEPS):
        uri = tmp_path / plain.step / "out"
        uri.parent.mkdir()
        check_refused(plain, engine, uri, "File too large", file_bytes=file_bytes)


@needs_mounts
@pytest.mark.slow
@pytest.mark.parametrize(
    ("options", "said"),
    [
        ("size=24k", "No space left on device"),
        ("nr_inodes=9", "No space left on device"),
        ("ro", "Read-only file system"),
    ],
)
def test_a_place_that_takes_no_more_is_an_error_that_names_it(
    undisturbed, engine, tmp_path, options, said
):
    for plain in (undisturbed[step] for step in STEPS):
        place = tmp_path / plain.step
        place.mkdir()
        check_refused(plain, engine, place / "out", said, mount=(str(place), options))


@pytest.mark.slow
def test_twenty_thousand_empty_files_are_as_many_rejects(engine, raw, tmp_path):
    base, uri = tmp_path / "in", tmp_path / "out"
    shutil.copytree(raw["images"], base, ignore=shutil.ignore_patterns("cut.jpg"))
    good = len([path for path in base.rglob("*") if path.is_file()])
    for number in range(EMPTY):
        (base / "ab"[number % 2] / f"empty-{number}.jpg").touch()
    run = engine.run("images", base, uri, **LENIENT)
    assert run.error == ""
    assert verify_dataset(str(uri)).problems == []
    rejects = [json.loads(line) for line in (uri / "rejects.jsonl").read_text().splitlines()]
    assert len(rejects) == EMPTY
    assert {reject["code"] for reject in rejects} == {"EMPTY_FILE"}
    records = [p for shard in uri.glob("Split-*/*") for _, p in read_records(shard)]
    assert len(records) == good


@pytest.mark.slow
def test_a_place_whose_path_is_too_long_is_a_clear_error(engine, raw, tmp_path):
    """Files below it have names that no system call takes, whole or in part."""
    longest = os.pathconf("/", "PC_PATH_MAX")
    for left in (1, 20, 40):
        uri = str(tmp_path)
        while len(uri) < longest - left - 202:
            uri += "/" + "d" * 200
        uri += "/" + "e" * (longest - left - len(uri) - 1)
        assert len(uri) == longest - left
        run = engine.run("texts", raw["texts"], Path(uri), **SETTINGS)
        assert run.status == 0
        assert "File name too long" in run.error, (left, run)
        assert not content_of(tmp_path) or MANIFEST not in {
            Path(name).name for name in content_of(tmp_path)
        }
