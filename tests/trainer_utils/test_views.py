"""Views of inputs: `map`, `select` and `record`, on every adapter that runs here."""

import importlib.util
import itertools
import operator
import os
import shutil
from typing import Any

import numpy as np
import pytest

import trainer_utils
from tests.make import write_rows
from trainer_utils import ConfigError, CorruptShardError
from trainer_utils.reading import images, record_reader

if importlib.util.find_spec("tensorflow") is None:
    os.environ.setdefault("KERAS_BACKEND", "jax")

ROWS = 50
FRAMEWORKS = {"torch": "torch", "loader": "torch", "jax": "jax", "keras": "keras"}
SETTINGS = {"batch_size": 8, "seed": 3, "remainder": "drop"}


@pytest.fixture(scope="module")
def uri(tmp_path_factory) -> str:
    draw = np.random.default_rng(3)
    rows = (
        {
            "id": number,
            "label": number % 5,
            "text": "word " * (number % 7),
            "image": draw.integers(0, 256, (6, 8, 3), np.uint8),
        }
        for number in range(ROWS)
    )
    return write_rows(tmp_path_factory.mktemp("views") / "numbered", rows, num_shards=4)


def open_by(name: str, uri: str, **settings: Any) -> Any:
    if name in FRAMEWORKS:
        pytest.importorskip(FRAMEWORKS[name])
    functions = {
        "numpy": trainer_utils.iterate,
        "torch": lambda *given, **named: trainer_utils.torch_dataset(*given, **named),
        "loader": lambda *given, **named: trainer_utils.torch_loader(*given, **named),
        "jax": lambda *given, **named: trainer_utils.jax_batches(*given, **named),
        "keras": lambda *given, **named: trainer_utils.keras_dataset(*given, **named),
    }
    return functions[name](uri, "train", **{**SETTINGS, **settings})


def batches(dataset: Any) -> list[Any]:
    """Return the batches of a pass as nests of lists."""
    is_by_step = type(dataset).__name__ == "TorchDataset"
    steps = map(dataset.__getitem__, range(len(dataset))) if is_by_step else dataset
    return [plain(batch) for batch in steps]


def plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: plain(own) for name, own in value.items()}
    if isinstance(value, tuple):
        return tuple(map(plain, value))
    return np.asarray(value).tolist()


def doubled(batch: dict[str, Any]) -> dict[str, Any]:
    return {**batch, "id": batch["id"] * 2}


def plus_one(batch: dict[str, Any]) -> dict[str, Any]:
    return {**batch, "id": batch["id"] + 1}


adapters = pytest.mark.parametrize("name", ["numpy", *FRAMEWORKS])


@adapters
def test_map_changes_each_batch_and_composes(uri, name):
    train = open_by(name, uri, features=["id", "label"])
    view = train.map(doubled).map(plus_one)
    expected = [{**b, "id": [2 * n + 1 for n in b["id"]]} for b in batches(train)]
    assert batches(view) == expected
    assert len(view) == len(open_by(name, uri)) == ROWS // 8


def renamed(batch: dict[str, Any]) -> dict[str, Any]:
    return {"x": batch["id"], "y": batch["label"]}


@adapters
def test_map_may_rename_features(uri, name):
    train = open_by(name, uri, features=["id", "label"])
    view = train.map(renamed)
    assert batches(view) == [{"x": b["id"], "y": b["label"]} for b in batches(train)]


def test_map_keeps_the_label_and_a_single_feature(uri):
    for settings in {"label": "label"}, {"features": "id"}:
        view = trainer_utils.iterate(uri, "train", **SETTINGS, **settings).map(lambda _: {"x": 1})
        with pytest.raises(ConfigError, match="expected what the callbacks leave: x"):
            next(iter(view))


@adapters
def test_map_gets_the_label_and_the_callbacks_result(uri, name):
    settings = {"features": "id", "label": "label", "post_batching_callback": doubled}
    view = open_by(name, uri, **settings).map(plus_one)
    plain_input = trainer_utils.iterate(uri, "train", **SETTINGS, features="id", label="label")
    expected = [([2 * n + 1 for n in x.tolist()], y.tolist()) for x, y in plain_input]
    found = [tuple(map(plain, batch)) for batch in batches(view)]
    assert found == expected


