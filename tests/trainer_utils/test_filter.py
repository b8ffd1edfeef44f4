"""`filter(where=)` against datasets that only have the records that meet the condition."""

import importlib.util
import itertools
import logging
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import trainer_utils
from components import steps
from components.balancing.settings import BalancerSettings
from pipelines.tools.ledger import RunLedger
from trainer_utils import ConfigError, CorruptShardError, DatasetError, PackOptions
from trainer_utils.format import Feature
from trainer_utils.format.example import encode_example
from trainer_utils.format.tensors import TokenSpec
from trainer_utils.ledger.recorder import InputRecorder
from trainer_utils.order.recipe import Part, Recipe
from trainer_utils.reading import filtering, record_reader

if importlib.util.find_spec("tensorflow") is None:
    os.environ.setdefault("KERAS_BACKEND", "jax")

FEATURES = {
    "id": Feature(type="int"),
    "label": Feature(type="int"),
    "height": Feature(type="float", shape=(1,), dense=False),
    "name": Feature(type="string"),
    "tokens": Feature(type="int", shape=(0,), dense=False),
}
WHERE = "label in (1, 3) and height > 20"
SIZES = (70, 0, 1, 129, 40)  # records of each shard


def row(number: int) -> dict[str, list[Any]]:
    found = {
        "id": [number],
        "label": [number % 5],
        "name": [b"name %d" % number * (number % 4 + 1)],
        "tokens": [number] * (number % 7),
    }
    return found if number % 6 == 0 else {**found, "height": [number / 2]}


def is_kept(number: int) -> bool:
    return number % 5 in (1, 3) and number % 6 != 0 and number / 2 > 20


KEPT = [number for number in range(sum(SIZES)) if is_kept(number)]


@pytest.fixture(scope="session")
def serialize() -> Any:
    """Return a function that serializes examples without TensorFlow."""
    return lambda **values: b"".join(encode_example(values))


@pytest.fixture(scope="module")
def places(tmp_path_factory, write_dataset) -> tuple[str, str]:
    """Write a dataset, and one that only has the records that meet the condition."""
    folder = tmp_path_factory.mktemp("filter")
    ends = [*itertools.accumulate(SIZES, initial=0)]
    train = [map(row, range(*part)) for part in itertools.pairwise(ends)]
    whole = write_dataset(folder / "whole", {"train": train}, FEATURES)
    own = [[*map(row, KEPT[:30])], [*map(row, KEPT[30:])]]
    return whole, write_dataset(folder / "own", {"train": own}, FEATURES)


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setattr(
        filtering, "KeptFiles", lambda name, folder: KEPT_FILES(name, str(tmp_path))
    )


KEPT_FILES = filtering.KeptFiles


def plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: plain(own) for name, own in value.items()}
    if isinstance(value, tuple):
        return tuple(map(plain, value))
    return np.asarray(value).tolist()


def batches(dataset: Any) -> list[Any]:
    is_by_step = type(dataset).__name__ == "TorchDataset"
    steps = map(dataset.__getitem__, range(len(dataset))) if is_by_step else dataset
    return [plain(batch) for batch in steps]


def ids(dataset: Any) -> list[int]:
    return [number for batch in batches(dataset) for number in batch["id"]]


@pytest.mark.parametrize("workers", [1, 2, 3])
@pytest.mark.parametrize("remainder", [None, "drop", "pad", "balance"])
@pytest.mark.parametrize("shuffle", [True, False, "global", 20])
def test_filter_equals_a_dataset_without_other_records(places, shuffle, remainder, workers):
    settings = {"batch_size": 6, "shuffle": shuffle, "remainder": remainder, "seed": 3}
    seen = []
    for rank in range(workers):
        own = {"rank": rank, "world_size": workers, **settings}
        view = trainer_utils.iterate(places[0], "train", **own).filter(where=WHERE)
        expected = trainer_utils.iterate(places[1], "train", **own)
        for _ in range(2):
            found = batches(view)
            assert found == batches(expected)
        seen += [
            n for b in found for n, m in zip(b["id"], b.get("mask", [1] * 6), strict=False) if m
        ]
    if remainder != "drop":
        assert sorted(seen) == KEPT


