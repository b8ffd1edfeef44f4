"""`torch_loader`: the batches of `iterate`, its states, and its conversions."""

import re
import subprocess
import sys

import numpy as np
import pytest

import trainer_utils
from tests.make import encode, write_files, write_rows
from trainer_utils import ConfigError, DatasetError
from trainer_utils.reading import starvation

torch = pytest.importorskip("torch")

SETTINGS = {"batch_size": 8, "features": "id", "seed": 3}
STEPS = 19


def ids(batches):
    return [batch.tolist() for batch in batches]


def load(uri, **settings):
    return trainer_utils.torch_loader(uri, "train", **{**SETTINGS, **settings})


def epochs_of(uri, count, **settings):
    source = trainer_utils.iterate(uri, "train", **{**SETTINGS, **settings})
    return [ids(source) for _ in range(count)]


@pytest.mark.parametrize("processes", [0, 2])
def test_epochs_follow_one_another(numbered, processes):
    loader = load(numbered, num_workers=processes)
    assert len(loader) == STEPS
    assert [ids(loader) for _ in range(3)] == epochs_of(numbered, 3)
    assert loader.epoch == 3


@pytest.mark.parametrize("taken", [0, 1, 7, STEPS, STEPS + 2])
@pytest.mark.parametrize("processes", [(0, 2), (2, 0)])
def test_state_resumes_with_other_processes(numbered, taken, processes):
    first = load(numbered, num_workers=processes[0])
    expected = [batch for epoch in epochs_of(numbered, 3) for batch in epoch]
    seen = []
    while len(seen) < taken:
        for batch in first:
            seen.append(batch.tolist())
            if len(seen) == taken:
                break
    state = first.state_dict()
    second = load(numbered, num_workers=processes[1])
    second.load_state_dict(state)
    assert len(second) == STEPS
    rest = ids(second) + ids(second)
    assert seen + rest == expected[: len(seen) + len(rest)]


@pytest.mark.parametrize("processes", [0, 2])
def test_processes_change_to_converted_shards(processes, tmp_path):
    pytest.importorskip("pyarrow")
    from PIL import Image

    from tests.components.raw_inputs.raw_runs import convert

    pixels = np.random.default_rng(1).integers(0, 256, (20, 24, 32, 3), np.uint8)
    files = {f"{'ab'[n % 2]}/{n}.jpg": Image.fromarray(pixels[n]) for n in range(20)}
    write_files(tmp_path / "in", {name: encode(image, "JPEG") for name, image in files.items()})
    dataset = convert(tmp_path / "in", tmp_path / "whole")
    settings = {"batch_size": 4, "features": "filename", "rank": 1, "world_size": 2}
    expected = epochs_of(dataset, 3, **settings)
    loader = load(
        str(tmp_path / "in"), num_workers=processes, convert_to=tmp_path / "out", **settings
    )
    read = [ids(loader)]
    (tmp_path / "out").mkdir()
    (tmp_path / "out/latest").symlink_to(dataset)
    read += [ids(loader), ids(loader)]
    assert read == expected
    assert loader.dataset.conversion.reads_from == dataset
    assert loader.stats().raw_records == sum(map(len, expected[0]))


def test_state_resumes_on_other_ranks(numbered):
    both = [load(numbered, rank=rank, world_size=2) for rank in range(2)]
    taken = [next(iter(loader)).tolist() for loader in both]
    alone = load(numbered, rank=0, world_size=1)
    alone.load_state_dict(both[1].state_dict())
    found = sorted(
        [*taken[0], *taken[1], *(number for batch in alone for number in batch.tolist())]
    )
    assert found == list(range(150))


@pytest.mark.parametrize(("epoch", "expected"), [(1, 7), (0, 0), (2, 0)])
def test_set_epoch_wins_over_a_loaded_state(numbered, epoch, expected):
    epochs = epochs_of(numbered, 3)
    state = trainer_utils.iterate(numbered, "train", **SETTINGS).state(STEPS + 7)
    loader = load(numbered)
    loader.load_state_dict({"input_state": state.to_json()})
    loader.set_epoch(epoch)
    assert ids(loader) == epochs[epoch][expected:]


def test_a_foreign_state_is_refused(numbered):
    with pytest.raises(ConfigError, match="state_dict"):
        load(numbered).load_state_dict({"epoch": 3})
    other = load(numbered, seed=4).state_dict()
    with pytest.raises(ConfigError, match="state"):
        load(numbered).load_state_dict(other)


@pytest.mark.parametrize("processes", [0, 2])
def test_images_can_have_their_channels_first(numbered, processes):
    settings = {"features": "image", "label": "label", "num_workers": processes}
    (last, labels), *_ = load(numbered, **settings)
    (first, _), *_ = load(numbered, **settings, channels_first=True)
    assert (tuple(first.shape), first.dtype) == ((8, 3, 6, 8), torch.uint8)
    assert first.is_contiguous(memory_format=torch.channels_last)
    assert torch.equal(first.permute(0, 2, 3, 1), last)
    assert labels.dtype == torch.int64


