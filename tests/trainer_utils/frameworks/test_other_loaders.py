"""Trainers that change a dataset or loader of PyTorch, imitated without installing them.

Lightning sets the epoch of a loader's sampler. Accelerate makes a new DataLoader that skips the
first steps of a loader, as `transformers.Trainer` needs to resume.
"""

import types

import numpy as np
import pytest

import trainer_utils
from tests.make import run_python
from trainer_utils import ConfigError

data = pytest.importorskip("torch.utils.data")

SETTINGS = {"batch_size": 8, "features": "id", "seed": 3}
STEPS = 19


def dataset(uri, **settings):
    return trainer_utils.torch_dataset(uri, "train", **{**SETTINGS, **settings})


def load(uri, **settings):
    return trainer_utils.torch_loader(uri, "train", **{**SETTINGS, **settings})


def ids(batches):
    return [batch.tolist() for batch in batches]


def epochs_of(uri, count):
    source = trainer_utils.iterate(uri, "train", **SETTINGS)
    return [ids(source) for _ in range(count)]


class Wrapped(data.Dataset):
    def __init__(self, inner):
        self.inner = inner

    def __len__(self):
        return len(self.inner)

    def __getitem__(self, index):
        return self.inner[index]


class Iterated(data.IterableDataset):
    def __init__(self, inner):
        self.inner = inner

    def __iter__(self):
        return iter(self.inner)


class OpenedThere(data.IterableDataset):
    """Open an input in a process of a loader; with `ranks`, the process is a rank."""

    def __init__(self, uri, ranks):
        self.uri, self.ranks = uri, ranks

    def __iter__(self):
        info = data.get_worker_info()
        ranks = {"rank": info.id, "world_size": info.num_workers} if self.ranks else {}
        return iter(trainer_utils.iterate(self.uri, "train", **SETTINGS, **ranks))


@pytest.mark.parametrize("wrap", [Wrapped, lambda inner: data.ConcatDataset([inner, inner])])
@pytest.mark.parametrize("processes", [0, 1])
def test_a_wrapped_dataset_is_not_batched_again(numbered, wrap, processes):
    batches = data.DataLoader(wrap(dataset(numbered)), batch_size=1, num_workers=processes)
    with pytest.raises(ConfigError, match="batch_size=None"):
        next(iter(batches))
    batches = data.DataLoader(wrap(dataset(numbered)), batch_size=None, num_workers=processes)
    assert ids(batches)[:STEPS] == epochs_of(numbered, 1)[0]


@pytest.mark.parametrize("size", [None, 4])
def test_subsets_of_steps_are_refused(numbered, size):
    _, part = data.random_split(dataset(numbered), [15, 4])
    with pytest.raises(ConfigError, match=r"train\[:80%\]"):
        next(iter(data.DataLoader(part, batch_size=size)))


def test_single_records_can_be_batched(numbered):
    records = dataset(numbered, batch_size=None)
    batches = ids(data.DataLoader(records, batch_size=8, num_workers=2))
    single = trainer_utils.iterate(numbered, "train", **{**SETTINGS, "batch_size": None})
    assert [number for batch in batches for number in batch] == ids(single)
    assert [len(batch) for batch in batches] == [8] * 18 + [6]


def test_an_index_past_the_last_step_is_explained(numbered):
    with pytest.raises(IndexError, match=r"step 19: expected 0 to 18.* record\(number\)"):
        dataset(numbered)[STEPS]


@pytest.mark.parametrize("index", [slice(0, 2), [0, 1], np.arange(2), "0", 1.5])
def test_an_index_that_is_no_step_is_explained(numbered, index):
    steps = dataset(numbered)
    with pytest.raises(TypeError, match=r"expected the number of a step, got .*record\(n\)"):
        steps[index]
    assert len([steps[n] for n in range(2)]) == 2
    assert ids([steps[np.int64(1)]]) == ids([steps[1]])


@pytest.mark.parametrize("opens", [dataset, load, lambda uri: trainer_utils.iterate(uri)])
def test_processes_that_iterate_do_not_repeat_records(numbered, opens):
    iterated = Iterated(opens(numbered))
    with pytest.raises(ConfigError, match="each record would come 2 times"):
        next(iter(data.DataLoader(iterated, batch_size=None, num_workers=2)))
    next(iter(data.DataLoader(iterated, batch_size=None, num_workers=1)))