@pytest.mark.parametrize("name", ["numpy", "torch", "loader", "jax", "keras", "tensorflow"])
def test_filter_on_every_adapter(places, name):
    open_input = {
        "numpy": lambda: trainer_utils.iterate,
        "torch": lambda: trainer_utils.torch_dataset,
        "loader": lambda: trainer_utils.torch_loader,
        "jax": lambda: trainer_utils.jax_batches,
        "keras": lambda: trainer_utils.keras_dataset,
        "tensorflow": lambda: trainer_utils.input_fn,
    }
    pytest.importorskip({"numpy": "numpy", "loader": "torch"}.get(name, name))
    settings = {"batch_size": 8, "seed": 3, "remainder": "drop", "features": ["id"]}
    train = open_input[name]()(places[0], "train", **settings)
    view = train.filter(where=WHERE)
    expected = trainer_utils.iterate(places[1], "train", **settings)
    assert batches(view) == batches(expected)
    by_setting = open_input[name]()(places[0], "train", where=WHERE, **settings)
    assert view.state(4) == by_setting.state(4)
    resumed = open_input[name]()(places[0], "train", where=WHERE, state=view.state(4), **settings)
    again = trainer_utils.iterate(places[1], "train", **settings)
    assert batches(resumed)[: len(again) - 4] == batches(again)[4:]
    assert plain(view.record(-1)["id"]) == KEPT[-1]
    assert view.num_records == len(KEPT)
    assert train.num_records == sum(SIZES)


@pytest.mark.parametrize("processes", [1, 2])
def test_filter_in_loader_processes(places, processes):
    pytest.importorskip("torch")
    settings = {"batch_size": 6, "seed": 3, "features": ["id"]}
    loader = trainer_utils.torch_loader(places[0], "train", num_workers=processes, **settings)
    view = loader.filter(where=WHERE).map(lambda batch: {"id": batch["id"] * 2})
    expected = trainer_utils.iterate(places[1], "train", **settings)
    doubled = [{"id": [2 * n for n in b["id"]]} for b in batches(expected)]
    assert batches(view) == doubled
    state = view.state_dict()
    other = trainer_utils.torch_loader(places[0], "train", **settings).filter(where=WHERE)
    other.load_state_dict(state)
    assert batches(other) == batches(expected)


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_filtered_dataset_works_in_a_data_loader(places, method):
    torch = pytest.importorskip("torch")
    settings = {"batch_size": 6, "seed": 3, "features": ["id"], "shuffle": "global"}
    view = trainer_utils.torch_dataset(places[0], "train", **settings).filter(where=WHERE)
    view.set_epoch(2)
    loading = {"batch_size": None, "num_workers": 2, "multiprocessing_context": method}
    loader = torch.utils.data.DataLoader(view, **loading)
    expected = trainer_utils.iterate(places[1], "train", **settings)
    expected.next_epoch = 2
    assert [plain(batch) for batch in loader] == batches(expected)


def test_filter_in_reading_processes(places):
    settings = {"batch_size": 6, "features": ["id"]}
    view = trainer_utils.iterate(places[0], "train", processes=2, **settings).filter(where=WHERE)
    assert batches(view) == batches(trainer_utils.iterate(places[1], "train", **settings))


@pytest.mark.parametrize("workers", [(1, 3), (3, 2), (2, 1)])
def test_token_resumes_on_other_workers(places, workers):
    settings = {"batch_size": 6, "seed": 3, "shuffle": "global", "features": ["id"]}
    inputs = [
        trainer_utils.iterate(places[0], "train", rank=rank, world_size=workers[0], **settings)
        for rank in range(workers[0])
    ]
    seen = [
        number
        for one in inputs
        for batch in itertools.islice(one.filter(where=WHERE), 3)
        for number in batch["id"].tolist()
    ]
    token = inputs[0].filter(where=WHERE).state(3).to_json()
    for rank in range(workers[1]):
        own = {"rank": rank, "world_size": workers[1], **settings}
        view = trainer_utils.iterate(places[0], "train", **own).filter(where=WHERE)
        seen += ids(view.resumed_at(trainer_utils.InputState.from_json(token)))
    assert sorted(seen) == KEPT


def test_filter_has_the_records_that_balancing_keeps(places, tmp_path):
    balanced = str(tmp_path / "balanced")
    steps.balance([places[0]], balanced, BalancerSettings(where=WHERE))
    view = trainer_utils.iterate(places[0], "train").filter(where=WHERE)
    found, expected = [], []
    for dataset, rows in ((view, found), (trainer_utils.iterate(balanced, "train"), expected)):
        for batch in batches(dataset):
            rows += zip(*(batch[name] for name in ("id", "label", "name", "height")), strict=True)
    assert sorted(map(repr, found)) == sorted(map(repr, expected))
    assert len(found) == len(KEPT)


def test_state_dict_of_a_view_is_loaded(places):
    train = trainer_utils.iterate(places[0], "train", batch_size=6)
    view, other = (train.filter(where=WHERE).map(dict) for _ in range(2))
    assert repr(view).splitlines()[0].startswith(f"BatchIterator: {len(KEPT)} records")
    assert f"where={WHERE!r}" in repr(view)
    assert "map: dict" in repr(view)
    batches_of_view = iter(view)
    taken = [next(batches_of_view) for _ in range(3)]
    other.load_state_dict(view.state_dict())
    rest = [plain(batch) for batch in batches_of_view]
    assert batches(other) == rest
    assert len(taken) + len(rest) == len(view)
    with pytest.raises(ConfigError, match="Pass where="):
        train.load_state_dict(view.state_dict())


