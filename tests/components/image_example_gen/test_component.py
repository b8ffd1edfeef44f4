"""The component's options as TFX holds them."""

import json

import pytest
from tfx.components.example_gen.component import FileBasedExampleGen
from tfx.orchestration.data_types import RuntimeParameter
from tfx.proto import example_gen_pb2

from components import ImageExampleGen
from components.example_gen.settings import ImageSettings
from trainer_utils.format import ConfigError

OPTIONS = {
    "layout": "csv",
    "columns": {"grade": "label"},
    "image_roots": ["/photos"],
    "feature_names": {"image": "image/encoded"},
    "image_dir": "jpg",
    "csv_path": "lists/{split}.csv",
    "vocabulary": ["cat", "dog"],
    "group_by": "patient",
    "stratify": True,
    "orientation": "keep",
    "frames": "reject",
    "resize_shorter_side": 256,
    "quality": 80,
    "encoding": "raw",
    "verify": "decode",
    "max_pixels": 1000,
    "seed": 7,
    "target_shard_bytes": 1 << 20,
    "compression": "gzip",
    "max_reject_fraction": 0.5,
}


def test_every_option_comes_back_from_the_execution_properties():
    component = ImageExampleGen("photos/", **OPTIONS)
    properties = component.exec_properties
    assert all(type(properties[name]) in (int, float, str) for name in OPTIONS)
    settings = ImageSettings.from_properties(properties)
    assert settings == ImageSettings.from_arguments(OPTIONS)
    assert settings.images.quality == 80
    assert settings.vocabularies == {"label": ("cat", "dog")}


def test_what_is_not_given_has_its_default():
    properties = ImageExampleGen("photos/").exec_properties
    assert ImageSettings.from_properties(properties) == ImageSettings()


def test_the_formats_and_the_config_of_tfx_are_as_tfx_has_them():
    config = example_gen_pb2.CustomConfig()
    config.custom_config.Pack(example_gen_pb2.Input())
    given = {
        "output_data_format": example_gen_pb2.FORMAT_TF_EXAMPLE,
        "output_file_format": example_gen_pb2.FORMAT_TFRECORDS_GZIP,
    }
    properties = ImageExampleGen("photos/", custom_config=config, **given).exec_properties
    stock = FileBasedExampleGen("photos/", custom_config=config).exec_properties
    assert properties["custom_config"] == stock["custom_config"]
    assert ImageSettings.from_properties(properties).gzip
    for name in given:
        with pytest.raises(ConfigError, match=f"{name}.*16"):
            ImageExampleGen("photos/", **{name: example_gen_pb2.FILE_FORMAT_PARQUET})


@pytest.mark.parametrize("name", OPTIONS)
def test_every_option_may_be_a_parameter_of_the_run(name):
    kind = {bool: int, list: str, dict: str}.get(type(OPTIONS[name]), type(OPTIONS[name]))
    parameter = RuntimeParameter(name=name, ptype=kind)
    properties = ImageExampleGen("photos/", **{name: parameter}).exec_properties
    assert properties[name] is parameter


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("layout", "pictures"),
        ("columns", ["grade"]),
        ("image_roots", "photos"),
        ("image_roots", [""]),
        ("vocabulary", {"label": []}),
        ("vocabulary", ["cat", "cat"]),
        ("vocabulary", ["two\nlines"]),
        ("group_by", ""),
        ("stratify", "yes"),
        ("orientation", "up"),
        ("quality", 1000),
        ("resize_shorter_side", -1),
    ],
)
def test_a_wrong_option_is_refused_where_the_component_is_made(name, wrong):
    with pytest.raises(ConfigError, match=name):
        ImageExampleGen("photos/", **{name: wrong})


@pytest.mark.parametrize("name", ["columns", "image_roots", "vocabulary"])
def test_what_is_no_json_is_refused_in_the_run(name):
    with pytest.raises(ConfigError, match=f"{name}: expected JSON, got 'x,y'"):
        ImageSettings.from_properties({name: "x,y"})


def test_a_manifest_holds_no_path_of_the_settings():
    settings = ImageSettings.from_arguments(OPTIONS)
    assert "/photos" not in json.dumps(settings.for_manifest())
    assert settings.for_manifest()["vocabulary"] == {"label": 2}
