"""Batches of several processes equal those from one, in order, in memory that is used again."""

import gc
import importlib
import os
import signal
import subprocess
import sys
import threading
import traceback

import numpy as np
import pytest

import trainer_utils
from tests.make import refusing, write_rows
from trainer_utils import DatasetError

ROWS, CLASSES = 150, {"num_classes": 5}


@pytest.fixture(scope="module")
def photos(tmp_path_factory) -> str:
    draw = np.random.default_rng(1)
    rows = (
        {
            "image": draw.integers(0, 256, (20 + number % 9, 24, 3), np.uint8),
            "label": number % 5,
            "words": [b"word"] * (number % 4),
        }
        for number in range(ROWS)
    )
    return write_rows(tmp_path_factory.mktemp("processes") / "d", rows, num_shards=3)


@pytest.mark.parametrize(
    "settings",
    [
        {"shuffle": True, "remainder": "pad", "augment": ["flip", "colour"]},
        {"shuffle": "global", "repeat": 2, "labels": CLASSES | {"one_hot": True}, "label": "label"},
        {"features": ["words", "label"], "shuffle": 50},
    ],
)
def test_batches_equal_those_from_one_process(photos, settings):
    settings = {"batch_size": 16, "image_size": (16, 16), "seed": 5, **settings}
    if isinstance(settings.get("features"), list):
        del settings["image_size"]

    def read(count):
        source = trainer_utils.iterate(photos, processes=count, **settings)
        parts = [batch if isinstance(batch, tuple) else (batch,) for batch in source]
        return [
            [array.tolist() for part in parts_of for array in
             (part.values() if isinstance(part, dict) else [part])] for parts_of in parts
        ]  # fmt: skip

    assert read(3) == read(0)


def test_live_arrays_keep_their_values_and_memory_is_reused(photos):
    settings = {"batch_size": 10, "image_size": (64, 64), "features": "image", "repeat": 4}
    own = list(trainer_utils.iterate(photos, **settings))
    source = trainer_utils.iterate(photos, processes=2, **settings)
    held = list(source)
    assert all(np.array_equal(a, b) for a, b in zip(own, held, strict=True))
    assert all(batch.flags.writeable and batch.ctypes.data % 64 == 0 for batch in held)
    del held
    gc.collect()
    before = mapped_files()
    for batch in trainer_utils.iterate(photos, processes=2, **settings):
        del batch
    assert mapped_files() <= before + 2 * 5  # of 60 batches


def mapped_files() -> int:
    with open("/proc/self/maps") as maps:
        return sum("tfx-shards-batch" in line for line in maps)


def test_errors_keep_their_type_and_a_record_is_replaced(photos, tmp_path, write_dataset):
    path = f"{photos}/Split-train/data_tfrecord-00001-of-00003"
    with open(path, "rb") as file:
        whole = file.read()
    try:
        with open(path, "r+b") as file:
            file.seek(2000)
            file.write(b"\xff")
        settings = {"batch_size": 16, "features": "label"}
        with pytest.raises(DatasetError, match="00001-of-00003") as found:
            list(trainer_utils.iterate(photos, processes=2, **settings))
        assert found.value.path == path
        source = trainer_utils.iterate(photos, processes=2, on_corrupt="skip", **settings)
        assert sum(map(len, source)) == ROWS
        assert [name.path for name in source.unreadable] == [path]
    finally:
        with open(path, "wb") as file:
            file.write(whole)


def test_a_killed_process_is_an_error_and_is_replaced(photos):
    source = trainer_utils.iterate(photos, batch_size=16, features="label", processes=1)
    expected = [values.tolist() for values in source]
    source.next_epoch = 0
    idle = source._processes._processes()
    one = idle.get()
    os.kill(one._process.pid, signal.SIGKILL)
    idle.put(one)
    with pytest.raises(RuntimeError, match="-9"):
        list(source)
    assert [values.tolist() for values in source] == expected


