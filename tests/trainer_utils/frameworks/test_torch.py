"""`torch_dataset` with PyTorch's own DataLoader, and with torchdata's."""

import gc
import itertools
import pickle
import shutil
from pathlib import Path

import numpy as np
import pytest

import trainer_utils
from tests.make import write_rows
from trainer_utils import ConfigError, CorruptShardError
from trainer_utils.format.slices import RecordName
from trainer_utils.ledger.recorder import InputRecorder, read_ledger, read_losses

data = pytest.importorskip("torch.utils.data")
DistributedSampler = pytest.importorskip("torch.utils.data.distributed").DistributedSampler

SETTINGS = {"batch_size": 8, "features": "id", "seed": 3}


def ids(batches):
    return [np.asarray(batch).tolist() for batch in batches]


def loader(dataset, processes, **settings):
    return data.DataLoader(dataset, batch_size=None, num_workers=processes, **settings)


def expected(uri, epoch=0, **settings):
    source = trainer_utils.iterate(uri, "train", **{**SETTINGS, **settings})
    source.next_epoch = epoch
    return ids(source)


@pytest.mark.parametrize("processes", [0, 2, 3])
def test_processes_share_the_steps_in_order(numbered, processes):
    dataset = trainer_utils.torch_dataset(numbered, "train", **SETTINGS)
    assert len(dataset) == 19
    assert ids(loader(dataset, processes)) == expected(numbered)


def test_repr_and_dir_describe_the_dataset(numbered):
    dataset = trainer_utils.torch_dataset(numbered, "train", rank=1, world_size=2, **SETTINGS)
    rows, order = repr(dataset).splitlines()[1:]
    assert repr(dataset).startswith(f"TorchDataset: {dataset.order.layout.num_records} records, ")
    assert ", rank 1 of 2\n" in repr(dataset)
    assert (rows, order[:9]) == ("  id: (None,) int64", "  order: ")
    assert {"state", "features", "unreadable", "set_epoch"} <= {*dir(dataset)}


@pytest.mark.parametrize("keeps", [False, True])
def test_set_epoch_reaches_persistent_workers(numbered, keeps, subtests):
    dataset = trainer_utils.torch_dataset(numbered, "train", **SETTINGS)
    batches = loader(dataset, 2, persistent_workers=keeps)
    for epoch in (0, 1, 3):
        with subtests.test(epoch=epoch):
            dataset.set_epoch(epoch)
            assert ids(batches) == expected(numbered, epoch)
    with pytest.raises(ConfigError, match="-1"):
        dataset.set_epoch(-1)


def test_repeated_epochs_follow_one_another(numbered):
    dataset = trainer_utils.torch_dataset(numbered, "train", **SETTINGS, repeat=2)
    both = expected(numbered) + expected(numbered, 1)
    assert ids(loader(dataset, 2)) == both
    endless = trainer_utils.torch_dataset(numbered, "train", **SETTINGS, repeat=True)
    assert ids(itertools.islice(loader(endless, 2), len(both))) == both


def test_features_are_tensors_and_bytes_stay_arrays(numbered):
    import torch

    batch = next(iter(loader(trainer_utils.torch_dataset(numbered, batch_size=4), 0)))
    assert batch["image"].dtype == torch.uint8
    assert batch["image"].shape == (4, 6, 8, 3)
    assert isinstance(batch["text"], np.ndarray)
    assert isinstance(batch["text"][0], bytes)


@pytest.mark.parametrize("processes", [0, 2])
@pytest.mark.parametrize("taken", [3, 19])
def test_a_stateful_loader_resumes(numbered, processes, taken):
    stateful = pytest.importorskip("torchdata.stateful_dataloader").StatefulDataLoader

    def load(epoch):
        dataset = trainer_utils.torch_dataset(numbered, "train", **SETTINGS)
        dataset.set_epoch(epoch)
        return stateful(dataset, batch_size=None, num_workers=processes)

    first = load(1)
    begun = ids(itertools.islice(iter(first), taken))
    state = first.state_dict()
    resumed = load(1)
    resumed.load_state_dict(state)
    assert begun + ids(resumed) == expected(numbered, 1)


