"""`stats()` of inputs: the counts equal the files', whichever process made the batches."""

import os
from pathlib import Path

import numpy as np
import pytest

import trainer_utils
from tests.make import write_rows
from trainer_utils.reading.input_stats import COUNTERS, STAGES, InputStats, StageCounters
from trainer_utils.storage.shared_counters import SharedCounters

ROWS, SETTINGS = 40, {"batch_size": 8, "shuffle": False}


@pytest.fixture(scope="module")
def pictures(tmp_path_factory) -> str:
    draw = np.random.default_rng(3)
    rows = (
        {"id": number, "image": draw.integers(0, 256, (20, 24, 3), np.uint8)}
        for number in range(ROWS)
    )
    return write_rows(tmp_path_factory.mktemp("stats") / "pictures", rows, num_shards=2)


def shards_of(uri: str) -> list[Path]:
    return sorted(Path(uri, "Split-train").iterdir())


def read_through(dataset) -> InputStats:
    before = dataset.stats()
    assert before == InputStats()
    for _ in dataset:
        pass
    return dataset.stats()


@pytest.mark.parametrize("processes", [0, 2])
@pytest.mark.parametrize("shuffle", [False, True, "global"])
def test_records_and_bytes_equal_the_files(pictures, shuffle, processes):
    settings = {**SETTINGS, "shuffle": shuffle, "processes": processes}
    stats = read_through(trainer_utils.iterate(pictures, "train", **settings))
    assert (stats.batches, stats.records, stats.substituted) == (ROWS // 8, ROWS, 0)
    assert stats.record_bytes == sum(path.stat().st_size for path in shards_of(pictures))
    assert (stats.cache_hits, stats.cache_misses) == (0, 0)


def test_each_stage_of_augmented_images_has_seconds(pictures):
    settings = {**SETTINGS, "augment": ["colour"], "image_size": (16, 16)}
    stats = read_through(trainer_utils.iterate(pictures, "train", **settings))
    assert all(stats.seconds[stage] > 0 for stage in STAGES)
    assert stats.slowest_stage in STAGES


def test_records_without_images_are_not_augmented(pictures):
    stats = read_through(trainer_utils.iterate(pictures, "train", features="id", **SETTINGS))
    assert stats.augment_seconds == 0
    assert all(stats.seconds[stage] > 0 for stage in ("read", "check", "parse", "decode"))


def test_tensorflows_input_has_the_same_counts(pictures):
    ours = read_through(trainer_utils.iterate(pictures, "train", **SETTINGS))
    dataset = trainer_utils.input_fn(pictures, "train", **SETTINGS)
    theirs = read_through(dataset)
    counts = ("batches", "records", "record_bytes")
    assert [getattr(theirs, n) for n in counts] == [getattr(ours, n) for n in counts]
    assert theirs.wait_for_data_seconds > 0
    other = trainer_utils.input_fn(pictures, "train", **SETTINGS)
    assert other.stats() == InputStats()


def test_substituted_records_are_counted(pictures, tmp_path):
    copy = tmp_path / "copy"
    copy.mkdir()
    for path in Path(pictures).rglob("*"):
        target = copy / path.relative_to(pictures)
        target.mkdir() if path.is_dir() else target.write_bytes(path.read_bytes())
    shard = shards_of(str(copy))[0]
    data = bytearray(shard.read_bytes())
    data[40] ^= 1
    shard.write_bytes(data)
    for processes in (0, 1):
        settings = {**SETTINGS, "on_corrupt": "skip", "processes": processes}
        source = trainer_utils.iterate(str(copy), "train", **settings)
        for _ in source:
            pass
        assert source.stats().substituted == 1
        assert "1 record substituted" in repr(source.stats())


def test_cached_ranges_are_hits_the_second_time(pictures, tmp_path):
    settings = {**SETTINGS, "cache": trainer_utils.CacheOptions(folder=str(tmp_path / "cache"))}
    first = read_through(trainer_utils.iterate(pictures, "train", **settings))
    second = read_through(trainer_utils.iterate(pictures, "train", **settings))
    assert first.cache_misses > 0
    assert (second.cache_hits > 0, second.cache_misses) == (True, 0)


def test_raw_inputs_have_stats_too(tmp_path, photos):
    from PIL import Image

    for number in range(6):
        folder = tmp_path / "photos" / "ab"[number % 2]
        folder.mkdir(parents=True, exist_ok=True)
        Image.fromarray(photos[number]).save(folder / f"{number}.png")
    settings = {"batch_size": 2, "image_size": (8, 8)}
    source = trainer_utils.iterate(str(tmp_path / "photos"), "train", **settings)
    stats = read_through(source)
    assert stats.records == source.order.layout.num_records
    assert stats.record_bytes > 0 < stats.read_seconds


def test_stats_continue_after_a_state_is_loaded(pictures):
    source = trainer_utils.iterate(pictures, "train", **SETTINGS)
    for _ in source:
        pass
    source.load_state_dict(source.state_dict())
    assert source.stats().records == ROWS


def test_a_difference_has_the_batches_in_between(pictures):
    source = trainer_utils.iterate(pictures, "train", **SETTINGS)
    for _ in source:
        pass
    first = source.stats()
    for _ in source:
        pass
    assert (source.stats() - first).records == ROWS
    assert repr(first).startswith(f"InputStats: 5 batches, {ROWS} records, ")


def test_a_forked_process_starts_at_zero():
    counters = StageCounters()
    counters.add(records=3)
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        counters.add(records=2)
        os.write(writer, bytes([counters.values()[COUNTERS.index("records")]]))
        os._exit(0)
    os.waitpid(child, 0)
    assert os.read(reader, 1) == bytes([2])
    assert counters.values()[COUNTERS.index("records")] == 3


def test_shared_counters_add_up_last_rows_of_processes():
    counters = SharedCounters("test", 2)
    children = []
    for number in range(5):
        child = os.fork()
        if not child:
            for _ in range(3):
                counters.write([number, 1])
            os._exit(0)
        children.append(child)
    for child in children:
        os.waitpid(child, 0)
    assert counters.total() == [0 + 1 + 2 + 3 + 4, 5]
    Path(counters.path).unlink()
    counters.write([1, 1])
    assert counters.total() == [0, 0]


def test_counters_can_be_read_while_they_are_added():
    counters = StageCounters()

    class Amount(int):  # as if garbage were collected here, whose finalizer reads the stats
        def __radd__(self, total: int) -> int:
            assert counters.stats().records == 0
            return total + int(self)

    counters.add(records=Amount(3))
    assert counters.stats().records == 3
