"""For any value of an argument: a batch, or our error that names the argument."""

import dataclasses
import itertools
import re
from typing import Any

import numpy as np
import pytest

from tests.make import refusing
from trainer_utils import (
    ImageOptions,
    InputOptions,
    LabelOptions,
    PackOptions,
    iterate,
    plan,
)
from trainer_utils.core.errors import ConfigError, TfxShardsError
from trainer_utils.options import CacheOptions

WRONG: dict[str, Any] = {
    "a text": "2",
    "a text with NUL": "a\0b",
    "bytes": b"x",
    "a fraction": 2.5,
    "no number": float("nan"),
    "infinite": float("inf"),
    "below zero": -1,
    "zero": 0,
    "huge": 10**30,
    "two that are huge": (10**12, 10**12),
    "true": True,
    "nothing": None,
    "of numpy": np.int64(2),
    "an array": np.arange(3),
    "a list": [2],
    "an empty list": [],
    "a list of nothing": [None],
    "a nested list": [[1], {"a": object()}],
    "a set": {1},
    "a dict": {"a": 1},
    "a dict by number": {1: 2},
    "an object": object(),
}
BASE = {"batch_size": 4, "image_size": (8, 8), "label": "label", "features": ["image"]}
GROUPS = {"labels": LabelOptions, "cache": CacheOptions, "image": ImageOptions, "pack": PackOptions}
NAMED_AS = {  # other words for an argument in messages
    **{name: {options.__name__} for name, options in GROUPS.items()},
    "features": {"feature"},
    "options": {"InputOptions"},
    "sample_weight": {"feature"},
    "worker": {"rank", "world_size"},  # its new name, after a FutureWarning
    "num_workers": {"rank", "world_size"},
}
OWN_FOLDER = ("cache", "folder")  # a string here names a folder to create
TEXTS = ("a text", "a text with NUL")


@pytest.fixture
def uri(of_all_kinds) -> str:
    return of_all_kinds


def read(artifact_uri: Any, split: Any = "train", **arguments: Any) -> None:
    for _ in itertools.islice(iterate(artifact_uri, split, **arguments), 2):
        pass


def make_plan(artifact_uri: Any, split: Any = "train", **arguments: Any) -> None:
    plan(artifact_uri, split, **arguments)


def answers(call: Any, uri: str, name: str, arguments: dict[str, Any]) -> None:
    """Assert that the call works, or raises our error, which names the argument."""
    failures = []
    for value in WRONG:
        if name in OWN_FOLDER and value in TEXTS:
            continue
        try:
            call(**{"artifact_uri": uri, **arguments, name: WRONG[value]})
        except TfxShardsError as error:
            if not {name, *NAMED_AS.get(name, ())} & {*re.findall(r"\w+", str(error))}:
                failures.append(f"{value}: {type(error).__name__}: {error}")
        except Exception as error:
            failures.append(f"{value}: {type(error).__name__}: {error}")
    assert not failures, f"{name}:\n" + "\n".join(failures)


SETTINGS = [field.name for field in dataclasses.fields(InputOptions)]


@pytest.mark.parametrize(
    "name", [*SETTINGS, "rank", "world_size", "worker", "num_workers", "options", "split"]
)
def test_iterate_works_or_names_the_argument(uri, name):
    answers(read, uri, name, dict(BASE))


@pytest.mark.parametrize("name", ["workers", "replicas", "options", "split", "batch_size", "state"])
def test_plan_works_or_names_the_argument(uri, name):
    answers(make_plan, uri, name, {"batch_size": 4})


@pytest.mark.parametrize(
    ("group", "name"),
    [(group, field.name) for group in GROUPS for field in dataclasses.fields(GROUPS[group])],
)
def test_group_works_or_names_its_setting(uri, group, name):
    base: dict[str, Any] = {"batch_size": 1} if group == "pack" else dict(BASE)

    def call(artifact_uri: str, **arguments: Any) -> None:
        read(artifact_uri, **base, **{group: arguments})

    answers(call, uri, name, {})


