"""Settings of components as execution properties and as Kubeflow's parameters."""

import inspect
import json

import pytest

from components.balancing.settings import BalancerSettings
from components.example_gen.settings import AudioSettings, ImageSettings, LayoutNames, TextSettings
from components.runtime.component_settings import without_empty
from components.settings import AuditSettings, DatasetReportSettings, SchemaExportSettings
from tests.setting_values import FLAGS
from trainer_utils.core.errors import ConfigError
from trainer_utils.core.settings import settings_of

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
    **{name: value for name, (_, value) in FLAGS.items()},
    "encoding": "raw",
    "tfds": True,
    "sample_records": 7,
    "fail_on": ["leakage"],
    "label": "species",
    "most": 7,
}
BESIDE = {"header": {"column_names": ["x"]}, "encoding": {"resize_shorter_side": 2}}
LAYOUT_NAMES = [*inspect.signature(LayoutNames).parameters]
each = pytest.mark.parametrize("settings", ALL, ids=lambda settings: settings.__name__)


def arguments_of(settings):
    """Return a value other than the default for each setting of a class."""
    arguments = {name: OTHER_THAN_DEFAULT[name] for name in settings.argument_names()}
    if settings in (TextSettings, AudioSettings):
        arguments["encoding"] = "latin-1"
    if settings is BalancerSettings:
        arguments["balance"] = "records"
        arguments["keep_shards"] = False
    return arguments


@each
def test_values_survive_the_execution_properties(settings):
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
def test_empty_values_and_numbers_of_kubeflow_are_converted(settings):
    empty = {bool: False, int: 0, float: 0.0, str: ""}
    declared = settings_of(settings)
    given = {
        name: "" if one.is_collection else empty[one.kinds[0]]
        for name, one in declared.items()
        if one.is_optional or one.is_collection
    }
    assert without_empty(settings, {**given, "more": [], "other": 0}) == {"other": 0}
    texts = {name: "" for name in given}  # as from a RuntimeParameter with the default ""
    assert settings.from_properties(texts) == settings()
    numbers = {
        name: float(value)
        for name, value in arguments_of(settings).items()
        if int in declared[name].kinds and isinstance(value, int) and abs(value) < 2**53
    }
    whole = {name: int(value) for name, value in numbers.items()}
    assert settings.from_properties(numbers) == settings.from_arguments(whole)


def test_num_shards_is_json_or_a_kubeflow_number(subtests):
    for given, num_shards in (
        (None, None),
        ("", None),
        ("8", 8),
        ("null", None),
        ('{"train": 3}', {"train": 3}),
        (2.0, 2),
    ):
        with subtests.test(given=given):
            assert BalancerSettings.from_properties({"num_shards": given}).num_shards == num_shards


def test_property_with_an_invalid_value_is_refused(subtests):
    for settings, name, value in (
        *((TextSettings, name, "x,y") for name in ("columns", "file_roots", "vocabulary")),
        *((BalancerSettings, "num_shards", one) for one in ("many", "{", '"8"', "1.5", "-1", 0.5)),
        (BalancerSettings, "num_shards", '{"train": 0}'),
    ):
        with subtests.test(settings=settings):
            with pytest.raises(ConfigError) as error:
                settings.from_properties({name: value})
            assert error.value.setting.partition("[")[0] == name


