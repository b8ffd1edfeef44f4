"""Test the external shuffle: each record once at its position, and memory within its limit."""

import io
import itertools
import random

import numpy as np
import pytest

from components.runtime.workspace import prepare_workspace
from components.shuffle import external
from components.shuffle.external import ExternalShuffle, frames_of, plan_tasks, run_of
from components.shuffle.split_layout import SplitLayout
from tests.make import frame_records
from trainer_utils.core.errors import CorruptShardError, DatasetError
from trainer_utils.format import read_blocks
from trainer_utils.writing.working_folder import working_folder


def test_tasks_cover_all_positions_within_the_memory_limit():
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


def test_damaged_or_missing_run_raises(tmp_path):
    source, uri = random.Random(1), tmp_path / "out"
    records = [source.randbytes(int(10 ** source.uniform(0, 4))) for _ in range(500)]
    prepare_workspace(str(uri))
    layout = SplitLayout(split="train", bounds=(0, 166, 500), seed=7)
    lengths = np.array([*map(len, records)], np.int64)
    tasks = plan_tasks(layout, [lengths + 16], memory_bytes=1 << 30)
    shuffle = ExternalShuffle(uri=str(uri), layout=layout, tasks=tasks, run_bytes=1 << 20)

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
    (path,) = tmp_path.glob("out/.*/runs/train/0/000000/0")
    assert str(path).startswith(working_folder(str(uri)))
    data = bytearray(path.read_bytes())
    data[data.index(max(records[:499], key=len)) + 50] ^= 1
    path.write_bytes(data)
    with pytest.raises(CorruptShardError):
        shuffle.gather(0)


def shuffle_records(uri: str, layout: SplitLayout, records: list[bytes], cell_bytes: int) -> list:
    """Shuffle records through runs of about 16 cells each, and return the shards."""
    sizes = np.array([len(record) + 16 for record in records], np.int64)
    tasks = plan_tasks(layout, [sizes], memory_bytes=cell_bytes)
    prepare_workspace(uri)
    shuffle = ExternalShuffle(uri=uri, layout=layout, tasks=tasks, run_bytes=16 * cell_bytes)
    ends = np.cumsum(sizes)
    for number in range(int(ends[-1]) // shuffle.run_bytes + 1):
        first, stop = np.searchsorted(ends // shuffle.run_bytes, [number, number + 1]).tolist()
        if first < stop:
            stream = io.BytesIO(frame_records(records[first:stop]))
            frames = [*map(frames_of, read_blocks(stream, path="", block_bytes=4000))]
            shuffle.scatter(f"{number:06d}", run_of(frames, [layout.positions(first, stop)]))
    for level, groups in enumerate(shuffle.divisions, 1):
        for group in groups:
            shuffle.divide(*group)
        shuffle.remove_runs(level)
    return [shard for number in range(len(tasks)) for shard in shuffle.gather(number)]


def read_shards(uri: str, shards: list) -> list[bytes]:
    found = []
    for shard in shards:
        with open(f"{uri}/{shard.path}", "rb") as stream:
            for block in read_blocks(stream, path=shard.path):
                found += block.records()
    return found


@pytest.mark.parametrize("seed", [None, 7])
@pytest.mark.parametrize(("records", "divisions"), [(1, 0), (12, 0), (200, 1), (700, 2)])
def test_number_of_levels_does_not_change_the_order(tmp_path, records, divisions, seed):
    source = random.Random(records)
    payloads = [source.randbytes(source.randint(4, 12)) for _ in range(records)]
    inner = sorted(source.sample(range(1, records), min(3, records - 1)))
    layout = SplitLayout(split="train", bounds=(0, *inner, records), seed=seed)
    shards = shuffle_records(str(tmp_path / "out"), layout, payloads, cell_bytes=50)
    sizes = np.array([len(payload) + 16 for payload in payloads], np.int64)
    tasks = plan_tasks(layout, [sizes], memory_bytes=50)
    shuffle = ExternalShuffle(uri="", layout=layout, tasks=tasks, run_bytes=800)
    assert len(shuffle.divisions) == divisions
    expected = [b""] * records
    for place, payload in zip(layout.positions(0, records).tolist(), payloads, strict=True):
        expected[place] = payload
    assert read_shards(str(tmp_path / "out"), shards) == expected
    assert [shard.records for shard in shards] == np.diff(layout.bounds).tolist()


def count_reads(monkeypatch, folder, records: int) -> int:
    reads: list[str] = []
    read = external.read_piece

    def counted(path: str, **given: int) -> object:
        reads.append(path)
        return read(path, **given)

    layout = SplitLayout(split="train", bounds=(0, records), seed=7)
    with monkeypatch.context() as patch:
        patch.setattr(external, "read_piece", counted)
        shuffle_records(str(folder), layout, [b"12345678"] * records, cell_bytes=240)
    return len(reads)


@pytest.mark.parametrize(("cells", "passes"), [(15, 1), (60, 2), (240, 2), (480, 3)])
def test_each_pass_reads_about_one_piece_per_cell(monkeypatch, tmp_path, cells, passes):
    # A run has the size of 16 cells, and each pass cuts it into at most 16 pieces.
    reads = count_reads(monkeypatch, tmp_path / "out", 10 * cells)
    assert reads <= 1.6 * passes * cells


def test_plan_for_ten_terabytes_stays_within_bounds():
    records = 10**10
    layout = SplitLayout(split="train", bounds=tuple(range(0, records + 1, 10**5)), seed=7)
    tasks = plan_tasks(layout, 1000.0, memory_bytes=128 << 20)
    shuffle = ExternalShuffle(uri="out", layout=layout, tasks=tasks, run_bytes=128 << 20)
    runs = 10**13 // (128 << 20)
    assert shuffle.num_cells >= runs
    # Each level reads every run once for each of its groups.
    reads = sum(len(groups) * runs for groups in shuffle.divisions[:1])
    assert reads * (1 << 20) <= 1.1 * 10**13
    assert all(shuffle._children(0, 0)[1] <= shuffle.fan_out for _ in [0])
    assert len(shuffle.divisions) == 2
