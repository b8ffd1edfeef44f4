"""Test that `DatasetWriter` leaves a complete dataset or nothing, and that other readers agree."""

import contextlib
import glob
import json
import os
import re
import signal
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import trainer_utils
from tests.make import run_python
from trainer_utils import ConfigError, DatasetWriter, input_fn, storage
from trainer_utils.core.errors import InputError
from trainer_utils.dataset import open_dataset
from trainer_utils.format import Manifest

RECORDS = 23
SETTINGS: dict[str, Any] = {"num_shards": {"train": 4}, "vocabulary": ["cat", "dog"]}


def write(uri: Path, examples: Iterable[Any], **settings: Any) -> str:
    """Write training examples, or pairs of a split and an example; return the uri."""
    with DatasetWriter(uri, **settings) as writer:
        for example in examples:
            writer.write(*(example if isinstance(example, tuple) else ("train", example)))
    return str(uri)


def examples(photos: list[Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    random = np.random.default_rng(0)
    for number in range(RECORDS):
        yield (
            "eval" if number % 4 == 3 else "train",
            {
                "image": photos[number % len(photos)],
                "label": ("cat", "dog")[number % 2],
                "name": f"photo {number}",
                "score": number / 2,
                "tokens": list(range(number % 5)),
                "half": random.normal(size=(2, 3)).astype(np.float16),
                "masks": np.full((number % 3, 4), True),
                "wide": random.integers(0, 2**63, (2, 2), dtype=np.uint64),
                **({"extra": 1} if number % 2 else {}),
            },
        )


@pytest.fixture(scope="module")
def uri(photos: list[Any], tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("written")
    uri = write(folder / "dataset", examples(photos), **SETTINGS)
    assert os.listdir(folder) == ["dataset"]
    return uri


def test_input_fn_returns_the_written_values(uri: str, photos: list[Any]) -> None:
    wanted = [example for split, example in examples(photos) if split == "train"]
    dataset = input_fn(uri, "train", batch_size=len(wanted), shuffle=False)
    batch = next(iter(dataset))
    by_name = {name.decode(): row for row, name in enumerate(batch["name"].numpy())}
    assert sorted(by_name) == sorted(example["name"] for example in wanted)
    for example in wanted:
        row = by_name[example["name"]]
        np.testing.assert_array_equal(batch["image"][row], example["image"])
        assert batch["label"][row] == ("cat", "dog").index(example["label"])
        for name in ("half", "wide"):
            assert batch[name].dtype == example[name].dtype
            np.testing.assert_array_equal(batch[name][row], example[name])
        masks = batch["masks"][row]  # of different shapes, so padded like every feature that varies
        np.testing.assert_array_equal(masks[: len(example["masks"])], example["masks"])
        assert not tf.reduce_any(masks[len(example["masks"]) :])


def test_examples_are_dealt_to_shards_in_turn(uri: str) -> None:
    info = json.loads(Path(uri, "shard_info.json").read_text())
    assert list(info["train"].values()) == [5, 5, 4, 4]
    names = []
    for path in info["train"]:
        records = tf.data.TFRecordDataset(os.path.join(uri, path)).as_numpy_iterator()
        parsed = [tf.train.Example.FromString(record) for record in records]
        names.append([e.features.feature["name"].bytes_list.value[0] for e in parsed])
    assert names[1][:2] == [b"photo 1", b"photo 6"]  # the 2nd and the 6th example of the split


def test_datum_reads_the_dataset(uri: str, photos: list[Any]) -> None:
    from datum.reader import load

    wanted = [example for split, example in examples(photos) if split == "eval"]
    loaded = load(uri)
    loaded.dataset_configs.batch_size_val = 1
    found = list(loaded.val_fn("eval").as_numpy_iterator())
    by_name = {batch["name"][0]: batch for batch in found}
    assert len(found) == len(wanted)
    for example in wanted:
        batch = by_name[example["name"].encode()]
        np.testing.assert_array_equal(batch["image"][0], example["image"])
        half = tf.io.parse_tensor(batch["half"][0], tf.float16)  # Datum returns bytes
        np.testing.assert_array_equal(half, example["half"])


def test_manifest_counts_labels_and_examples(uri: str) -> None:
    manifest = Manifest.from_json(Path(uri, "manifest.json").read_text(), path=uri)
    assert manifest.label_counts["eval"] == {"dog": 5}
    assert manifest.total.written == manifest.total.found == RECORDS
    assert open_dataset(uri).vocabularies == {"label": ["cat", "dog"]}


def test_equal_examples_give_equal_bytes(uri: str, photos: list[Any], tmp_path: Path) -> None:
    turned = ((split, dict(reversed(example.items()))) for split, example in examples(photos))
    write(tmp_path / "b", turned, **SETTINGS)
    for path in sorted(p for p in Path(uri).rglob("*") if p.is_file()):
        other = tmp_path / "b" / path.relative_to(uri)
        assert other.read_bytes() == path.read_bytes(), path


def test_full_shard_is_followed_by_the_next(tmp_path: Path) -> None:
    data = ({"data": bytes([number]) * 300} for number in range(30))
    counts = open_dataset(write(tmp_path / "d", data, target_shard_bytes=1000)).shards["train"]
    assert [shard.records for shard in counts] == [4, 4, 4, 4, 4, 4, 4, 2]


@pytest.mark.parametrize("place", ["file", "memory"])
def test_exception_leaves_no_files(tmp_path: Path, place: str) -> None:
    uri = str(tmp_path / "deep/d") if place == "file" else "memory://writer-test/d"
    with contextlib.suppress(KeyError), DatasetWriter(uri) as writer:
        writer.write("train", {"x": 1})
        raise KeyError("mine")
    assert not storage.exists(uri)
    assert not any(tmp_path.rglob("*.tfrecord*"))


def test_writing_no_examples_raises(tmp_path: Path) -> None:
    with pytest.raises(InputError):
        write(tmp_path / "d", [])
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize(
    "settings",
    [{"num_shards": {"trian": 2}}, {"vocabulary": {"lable": ["a"]}}, {"images": ["lable"]}, {}],
)
def test_unused_names_in_settings_cause_a_warning(
    tmp_path: Path, our_messages: Any, settings: dict[str, Any]
) -> None:
    write(tmp_path / "out", [{"label": 0}], **settings)
    assert len(our_messages()) == len(settings)
    for name, said in zip(settings, our_messages(), strict=True):
        assert name in said
        assert re.search("Did you mean '(train|label)'", said)


@pytest.mark.parametrize(
    ("first", "then"),
    [
        ({"x": 1}, {"x": 0.5}),
        ({"x": 1}, {"x": "a"}),
        ({"x": np.eye(2)}, {"x": np.zeros((2, 2, 2))}),
        ({"x": np.eye(2)}, {"x": np.eye(2, dtype=np.float16)}),
        ({"x": [[1]]}, {"x": [["a"]]}),
        ({"x": [np.eye(2)]}, {"x": [np.eye(3)]}),
        ({"x": 1}, {"image": b"none"}),
        ({"x": 1}, {"label": "cow"}),
        ({"x": 1}, {"label": [0, 1]}),
        ({"x": 1}, {"x": None}),
        ({"x": 1}, {"": 1}),
        ({"x": 1}, [1]),
    ],
)
def test_bad_example_raises_and_writing_continues(first: Any, then: Any, tmp_path: Path) -> None:
    with DatasetWriter(tmp_path / "d", vocabulary=["cat"]) as writer:
        writer.write("train", first)
        with pytest.raises(InputError, match=r"split 'train'") as found:
            writer.write("train", then)
        assert found.value.record == 1
        writer.write("train", first)
    assert open_dataset(str(tmp_path / "d")).records == {"train": 2}


def test_ints_among_floats_become_floats(tmp_path: Path) -> None:
    uri = write(tmp_path / "d", [{"x": value} for value in (0.5, 1, [2, 3])])
    batch = next(iter(input_fn(uri, "train", batch_size=3, shuffle=False)))
    np.testing.assert_array_equal(batch["x"], [[0.5, 0], [1, 0], [2, 3]])


def test_sequence_examples_survive_a_round_trip(tmp_path: Path) -> None:
    frames = [[np.full((2, 3), 10 * n + step, np.uint8) for step in range(n + 1)] for n in range(4)]
    tokens = [[[n] * step for step in range(n + 1)] for n in range(4)]
    rows = [{"frames": frames[n], "tokens": tokens[n], "label": n} for n in range(4)]
    uri = write(tmp_path / "d", rows)
    records = tf.data.TFRecordDataset(f"{uri}/Split-train/data_tfrecord-00000-of-00001")
    theirs = tf.train.SequenceExample.FromString([*records.as_numpy_iterator()][3])
    lists = theirs.feature_lists.feature_list
    assert [list(f.int64_list.value) for f in lists["tokens"].feature] == tokens[3]
    batch = next(iter(input_fn(uri, "train", batch_size=4, shuffle=False)))
    assert batch["frames"].shape == (4, 4, 2, 3)
    np.testing.assert_array_equal(batch["frames"][3], frames[3])
    np.testing.assert_array_equal(batch["frames"][0, 1:], np.zeros((3, 2, 3)))
    assert batch["tokens"].numpy()[3].tolist() == [[0, 0, 0], [3, 0, 0], [3, 3, 0], [3, 3, 3]]


def test_killed_writer_leaves_no_dataset(tmp_path: Path) -> None:
    code = (
        "import os, signal, sys, trainer_utils\n"
        f"writer = trainer_utils.DatasetWriter({str(tmp_path / 'd')!r}, target_shard_bytes=100)\n"
        "[writer.write('train', {'x': b'a' * 50}) for _ in range(50)]\n"
        "assert not {'tensorflow', 'pyarrow', 'tfx', 'apache_beam'} & {*sys.modules}\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    done = run_python(code)
    assert done.returncode == -signal.SIGKILL
    assert not (tmp_path / "d").exists()
    for left in tmp_path.iterdir():
        with pytest.raises(trainer_utils.DatasetError):
            open_dataset(str(left))


def test_unknown_or_invalid_setting_raises(tmp_path: Path, subtests: pytest.Subtests) -> None:
    for settings in ({"num_shard": 3}, {"num_shards": 0}):
        with subtests.test(settings=settings):
            with pytest.raises(ConfigError) as caught:
                DatasetWriter(tmp_path / "d", **settings)
            assert caught.value.setting in settings


def test_writing_to_a_closed_writer_raises(tmp_path: Path) -> None:
    writer = DatasetWriter(tmp_path / "d")
    writer.write("train", {"x": 1})
    writer.close()
    writer.close()
    with pytest.raises(trainer_utils.DatasetError, match="closed"):
        writer.write("train", {"x": 2})


def test_threads_write_concurrently(tmp_path: Path) -> None:
    uri = str(tmp_path / "out")
    with DatasetWriter(uri, num_shards=3) as writer, ThreadPoolExecutor(4) as pool:
        for number in range(2000):
            pool.submit(writer.write, "train", {"id": number, "text": "x" * (number % 300)})
    paths = glob.glob(f"{uri}/Split-train/*")
    stored = [tf.train.Example.FromString(r.numpy()) for r in tf.data.TFRecordDataset(paths)]
    numbers = [example.features.feature["id"].int64_list.value[0] for example in stored]
    assert sorted(numbers) == list(range(2000))


def test_unused_shards_cost_nothing(tmp_path: Path) -> None:
    write(tmp_path / "out", [{"id": 1}, {"id": 2}], num_shards=10**12)
    assert len(list((tmp_path / "out/Split-train").iterdir())) == 2
