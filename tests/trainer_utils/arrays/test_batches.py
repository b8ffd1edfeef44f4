"""`iterate` against `input_fn`: the same batches, without TensorFlow."""

import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf

import trainer_utils
from trainer_utils import ConfigError, CorruptShardError, InputOptions
from trainer_utils.format import Feature

NUM, FILES = 50, 5


@pytest.fixture(scope="module")
def uri(tmp_path_factory, serialize):
    """Ids, texts, lists of any length and some of none, in the order of nothing."""
    folder = tmp_path_factory.mktemp("records")
    for index in range(FILES):
        with tf.io.TFRecordWriter(f"{folder}/train-{index}.tfrecord") as writer:
            for number in range(index * 10, index * 10 + 10):
                record = {"id": [number], "text": [b"text " * (number % 3)], "weight": [number / 4]}
                writer.write(serialize(**record, tokens=list(range(number % 4))))
    return str(folder)


def plain(element):
    """An element as nested lists of arrays, with the dtypes of numpy."""
    if isinstance(element, tuple):
        return [plain(part) for part in element]
    if isinstance(element, dict):
        return {name: plain(value) for name, value in element.items()}
    return np.asarray(element.numpy() if hasattr(element, "numpy") else element, dtype=None)


def assert_equal(ours, theirs, atol=0.0):
    assert type(ours) is type(theirs)
    if isinstance(ours, dict):
        assert list(ours) == list(theirs)
        for name in ours:
            assert_equal(ours[name], theirs[name], atol)
    elif isinstance(ours, list):
        assert len(ours) == len(theirs)
        for mine, other in zip(ours, theirs, strict=True):
            assert_equal(mine, other, atol)
    elif ours.dtype.kind in "OS":
        assert ours.tolist() == theirs.tolist()
    else:
        assert (ours.shape, ours.dtype) == (theirs.shape, theirs.dtype)
        np.testing.assert_allclose(ours.astype(float), theirs.astype(float), atol=atol, rtol=0)


def assert_same(uri, split, *, workers=1, epochs=2, atol=0.0, **settings):
    for worker in range(workers):
        context = tf.distribute.InputContext(workers, worker, workers) if workers > 1 else None
        theirs = trainer_utils.input_fn(uri, split, input_context=context, **settings)
        ours = trainer_utils.iterate(uri, split, worker=worker, num_workers=workers, **settings)
        for _ in range(epochs):
            mine, other = [plain(one) for one in ours], [plain(one) for one in theirs]
            assert mine
            assert_equal(mine, other, atol)


@pytest.mark.parametrize("shuffle", [False, True, 7, "global"])
@pytest.mark.parametrize(
    ("remainder", "workers"), [(None, 1), ("pad", 2), ("drop", 3), ("balance", 1), (None, 3)]
)
def test_batches_are_those_of_input_fn(uri, shuffle, remainder, workers):
    assert_same(uri, "train", batch_size=12, shuffle=shuffle, remainder=remainder, workers=workers)


@pytest.mark.parametrize(
    "settings",
    [
        {"batch_size": None, "workers": 2},
        {"batch_size": None, "echoing": 2},
        {"batch_size": 7, "echoing": 3, "repeat": 2},
        {"batch_size": 7, "features": "text", "label": "id", "sample_weight": "weight"},
        {"batch_size": 7, "features": "id", "remainder": "pad"},
        {"batch_size": 7, "features": ["tokens"], "label": "id", "remainder": "pad"},
        {"batch_size": 7, "drop_remainder": True, "seed": 5},
        {"batch_size": 7, "start_step": 9, "epochs": 1},
        {"batch_size": 7, "post_batching_callback": lambda batch: {**batch, "id": batch["id"] * 2}},
        {"batch_size": 7, "pre_batching_callback": {"train": lambda e: {"id": e["id"] + 1}}},
    ],
)
def test_settings_mean_what_they_mean_there(uri, settings):
    assert_same(uri, "train[:90%]", **settings)


def test_several_datasets_with_weights(uri):
    files = [f"{uri}/train-{index}.tfrecord" for index in range(3)]
    assert_same(files, "train", weights=[3, 1, 2], batch_size=8)


@pytest.mark.parametrize("step", [0, 3, 7, 10])
def test_tokens_go_over_in_both_directions(uri, step):
    settings = {"batch_size": 8, "repeat": 2, "features": ["id"]}
    theirs = trainer_utils.input_fn(uri, "train", **settings)
    ours = trainer_utils.iterate(uri, "train", **settings)
    assert ours.state(step) == theirs.state(step)
    everything = [plain(one) for one in ours]
    token = ours.state(step).to_json()
    for read in (trainer_utils.iterate, trainer_utils.input_fn):
        found = [plain(one) for one in read(uri, "train", state=token, **settings)]
        assert_equal(found, everything[step:])


@pytest.mark.parametrize("settings", [{}, {"remainder": "pad"}, {"remainder": "drop"}])
def test_damage_is_skipped_as_there(tmp_path, write_dataset, settings):
    shards = [[{"id": [n], "weight": [n / 4]} for n in range(i, NUM, FILES)] for i in range(FILES)]
    features = {"id": Feature(type="int"), "weight": Feature(type="float")}
    write_dataset(tmp_path, {"train": shards}, features)
    for index, place in ((1, 20), (3, -3)):
        path = tmp_path / f"Split-train/data_tfrecord-{index:05d}-of-{FILES:05d}"
        data = bytearray(path.read_bytes())
        data[place] ^= 1
        path.write_bytes(data)
    ours = trainer_utils.iterate(str(tmp_path), batch_size=8)
    with pytest.raises(CorruptShardError, match=r"data_tfrecord-0000[13]") as caught:
        list(ours)
    assert caught.value.record is not None
    skipping = {"batch_size": 8, "on_corrupt": "skip", "features": ["id", "weight"], **settings}
    found = trainer_utils.iterate(str(tmp_path), **skipping)
    theirs = trainer_utils.input_fn(str(tmp_path), **skipping)
    mine = [plain(one) for one in found]
    assert_equal(mine, [plain(one) for one in theirs])
    assert set(found.unreadable) == set(theirs.unreadable) != set()


def test_tensorflow_is_not_imported(uri):
    code = (
        "import sys, trainer_utils\n"
        "batches = list(trainer_utils.iterate(sys.argv[1], 'train', batch_size=8))\n"
        "assert sum(len(batch['id']) for batch in batches) == 50\n"
        "print([n for n in ('tensorflow', 'torch', 'tfx', 'pandas') if n in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, uri], capture_output=True, text=True, check=False
    )
    assert (done.stdout, done.returncode) == ("[]\n", 0), done.stderr


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"ragged": True}, "ragged: expected False"),
        ({"device": "GPU:0"}, "device: expected None"),
        ({"cache": "memory"}, "cache: expected 'disk', a folder or None"),
        ({"batchsize": 3}, "Did you mean 'batch_size'"),
        ({"num_parallel_calls": 3}, "Leave it out"),
        ({"options": InputOptions(data_service="grpc://x:1")}, "data_service: expected None"),
    ],
)
def test_what_only_tensorflow_does_is_refused(uri, settings, message):
    with pytest.raises(ConfigError, match=message):
        trainer_utils.iterate(uri, "train", **settings)
