"""Settings of components as execution properties and as Kubeflow's parameters."""

import json

import pytest

from components.balancing.settings import BalancerSettings
from components.common.settings import without_empty
from components.example_gen.settings import AudioSettings, ImageSettings, TextSettings
from components.settings import AuditSettings, DatasetReportSettings, SchemaExportSettings
from trainer_utils.format import ConfigError
from trainer_utils.format.settings import settings_of

ALL = [
    AudioSettings,
    AuditSettings,
    BalancerSettings,
    DatasetReportSettings,
    ImageSettings,
    SchemaExportSettings,
    TextSettings,
]
OTHER_THAN_DEFAULT = {
    "layout": "csv",
    "columns": {"x": "int", "y": "label"},
    "image_roots": ["/a", "/b"],
    "column_names": ["x", "y"],
    "header": False,
    "vocabulary": {"y": ["cat", "dog"]},
    "group_by": "x",
    "stratify": True,
    "seed": -(2**63),
    "target_shard_bytes": 1,
    "compression": "gzip",
    "max_reject_fraction": 1,
    "orientation": "keep",
    "frames": "reject",
    "resize_shorter_side": 224,
    "quality": 1,
    "verify": "decode",
    "max_pixels": 7,
    "feature_names": {"image": "image/encoded"},
    "image_dir": "jpg",
    "csv_path": "lists/{split}.csv",
    "annotation_dir": "xml",
    "label_dir": "maps",
    "image_set_dir": "sets",
    "label_list": "labels.txt",
    "sample_rate": 16_000,
    "channels": 1,
    "delimiter": ";",
    "encoding": "raw",
    "lowercase": True,
    "normalize": "NFC",
    "min_chars": 3,
    "max_chars": 9,
    "deduplicate": True,
    "num_shards": {"train": 2},
    "shard_multiple": 4,
    "shuffle": False,
    "balance": "bytes",
    "stratify_by": "label",
    "memory_bytes": 1 << 20,
    "exclude": ["a.jpg"],
    "relabel": {"a.jpg": "cat"},
    "where": "height > 3",
    "add": ["more/"],
    "keep_shards": True,
    "tfds": True,
    "sample_records": 7,
    "tensors": {"z": "float16[3,4]"},
    "fail_on": ["leakage"],
    "label": "species",
    "most": 7,
}
BESIDE = {"header": {"column_names": ["x"]}, "encoding": {"resize_shorter_side": 2}}
each = pytest.mark.parametrize("settings", ALL, ids=lambda settings: settings.__name__)


def arguments_of(settings):
    """One value other than the default for each setting; classes differ in some of them."""
    arguments = {name: OTHER_THAN_DEFAULT[name] for name in settings.argument_names()}
    if settings is TextSettings:
        arguments["encoding"] = "latin-1"
    if settings is BalancerSettings:
        arguments["balance"] = "records"
        arguments["keep_shards"] = False
    return arguments


@each
def test_every_value_comes_back_from_the_execution_properties(settings):
    arguments = arguments_of(settings)
    properties = settings.to_properties(arguments)
    assert [*properties] == [*settings.argument_names()]
    assert all(type(value) in (int, float, str) for value in properties.values())
    made = settings.from_properties(properties)
    assert made == settings.from_arguments(arguments) != settings()
    assert settings.from_properties(settings.to_properties({})) == settings()
    for name, value in arguments.items():
        alone = settings.from_arguments({**BESIDE.get(name, {}), name: value})
        without = settings.from_arguments(BESIDE.get(name, {}))
        assert (alone == without) == (value == settings_of(settings)[name].default), name


@each
def test_kubeflows_empty_values_and_numbers_mean_what_they_mean(settings):
    empty = {bool: False, int: 0, float: 0.0, str: ""}
    declared = settings_of(settings)
    given = {
        name: "" if one.is_collection else empty[one.kinds[0]]
        for name, one in declared.items()
        if one.is_optional or one.is_collection
    }
    assert without_empty(settings, {**given, "more": [], "other": 0}) == {"other": 0}
    texts = {name: "" for name in given}  # of a RuntimeParameter with the default ""
    assert settings.from_properties(texts) == settings()
    numbers = {
        name: float(value)
        for name, value in arguments_of(settings).items()
        if int in declared[name].kinds and isinstance(value, int) and abs(value) < 2**53
    }
    whole = {name: int(value) for name, value in numbers.items()}
    assert settings.from_properties(numbers) == settings.from_arguments(whole)