def test_a_system_error_keeps_its_type_and_the_process_lives(photos, tmp_path, monkeypatch):
    (tmp_path / "refusing.py").write_text(
        "class Lost(OSError): pass\ndef call(batch):\n    raise Lost(5, 'gone')\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    call = importlib.import_module("refusing").call
    settings = {"batch_size": 16, "features": "label", "processes": 1}
    source = trainer_utils.iterate(photos, post_batching_callback=call, **settings)
    with pytest.raises(OSError, match="gone"):
        list(source)
    process = source._processes._processes().get()
    assert process._process.poll() is None


@pytest.mark.parametrize(
    ("raised", "kept"),
    [
        ("ValueError('two\\nlines')", "ValueError('two\\nlines')"),
        ("Local('two\\nlines')", "RuntimeError('Local: two\\nlines')"),
    ],
)
def test_an_error_of_a_process_keeps_lines_and_traceback(
    photos, tmp_path, monkeypatch, raised, kept
):
    (tmp_path / "raising.py").write_text(
        f"def call(batch):\n    class Local(Exception): pass\n    raise {raised}  # here\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "raising", raising=False)
    call = importlib.import_module("raising").call
    settings = {"batch_size": 16, "features": "label", "processes": 1}
    with pytest.raises((ValueError, RuntimeError)) as caught:
        list(trainer_utils.iterate(photos, post_batching_callback=call, **settings))
    assert repr(caught.value) == kept
    printed = "".join(traceback.format_exception(caught.value)).splitlines()
    assert f"    raise {raised}  # here" in printed
    assert any(line.endswith('raising.py", line 3, in call') for line in printed)


class TimedOutError(BaseException):
    """An exception of a signal's handler, such as a notebook's interrupt or a time limit."""


@pytest.mark.parametrize("kind", [TimedOutError, TimeoutError, OSError])
def test_an_interrupted_request_is_no_answer_to_a_later_one(
    photos, tmp_path, monkeypatch, kind, subtests
):
    (tmp_path / "slow_call.py").write_text(
        "import time\ndef call(batch):\n    time.sleep(0.5)\n    return batch\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    call = importlib.import_module("slow_call").call
    settings = {"batch_size": 16, "features": "label", "shuffle": False, "prefetch": 0}
    source = trainer_utils.iterate(photos, processes=1, post_batching_callback=call, **settings)
    own = [batch.tolist() for batch in trainer_utils.iterate(photos, **settings)]

    def interrupt(*_):
        raise kind("time is up")

    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        found = [source.batch(0, 0)["label"].tolist()]
        for step in (1, 2):
            with subtests.test(step=step):
                signal.setitimer(signal.ITIMER_REAL, 0.1)
                with pytest.raises(kind, match="time is up"):
                    source.batch(0, step)
                found.append(source.batch(0, step)["label"].tolist())
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    found += [source.batch(0, step)["label"].tolist() for step in (3, 4)]
    assert found == own[:5]


def test_processes_end_with_their_input(photos):
    source = trainer_utils.iterate(photos, batch_size=16, features="label", processes=2)
    next(iter(source))
    idle = source._processes._processes()
    pids = [idle.get()._process for _ in range(1)]
    del source, idle
    gc.collect()
    assert all(process.wait(10) is not None for process in pids)


def test_unpicklable_functions_are_refused(photos, subtests):
    settings = {"batch_size": 16, "image_size": (8, 8), "features": "image", "processes": 2}
    for given in (
        {"augment": [lambda image, rng: image]},
        {"batch_size": None},
        {"processes": -1},
        {"processes": True},
    ):
        with subtests.test(given=given), refusing("processes"):
            list(trainer_utils.iterate(photos, **{**settings, **given}))
    with refusing("processes"):
        trainer_utils.input_fn(photos, **settings, pre_batching_callback=lambda example: example)


def test_a_dataset_below_a_folder_named_main_is_read(photos, tmp_path):
    place = tmp_path / "__main__"
    place.symlink_to(photos)
    settings = {"batch_size": 16, "features": "label", "shuffle": False}
    read = [batch.tolist() for batch in trainer_utils.iterate(place, processes=1, **settings)]
    assert read == [batch.tolist() for batch in trainer_utils.iterate(photos, **settings)]


def test_a_json_module_in_the_working_folder_is_ignored(photos, tmp_path, monkeypatch):
    (tmp_path / "json.py").write_text("raise SystemExit('imported')")
    monkeypatch.chdir(tmp_path)
    settings = {"batch_size": 16, "features": "label", "shuffle": False}
    read = [batch.tolist() for batch in trainer_utils.iterate(photos, processes=1, **settings)]
    assert read == [batch.tolist() for batch in trainer_utils.iterate(photos, **settings)]


MAIN = """
import sys, time
import trainer_utils

def change(batch):
    return batch

class Change:
    def __call__(self, batch):
        return batch

for call in (change, Change()):
    try:
        how = {"batch_size": 8, "processes": 2, "features": "label"}
        how["post_batching_callback"] = call
        next(iter(trainer_utils.iterate(sys.argv[1], "train", **how)))
        sys.exit("not refused")
    except trainer_utils.ConfigError as error:
        assert "processes" in str(error), error
source = trainer_utils.iterate(
    sys.argv[1], "train", batch_size=4, features="label", processes=2, repeat=True
)
for batch in source:
    print("begun", flush=True)
"""


def test_an_interrupt_prints_nothing_from_the_processes(photos, tmp_path):
    (tmp_path / "main.py").write_text(MAIN)
    with subprocess.Popen(
        [sys.executable, str(tmp_path / "main.py"), photos],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    ) as parent:
        assert parent.stdout is not None
        assert parent.stdout.readline() == "begun\n", parent.communicate()
        threading.Thread(target=parent.stdout.read, daemon=True).start()
        os.killpg(parent.pid, signal.SIGINT)
        assert parent.stderr is not None
        said = parent.stderr.read()
    assert said.count("Traceback") == 1, said
    assert said.endswith("KeyboardInterrupt\n")
