"""Raw inputs in every function that reads a dataset, and in real processes."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.components.raw_inputs.raw_folders import classes
from tests.components.raw_inputs.raw_runs import assert_same_batches, convert
from trainer_utils import iterate, plan
from trainer_utils.monitoring import measure_input, preview

SETTINGS: dict[str, Any] = {
    "batch_size": 4,
    "image_size": (16, 16),
    "features": "image",
    "label": "label",
}


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    classes(tmp_path / "in")
    return tmp_path / "in"


def run(code: str, *arguments: Any, **environment: str) -> subprocess.CompletedProcess[str]:
    paths = [environment.pop("PREPENDED", ""), *sys.path]
    return subprocess.run(
        [sys.executable, "-c", code, json.dumps(arguments)],
        capture_output=True,
        text=True,
        timeout=300,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths)), **environment},
    )


@pytest.mark.parametrize("world_size", [1, 2, 3])
def test_workers_read_their_share_of_the_same_batches(world_size, photos, tmp_path):
    dataset = convert(photos, tmp_path / "out")
    for rank in range(world_size):
        assert_same_batches(
            str(photos),
            dataset,
            batch_size=6,
            shuffle="global",
            image_size=(16, 16),
            rank=rank,
            world_size=world_size,
        )


@pytest.mark.parametrize("settings", [{"augment": ["random_resized_crop"]}, {"augment": ["flip"]}])
def test_augmentation_draws_the_same_numbers(settings, photos, tmp_path):
    dataset = convert(photos, tmp_path / "out")
    assert_same_batches(str(photos), dataset, shuffle="global", repeat=3, **SETTINGS, **settings)


def test_processes_make_the_same_batches(photos, tmp_path):
    dataset = convert(photos, tmp_path / "out")
    assert_same_batches(str(photos), dataset, shuffle="global", processes=2, **SETTINGS)


def test_raw_and_converted_inputs_are_read_together(photos, tmp_path):
    dataset = convert(photos, tmp_path / "out")
    settings = {"batch_size": 3, "shuffle": "global", "image_size": (16, 16)}
    assert_same_batches([str(photos), dataset], [dataset, dataset], **settings)


def test_plan_is_that_of_the_dataset(photos, tmp_path):
    dataset = convert(photos, tmp_path / "out")
    settings = {"workers": 2, "batch_size": 4, "shuffle": "global"}
    raw, whole = plan(str(photos), "train", **settings), plan(dataset, "train", **settings)
    assert raw.workers == whole.workers
    assert raw.records == whole.records


def test_classes_are_known(photos):
    train = iterate(str(photos), "train", **SETTINGS)
    assert train.class_names == ["a", "b"]
    assert train.num_classes == 2


def test_speed_can_be_measured(photos):
    assert measure_input(str(photos), "train", seconds=0.2, **SETTINGS) is not None


def test_single_examples_have_their_own_size(photos):
    sizes = {example["image"].shape for example in iterate(str(photos), "train", batch_size=None)}
    assert len(sizes) > 1


def test_tensorflow_reads_the_same_batches(photos, tmp_path):
    import trainer_utils

    dataset = convert(photos, tmp_path / "out")
    made = [
        [
            (images.numpy(), labels.numpy())
            for images, labels in trainer_utils.input_fn(
                place, "train", shuffle="global", **SETTINGS
            )
        ]
        for place in (str(photos), dataset)
    ]
    for one, other in zip(*made, strict=True):
        np.testing.assert_array_equal(one[0], other[0])
        np.testing.assert_array_equal(one[1], other[1])
    splits = trainer_utils.load(str(photos), shuffle=False, **SETTINGS)
    assert splits.keys() == {"train", "eval"}


def test_strategy_reads_the_same_batches(photos, tmp_path):
    import tensorflow as tf

    import trainer_utils

    dataset = convert(photos, tmp_path / "out")
    made = [
        [
            (images.numpy(), labels.numpy())
            for images, labels in trainer_utils.distribute(
                tf.distribute.get_strategy(), place, "train", shuffle="global", **SETTINGS
            )
        ]
        for place in (str(photos), dataset)
    ]
    for one, other in zip(*made, strict=True):
        np.testing.assert_array_equal(one[0], other[0])
        np.testing.assert_array_equal(one[1], other[1])


def test_every_split_is_loaded(photos, tmp_path):
    import trainer_utils

    dataset = convert(photos, tmp_path / "out")
    raw, whole = (
        trainer_utils.load(place, shuffle=False, **SETTINGS) for place in (str(photos), dataset)
    )
    assert [*raw] == [*whole]
    for split, batches in raw.items():
        for one, other in zip(batches, whole[split], strict=True):
            np.testing.assert_array_equal(one[0], other[0])
            np.testing.assert_array_equal(one[1], other[1])


def test_preview_is_that_of_the_dataset(photos, tmp_path):
    dataset = convert(photos, tmp_path / "out")
    settings = SETTINGS | {"features": ("image", "label"), "label": None}
    raw, whole = (iterate(place, "train", **settings) for place in (str(photos), dataset))
    assert preview(raw) == preview(whole)


READ = """
import json, sys, trainer_utils
(place,) = json.loads(sys.argv[1])
for batch in trainer_utils.iterate(place, "train", batch_size=4, image_size=(16, 16)):
    pass
print(sorted({name.partition(".")[0] for name in sys.modules} &
             {"tensorflow", "tfx", "apache_beam", "torch", "ml_metadata"}))
"""


def test_reading_imports_no_framework(photos):
    found = run(READ, str(photos))
    assert found.stdout.strip() == "[]", found.stderr


@pytest.mark.parametrize(
    ("missing", "words"),
    [
        ("components", "the package `components` of tfx-shards, which is not installed"),
        ("pyarrow", "the package 'pyarrow', which reads the list of inputs and is not installed"),
    ],
)
def test_missing_package_is_named(missing, words, photos, tmp_path):
    hook = (
        "import sys\n"
        "class Finder:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        f"        if name.partition('.')[0] == {missing!r}:\n"
        "            raise ModuleNotFoundError(f'No module named {name!r}', name=name)\n"
        "sys.meta_path.insert(0, Finder())\n"
    )
    found = run(hook + READ, str(photos))
    assert words in found.stderr
    assert "pip install tfx-shards" in found.stderr
