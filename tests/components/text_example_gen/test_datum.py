"""Test that Datum and `input_fn` both read the values of the source, for all of Datum's types."""

import json
from typing import Any

import numpy as np
import pytest

import trainer_utils
from tests.make import write_files

SPLITS = {"train": range(40), "val": range(40, 52), "test": range(52, 60)}


def entry(number: int) -> dict[str, Any]:
    """Return an entry with text in several scripts and labels of every kind."""
    return {
        "text": f"Such a day: Straße, 東京, {number}\nand a line" if number % 5 else "",
        "label": {
            "polarity": number % 3,
            "score": number / 8,
            "topic": f"topic {number % 4}",
            "as text": str(number - 5),
            "vector": [number / 2, 0.25, -1.0],
            "span": [number, 2**40 + number],
            "tokens": [*range(number % 6)],
            "weights": [0.5] * (number % 3),
            "words": ["a", "é"][: number % 3],
            "list as text": json.dumps([number] * (1 + number % 2)),
        },
    }


def features_of(number: int) -> dict[str, Any]:
    """Return the expected features of an example, with TensorFlow's types."""
    labels = dict(entry(number)["label"])
    labels["as text"] = int(labels["as text"])
    labels["list as text"] = json.loads(labels["list as text"])
    return {"text": entry(number)["text"], **labels}


def as_array(value: Any, like: str) -> np.ndarray:
    if like == "string":
        parts = [part.encode() for part in value] if isinstance(value, list) else value.encode()
        return np.array(parts, object)
    return np.array(value, {"int": np.int64, "float": np.float32}[like])


KINDS = {
    **dict.fromkeys(["text", "topic", "words"], "string"),
    **dict.fromkeys(["score", "vector", "weights"], "float"),
    **dict.fromkeys(["polarity", "as text", "span", "tokens", "list as text"], "int"),
}


def read_with_datum(uri: str, split: str) -> list[dict[str, np.ndarray]]:
    """Return single examples read with Datum's own reader."""
    from datum.reader import load

    loaded = load(uri)
    loaded.dataset_configs.batch_size_val = 1
    return [
        {name: value[0] for name, value in example.items()}
        for example in loaded.val_fn(split).as_numpy_iterator()
    ]


def read_with_input_fn(uri: str, split: str) -> list[dict[str, np.ndarray]]:
    dataset = trainer_utils.input_fn(uri, split, batch_size=None, shuffle=False, repeat=False)
    return list(dataset.as_numpy_iterator())


def check(found: list[dict[str, Any]], expected: dict[str, dict[str, Any]]) -> None:
    """Check the features of every example by id: types, shapes and values."""
    by_id = {example["id"].decode(): example for example in found}
    assert len(found) == len(by_id)
    assert by_id.keys() == expected.keys()
    for name, values in expected.items():
        example = {k: v for k, v in by_id[name].items() if k != "id"}
        assert example.keys() == values.keys(), name
        for feature, value in values.items():
            got, want = np.asarray(example[feature]), as_array(value, KINDS[feature])
            if got.dtype != object and KINDS[feature] == "string":
                got = got.astype(object)
            assert got.dtype == want.dtype, (name, feature)
            np.testing.assert_array_equal(got, want, f"{name} {feature}")


@pytest.fixture(scope="module")
def texts(run_text, tmp_path_factory):
    """Convert keyed JSON with one file per split, as read by Datum's text generator."""
    folder = tmp_path_factory.mktemp("texts")
    files = {
        f"{split}.json": json.dumps({str(n): entry(n) for n in numbers})
        for split, numbers in SPLITS.items()
    }
    return run_text(write_files(folder / "in", files), folder / "out", target_shard_bytes=2000)


OURS = {"train": "train", "val": "eval", "test": "test"}


@pytest.mark.parametrize("read", [read_with_datum, read_with_input_fn])
def test_examples_equal_their_json_entries(texts, read):
    assert len(texts.shards("train")) > 2
    for split, numbers in SPLITS.items():
        expected = {f"{split}.json:{n}": features_of(n) for n in numbers}
        check(read(str(texts.uri), OURS[split]), expected)


def test_datum_json_files_match_datums_own_export(texts, tmp_path, subtests):
    from datum.configs import TFRWriteConfigs
    from datum.export import export_to_tfrecord

    sparse = ["tokens", "weights", "words", "list as text"]
    source = tmp_path / "in"
    source.mkdir()
    for split, numbers in SPLITS.items():
        # Datum's writer accepts neither empty lists nor lists of strings.
        entries = {
            str(n): {
                "text": entry(n)["text"],
                "label": {k: v for k, v in entry(n)["label"].items() if v and k != "words"},
            }
            for n in numbers
            if n % 6 and n % 3
        }
        (source / f"{split}.json").write_text(json.dumps(entries))
    counts = {split: len(json.loads((source / f"{split}.json").read_text())) for split in SPLITS}
    configs = TFRWriteConfigs()
    configs.splits = {split: {"num_examples": count} for split, count in counts.items()}
    configs.sparse_features = [name for name in sparse if name != "words"]
    export_to_tfrecord(str(source), str(tmp_path / "out"), "text_clf", configs)
    theirs = json.loads((tmp_path / "out/datum_to_type_and_shape_mapping.json").read_text())
    for name, described in theirs.items():
        ours = texts.features[name]
        assert (ours["type"], ours["dense"]) == (described["type"], described["dense"]), name
        if described["dense"]:
            assert ours["shape"] == described["shape"], name
    for split in SPLITS:
        with subtests.test(split=split):
            of_theirs = read_with_datum(str(tmp_path / "out"), split)
            assert len(of_theirs) == counts[split]
            of_ours = {
                example["polarity"].item() * 10_000 + int(example["span"][0]): example
                for example in read_with_datum(str(texts.uri), OURS[split])
            }
            for example in of_theirs:
                twin = of_ours[example["polarity"].item() * 10_000 + int(example["span"][0])]
                for name, value in example.items():
                    np.testing.assert_array_equal(np.asarray(value), np.asarray(twin[name]), name)