def test_token_of_another_condition_is_refused(places):
    train = trainer_utils.iterate(places[0], "train")
    view = train.filter(where="label == 1")
    for given, where, cure in (
        (view.state(1), None, r"Pass where='label == 1'"),
        (view.state(1), "label == 2", r"Pass where='label == 1'"),
        (train.state(1), "label == 1", r"Leave out where="),
    ):
        with pytest.raises(ConfigError, match=cure):
            trainer_utils.iterate(places[0], "train", where=where, state=given)
    with pytest.raises(ConfigError, match="Filter first"):
        trainer_utils.iterate(places[0], "train", state=train.state(1)).filter(where="label == 1")


def test_filters_compose_with_each_other_and_other_views(places):
    train = trainer_utils.iterate(places[0], "train", batch_size=6)
    view = train.select("id").filter(where="label in (1, 3)").filter(where="height > 20")
    assert sorted(ids(view)) == KEPT
    token = view.state(2)
    assert token.where == "(label in (1, 3)) and (height > 20)"
    assert trainer_utils.iterate(places[0], batch_size=6, where=token.where).state(2) == token
    mapped = train.map(lambda batch: {"id": -batch["id"]}).filter(where=WHERE)
    assert sorted(ids(mapped)) == sorted(-number for number in KEPT)
    assert len(ids(train)) == sum(SIZES)


def test_slices_are_cut_before_the_filter(places):
    settings = {"batch_size": 8, "where": WHERE, "shuffle": False}
    found = ids(trainer_utils.iterate(places[0], "train[60:150]+train[:100]", **settings))
    assert found == [n for n in (*range(60, 150), *range(100)) if is_kept(n)]


def test_weights_and_recipes_mix_filtered_datasets(places):
    settings = {"batch_size": 6, "seed": 1, "features": ["id"]}
    inputs = [places[0], places[1]]
    mixed = trainer_utils.iterate(inputs, "train", weights=[1, 2], where=WHERE, **settings)
    expected = trainer_utils.iterate([places[1]] * 2, "train", weights=[1, 2], **settings)
    assert batches(mixed) == batches(expected)
    recipe = Recipe(
        [Part(places[0], name="a", split="train"), Part(places[1], name="b", split="train")]
    )
    view = trainer_utils.iterate(recipe, **settings).filter(where=WHERE)
    assert {*ids(view)} == {*KEPT}
    with pytest.raises(ConfigError, match="a condition that a record of 'train' meets"):
        trainer_utils.iterate(inputs, "train", weights=[1, 2], where="id == 2", **settings)


@pytest.mark.parametrize("where", [None, WHERE])
def test_record_is_found_by_its_name(places, where):
    train = trainer_utils.iterate(places[0], "train[50:]+train[:50]", where=where)
    assert plain(train.record(str(KEPT[3])))["id"] == KEPT[3]
    with pytest.raises(DatasetError, match="record '999'"):
        train.record("999")
    with pytest.raises(DatasetError, match="Pass the number"):
        train.record("cat")


def test_packs_are_of_filtered_documents(places):
    settings = {"batch_size": 4, "pack": PackOptions(length=16), "seed": 2}
    view = trainer_utils.iterate(places[0], "train", **settings).filter(where=WHERE)
    assert batches(view) == batches(trainer_utils.iterate(places[1], "train", **settings))