def test_an_input_opened_in_processes_needs_a_rank(numbered):
    batches = data.DataLoader(OpenedThere(numbered, ranks=False), batch_size=None, num_workers=2)
    with pytest.raises(ConfigError, match="rank=0, world_size=1"):
        next(iter(batches))
    batches = data.DataLoader(OpenedThere(numbered, ranks=True), batch_size=None, num_workers=2)
    assert sorted(number for batch in ids(batches) for number in batch) == list(range(150))


def test_a_loader_is_no_dataset(numbered):
    with pytest.raises(ConfigError, match="get_train_dataloader"):
        next(iter(data.DataLoader(load(numbered), batch_size=None)))


@pytest.mark.parametrize("processes", [0, 2])
def test_an_epoch_read_again_is_reported_once(numbered, processes, caplog):
    steps = dataset(numbered)
    batches = data.DataLoader(steps, batch_size=None, num_workers=processes)
    next(iter(batches))
    for epoch in range(2):
        steps.set_epoch(epoch)
        ids(batches)
    assert "read again" not in caplog.text
    ids(batches)
    ids(batches)
    assert caplog.text.count("epoch 1 is read again") == 1


WEIGHTED = """
import sys, torch, trainer_utils
from torch.utils.data import DataLoader, SubsetRandomSampler, WeightedRandomSampler
steps = trainer_utils.torch_dataset(sys.argv[1], "train", batch_size=8, features="id", seed=3)
torch.manual_seed(0)
samplers = {
    "weights": WeightedRandomSampler([1.0] * 19, 19),
    "subset": SubsetRandomSampler(range(19)),
}
sampler, processes = samplers.get(sys.argv[2]), int(sys.argv[3])
loader = DataLoader(steps, batch_size=None, sampler=sampler, num_workers=processes)
for epoch in range(2):
    steps.set_epoch(epoch)
    print(sum(1 for _ in loader))
next(iter(loader))  # a pass that is left early is no other order
"""


@pytest.mark.parametrize("processes", [0, 2])
@pytest.mark.parametrize("sampler", ["weights", "subset", "none"])
def test_a_sampler_of_steps_in_another_order_is_reported(numbered, sampler, processes):
    done = run_python(WEIGHTED, numbered, sampler, processes)
    assert done.stdout.split() == ["19", "19"]
    assert ("do not choose records" in done.stderr) == (sampler != "none")


def test_records_by_number_may_be_sampled(numbered, caplog):
    records = dataset(numbered, batch_size=None, shuffle=False)
    sampler = data.WeightedRandomSampler([0.0, 0.0, 1.0], 20)
    batches = data.DataLoader(records, batch_size=10, sampler=sampler)
    assert ids(batches) == [[int(records.record(2)["id"])] * 10] * 2
    assert not caplog.text


def test_a_sampler_sets_the_epoch_of_a_partial_pass(numbered):
    epochs, loader = epochs_of(numbered, 3), load(numbered)
    for epoch in range(3):
        loader.sampler.set_epoch(epoch)
        assert ids(batch for batch, _ in zip(loader, range(5), strict=False)) == epochs[epoch][:5]


def test_a_sampler_keeps_a_loaded_step(numbered):
    epochs, loader = epochs_of(numbered, 3), load(numbered)
    loader.load_state_dict({"input_state": loader.state(STEPS + 7).to_json()})
    loader.sampler.set_epoch(1)
    assert ids(loader) == epochs[1][7:]
    loader.sampler.set_epoch(2)
    assert ids(loader) == epochs[2]


def test_a_trainers_epochs_count_from_the_state(numbered):
    epochs = epochs_of(numbered, 3)
    loader = load(numbered, state=load(numbered).state(STEPS + 7))
    for epoch, expected in enumerate([epochs[1][7:], epochs[2]]):
        loader.sampler.set_epoch(epoch)
        assert ids(loader) == expected


def test_overfitting_repeats_the_same_batches(numbered):
    loader = load(numbered)
    assert isinstance(loader.sampler, data.SequentialSampler)
    loop = types.SimpleNamespace(trainer=types.SimpleNamespace(overfit_batches=2))
    code = "def begin(self, sampler): sampler.set_epoch(1)"
    lightning = {"__name__": "lightning.pytorch.loops"}
    exec(code, lightning)
    lightning["begin"](loop, loader.sampler)
    assert loader.epoch == 0


