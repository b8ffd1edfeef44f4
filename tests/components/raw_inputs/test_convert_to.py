"""Raw inputs are converted in the background, and a later epoch reads the shards.

The oracle is the dataset that a conversion in the foreground makes: the raw files are removed once
the shards should be read.
"""

import json
import logging
import multiprocessing
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import threading
import time
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pipelines
import trainer_utils
from tests.components.raw_inputs.raw_folders import LAYOUTS, classes, clips, list_with_values
from tests.components.raw_inputs.raw_runs import assert_equal, batches, convert
from tests.make import jpeg, refusing, write_files
from trainer_utils import iterate
from trainer_utils.dataset import open_dataset
from trainer_utils.dataset.raw_inputs import open_raw
from trainer_utils.reading import background_conversion, input_conversion
from trainer_utils.reading.background_conversion import ConversionRequest
from trainer_utils.reading.input_conversion import find_converted

SETTINGS: dict[str, Any] = {"batch_size": 4, "image_size": (16, 16), "shuffle": "global", "seed": 3}
FINISH_SECONDS = 120
END_SECONDS = 30


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    classes(tmp_path / "in")
    return tmp_path / "in"


def publish(dataset: str, out: Path) -> None:
    """Make a dataset the newest of a conversion's folder."""
    out.mkdir(exist_ok=True)
    (out / "latest").symlink_to(os.path.relpath(dataset, out))


def remove_files(folder: Path) -> None:
    """Make every read of a raw file fail."""
    shutil.rmtree(folder)
    folder.mkdir()


def test_later_epoch_reads_the_shards_of_the_process(photos, tmp_path, caplog):
    dataset = convert(photos, tmp_path / "whole")
    expected = batches(dataset, repeat=4, **SETTINGS)
    train = iterate(str(photos), "train", convert_to=tmp_path / "out", repeat=4, **SETTINGS)
    other = iterate(str(photos), "eval", convert_to=tmp_path / "out", **SETTINGS)
    conversion, token = train.conversion, train.state(5)
    assert conversion.background is other.conversion.background
    os.kill(conversion.background.process_id, signal.SIGSTOP)
    found = iter(train)
    with caplog.at_level(logging.WARNING):
        for _ in range(train.input_steps + 1):
            assert_equal(next(found), next(expected))
    assert conversion.status == "running"
    assert conversion.reads_from == str(photos)
    (line,) = [message for message in caplog.messages if "not finished" in message]
    assert line.startswith("epoch 1 is read from the raw files")
    os.kill(conversion.background.process_id, signal.SIGCONT)
    assert conversion.wait(FINISH_SECONDS)
    for _ in range(train.input_steps - 1):
        assert_equal(next(found), next(expected))
    next_epoch = next(found)
    remove_files(photos)
    for batch in [next_epoch, *found]:
        assert_equal(batch, next(expected))
    assert next(expected, None) is None
    assert conversion.status == "finished"
    assert conversion.reads_from == conversion.background.uri
    assert f"reads: {conversion.background.uri}" in repr(train)
    assert train.state(5) == token
    resumed = iterate(str(tmp_path / "out/latest"), "train", state=token, **SETTINGS)
    assert len(list(resumed)) == 2 * train.input_steps - 5


def test_finished_conversion_starts_no_process(photos, tmp_path):
    dataset = convert(photos, tmp_path / "whole")
    publish(dataset, tmp_path / "out")
    train = iterate(str(photos), "train", convert_to=tmp_path / "out", **SETTINGS)
    assert (train.conversion.status, train.conversion.reads_from) == ("finished", dataset)
    assert train.conversion.background is None
    remove_files(photos)
    for one, other in zip(train, batches(dataset, **SETTINGS), strict=True):
        assert_equal(one, other)


@pytest.mark.parametrize(
    ("name", "split"),
    [
        ("classes with shares", "train[20%:90%]+eval"),
        ("balanced by bytes", "train"),
        ("raw pixels", "train"),
        ("list file", "train"),
        ("webdataset", "train"),
        ("kinds of images", "train"),
    ],
)
def test_shards_have_the_records_of_every_layout(name, split, tmp_path):
    layout = LAYOUTS[name]
    place = layout.make(tmp_path / "in")
    dataset = convert(place, tmp_path / "whole", **layout.conversion)
    publish(dataset, tmp_path / "out")
    ranks = {"rank": 1, "world_size": 2, **SETTINGS, "image": {"channels": layout.channels}}
    raw = batches(
        str(place),
        split,
        conversion=layout.conversion,
        convert_to=str(tmp_path / "out"),
        **ranks,
    )
    remove_files(tmp_path / "in")
    for one, other in zip(raw, batches(dataset, split, **ranks), strict=True):
        assert_equal(one, other)