def test_plan_counts_filtered_records(places):
    found = trainer_utils.plan(places[0], "train", workers=2, batch_size=6, where=WHERE)
    assert (found.records, found.steps) == (len(KEPT), -(-len(KEPT) // 6))


def test_scan_is_cached_and_parses_only_needed_features(places, monkeypatch, caplog):
    parsed = []
    parse = record_reader.parse_examples

    def spy(data: Any, begins: Any, ends: Any, names: Any, **more: Any) -> Any:
        parsed.append((*names,))
        return parse(data, begins, ends, names, **more)

    monkeypatch.setattr(record_reader, "parse_examples", spy)
    with caplog.at_level(logging.INFO, logger="trainer_utils"):
        trainer_utils.iterate(places[0], "train", where=WHERE)
    assert f"keeps {len(KEPT)} of {sum(SIZES)} records" in caplog.text
    assert {*parsed} == {("label", "height")}
    parsed.clear()
    trainer_utils.iterate(places[0], "train", where=WHERE)
    assert not parsed


def test_damaged_cache_is_found_again(places, tmp_path):
    first = ids(trainer_utils.iterate(places[0], "train", where=WHERE))
    (kept,) = (tmp_path / "filters").glob("*.kept")
    data = bytearray(kept.read_bytes())
    data[3] ^= 4
    kept.write_bytes(data)
    assert ids(trainer_utils.iterate(places[0], "train", where=WHERE)) == first
    kept.write_bytes(data[:-9])
    assert ids(trainer_utils.iterate(places[0], "train", where=WHERE)) == first


@pytest.mark.parametrize(
    ("where", "message"),
    [
        ("lable == 1", "Did you mean 'label'"),
        ("label == 'cat'", "values that can be compared"),
        ("label == 1 and", "a condition on features"),
        ("id < 0", "a condition that a record of 'train' meets, got 'id < 0'. None of 240"),
        ("tokens == 1", "feature 'tokens' has several values"),
    ],
)
def test_wrong_condition_raises(places, where, message):
    train = trainer_utils.iterate(places[0], "train")
    with pytest.raises(ConfigError, match=message):
        train.filter(where=where)


def test_missing_values_and_lists_are_as_for_balancing(places):
    for where, expected in (
        ("height == None", lambda n: n % 6 == 0),
        ("height != 3", lambda n: n != 6 or n % 6 == 0),
        ("len(tokens) > 4", lambda n: n % 7 > 4),
        ("17 in tokens", lambda n: n == 17),
        ("'name 3' in name and len(name) > 10", lambda n: str(n)[0] == "3" and n % 4),
    ):
        found = ids(trainer_utils.iterate(places[0], "train", where=where, shuffle=False))
        assert found == [n for n in range(sum(SIZES)) if expected(n)], where


def test_encoded_tokens_are_lists_of_numbers(tmp_path, write_dataset):
    spec = TokenSpec.of(vocabulary_size=100, tokenizer="00").to_json()
    tokens = Feature(type="string", extra={"encoding": "tokens", "tokens": spec})
    documents = [np.arange(n % 7, dtype="<u2").tobytes() for n in range(50)]
    rows = ({"id": [n], "tokens": [data]} for n, data in enumerate(documents))
    features = {"id": Feature(type="int"), "tokens": tokens}
    uri = write_dataset(tmp_path / "d", {"train": [rows]}, features)
    for where, least in (("len(tokens) > 4", 5), ("3 in tokens", 4)):
        found = ids(trainer_utils.iterate(uri, "train", where=where, shuffle=False))
        assert found == [n for n in range(50) if n % 7 >= least]
        with pytest.raises(ConfigError, match="a feature of numbers or strings"):
            steps.balance([uri], str(tmp_path / "b"), BalancerSettings(where=where))


def test_damaged_record_is_an_error_or_left_out(places, tmp_path, write_dataset, caplog):
    uri = write_dataset(tmp_path / "d", {"train": [map(row, range(50))]}, FEATURES)
    shard = next(Path(uri, "Split-train").iterdir())
    data = bytearray(shard.read_bytes())
    data[-30] ^= 1  # in the last record
    shard.write_bytes(data)
    with pytest.raises(CorruptShardError):
        trainer_utils.iterate(uri, "train", where="id >= 40")
    settings = {"where": "id >= 40", "on_corrupt": "skip", "shuffle": False}
    train = trainer_utils.iterate(uri, "train", **settings)
    assert ids(train) == [*range(40, 49)]
    assert "1 could not be read" in caplog.text
    assert not train.unreadable


def test_damage_after_the_scan_is_replaced_by_a_kept_record(tmp_path, write_dataset):
    uri = write_dataset(tmp_path / "d", {"train": [map(row, range(50))]}, FEATURES)
    settings = {"where": "id % 2 == 0", "on_corrupt": "skip", "shuffle": False}
    shard = next(Path(uri, "Split-train").iterdir())
    trainer_utils.iterate(uri, "train", **settings)
    data = bytearray(shard.read_bytes())
    data[20] ^= 1  # in the first record
    shard.write_bytes(data)
    train = trainer_utils.iterate(uri, "train", **settings)
    assert ids(train) == [2, *range(2, 50, 2)]
    assert [name.number for name in train.unreadable] == [0]


def test_ledger_names_the_filtered_records(places, tmp_path):
    train = trainer_utils.iterate(places[0], "train", batch_size=6, where=WHERE, shuffle="global")
    recorder = InputRecorder(tmp_path / "run")
    recorder.begin(train)
    seen = batches(train)
    recorder.count_steps(len(seen))
    recorder.save()
    ledger = RunLedger(tmp_path / "run")
    for step, batch in enumerate(seen):
        rows = ledger.at_step(step).rows
        assert [row.record.number for row in rows] == batch["id"]