def test_a_damaged_record_raises_in_the_reading_process(numbered, tmp_path):
    shutil.copytree(numbered, tmp_path / "damaged")
    shard = sorted(Path(tmp_path, "damaged", "Split-train").iterdir())[1]
    content = bytearray(shard.read_bytes())
    content[len(content) // 2] ^= 1
    shard.write_bytes(content)
    dataset = trainer_utils.torch_dataset(str(tmp_path / "damaged"), **SETTINGS)
    with pytest.raises(Exception, match=shard.name):
        ids(loader(dataset, 2))


def test_cu_seqlens_match_the_segments_of_each_row():
    import torch

    rows = [[1, 1, 2, 0], [1, 2, 2, 2], [1, 1, 1, 1], [1, 1, 0, 0]]
    found, longest = trainer_utils.cu_seqlens(torch.tensor(rows, dtype=torch.int32))
    lengths = [len([*group]) for row in rows for _, group in itertools.groupby(row)]
    assert found.tolist() == [0, *itertools.accumulate(lengths)]
    assert (found.dtype, longest) == (torch.int32, max(lengths))


def test_a_run_keeps_its_ledger_and_losses(tmp_path):
    run = str(tmp_path / "run")
    uri = write_rows(tmp_path / "data", ({"n": number} for number in range(50)), num_shards=2)
    dataset = trainer_utils.torch_dataset(uri, "train", batch_size=8, features="n", seed=3)
    recorder, seen = InputRecorder(run, losses=True), []
    for epoch in range(2):
        dataset.set_epoch(epoch)
        recorder.begin(dataset)
        for numbers in data.DataLoader(dataset, batch_size=None):
            recorder.count_steps()
            recorder.keep_losses(numbers.float().requires_grad_())
            seen.append(numbers.tolist())
    recorder.save()
    kept = read_losses(run)
    assert [by_worker[0].tolist() for by_worker in kept.values()] == seen
    orders = {segment.start: segment.steps for segment in read_ledger(run).segments}
    assert orders == {0: 7, 7: 7}


def test_pixels_in_bfloat16_are_tensors_of_that_type(numbered):
    import torch

    settings = {"batch_size": 8, "features": "image", "image_size": (4, 4)}
    found = {}
    for dtype in ("bfloat16", "float32"):
        image = {"normalize": "unit", "dtype": dtype}
        dataset = trainer_utils.torch_dataset(numbered, "train", **settings, image=image)
        found[dtype] = next(iter(loader(dataset, 0)))
    assert found["bfloat16"].dtype == torch.bfloat16
    assert torch.allclose(found["bfloat16"].float(), found["float32"], atol=1 / 128)


def test_no_epoch_before_the_tokens_is_read(numbered):
    token = trainer_utils.iterate(numbered, "train", **SETTINGS).state(19 + 4)
    dataset = trainer_utils.torch_dataset(numbered, "train", **SETTINGS, state=token)
    with pytest.raises(ConfigError, match=r"^epoch: .*at least 1"):
        dataset.set_epoch(0)
    dataset.set_epoch(dataset.input_start.epoch)
    assert ids(loader(dataset, 0)) == expected(numbered, 1)[4:]


def damaged_copy(uri, folder, records):
    """Copy a dataset, and flip a bit in records of its second shard; return names and offsets."""
    shutil.copytree(uri, folder)
    shard = sorted(Path(folder, "Split-train").iterdir())[1]
    content, offsets, place = bytearray(shard.read_bytes()), [], 0
    while place < len(content):
        offsets.append(place)
        place += 16 + int.from_bytes(content[place : place + 8], "little")
    for record in records:
        content[offsets[record] + 20] ^= 1
    shard.write_bytes(content)
    return {RecordName(str(shard), record) for record in records}, offsets


@pytest.mark.parametrize("keeps", [False, True])
@pytest.mark.parametrize("context", ["fork", "spawn"])
@pytest.mark.parametrize("batch_size", [8, 1])
def test_substitutes_of_loader_processes_are_reported(
    numbered, tmp_path, caplog, context, keeps, batch_size
):
    bad, _ = damaged_copy(numbered, tmp_path / "damaged", [1, 7])
    settings = {**SETTINGS, "batch_size": batch_size, "on_corrupt": "skip"}
    dataset = trainer_utils.torch_dataset(str(tmp_path / "damaged"), "train", **settings)
    own = trainer_utils.iterate(str(tmp_path / "damaged"), "train", **settings)
    recorder = InputRecorder(str(tmp_path / "run"))
    batches = loader(dataset, 2, multiprocessing_context=context, persistent_workers=keeps)
    recorder.begin(dataset)
    assert ids(batches) == ids(own)
    recorder.count_steps(dataset.input_steps)
    recorder.save()
    assert set(dataset.unreadable) == bad
    assert dict(dataset.unreadable) == dict(own.unreadable)
    (segment,) = read_ledger(str(tmp_path / "run")).segments
    assert segment.unreadable == {path: [1, 7] for path, _ in bad}
    caplog.clear()
    dataset.set_epoch(1)
    (told,) = [record for record in caplog.records if "could not be read" in record.message]
    assert told.message.startswith("epoch 0: 2 of ")
    caplog.clear()
    dataset.set_epoch(2)
    assert not caplog.records


def test_the_last_substitutes_are_reported_as_the_dataset_goes(numbered, tmp_path, caplog):
    damaged_copy(numbered, tmp_path / "damaged", [3])
    settings = {**SETTINGS, "on_corrupt": "skip"}
    dataset = trainer_utils.torch_dataset(str(tmp_path / "damaged"), "train", **settings)
    assert sum(1 for _ in loader(dataset, 2)) == 19
    caplog.clear()
    del dataset
    gc.collect()
    assert [record.message[:10] for record in caplog.records] == ["epoch 0: 1"]


def test_substitutes_of_this_process_are_reported_at_the_end(numbered, tmp_path, caplog):
    damaged_copy(numbered, tmp_path / "damaged", [3])
    settings = {**SETTINGS, "on_corrupt": "skip"}
    dataset = trainer_utils.torch_dataset(str(tmp_path / "damaged"), "train", **settings)
    caplog.clear()
    assert sum(1 for _ in loader(dataset, 0)) == 19
    assert [record.message[:10] for record in caplog.records] == ["epoch 0: 1"]


@pytest.mark.parametrize("processes", [0, 2])
def test_an_error_of_a_loader_keeps_lines_and_place(numbered, tmp_path, processes):
    ((path, record),), offsets = damaged_copy(numbered, tmp_path / "damaged", [7])
    dataset = trainer_utils.torch_dataset(str(tmp_path / "damaged"), "train", **SETTINGS)
    with pytest.raises(CorruptShardError) as caught:
        ids(loader(dataset, processes))
    error = caught.value
    assert (error.path, error.record, error.offset) == (path, record, offsets[record])
    if processes:
        lines = str(error).splitlines()
        assert lines[1] == "Original Traceback (most recent call last):"
        assert lines[-1].startswith("trainer_utils.core.errors.CorruptShardError: ")
        assert "\\n" not in str(error)


@pytest.mark.parametrize("processes", [0, 2])
@pytest.mark.parametrize("settings", [{}, {"echoing": 2}, {"repeat": 2}, {"shuffle": "global"}])
def test_steps_of_small_records_are_made_together_and_the_same(tmp_path, settings, processes):
    uri = write_rows(tmp_path / "rows", ({"id": n} for n in range(1000)), num_shards=3)
    settings = {"batch_size": 7, "features": "id", "seed": 3, **settings}
    dataset = trainer_utils.torch_dataset(uri, "train", **settings)
    own = ids(trainer_utils.iterate(uri, "train", **settings))
    assert ids(loader(dataset, processes)) == own
    order = np.random.default_rng(1).permutation(len(own)).tolist()
    assert ids(loader(dataset, processes, sampler=order)) == [own[step] for step in order]


def test_few_calls_make_the_steps_of_small_records(tmp_path, monkeypatch):
    uri = write_rows(tmp_path / "rows", ({"id": n} for n in range(1000)))
    dataset = trainer_utils.torch_dataset(uri, "train", batch_size=5, features="id")
    source, calls = dataset._input, []
    make = source.make
    monkeypatch.setattr(source, "make", lambda *given: calls.append(given) or make(*given))
    assert len([dataset[step] for step in range(0, 200, 2)]) == 100
    assert len(calls) == 3


def test_an_error_of_a_later_step_comes_in_its_turn(tmp_path):
    uri = write_rows(tmp_path / "rows", ({"id": n} for n in range(1000)))
    shard = next(Path(uri, "Split-train").iterdir())
    content = bytearray(shard.read_bytes())
    content[len(content) // 2] ^= 1
    shard.write_bytes(content)
    settings = {"batch_size": 1, "features": "id", "shuffle": False}
    dataset, seen = trainer_utils.torch_dataset(uri, "train", **settings), []
    with pytest.raises(CorruptShardError) as caught:
        seen.extend(int(dataset[step][0]) for step in range(1000))
    assert len(seen) in (0, caught.value.record)
    assert int(dataset[caught.value.record - 1][0]) == caught.value.record - 1


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda d: loader(d, 0, shuffle=True), "shuffle=True"),
        (lambda d: loader(d, 2, shuffle=True), "shuffle=True"),
        (lambda d: loader(d, 0, sampler=DistributedSampler(d, 2, 0)), "divides its steps"),
        (lambda d: data.DataLoader(d), "batch_size=None"),
        (lambda d: data.DataLoader(d, batch_size=64), "batch_size=None"),
        (lambda d: data.DataLoader(d, batch_size=64, num_workers=2), "batch_size=None"),
    ],
)
def test_a_loader_that_changes_the_steps_is_refused(numbered, make, words):
    dataset = trainer_utils.torch_dataset(numbered, "train", **SETTINGS)
    with pytest.raises(ConfigError, match=words):
        list(make(dataset))


@pytest.mark.parametrize("context", [None, "fork", "spawn"])
def test_stats_include_the_processes_of_a_loader(numbered, context):
    dataset = trainer_utils.torch_dataset(numbered, "train", **SETTINGS)
    settings = {"multiprocessing_context": context} if context else {}
    for epoch in (1, 2):
        ids(loader(dataset, 2 if context else 0, **settings))
        stats = dataset.stats()
        assert (stats.batches, stats.records) == (epoch * len(dataset), epoch * 150)
        assert (stats.wait_for_data_seconds > 0) == (context is None)


def test_stats_of_a_pickled_dataset_are_its_own(numbered):
    dataset = trainer_utils.torch_dataset(numbered, "train", **SETTINGS)
    copied = pickle.loads(pickle.dumps(dataset))
    ids(loader(copied, 0))
    assert (copied.stats().batches, copied.stats().records) == (len(dataset), 150)
    assert dataset.stats().batches == 0