@pytest.mark.parametrize("processes", [0, 2])
def test_strings_can_be_decoded(numbered, processes):
    settings = {"features": ["text"], "num_workers": processes}
    encoded, *_ = load(numbered, **settings)
    decoded, *_ = load(numbered, **settings, decode_strings=True)
    assert isinstance(encoded["text"], np.ndarray)
    assert decoded["text"] == [text.decode() for text in encoded["text"]]


@pytest.mark.parametrize("processes", [0, 2])
def test_strings_in_another_encoding_are_refused(tmp_path, processes):
    rows = ({"text": b"\xff" if n == 3 else b"a"} for n in range(8))
    uri = write_rows(tmp_path / "rows", rows, num_shards=1)
    loader = trainer_utils.torch_loader(
        uri, "train", batch_size=4, decode_strings=True, num_workers=processes
    )
    with pytest.raises(DatasetError, match=r"decode_strings=False"):
        list(loader)


@pytest.mark.parametrize("processes", [0, 2])
@pytest.mark.parametrize("settings", [{"ragged": True}, {"batch_size": None}])
def test_values_equal_a_plain_loader(numbered, settings, processes):
    settings = {**SETTINGS, "features": ["id", "list", "text"], **settings}
    dataset = trainer_utils.torch_dataset(numbered, "train", **settings)
    plain = next(iter(torch.utils.data.DataLoader(dataset, batch_size=None)))
    ours, *_ = load(numbered, **settings, num_workers=processes)
    assert ours.keys() == plain.keys()
    for name, value in plain.items():
        assert type(ours[name]) is type(value), name
        parts = [one if isinstance(one, tuple) else (one,) for one in (ours[name], value)]
        for one, other in zip(*parts, strict=True):
            assert np.array_equal(one, other), name


def halve(batch):
    return batch / 2


@pytest.mark.parametrize("processes", [0, 2])
def test_a_transform_gets_tensors(numbered, processes):
    plain, *_ = load(numbered)
    halved, *_ = load(numbered, transform=halve, num_workers=processes)
    assert torch.equal(halved, plain / 2)


def test_batches_move_to_a_device(numbered):
    (batch, label), *_ = load(numbered, label="label", device="meta")
    assert (batch.device.type, label.device.type) == ("meta", "meta")


@pytest.mark.parametrize("processes", [0, 2])
def test_stats_count_batches_and_the_trainers_waits(numbered, processes):
    loader = load(numbered, num_workers=processes)
    ids(loader)
    loader.load_state_dict(loader.state_dict())
    ids(loader)
    stats = loader.stats()
    assert (stats.batches, stats.records) == (2 * STEPS, 300)
    assert stats.wait_for_data_seconds > 0


OPENED = """
import os, sys
import torch, trainer_utils
log = os.open(sys.argv[2], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
def note(event, arguments):  # in the loader's processes too, which are forked
    if event == "open" and sys.argv[1] in str(arguments[0]):
        os.write(log, f"{os.getpid()} {arguments[0]}\\n".encode())
sys.addaudithook(note)
dataset = trainer_utils.torch_dataset(
    sys.argv[1], "train", batch_size=8, features="id", state=int(sys.argv[3]), repeat=True
)
loader = torch.utils.data.DataLoader(dataset, batch_size=None, num_workers=2)
next(iter(loader))
os._exit(0)
"""


@pytest.mark.parametrize("step", [0, 100_000])
def test_loader_processes_open_only_shards_and_indices(numbered, tmp_path, step):
    log = tmp_path / "opened"
    command = [sys.executable, "-c", OPENED, numbered, str(log), str(step)]
    subprocess.run(command, check=True, timeout=300)
    opened = [line.split(" ", 1) for line in log.read_text().splitlines()]
    described = [path for _, path in opened if not re.search(r"/(Split-train|index)/", path)]
    assert sorted(described) == sorted(set(described))
    assert {path.rpartition("/")[2] for path in described} >= {"manifest.json"}
    assert len({process for process, _ in opened}) <= 3


@pytest.mark.parametrize("processes", [0, 2])
def test_a_starved_loop_is_warned_once(numbered, processes, monkeypatch, caplog):
    for name, value in {"MAX_WAIT_SHARE": -1, "MIN_BATCHES": 1, "MIN_SECONDS": -1}.items():
        monkeypatch.setattr(starvation, name, value)
    monkeypatch.setattr(starvation, "_MIN_STEP_SECONDS", -1)
    monkeypatch.setattr(starvation, "_MIN_STEP_SHARE", -1)
    loader = load(numbered, num_workers=processes, batch_size=1, features="image")
    ids(loader)
    warned = [record for record in caplog.records if record.name == starvation.__name__]
    assert len(warned) == 1
