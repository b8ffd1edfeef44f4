"""Records through runs: each once at its output position, and never more held than allowed."""

import itertools
import random

import numpy as np
import pytest

from components.common.workspace import start_working
from components.shuffle.external import ExternalShuffle, SplitLayout, frames_of, plan_tasks, run_of
from tests.make import frame_records
from trainer_utils.format import CorruptShardError, DatasetError, read_blocks
from trainer_utils.writing.publishing import working_folder


def test_tasks_cover_all_positions_and_keep_to_the_limit():
    source = random.Random(0)
    for _ in range(300):
        records = source.randint(1, 200)
        inner = sorted(source.sample(range(1, records), source.randint(0, min(9, records - 1))))
        layout = SplitLayout(split="train", bounds=(0, *inner, records), seed=None)
        sizes = np.array([int(10 ** source.uniform(0, 3)) for _ in range(records)])
        memory = source.choice([10, 500, 5000, 10**6])
        tasks = plan_tasks(layout, [sizes[:7], sizes[7:]], memory_bytes=memory)
        shards = [s for t in tasks for s in range(t.first_shard, t.stop_shard)]
        assert shards == list(range(layout.num_shards))
        places = []
        for task in tasks:
            assert task.cuts[0] == layout.bounds[task.first_shard]
            assert task.cuts[-1] == layout.bounds[task.stop_shard]
            for start, stop in itertools.pairwise(task.cuts):
                places += range(start, stop)
                assert sizes[start:stop].sum() <= memory or stop - start == 1
        assert places == list(range(records))


def test_a_run_that_was_damaged_or_is_not_there_is_an_error(tmp_path):
    source, uri = random.Random(1), tmp_path / "out"
    records = [source.randbytes(int(10 ** source.uniform(0, 4))) for _ in range(500)]
    start_working(str(uri))
    layout = SplitLayout(split="train", bounds=(0, 166, 500), seed=7)
    lengths = np.array([*map(len, records)], np.int64)
    tasks = plan_tasks(layout, [lengths + 16], memory_bytes=1 << 30)
    shuffle = ExternalShuffle(uri=str(uri), layout=layout, tasks=tasks)

    def scatter(run: str, first: int, stop: int) -> None:
        path = tmp_path / "part"
        path.write_bytes(frame_records(records[first:stop]))
        with path.open("rb") as stream:
            frames = [*map(frames_of, read_blocks(stream, path="", block_bytes=4000))]
        shuffle.scatter(run, run_of(frames, [layout.positions(first, stop)]))

    scatter("0", 0, 499)
    with pytest.raises(DatasetError, match="got 499 records"):
        shuffle.gather(0)
    scatter("1", 499, 500)
    (path,) = tmp_path.glob("out/.*/runs/train/0")
    assert str(path).startswith(working_folder(str(uri)))
    data = bytearray(path.read_bytes())
    data[data.index(max(records[:499], key=len)) + 50] ^= 1
    path.write_bytes(data)
    with pytest.raises(CorruptShardError):
        shuffle.gather(0)