@adapters
def test_token_of_a_view_is_that_of_the_input(uri, name):
    train = open_by(name, uri, features=["id"])
    view = train.map(doubled)
    assert view.state(4) == train.state(4)
    resumed = open_by(name, uri, features=["id"], state=view.state(4)).map(doubled)
    assert batches(resumed)[:2] == batches(view)[4:]


@adapters
def test_select_equals_features(uri, name):
    view = open_by(name, uri).select("label", "id")
    assert batches(view) == batches(open_by(name, uri, features=["label", "id"]))
    assert [*view.features] == ["label", "id"]


@pytest.mark.parametrize("names", [("image",), ("image", "label"), ("label",)])
def test_select_keeps_the_label_apart(uri, names):
    view = open_by("numpy", uri, label="label").select(*names)
    for x, y in view:
        assert [*x] == [name for name in names if name != "label"]
        assert y.shape == (8,)


def test_select_parses_and_decodes_nothing_else(uri, monkeypatch):
    parsed, decoded = [], []
    train = open_by("numpy", uri)
    view = train.select("label")
    parse = record_reader.parse_examples
    monkeypatch.setattr(
        record_reader,
        "parse_examples",
        lambda data, begins, ends, names, **more: (
            parsed.append([*names]) or parse(data, begins, ends, names, **more)
        ),
    )
    decode = images.ImageDecoder.decode
    monkeypatch.setattr(
        images.ImageDecoder, "decode", lambda *a, **k: decoded.append(1) or decode(*a, **k)
    )
    list(view)
    assert {*map(tuple, parsed)} == {("label",)}
    assert not decoded
    list(train)
    assert decoded


@pytest.mark.parametrize("given", ["lable", "texts"])
def test_select_of_an_unknown_feature_raises(uri, given):
    with pytest.raises(ConfigError, match="Did you mean"):
        open_by("numpy", uri).select(given)


def test_select_narrows_an_earlier_selection(uri):
    view = open_by("numpy", uri).select("id", "label")
    assert [*next(iter(view.select("id")))] == ["id"]
    with pytest.raises(ConfigError, match="one of the features that are read, id, label"):
        view.select("text")


def test_select_after_map_raises(uri):
    with pytest.raises(ConfigError, match="Call select first"):
        open_by("numpy", uri).map(doubled).select("id")


def test_map_of_no_function_raises(uri):
    with pytest.raises(ConfigError, match="a function of a batch"):
        open_by("numpy", uri).map("doubled")
    with pytest.raises(ConfigError, match="got None"):
        next(iter(open_by("numpy", uri).map(lambda batch: None)))


def test_map_runs_in_processes(uri):
    train = open_by("numpy", uri, features=["id"], processes=1)
    with pytest.raises(ConfigError, match="processes: expected 0 with functions"):
        train.map(lambda batch: batch)
    view = train.map(operator.itemgetter("id")).map(np.negative)  # which a process can import
    assert batches(view) == [[-n for n in batch["id"]] for batch in batches(train)]


def test_map_may_leave_out_the_mask(uri):
    train = open_by("numpy", uri, features="id", remainder="pad")
    *_, (_, mask) = train.map(lambda batch: {"id": batch["id"]})
    assert mask.tolist() == [1, 1, 0, 0, 0, 0, 0, 0]


def test_view_keeps_the_input_unchanged(uri):
    train = open_by("numpy", uri, features=["id"])
    before = repr(train), batches(train)
    view = train.map(doubled)
    train.next_epoch = 0
    assert (repr(train), batches(train)) == before
    assert view.stats().records == train.stats().records > 0


@adapters
def test_views_follow_the_epochs(uri, name):
    train = open_by(name, uri, features=["id"])
    if name == "torch":
        train.set_epoch(1)
    else:
        batches(train)
    view = train.map(doubled)
    epoch = trainer_utils.iterate(uri, "train", **SETTINGS, features=["id"], state=6)
    assert batches(view) == [{"id": [2 * n for n in b["id"]]} for b in batches(epoch)]


