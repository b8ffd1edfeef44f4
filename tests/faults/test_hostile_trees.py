"""Input folders that change while they are read give a complete accounting or a clear error."""

import json
import os
import random
import shutil
import threading
from pathlib import Path

import pytest

from pipelines.tools.verification import verify_dataset
from tests.faults.conftest import SETTINGS, TYPES, Undisturbed
from tests.faults.counts import some_or_many
from tests.faults.engine import Engine
from tests.faults.outputs import MANIFEST, check_not_half
from tests.faults.tfrecords import read_records
from tests.trainer_utils.storage import test_files

LONG = 25  # runs per component with changing inputs
LEFT_OUT = ("shorter", "in a folder that leads out")  # one needs SIZE, one moves other files too
LENIENT = {**SETTINGS, "max_reject_fraction": 1.0}
CHANGES = [
    *(change for into, (change, _) in test_files.CHANGES.items() if into not in LEFT_OUT),
    lambda path: os.truncate(path, 0),
]


def change_while_read(
    plain: Undisturbed, engine: Engine, folder: Path, chance: random.Random
) -> None:
    """Run a conversion while files are replaced by invalid ones."""
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
    if run.error:  # for example, no file was left to read
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
@some_or_many(1, LONG)
@pytest.mark.parametrize("kind", TYPES)
def test_files_changed_while_read_are_accounted_for(
    undisturbed, engine, tmp_path, chance, kind, count
):
    for number in range(count):
        folder = tmp_path / str(number)
        folder.mkdir()
        change_while_read(undisturbed[kind], engine, folder, chance)