def test_an_invalid_value_is_named(subtests):
    wrong: dict[str, tuple[Any, ...]] = {
        "batch_size": (0, -1, True, 1.5, "64"),
        "image_size": ((0, 8), (8, -8), (8, 8.0), (8, 8, 3), 224),
        "repeat": (0, -1, 1.5),
        "seed": (1.5,),
        "prefetch": (-3,),
        "features": ([],),
        "augment": ("mixin",),
        "audio_seconds": (0, -1, 1e12, float("inf"), True, "1"),
    }
    images: dict[str, tuple[Any, ...]] = {
        "resize": ("fit",),
        "channels": (4, True),
        "normalize": (
            *("zscore", (1, 0), ([1, 2], 3), (1, 2, 3), 5, ("a", "b"), (10**400, 1)),
            *(b"ab", {1.0, 2.0}, {1: 2, 3: 4}, range(1, 3)),
        ),
        "dtype": ("float64",),
        "dct_scaling": (2,),
        "crop_area": ((0.5, 1.5), (0.6, 0.5)),
        "crop_aspect": ((0, 1),),
    }
    for options, settings in ((InputOptions, wrong), (ImageOptions, images)):
        with subtests.test(options=options):
            for setting, value in [
                (name, one) for name, values in settings.items() for one in values
            ]:
                with pytest.raises(ConfigError) as caught:
                    options(**{setting: value})
                assert (caught.value.setting, caught.value.value) == (setting, value)
    assert InputOptions(audio_seconds=3600).audio_seconds == 3600


def test_unknown_settings_of_a_group_are_named(subtests):
    for options in (*GROUPS.values(), InputOptions):
        with subtests.test(options=options), refusing("batchsize"):
            options(batchsize=3)


@pytest.mark.parametrize(
    ("arguments", "setting"),
    [
        ({"artifact_uri": []}, "artifact_uri"),
        ({"rank": "0", "world_size": 2}, "rank"),
        ({"rank": 2, "world_size": 2}, "rank"),
        ({"rank": 0, "world_size": "2"}, "world_size"),
        ({"rank": 0, "world_size": 0}, "world_size"),
        ({"options": {"batchsize": 4}}, "batchsize"),
        ({"options": "fast"}, "options"),
        ({"state": {"a": 1}}, "state"),
        ({"state": 1 << 63}, "state"),
        ({"features": [["image"]]}, "features"),
        ({"mask": "label", "remainder": "pad"}, "mask"),
        ({"cache": "/proc/x"}, "cache"),
        ({"cache": "/dev/null/x"}, "cache"),
        ({"cache": "/proc/x", "pack": {"length": 4}, "image_size": None}, "cache"),
    ],
)
def test_the_error_names_the_argument(uri, arguments, setting):
    with refusing(setting):
        read(**{"artifact_uri": uri, "batch_size": 4, "image_size": (8, 8), **arguments})


def test_state_of_an_invalid_step(uri, subtests):
    batches = iterate(uri, "train", features="label")
    for value in ("2", None, -1, 2.0, True):
        with subtests.test(value=value), refusing("step"):
            batches.state(value)


class TestSizes:
    """Inputs too large for memory are refused before reading, naming the setting."""

    @pytest.fixture(autouse=True)
    def machine(self, monkeypatch):
        monkeypatch.setattr("trainer_utils.reading.input_spec.free_memory", lambda: 1 << 30)

    @pytest.mark.parametrize(
        ("settings", "setting"),
        [
            ({"image_size": (10**12, 10**12)}, "image_size"),
            ({"image_size": (1, 10**9), "batch_size": None}, "image_size"),
            ({"image_size": (12_000, 12_000), "features": "image"}, "image_size"),
            ({"features": "label", "audio_seconds": 1e12}, "audio_seconds"),
            ({"features": "label", "batch_size": 10**9, "remainder": "pad"}, "batch_size"),
            ({"label": "label", "features": "weight",
              "labels": {"one_hot": True, "num_classes": 10**12}}, "labels"),
            ({"pack": {"length": 2**31 - 1}}, "pack"),
        ],
    )  # fmt: skip
    def test_too_large_sizes_are_refused(self, uri, settings, setting):
        with refusing(setting):
            iterate(uri, "train", **{"batch_size": 11, **settings})

    @pytest.mark.parametrize(
        "settings",
        [
            {"features": "label", "batch_size": 10**12},  # the dataset has 11 rows
            {"features": "image", "image_size": (1000, 1000), "batch_size": 11},
            {"features": "label", "shuffle": 10**18},
        ],
    )
    def test_large_settings_of_small_inputs_work(self, uri, settings):
        iterate(uri, "train", **settings)