_NO_FLAGS, _NO_COUNTS = ["yes", 2, None, [True]], [-1, "x", 1.5, True]
WRONG = {  # settings: values that no component takes
    **dict.fromkeys(("deduplicate", "keep_shards", "keep_text", "lowercase"), _NO_FLAGS),
    **dict.fromkeys(("follow_links", "shuffle", "stratify", "tfds"), _NO_FLAGS),
    **dict.fromkeys(("max_chars", "min_chars", "most", "resize_shorter_side"), _NO_COUNTS),
    **{name: [0, *_NO_COUNTS] for name in ("sample_rate", "sample_records", "shard_multiple")},
    "quality": [0, 101, *_NO_COUNTS],
    "layout": ["foldr", 3, None, ["csv"]],
    "columns": [["a"], "a=int", {"a": "integer"}, {"a": None}, 3],
    "vocabulary": ["cat", 3, False, {"label": []}, ["a", "a"], [1], ["a\nb"]],
    "tensors": [["a"], "a=int8[2]", {"a": "float3[2]"}, {"a": 3}, 3],
    "group_by": ["", 3, ["a"], True],
    "base_dataset": [3, ["a"], True],
    "seed": ["x", 1.5, None, True, 2**63, -(2**63) - 1],
    "target_shard_bytes": ["128MiB", 0, -1, 1.5, None, True],
    "compression": ["zip", "GZIP", None, 1],
    "max_reject_fraction": ["1%", -0.1, 1.1, None, True],
    "file_roots": ["folder", [1], [""], 3],
    "ignore": ["*.json", [1], [""], 3],
    "orientation": ["aply", None, True],
    "frames": ["last", None, 1],
    "encoding": ["jpeg2000", None, 8],
    "verify": ["decod", None, True],
    "max_pixels": [0, "many", 1.5, None],
    "sixteen_bit": ["double", None, 16],
    "feature_names": [["a"], "a=b", {"a": ""}, {"a": 3}, {"a": "x", "b": "x"}, 3],
    **{name: ["", 3, "/whole", "../out", ["a"]] for name in LAYOUT_NAMES},
    "channels": [0, 3, "mono"],
    "column_names": ["a,b", [""], ["a", "a"], 3],
    "header": ["yes", 2, [True]],
    "delimiter": ["", ";;", 3, '"', "é"],
    "quoting": ["all", 3, None],
    "rows": ["one", 3, None],
    "label_separator": ["", 3, "\n", "123456789"],
    "find_files": ["anywhere", 3, None],
    "name_pattern": ["(?P<label>", "no groups", "(.)", 3],
    "list_encoding": ["klingon", "base64", None, 8],
    "box_format": ["cxcywh", 3],
    "box_frame": ["turned", 3],
    "normalize": ["NFX", 3, "nfc"],
    "num_shards": [0, -1, "eight", 1.5, True, {"train": 0}, {"train": "x"}, [8]],
    "balance": ["size", None, 1],
    "stratify_by": [3, True, ["label"]],
    "memory_bytes": [0, 1 << 19, "1GB", None],
    "exclude": [3, "", [1], [""], True],
    "relabel": [3, "", ["a"], {"a": None}, {"a": ["cat"]}],
    "where": [3, "", "open(label)", "height >", ["height > 3"]],
    "add": ["more/", [1], [""], 3],
    "tokenizer": ["", 3, ["a"]],
    "fail_on": [["leekage"], "leakage"],
    "label": [""],
}
TOGETHER = [  # settings that exclude each other
    (ImageSettings, "resize_shorter_side", {"encoding": "raw"}),
    (TextSettings, "header", {"header": False}),
    (TextSettings, "lowercase", {"lowercase": True, "columns": {"a": "image"}}),
    (TextSettings, "max_chars", {"min_chars": 5, "max_chars": 4}),
    *((TextSettings, "encoding", {"encoding": one}) for one in ("klingon", "base64", "rot13")),
    (AudioSettings, "layout", {"layout": "voc"}),
    (BalancerSettings, "stratify_by", {"stratify_by": "label", "balance": "bytes"}),
    (BalancerSettings, "keep_shards", {"keep_shards": True, "num_shards": 3}),
]


@each
def test_each_wrong_value_is_refused_with_its_setting(settings):
    for name in settings.argument_names():
        values = WRONG[name]
        assert values
        for value in values:
            if value is None and settings_of(settings)[name].default is None:
                continue  # not given
            with pytest.raises(ConfigError) as error:
                settings.from_arguments({name: value})
            assert error.value.setting.partition("[")[0] == name, value


def test_settings_that_exclude_each_other_are_refused_by_name(subtests):
    for settings, name, given in TOGETHER:
        with subtests.test(settings=settings):
            with pytest.raises(ConfigError) as error:
                settings.from_arguments(given)
            assert error.value.setting == name


def test_manifest_has_no_paths_of_the_settings():
    settings = ImageSettings(file_roots=["/photos"], vocabulary=["cat", "dog"])
    assert "/photos" not in json.dumps(settings.for_manifest())
    assert settings.for_manifest()["vocabulary"] == {"label": 2}


def test_image_roots_still_works_with_a_warning(subtests):
    expected = ImageSettings(file_roots=["/photos"])
    for make in (ImageSettings.from_arguments, ImageSettings.from_properties):
        with subtests.test(make=make):
            with pytest.warns(FutureWarning, match="image_roots= was renamed to file_roots="):
                assert make({"image_roots": ["/photos"]}) == expected
    both = {"image_roots": ["/photos"], "file_roots": ["/others"]}
    with pytest.warns(FutureWarning), pytest.raises(ConfigError, match="file_roots alone"):
        ImageSettings.from_arguments(both)