def test_raw_clips_are_read_next_to_a_dataset(tmp_path):
    clips(tmp_path / "in")
    dataset = convert(tmp_path / "in", tmp_path / "whole")
    publish(dataset, tmp_path / "out")
    settings = {"batch_size": 2, "shuffle": "global", "rank": 1, "world_size": 2, "weights": [1, 2]}
    places = [str(tmp_path / "in"), dataset]
    raw = batches(places, convert_to=str(tmp_path / "out"), **settings)
    remove_files(tmp_path / "in")
    for one, other in zip(raw, batches([dataset, dataset], **settings), strict=True):
        assert_equal(one, other)


@pytest.mark.parametrize("processes", [0, 2])
def test_ranks_change_over_at_epochs_of_their_own(processes, photos, tmp_path):
    dataset = convert(photos, tmp_path / "whole")
    settings = {**SETTINGS, "batch_size": 6, "world_size": 3, "repeat": 3, "processes": processes}
    settings |= {"augment": ["random_resized_crop"], "prefetch": 0}
    out = tmp_path / "out"
    early, late = (
        iterate(str(photos), "train", convert_to=out, rank=rank, **settings) for rank in (1, 2)
    )
    expected = [[*iterate(dataset, "train", rank=rank, **settings)] for rank in (1, 2)]
    steps, found = early.input_steps, [iter(early), iter(late)]
    read = [[next(found[0]) for _ in range(steps)], [next(found[1]) for _ in range(steps + 1)]]
    publish(dataset, out)
    read[0] += [next(found[0]) for _ in range(steps)]
    if not processes:  # which read ahead
        assert early.conversion.reads_from == dataset
        assert late.conversion.reads_from == str(photos)
    read[1] += [next(found[1]) for _ in range(steps)]
    remove_files(photos)
    for rank in range(2):
        read[rank] += found[rank]
        for one, other in zip(read[rank], expected[rank], strict=True):
            assert_equal(one, other)
    assert early.conversion.reads_from == late.conversion.reads_from == dataset


def test_tensorflow_reads_the_shards(photos, tmp_path):
    import tensorflow as tf

    dataset = convert(photos, tmp_path / "whole")
    publish(dataset, tmp_path / "out")
    context = tf.distribute.InputContext(2, 1, 2)
    settings = {**SETTINGS, "features": "image", "input_context": context, "repeat": 2}
    train = trainer_utils.input_fn(str(photos), "train", convert_to=tmp_path / "out", **settings)
    remove_files(photos)
    whole = trainer_utils.input_fn(dataset, "train", **settings)
    for one, other in zip(train, whole, strict=True):
        np.testing.assert_array_equal(one.numpy(), other.numpy())
    assert train.conversion.status == "finished"
    assert train.conversion.reads_from == dataset


def test_failed_conversion_leaves_the_raw_files(photos, tmp_path, caplog):
    write_files(photos, {"b/bad.jpg": jpeg(5)[:300]})
    settings = {**SETTINGS, "on_corrupt": "skip", "repeat": 3}
    how = {"splits": {"train": 1}, "max_reject_fraction": 0.0}
    with caplog.at_level(logging.WARNING):
        train = iterate(
            str(photos), "train", conversion=how, convert_to=tmp_path / "out", **settings
        )
        assert train.conversion.wait(FINISH_SECONDS)
        assert sum(len(batch["image"]) for batch in train) == 3 * 21
    assert train.conversion.status == "failed"
    assert "TRUNCATED" in train.conversion.reason
    (line,) = [message for message in caplog.messages if "converting" in message]
    assert "training continues from the raw files" in line
    assert "TRUNCATED" in line
    call = f"pipelines.convert({str(photos)!r}, {str(tmp_path / 'out')!r}, splits={{'train': 1}}, "
    assert line.endswith(f"To resume the conversion: {call}max_reject_fraction=0.0)")


