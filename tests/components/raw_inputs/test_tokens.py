"""Tokens of raw inputs are valid for the dataset converted from them, and the other way round."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.components.raw_inputs.raw_folders import classes, list_with_values, parquet_rows
from tests.components.raw_inputs.raw_runs import assert_equal, batches, convert
from tests.make import jpeg, write_files
from trainer_utils import ConfigError, iterate
from trainer_utils.dataset import open_dataset
from trainer_utils.order import input_order

SIZE: dict[str, Any] = {"image_size": (16, 16)}


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    classes(tmp_path / "in")
    return tmp_path / "in"


def rest_of(place: Any, state: Any, **settings: Any) -> list[Any]:
    return [*batches(place, state=state, **settings)]


@pytest.mark.parametrize("shuffle", [False, "global", 8])
@pytest.mark.parametrize("is_raw_first", [True, False])
def test_token_resumes_across_the_border(is_raw_first, shuffle, photos, tmp_path):
    dataset = convert(photos, tmp_path / "out")
    first, second = (str(photos), dataset) if is_raw_first else (dataset, str(photos))
    settings = {"batch_size": 2, "shuffle": shuffle, "seed": 5, **SIZE}
    whole = [*batches(first, **settings)]
    token = iterate(first, "train", **settings).state(3).to_json()
    for one, other in zip(rest_of(second, token, **settings), whole[3:], strict=True):
        assert_equal(one, other)


@pytest.mark.parametrize("is_raw_first", [True, False])
def test_token_resumes_on_another_number_of_workers(is_raw_first, photos, tmp_path):
    dataset = convert(photos, tmp_path / "out")
    first, second = (str(photos), dataset) if is_raw_first else (dataset, str(photos))
    settings = {"batch_size": 6, "shuffle": "global", "features": "filename", "remainder": None}
    two = [[*batches(first, rank=r, world_size=2, **settings)] for r in range(2)]
    token = iterate(first, "train", rank=0, world_size=2, **settings).state(1)
    three = [[*batches(second, rank=r, world_size=3, state=token, **settings)] for r in range(3)]
    for step in range(1, len(two[0])):
        before = [name for worker in two for name in worker[step]]
        after = [name for worker in three for name in worker[step - 1]]
        assert before == after


@pytest.mark.parametrize(
    ("write", "conversion"),
    [
        (classes, {"splits": {"train": 1}, "balance": "bytes"}),
        (classes, {"splits": {"train": 1}, "resize_shorter_side": 12, "seed": 9}),
        (list_with_values, {"splits": {"train": 1}, "feature_names": {"score": "grade"}}),
        (parquet_rows, {"splits": {"train": 1}}),
    ],
)
def test_token_crosses_with_settings_of_the_conversion(write, conversion, tmp_path):
    write(tmp_path / "in")
    dataset = convert(tmp_path / "in", tmp_path / "out", **conversion)
    settings = {"batch_size": 2, "shuffle": "global", "features": "filename"}
    raw = iterate(str(tmp_path / "in"), "train", conversion=conversion, **settings)
    token = raw.state(2)
    assert token.inputs == iterate(dataset, "train", **settings).state(2).inputs
    assert len(rest_of(dataset, token, **settings)) == len(raw) - 2


def test_token_with_other_settings_is_refused(photos, tmp_path):
    dataset = convert(photos, tmp_path / "out", resize_shorter_side=12)
    token = iterate(str(photos), "train", batch_size=2, **SIZE).state(1)
    with pytest.raises(ConfigError, match=r"same settings and label names.*conversion="):
        iterate(dataset, "train", batch_size=2, state=token, **SIZE)


def test_token_of_another_order_is_refused(photos, tmp_path):
    dataset = convert(photos, tmp_path / "out")
    token = iterate(str(photos), "train", batch_size=2, shuffle=False, **SIZE).state(1)
    with pytest.raises(ConfigError, match="other settings of the order"):
        iterate(dataset, "train", batch_size=2, shuffle="global", state=token, **SIZE)


def test_token_of_blocks_crosses_if_the_blocks_are_the_same(photos, tmp_path):
    dataset = convert(photos, tmp_path / "out")
    token = iterate(str(photos), "train", batch_size=2, shuffle=True, **SIZE).state(1)
    assert len(rest_of(dataset, token, batch_size=2, shuffle=True, **SIZE)) > 0


def test_token_of_other_blocks_by_size_is_refused(photos, tmp_path, monkeypatch):
    monkeypatch.setattr(input_order, "_BLOCK_BYTES", 2000)
    conversion = {"resize_shorter_side": 6, "encoding": "raw"}
    dataset = convert(photos, tmp_path / "out", **conversion)
    settings = {"batch_size": 2, "shuffle": True, **SIZE}
    token = iterate(str(photos), "train", conversion=conversion, **settings).state(1)
    with pytest.raises(ConfigError, match="shuffle='global'"):
        iterate(dataset, "train", state=token, **settings)


@pytest.mark.parametrize("is_raw_first", [True, False])
def test_new_file_is_named_when_a_token_is_refused(is_raw_first, photos, tmp_path):
    settings: dict[str, Any] = {"batch_size": 2, **SIZE}
    dataset = convert(photos, tmp_path / "out")
    first = str(photos) if is_raw_first else dataset
    token = iterate(first, "train", **settings).state(1)
    write_files(photos, {"b/new.jpg": jpeg(99)})
    second = convert(photos, tmp_path / "again") if is_raw_first else str(photos)
    with pytest.raises(
        ConfigError,
        match=r"20 files of the token .* found 21 files, 1 new or "
        r"changed: b/new\.jpg",
    ):
        iterate(second, "train", state=token, **settings)


def test_changed_file_is_named_when_a_token_is_refused(photos):
    token = iterate(str(photos), "train", batch_size=2, **SIZE).state(1)
    write_files(photos, {"a/00.jpg": jpeg(77)})
    with pytest.raises(ConfigError, match=r"1 new or changed: a/00\.jpg"):
        iterate(str(photos), "train", batch_size=2, state=token, **SIZE)


@pytest.mark.parametrize("is_raw_first", [True, False])
def test_rejected_input_is_named_when_a_token_is_refused(is_raw_first, photos, tmp_path):
    write_files(photos, {"b/bad.jpg": jpeg(5)[:300]})
    dataset = convert(photos, tmp_path / "out", max_reject_fraction=0.5)
    first, second = (str(photos), dataset) if is_raw_first else (dataset, str(photos))
    token = iterate(first, "train", batch_size=2, **SIZE).state(1)
    with pytest.raises(ConfigError, match=r"lacks 1 rejected inputs \(b/bad\.jpg: TRUNCATED"):
        iterate(second, "train", batch_size=2, state=token, **SIZE)
    iterate(first, "train", batch_size=2, state=token, **SIZE)


def test_forgotten_record_ends_the_validity_of_tokens(photos, tmp_path):
    dataset = convert(photos, tmp_path / "out")
    assert open_dataset(dataset).listing is not None
    listing = json.loads((Path(dataset) / "listing.json").read_text())
    assert listing["contents"].keys() == open_dataset(dataset).records.keys()
    shorter = convert(photos, tmp_path / "less")
    text = (Path(shorter) / "listing.json").read_text()
    (Path(dataset) / "listing.json").write_text(text.replace('"train": "', '"train": "0'))
    assert open_dataset(dataset).listing is None


def test_updated_dataset_has_no_listing(photos, tmp_path):
    from components import steps
    from components.example_gen.settings import ImageSettings

    steps.convert(str(photos), str(tmp_path / "1"), ImageSettings())
    settings = ImageSettings(base_dataset=str(tmp_path / "1"))
    steps.convert(str(photos), str(tmp_path / "2"), settings)
    assert open_dataset(str(tmp_path / "1")).listing is not None
    assert open_dataset(str(tmp_path / "2")).listing is None


TRAINER = """
import json, sys, trainer_utils
place, token, steps, processes, path = json.loads(sys.argv[1])
train = trainer_utils.iterate(place, "train", batch_size=3, shuffle="global", features="image",
                              label="label", image_size=(16, 16), augment=["flip"], state=token,
                              repeat=True, processes=processes)
step = 0
if token:
    start = json.loads(token)
    step = start["epoch"] * train.input_steps + start["step"]
for images, labels in train:
    print(step, int(images.sum()), labels.tolist(), flush=True)
    step += 1
    open(path, "w").write(train.state(step).to_json())
    if step == steps:
        import os
        os._exit(9)
"""


@pytest.mark.e2e
@pytest.mark.parametrize("is_raw_first", [True, False])
def test_killed_trainer_resumes_across_the_border(is_raw_first, photos, tmp_path):
    dataset = convert(photos, tmp_path / "out")
    places = [str(photos), dataset] if is_raw_first else [dataset, str(photos)]

    def train(place: str, token: str | None, steps: int, processes: int = 0) -> list[str]:
        arguments = json.dumps([place, token, steps, processes, str(tmp_path / "token")])
        run = subprocess.run(
            [sys.executable, "-c", TRAINER, arguments],
            capture_output=True,
            text=True,
            timeout=300,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        )
        assert run.returncode == 9, run.stderr
        return run.stdout.splitlines()

    whole = train(places[0], None, 14)
    first = train(places[0], None, 6)
    rest = train(places[1], (tmp_path / "token").read_text(), 14, processes=2)
    assert [*first, *rest] == whole