@pytest.mark.parametrize(
    ("given", "num_shards"),
    [(None, None), ("", None), ("8", 8), ("null", None), ('{"train": 3}', {"train": 3}), (2.0, 2)],
)
def test_num_shards_is_json_or_a_number_of_kubeflows(given, num_shards):
    assert BalancerSettings.from_properties({"num_shards": given}).num_shards == num_shards


@pytest.mark.parametrize(
    ("settings", "name", "value"),
    [
        *((TextSettings, name, "x,y") for name in ("columns", "image_roots", "vocabulary")),
        *((BalancerSettings, "num_shards", one) for one in ("many", "{", '"8"', "1.5", "-1", 0.5)),
        (BalancerSettings, "num_shards", '{"train": 0}'),
    ],
)
def test_a_property_that_holds_no_such_value_is_refused(settings, name, value):
    with pytest.raises(ConfigError) as error:
        settings.from_properties({name: value})
    assert str(error.value).startswith(name)


WRONG = {
    ImageSettings: [
        ("layout", "pictures"),
        ("columns", ["grade"]),
        ("image_roots", "photos"),
        ("image_roots", [""]),
        ("vocabulary", {"label": []}),
        ("vocabulary", ["two\nlines"]),
        ("feature_names", {"a": "x", "b": "x"}),
        ("orientation", "up"),
        ("quality", 1000),
        ("resize_shorter_side", -1),
        ("resize_shorter_side", None, {"encoding": "raw"}),
        ("image_dir", "../elsewhere"),
        ("csv_path", "/lists.csv"),
        ("sample_rate", 0),
    ],
    TextSettings: [
        ("layout", "xml"),
        ("columns", {"a": "integer"}),
        ("column_names", ["a", "a"]),
        ("column_names", "ab"),
        ("column_names", ["a", ""]),
        ("header", False),
        ("tensors", {"a": "float17[3]"}),
        *(("delimiter", one) for one in ("::", "", '"', "\n", "§")),
        *(("encoding", one) for one in ("klingon", "base64", "rot13")),
        ("normalize", "nfc"),
        ("lowercase", "yes"),
        ("lowercase", True, {"columns": {"a": "image"}}),
        ("deduplicate", 2),
        ("min_chars", -1),
        ("min_chars", 1.5),
        ("max_chars", 0),
        ("max_chars", 4, {"min_chars": 5}),
        ("stratify", "yes"),
        ("group_by", ""),
        ("seed", 2**63),
        ("target_shard_bytes", 0),
        ("compression", "zip"),
        ("max_reject_fraction", 1.5),
        ("vocabulary", ["a", "a"]),
    ],
    AudioSettings: [("layout", "voc"), ("sample_rate", 1_000_000), ("channels", 3)],
    BalancerSettings: [
        ("num_shards", {"train": -1}),
        ("shard_multiple", 0),
        ("balance", "size"),
        ("stratify_by", "label", {"balance": "bytes"}),
        ("memory_bytes", 4),
        ("exclude", [""]),
        ("relabel", {"a.jpg": None}),
        ("where", "import os"),
        ("add", "more/"),
        ("keep_shards", True, {"num_shards": 3}),
    ],
    SchemaExportSettings: [("tfds", "yes")],
    AuditSettings: [("fail_on", ["leekage"]), ("fail_on", "leakage"), ("most", -1), ("label", "")],
    DatasetReportSettings: [("sample_records", 0)],
}


@pytest.mark.parametrize(
    ("settings", "name", "value", "beside"),
    [
        (settings, name, value, *(beside or [{}]))
        for settings, rows in WRONG.items()
        for name, value, *beside in rows
    ],
)
def test_a_value_that_is_not_allowed_is_refused_by_its_name(settings, name, value, beside):
    with pytest.raises(ConfigError) as error:
        settings.from_arguments({name: value, **beside})
    assert str(error.value).startswith(name)


def test_a_manifest_holds_no_path_of_the_settings():
    settings = ImageSettings(image_roots=["/photos"], vocabulary=["cat", "dog"])
    assert "/photos" not in json.dumps(settings.for_manifest())
    assert settings.for_manifest()["vocabulary"] == {"label": 2}
