"""Test records that are excluded, relabelled, filtered and added, with TensorFlow's own reader."""

import collections
import json
import random

import pytest
import tensorflow as tf
from tfx.orchestration.portable.data_types import ExecutionInfo

from components import ShardBalancer
from components.shard_balancer import FINGERPRINT, plan
from components.shuffle.edits import replace_feature
from tests.components.balancing.test_executor import balance, read
from tests.make import everything as contents
from tests.record_names import check_record_names
from trainer_utils import DatasetWriter
from trainer_utils.core.errors import ConfigError, DatasetError

CLASSES = ["cat", "dog", "unknown"]


def rows(count, start=0):
    """Return rows as Python values by name; the height is the number, which decides the split."""
    sizes = random.Random(start)
    return {
        f"{n:03d}.jpg": {
            "filename": f"{n:03d}.jpg",
            "text": "x" * sizes.randrange(400),
            "label": CLASSES[n % 3],
            "height": n,
        }
        for n in range(start, start + count)
    }


def write(folder, examples):
    with DatasetWriter(
        str(folder), num_shards={"train": 4, "eval": 1}, vocabulary={"label": CLASSES}
    ) as writer:
        for row in examples.values():
            writer.write("eval" if row["height"] % 5 == 0 else "train", row)
    return folder


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    return write(tmp_path_factory.mktemp("changes") / "source", rows(300))


def features_of(record):
    return tf.train.Example.FromString(record).features.feature


def examples_of(folder, split):
    """Return the name, label, text and height of each record, in the order of the shards."""
    found = []
    for shard in read(folder, split):
        for record in shard:
            features = features_of(record)
            name = features["filename"].bytes_list.value[0].decode()
            label = CLASSES[features["label"].int64_list.value[0]]
            text = features["text"].bytes_list.value[0].decode()
            found.append((name, label, text, features["height"].int64_list.value[0]))
    return found


def expected(examples, split):
    return {
        (name, row["label"], row["text"], row["height"])
        for name, row in examples.items()
        if (row["height"] % 5 == 0) == (split == "eval")
    }


ALL = {
    "exclude": ["003.jpg", "005.jpg", "none.jpg"],
    "relabel": {
        **{"004.jpg": "cat", "006.jpg": "dog"},
        **{"007.jpg": "dog", "010.jpg": "unknown", "003.jpg": "dog"},
    },
    "where": "label != 'unknown' and not 100 <= height < 120",
}


def changed_rows():
    kept = {n: r for n, r in rows(300).items() if n not in ALL["exclude"]}
    for name in kept:
        kept[name]["label"] = ALL["relabel"].get(name, kept[name]["label"])
    return {
        n: r for n, r in kept.items() if r["label"] != "unknown" and not 100 <= r["height"] < 120
    }


def properties(**settings):
    return {n: v if isinstance(v, (str, int)) else json.dumps(v) for n, v in settings.items()}


@pytest.fixture(scope="module")
def changed(source, tmp_path_factory):
    folder = tmp_path_factory.mktemp("changed") / "all"
    return folder, balance(source, folder, num_shards=3, **properties(**ALL))


def test_combined_edits_equal_pythons_result_and_are_counted(source, changed, subtests):
    folder, manifest = changed
    planned = {split.split: split for split in plan(str(source), num_shards=3, **ALL).splits}
    for split in ("train", "eval"):
        with subtests.test(split=split):
            found = examples_of(folder, split)
            assert len(found) == len(set(found))
            assert set(found) == expected(changed_rows(), split)
            said = manifest["splits"][split]
            assert said["found"] == said["written"] + said["skipped"]
            assert said["written"] == len(found)
            assert said["labels"] == collections.Counter(label for _, label, *_ in found)
            entries = [shard for shard in manifest["shards"] if shard["split"] == split]
            assert planned[split].shard_records == tuple(shard["records"] for shard in entries)
            assert planned[split].shard_bytes == tuple(shard["bytes"] for shard in entries)
    config = manifest["config"]
    assert (config["exclude"]["names"], config["exclude"]["unmatched"]) == (3, 1)
    assert config["exclude"]["records"] + config["where"]["records"] == manifest["total"]["skipped"]
    # The condition drops 010.jpg, its name drops 003.jpg, and 007.jpg was already a dog.
    assert manifest["conversions"] == {"RELABELLED": 2}
    assert config["relabel"] == {**config["relabel"], "names": 5, "unmatched": 1, "records": 2}
    assert "003.jpg" not in (folder / "manifest.json").read_text()
    assert check_record_names(folder) == manifest["total"]["written"]


