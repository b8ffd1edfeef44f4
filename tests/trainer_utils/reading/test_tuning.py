"""Threads, autotuner and devices, as they show in what `input_fn` gives."""

from types import SimpleNamespace

import pytest
import tensorflow as tf

from trainer_utils import ConfigError, input_fn
from trainer_utils.format import Feature
from trainer_utils.reading import tuning


@pytest.fixture(scope="module")
def uri(tmp_path_factory, write_dataset) -> str:
    shards = [[{"id": [n]} for n in range(start, stop)] for start, stop in [(0, 6), (6, 10)]]
    return write_dataset(
        tmp_path_factory.mktemp("ten"), {"train": shards}, {"id": Feature(type="int")}
    )


def read(uri: str, device: str | None) -> tf.data.Dataset:
    return input_fn(uri, features="id", batch_size=4, shuffle=False, device=device)


def test_batches_go_to_a_device(uri):
    dataset = read(uri, "CPU:0")
    assert [b.numpy().tolist() for b in dataset] == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]
    assert "CPU:0" in next(iter(dataset)).device


@pytest.mark.parametrize(
    "device", ["CPU", "cpu:0", "/CPU:0", "/device:CPU:0", "/job:localhost/CPU:0"]
)
def test_a_device_may_be_spelt_as_tensorflow_takes_it(uri, device):
    assert sum(len(batch) for batch in read(uri, device)) == 10


@pytest.mark.parametrize("device", ["GPU:9", "CPU:7", "nonsense", "", "CPU:x", ":0"])
def test_a_device_that_is_not_there_is_refused(uri, device):
    with pytest.raises(ConfigError, match=r"^device: expected auto .*CPU:0.*got"):
        read(uri, device)


@pytest.mark.parametrize(
    ("names", "device"),
    [
        ([], None),
        (["/device:GPU:0"], "/device:GPU:0"),
        (["/device:TPU:0"], "/device:TPU:0"),
        (["/device:GPU:0", "/device:GPU:1"], None),
    ],
)
def test_auto_takes_the_only_accelerator(monkeypatch, names, device):
    """Here TensorFlow's list is the test's own: a machine of tests has no accelerator."""

    def list_logical_devices(kind: str) -> list[SimpleNamespace]:
        return [SimpleNamespace(name=name) for name in names if kind in name]

    monkeypatch.setattr(tf.config, "list_logical_devices", list_logical_devices)
    assert tuning.device_of("auto") == device


@pytest.mark.parametrize(("is_shared", "policy"), [(True, "OFF"), (False, "DATA")])
def test_one_workers_share_is_not_cut_again(is_shared, policy):
    options = tuning.tf_options(is_shared=is_shared)
    assert options.experimental_distribute.auto_shard_policy.name == policy
    assert options.deterministic
    assert not options.autotune.enabled
