"""Settings of components as execution properties and as Kubeflow's parameters."""

import inspect
import json

import pytest

from components.common.settings import add_settings, without_empty
from components.example_gen.settings import AudioSettings, ImageSettings, TextSettings
from components.settings import AuditSettings, DatasetReportSettings, SchemaExportSettings
from components.shard_balancer.settings import BalancerSettings
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
def test_others_are_passed_over_and_what_is_missing_has_its_default(settings):
    assert settings.from_properties({"span": 3, "input_base": "x", "seed": None}) == settings()
    assert settings.from_arguments({"input_base": "x"}) == settings()


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


@each
def test_booleans_are_real_ones_whatever_tfx_made_of_them(settings):
    flags = [name for name, one in settings_of(settings).items() if bool in one.kinds]
    made = settings.from_properties({"column_names": '["x"]', **dict.fromkeys(flags, 0)})
    assert all(getattr(made, name) is False for name in flags)


@pytest.mark.parametrize("name", ["columns", "image_roots", "column_names", "vocabulary"])
def test_what_is_no_json_is_refused(name):
    with pytest.raises(ConfigError, match=f"^{name}: expected JSON, got 'x,y'"):
        TextSettings.from_properties({name: "x,y"})


@each
def test_each_choice_is_named_in_the_settings_sentence(settings):
    for name, one in settings_of(settings).items():
        for choice in one.choices:
            if isinstance(choice, str):
                assert f"`{choice}`" in one.sentence, (name, choice)


@each
def test_sentences_are_sentences(settings):
    for name, one in settings_of(settings).items():
        assert one.help.endswith("."), name
        assert one.sentence.count("Default:") <= 1, name
        assert ("Default:" in one.sentence) <= (one.default in (None, (), {})), name
        assert "|" not in one.sentence, name  # which ends a cell of the docs' tables
        assert one.name.isidentifier()
        assert json.dumps(one.default) is not None


def test_a_function_gets_the_signature_and_the_docstring_of_the_settings():
    def template(first: int, **rest: int) -> None:
        """Does it.

        Args:
            first: of all.

        Raises:
            ConfigError: a setting is not allowed.
        """

    def made(*_, **__):
        pass

    def parameter(one):
        return inspect.Parameter(one.name, inspect.Parameter.KEYWORD_ONLY, default=one.default)

    add_settings(made, template, SchemaExportSettings, parameter)
    assert str(inspect.signature(made)) == "(first: int, *, tfds=False) -> None"
    sentence = settings_of(SchemaExportSettings)["tfds"].sentence
    start, arguments, end = made.__doc__.split("\n\n")
    assert " ".join(arguments.split()) == f"Args: first: of all. tfds: {sentence}"
    assert (start, end.split(":")[0]) == ("Does it.", "Raises")
    assert max(map(len, made.__doc__.splitlines())) <= 92