@pytest.mark.parametrize(
    ("settings", "beam"),
    [
        ({"memory_bytes": 1 << 20}, []),
        ({}, ["--direct_running_mode=multi_threading", "--direct_num_workers=2"]),
    ],
)
def test_bytes_do_not_depend_on_memory_and_runner(source, changed, tmp_path, settings, beam):
    balance(source, tmp_path / "out", *beam, num_shards=3, **properties(**ALL), **settings)
    assert contents(tmp_path / "out") == contents(changed[0])


def test_invalid_edits_raise_in_the_plan(source, tmp_path, subtests):
    files = {
        "EMPTY": "\n",
        "ALL": "\n".join(rows(1000)),
        "TWICE": "name,label\na.jpg,cat\na.jpg,dog\n",
        "WIDE": "name,label\na.jpg,cat,dog\n",
        "OTHER": "name,colour\n003.jpg,red\n",
    }
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    for settings in (
        {"exclude": ["/data/003.jpg"]},
        {"relabel": {"x.jpg": "cat"}},
        {"relabel": {"003.jpg": "dogg"}},
        {"where": "heigth > 3"},
        {"where": "label == 'dogg'"},
        {"where": "text > 3"},
        {"exclude": "no/such/file"},
        {"relabel": f"{tmp_path}/EMPTY"},
        {"relabel": f"{tmp_path}/TWICE"},
        {"relabel": f"{tmp_path}/WIDE"},
        {"relabel": f"{tmp_path}/OTHER"},
        {"exclude": f"{tmp_path}/EMPTY"},
        {"where": "height > 1000"},  # which no record has
        {"exclude": f"{tmp_path}/ALL"},
        {"stratify_by": "labl"},
    ):
        with subtests.test(settings=settings):
            with pytest.raises(ConfigError) as caught:
                plan(str(source), **settings)
            assert caught.value.setting in settings, settings


def drive(**properties):
    driver = ShardBalancer.DRIVER_CLASS(metadata_handle=None)
    output = driver.run(ExecutionInfo(exec_properties=properties))
    found = {name: value.string_value for name, value in output.exec_properties.items()}
    in_notebook = driver.resolve_exec_properties(properties, None, None)
    assert in_notebook == {**properties, **found}
    return found


def test_fingerprint_covers_named_files_and_added_datasets(tmp_path):
    names, labels = tmp_path / "names.txt", tmp_path / "labels.csv"
    names.write_text("a\n")
    labels.write_text("name,label\na,3\n")
    write(tmp_path / "more", rows(5))
    settings = {
        "exclude": str(names),
        "relabel": json.dumps(str(labels)),
        "add": json.dumps([str(tmp_path / "more")]),
    }
    seen = [drive(**settings)]
    assert drive(**settings) == seen[0]
    names.write_text("b\n")
    seen.append(drive(**settings))
    labels.write_text("name,label\na,4\n")
    seen.append(drive(**settings))
    write(tmp_path / "other", rows(6))
    (tmp_path / "more").rename(tmp_path / "old")
    (tmp_path / "other").rename(tmp_path / "more")
    seen.append(drive(**settings))
    assert len({found[FINGERPRINT] for found in seen}) == 4
    assert drive(num_shards=3, exclude=json.dumps(["a"]), where="height > 3") == {}


def test_replace_feature_changes_only_that_feature(serialize, subtests):
    parse = tf.train.Example.FromString
    for values in ({"label": [7], "image": [b"x" * 300]}, {"image": [b"x"]}, {}):
        for value in (3, -(2**63), 0.5, b"", b"lynx" * 100):
            with subtests.test(value=value):
                changed = replace_feature(serialize(**values), "label", value)
                assert parse(changed) == parse(serialize(**{**values, "label": [value]}))
                kind = {int: tf.int64, float: tf.float32}.get(type(value), tf.string)
                parsed = tf.io.parse_single_example(
                    changed, {"label": tf.io.FixedLenFeature([], kind)}
                )
                assert parsed["label"].numpy() == value
    twice = replace_feature(serialize(label=[1]) + serialize(label=[2], a=[3]), "label", 9)
    assert parse(twice) == parse(serialize(label=[9], a=[3]))
    assert twice.count(b"label") == 1
    with pytest.raises(DatasetError, match=r"expected a tf\.train\.Example"):
        replace_feature(b"\x0a\xff", "label", 3)


def test_replace_feature_keeps_feature_lists_and_empty_features():
    made = tf.train.SequenceExample()
    made.context.feature["label"].int64_list.value.append(1)
    made.context.feature["empty"].SetInParent()
    made.feature_lists.feature_list["steps"].feature.add().int64_list.value.append(4)
    changed = replace_feature(made.SerializeToString(), "label", 5)
    made.context.feature["label"].int64_list.value[:] = [5]
    assert tf.train.SequenceExample.FromString(changed) == made