@pytest.mark.parametrize("problem", ["rejects", "changes"])
def test_unusable_conversion_is_reported_once(problem, photos, tmp_path, caplog, monkeypatch):
    if problem == "rejects":
        write_files(photos, {"b/bad.jpg": jpeg(5)[:300]})
    how = {"splits": {"train": 1}, "max_reject_fraction": 0.5}
    ranks = {"rank": 1, "world_size": 2, "on_corrupt": "skip", "repeat": 4}
    train = iterate(
        str(photos),
        "train",
        conversion=how,
        convert_to=tmp_path / "out",
        **ranks,
        **SETTINGS,
    )
    if problem == "changes":
        write_files(photos, {"b/new.jpg": jpeg(99)})
    publish(convert(photos, tmp_path / "whole", **how), tmp_path / "out")
    ended = types.SimpleNamespace(is_running=False, error=None)
    monkeypatch.setattr(input_conversion, "conversion_here", lambda request: ended)
    with caplog.at_level(logging.WARNING):
        assert len([*train]) == 4 * train.input_steps
    (line,) = [message for message in caplog.messages if "not from their conversion" in message]
    expected = {
        "rejects": r"it rejected 1 inputs \(b/bad\.jpg: TRUNCATED\w*\), so records",
        "changes": r"it has other inputs than were listed when training started: b/new\.jpg$",
    }
    assert re.search(expected[problem], line)
    assert train.conversion.reason == line.partition(str(tmp_path / "out") + ": ")[2]
    assert train.conversion.reads_from == str(photos)


def test_stats_count_records_of_raw_files(photos, tmp_path):
    publish(convert(photos, tmp_path / "whole"), tmp_path / "out")
    settings = {**SETTINGS, "rank": 1, "world_size": 2}
    raw = iterate(str(photos), "train", **settings)
    rows = sum(len(batch["image"]) for batch in raw)
    assert (raw.stats().records, raw.stats().raw_records) == (rows, rows)
    assert f"({rows} of raw inputs)" in repr(raw.stats())
    train = iterate(str(photos), "train", convert_to=tmp_path / "out", **settings)
    assert sum(len(batch["image"]) for batch in train) == rows
    assert (train.stats().records, train.stats().raw_records) == (rows, 0)


@pytest.mark.e2e
def test_conversion_to_a_bucket_is_read(photos, tmp_path, s3_store, monkeypatch):
    for name, value in s3_store.environment.items():
        monkeypatch.setenv(name, value)
    dataset, out = convert(photos, tmp_path / "whole"), f"{s3_store.base}/convert_to/out"
    settings = {**SETTINGS, "rank": 1, "world_size": 2, "cache": str(tmp_path / "cache")}
    assert reason_of(photos, out) == "there is no dataset yet"
    pipelines.convert(photos, out)
    train = iterate(str(photos), "train", convert_to=out, **settings)
    remove_files(photos)
    for one, other in zip(train, batches(dataset, **settings), strict=True):
        assert_equal(one, other)
    assert train.conversion.reads_from.startswith(f"{out}/artifacts/ShardBalancer/")


def test_threads_of_raw_files_end_with_the_change_to_shards(photos, tmp_path):
    before = {*threading.enumerate()}
    ranks = {"rank": 1, "world_size": 2, "repeat": True, "prefetch": 0}
    train = iterate(str(photos), "train", convert_to=tmp_path / "out", **ranks, **SETTINGS)
    found = iter(train)
    next(found)
    started = {*threading.enumerate()} - before
    readers = [one for one in started if one.name.startswith("tfx-shards-files")]
    assert readers
    publish(convert(photos, tmp_path / "whole"), tmp_path / "out")
    for _ in range(train.input_steps):
        next(found)
    assert train.conversion.status == "finished"
    for one in readers:
        one.join(END_SECONDS)
    assert not any(one.is_alive() for one in readers)


def test_changed_inputs_are_converted_again(photos, tmp_path, monkeypatch):
    def start(module: str, **_: Any) -> Any:
        here, there = multiprocessing.Pipe()
        with there:
            there.send(("/a dataset", None))
        return subprocess.Popen(["true"], stderr=subprocess.PIPE), here

    def started(fingerprint: str) -> background_conversion.BackgroundConversion:
        request = ConversionRequest(str(photos), {}, str(tmp_path / "out"), fingerprint)
        conversion = background_conversion.start_conversion(request)
        assert conversion.wait(END_SECONDS)
        return conversion

    monkeypatch.setattr(background_conversion, "start_interpreter", start)
    first = started("these files")
    num_open = len(os.listdir("/proc/self/fd"))
    assert started("these files") is first
    assert started("other files") is not first
    assert len(os.listdir("/proc/self/fd")) == num_open


def test_command_that_resumes_can_be_pasted(tmp_path):
    request = ConversionRequest("/a photos", {}, "/out")
    assert shlex.split(request.command) == ["tfx-shards", "convert", "/a photos", "/out"]


def reason_of(place: Path, out: Any, **conversion: Any) -> str:
    found = find_converted(open_raw(str(place), conversion), str(out), {})
    assert isinstance(found, str)
    return found


def test_rejected_inputs_are_named(photos, tmp_path):
    write_files(photos, {"b/bad.jpg": jpeg(5)[:300]})
    how = {"max_reject_fraction": 0.5}
    publish(convert(photos, tmp_path / "whole", **how), tmp_path / "out")
    reason = reason_of(photos, tmp_path / "out", **how)
    assert reason.startswith("it rejected 1 inputs (b/bad.jpg: TRUNCATED")


