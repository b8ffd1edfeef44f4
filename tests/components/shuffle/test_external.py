"""Records through runs: each at its output position, whatever is held at a time."""

import random

import numpy as np
import pytest

from components.common.workspace import start_working
from components.shuffle.external import ExternalShuffle, frames_of, run_of
from components.shuffle.layout import SplitLayout, plan_tasks
from tests.trainer_utils.format.tfrecord_files import frame_records
from trainer_utils.format import CorruptShardError, DatasetError, read_blocks
from trainer_utils.writing.publishing import working_folder


def make_shuffle(uri, records, *, memory_bytes):
    start_working(str(uri))
    bounds = (0, len(records) // 3, len(records))
    layout = SplitLayout(split="train", bounds=bounds, seed=7)
    lengths = np.array([*map(len, records)], np.int64)
    tasks = plan_tasks(layout, [lengths + 16], memory_bytes=memory_bytes)
    return ExternalShuffle(uri=str(uri), layout=layout, tasks=tasks)


def run(shuffle, folder, records, first, stop):
    path = folder / "part"
    path.write_bytes(frame_records(records[first:stop]))
    with path.open("rb") as stream:
        blocks = [*read_blocks(stream, path="", block_bytes=4000)]
    return run_of([*map(frames_of, blocks)], [shuffle.layout.positions(first, stop)])


@pytest.fixture
def records():
    source = random.Random(1)
    return [source.randbytes(int(10 ** source.uniform(0, 4))) for _ in range(500)]


def test_a_run_that_was_damaged_or_is_not_there_is_an_error(tmp_path, records):
    shuffle = make_shuffle(tmp_path / "out", records, memory_bytes=1 << 30)
    shuffle.scatter("0", run(shuffle, tmp_path, records, 0, 499))
    with pytest.raises(DatasetError, match="got 499 records"):
        shuffle.gather(0)
    shuffle.scatter("1", run(shuffle, tmp_path, records, 499, 500))
    (path,) = tmp_path.glob("out/.*/runs/train/0")
    assert str(path).startswith(working_folder(str(tmp_path / "out")))
    data = bytearray(path.read_bytes())
    data[data.index(max(records[:499], key=len)) + 50] ^= 1
    path.write_bytes(data)
    with pytest.raises(CorruptShardError):
        shuffle.gather(0)