class SkipBatches(data.BatchSampler):
    """Skip the first lists of indices, as Accelerate's `SkipBatchSampler` does."""

    def __init__(self, inner, count):
        self.batch_sampler, self.count = inner, count

    def __iter__(self):
        for number, indices in enumerate(self.batch_sampler):
            if number >= self.count:
                yield indices

    def __len__(self):
        return len(self.batch_sampler) - self.count


def skip_first_batches(loader, count):
    """Make the DataLoader that Accelerate makes to skip batches."""
    names = ("num_workers", "collate_fn", "pin_memory", "prefetch_factor")
    given = {name: getattr(loader, name) for name in names}
    assert not isinstance(loader.sampler, data.BatchSampler)
    sampler = SkipBatches(loader.batch_sampler, count)
    return data.DataLoader(loader.dataset, batch_sampler=sampler, **given)


@pytest.mark.parametrize("processes", [0, 2])
def test_first_batches_can_be_skipped(numbered, processes):
    epochs, loader = epochs_of(numbered, 3), load(numbered, num_workers=processes)
    loader.set_epoch(1)
    assert ids(skip_first_batches(loader, 7)) == epochs[1][7:]
    with pytest.raises(ConfigError, match="position is unknown"):
        loader.state_dict()
    assert ids(loader) == epochs[2]


def test_skipping_finds_the_epoch_of_transformers(numbered):
    epochs, loader = epochs_of(numbered, 2), load(numbered)
    transformers = {"__name__": "transformers.trainer"}
    exec(
        "def run_epoch(epoch, batches):\n    return [one.tolist() for one in batches]", transformers
    )
    assert transformers["run_epoch"](1, skip_first_batches(loader, 7)) == epochs[1][7:]


def test_skipping_at_an_unknown_place_is_refused(numbered):
    with pytest.raises(ConfigError, match=r"loader.set_epoch"):
        next(iter(skip_first_batches(load(numbered), 7)))
    resumed = load(numbered)
    resumed.load_state_dict({"input_state": resumed.state(5).to_json()})
    resumed.set_epoch(0)
    with pytest.raises(ConfigError, match="already begins at step 5"):
        next(iter(skip_first_batches(resumed, 7)))
    on_device = load(numbered, device="cpu")
    on_device.set_epoch(0)
    with pytest.raises(ConfigError, match="device="):
        next(iter(skip_first_batches(on_device, 7)))


def test_accelerates_sharded_loader_is_refused(numbered):
    accelerate = {"__name__": "accelerate.data_loader"}
    code = "class BatchSamplerShard:\n    num_processes = 2\n\n\nclass Loader:\n"
    code += "    batch_sampler = BatchSamplerShard()\n\n"
    code += "    def set_epoch(self, dataset): dataset.set_epoch(0)"
    exec(code, accelerate)
    with pytest.raises(ConfigError, match="torch_loader"):
        accelerate["Loader"]().set_epoch(dataset(numbered))


class Indexed(data.IterableDataset):
    """Read steps by index; with `divides`, a share of them in each process of a loader."""

    def __init__(self, inner, divides):
        self.inner, self.divides = inner, divides

    def __iter__(self):
        info = data.get_worker_info()
        first, step = (info.id, info.num_workers) if self.divides else (0, 1)
        return (self.inner[index] for index in range(first, len(self.inner), step))


def test_steps_by_index_are_divided_or_refused(numbered):
    whole = data.DataLoader(Indexed(dataset(numbered), False), batch_size=None, num_workers=2)
    with pytest.raises(ConfigError, match="each record would come 2 times"):
        ids(whole)
    parts = data.DataLoader(Indexed(dataset(numbered), True), batch_size=None, num_workers=2)
    assert sorted(ids(parts)) == sorted(epochs_of(numbered, 1)[0])


def test_loader_of_an_iterator_is_refused_with_the_cure(numbered):
    batches = trainer_utils.iterate(numbered, "train", **SETTINGS)
    with pytest.raises(TypeError, match="use trainer_utils"):
        next(iter(data.DataLoader(batches, batch_size=None)))
    assert ids(batches) == epochs_of(numbered, 1)[0]