@adapters
def test_record_equals_the_row_of_a_batch(uri, name):
    train = open_by(name, uri, augment=["flip"], image_size=(4, 4))
    rows = trainer_utils.iterate(uri, "train", batch_size=None, shuffle=False, image_size=(4, 4))
    for number, row in enumerate(rows):
        assert plain(train.record(number)) == plain(row) == plain(train.record(number - ROWS))
    assert train.num_records == ROWS
    for number in (ROWS, -ROWS - 1):
        with pytest.raises(IndexError, match="from -50 to 49"):
            train.record(number)
    with pytest.raises(TypeError):
        train.record(1.0)


def test_record_of_a_slice_counts_within_it(uri):
    train = trainer_utils.iterate(uri, "train[40:]+train[:5]", features="id", label="label")
    stored = [n for x in trainer_utils.iterate(uri, features="id", shuffle=False) for n in x]
    found = [int(train.record(n)["id"]) for n in (0, 9, 10, -1)]
    assert found == [stored[40], stored[49], stored[0], stored[4]]


def test_record_that_is_damaged_raises(uri, tmp_path):
    damaged = tmp_path / "damaged"
    shutil.copytree(uri, damaged)
    shard = min((damaged / "Split-train").iterdir())
    data = bytearray(shard.read_bytes())
    data[40] ^= 1
    shard.write_bytes(data)
    expected = trainer_utils.iterate(uri, features="id").record(1)
    train = trainer_utils.iterate(str(damaged), "train", features=["id"], on_corrupt="skip")
    with pytest.raises(CorruptShardError, match="CRC"):
        train.record(0)
    assert train.record(1)["id"] == expected["id"]


@pytest.mark.parametrize("method", [None, "spawn"])
def test_views_work_in_loader_processes(uri, method):
    torch = pytest.importorskip("torch")
    dataset = open_by("torch", uri).select("id", "text").map(operator.itemgetter("id"))
    loading = {"batch_size": None, "num_workers": 2, "multiprocessing_context": method}
    loader = torch.utils.data.DataLoader(dataset, **loading)
    expected = [batch["id"] for batch in batches(open_by("numpy", uri, features=["id"]))]
    assert [batch.tolist() for batch in loader] == expected
    assert dataset.stats().records >= 48


def test_a_view_of_a_loader_resumes(uri):
    loader = open_by("loader", uri, num_workers=2).select("id").map(doubled)
    whole = batches(loader) + batches(loader)
    other = open_by("loader", uri).select("id").map(doubled)
    for _, batch in zip(range(8), itertools.chain(other, other), strict=False):
        assert plain(batch)
    state = other.state_dict()
    assert state == open_by("loader", uri, state=8).state_dict()
    resumed = open_by("loader", uri).select("id").map(doubled)
    resumed.load_state_dict(state)
    assert batches(resumed) == whole[8:]


def test_views_of_tensorflow_reopen_the_input(uri):
    pytest.importorskip("tensorflow")
    train = trainer_utils.input_fn(uri, "train", **SETTINGS)
    view = train.select("id", "label").filter(where="label > 1")
    expected = open_by("numpy", uri, features=["id", "label"], where="label > 1")
    assert batches(view.as_numpy_iterator()) == batches(expected)
    assert view.state(2) == expected.state(2)
    resumed = view.resumed_at(view.state(2))
    assert batches(resumed.as_numpy_iterator()) == batches(
        open_by("numpy", uri, features=["id", "label"], where="label > 1", state=view.state(2))
    )
    odd = train.filter(lambda batch: batch["id"][0] % 2 == 1)  # of tf.data
    assert all(batch["id"][0] % 2 for batch in odd.as_numpy_iterator())
    assert plain(train.record(3)) == plain(open_by("numpy", uri).record(3))
    for wrong in ({}, {"predicate": bool, "where": "label > 1"}):
        with pytest.raises(ConfigError, match="either a function of an element"):
            train.filter(**wrong)