def test_conversion_of_other_files_is_not_read(photos, tmp_path):
    raw = open_raw(str(photos), {})
    write_files(photos, {"b/new.jpg": jpeg(99)})
    publish(convert(photos, tmp_path / "whole"), tmp_path / "out")
    reason = find_converted(raw, str(tmp_path / "out"), {})
    assert reason == "it has other inputs than were listed when training started: b/new.jpg"


def test_conversion_with_other_settings_is_not_read(photos, tmp_path):
    publish(convert(photos, tmp_path / "whole", resize_shorter_side=12), tmp_path / "out")
    assert (
        reason_of(photos, tmp_path / "out") == "it has other settings or another order of records"
    )


def test_folder_without_a_dataset_is_a_reason(photos, tmp_path):
    assert reason_of(photos, tmp_path / "out") == "there is no dataset yet"


def test_dataset_is_not_converted_again(photos, tmp_path):
    with refusing("convert_to"):
        iterate(convert(photos, tmp_path / "whole"), "train", convert_to=tmp_path / "out")


def test_several_raw_inputs_are_refused(photos, tmp_path):
    list_with_values(tmp_path / "more")
    with refusing("convert_to"):
        trainer_utils.plan(
            [str(photos), str(tmp_path / "more")], "train", convert_to=tmp_path / "out"
        )


def test_folder_within_the_input_is_refused(photos):
    with refusing("convert_to"):
        iterate(str(photos), "train", convert_to=photos / "out", **SETTINGS)


TRAINER = """
import json, os, sys, trainer_utils
place, out, is_ended = json.loads(sys.argv[1])
train = trainer_utils.iterate(
    place, "train", batch_size=4, image_size=(16, 16), repeat=True, convert_to=out,
    conversion={"resize_shorter_side": 700, "num_shards": 12, "splits": {"train": 1}},
)
print(train.conversion.background.process_id, flush=True)
for batch in train:
    if is_ended:
        break
"""


def start_trainer(*arguments: Any) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-c", TRAINER, json.dumps([*map(str, arguments[:2]), arguments[2]])],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )


def wait_until_gone(process: int) -> None:
    end = time.monotonic() + END_SECONDS
    while time.monotonic() < end:
        status = Path(f"/proc/{process}/status")
        if not status.exists() or "State:\tZ" in status.read_text():
            return
        time.sleep(0.1)
    raise AssertionError(f"process {process} still runs")


def results_in(out: Path) -> Iterator[Path]:
    return out.glob("artifacts/ImageExampleGen/examples/*/*/results/*")


@pytest.mark.e2e
def test_convert_resumes_after_a_kill_of_the_trainer(tmp_path, caplog):
    # A shard takes half a second, so that the kill, which is noticed within a second, comes early.
    photo, out = jpeg(1, size=(1600, 1600)), tmp_path / "out"
    write_files(tmp_path / "in", {f"{'ab'[n % 2]}/{n}.jpg": photo for n in range(96)})
    trainer = start_trainer(tmp_path / "in", out, False)
    converter = int(trainer.stdout.readline())
    while not any(results_in(out)):
        assert trainer.poll() is None, trainer.stderr.read()
        time.sleep(0.02)
    assert os.getpriority(os.PRIO_PROCESS, converter) == 10
    assert Path(f"/proc/{converter}/oom_score_adj").read_text() == "500\n"
    trainer.kill()
    trainer.communicate()
    wait_until_gone(converter)
    assert 0 < len([*results_in(out)]) < 12
    how = {"resize_shorter_side": 700, "num_shards": 12, "splits": {"train": 1}}
    with caplog.at_level(logging.WARNING):
        made = pipelines.convert(tmp_path / "in", out, **how)
    assert any("resuming" in line and "of 12 shards" in line for line in caplog.messages)
    assert made.written == 96
    whole = convert(tmp_path / "in", tmp_path / "whole", **how)
    assert open_dataset(str(made)).digest == open_dataset(whole).digest


@pytest.mark.e2e
def test_conversion_ends_with_the_trainer(photos, tmp_path):
    trainer = start_trainer(photos, tmp_path / "out", True)
    converter = int(trainer.stdout.readline())
    _, errors = trainer.communicate(timeout=FINISH_SECONDS)
    assert trainer.returncode == 0, errors
    assert "ends unfinished with this process" in errors
    call = f"pipelines.convert({str(photos)!r}, {str(tmp_path / 'out')!r}, resize_shorter_side=700,"
    assert f"To resume it: {call}" in errors
    wait_until_gone(converter)
