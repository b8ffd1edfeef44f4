"""The constructors, settings as runtime parameters, and the names in TFX."""

import inspect

import pytest
import yaml

pytest.importorskip("tfx", reason="components needs TFX")
from google.protobuf import message
from tfx.components.example_gen import utils
from tfx.dsl.placeholder import placeholder
from tfx.orchestration.data_types import RuntimeParameter
from tfx.orchestration.pipeline import Pipeline
from tfx.proto import example_gen_pb2
from tfx.types import Channel, standard_artifacts
from tfx.types import standard_component_specs as specs

import components
from components.balancing.settings import BalancerSettings
from components.example_gen.settings import AudioSettings, ImageSettings, TextSettings
from components.settings import AuditSettings, DatasetReportSettings, SchemaExportSettings
from components.tfx import example_gen as properties
from trainer_utils.core.errors import ConfigError
from trainer_utils.core.settings import settings_of

SETTINGS = {
    "ImageExampleGen": ImageSettings,
    "TextExampleGen": TextSettings,
    "AudioExampleGen": AudioSettings,
    "ShardBalancer": BalancerSettings,
    "SchemaExport": SchemaExportSettings,
    "DatasetAudit": AuditSettings,
    "DatasetReport": DatasetReportSettings,
}
EXAMPLE_GENS = ["ImageExampleGen", "TextExampleGen", "AudioExampleGen"]
KUBEFLOW = {int: "NUMBER_INTEGER", float: "NUMBER_DOUBLE", str: "STRING"}
DEFAULTS = {int: 1, float: 0.5, str: "x"}


def types_of(component):
    """Return the types of each execution property; TFX's messages are JSON strings."""
    for name, parameter in getattr(components, component).SPEC_CLASS.PARAMETERS.items():
        kinds = parameter.type if isinstance(parameter.type, tuple) else (parameter.type,)
        yield name, [str if issubclass(kind, message.Message) else kind for kind in kinds]


def make(component, settings):
    if component in EXAMPLE_GENS:
        return getattr(components, component)(**{"input_base": "x", **settings})
    examples = Channel(type=standard_artifacts.Examples)
    return getattr(components, component)(examples=examples, **settings)


def test_constructors_list_every_setting():
    """Assert that every setting is a documented keyword with the dataclass's default."""
    for component in components.__all__:
        constructor = getattr(components, component).__init__
        parameters = inspect.signature(constructor).parameters
        for name, one in settings_of(SETTINGS[component]).items():
            assert parameters[name].kind is parameters[name].KEYWORD_ONLY
            assert parameters[name].default == (None if one.is_collection else one.default), name
        for name in parameters.keys() - {"self"}:
            assert f"\n    {name}: " in inspect.getdoc(constructor), name


def test_arguments_and_defaults_survive_a_constructor(subtests):
    for component, settings in SETTINGS.items():
        with subtests.test(component=component):
            assert settings.from_properties(make(component, {}).exec_properties) == settings()
    options = {"layout": "csv", "columns": {"grade": "label"}, "quality": 80, "stratify": True}
    properties = make("ImageExampleGen", options).exec_properties
    assert all(type(properties[name]) in (int, float, str) for name in options)
    given = ImageSettings.from_properties(properties)
    assert given == ImageSettings.from_arguments(options) != ImageSettings()
    for component in components.__all__:
        with pytest.raises(ConfigError, match=f"{component}, setting 'sed': expected one of"):
            make(component, {"sed": 7})
    with pytest.raises(ConfigError, match="quality"):
        make("ImageExampleGen", {"quality": 1000})


def test_old_setting_name_works_with_a_warning():
    with pytest.warns(FutureWarning, match="image_roots= was renamed to file_roots="):
        properties = make("ImageExampleGen", {"image_roots": ["/photos"]}).exec_properties
    assert ImageSettings.from_properties(properties).file_roots == ["/photos"]


@pytest.mark.parametrize(
    ("component", "typo", "meant"),
    [
        ("ImageExampleGen", "layuot", "layout"),
        ("ImageExampleGen", "split", "splits"),
        ("TextExampleGen", "min_char", "min_chars"),
        ("AudioExampleGen", "samplerate", "sample_rate"),
        ("ShardBalancer", "num_shard", "num_shards"),
        ("SchemaExport", "tfsd", "tfds"),
        ("DatasetAudit", "failon", "fail_on"),
        ("DatasetReport", "sample_record", "sample_records"),
    ],
)
def test_misspelt_setting_is_reported_with_the_right_name(component, typo, meant):
    with pytest.raises(ConfigError, match=f"Did you mean '{meant}'\\?$"):
        make(component, {typo: 1})


def test_component_in_place_of_its_output_is_explained():
    gen = components.ImageExampleGen(input_base="x")
    expected = (
        "examples: expected a channel, got the component ImageExampleGen. "
        "Pass its output: ImageExampleGen(…).outputs['examples']"
    )
    for component in set(components.__all__) - {*EXAMPLE_GENS}:
        with pytest.raises(ConfigError) as refused:
            getattr(components, component)(examples=gen)
        assert str(refused.value) == expected
        with pytest.raises(ConfigError, match="examples: expected an output of a component"):
            getattr(components, component)(examples="out/")
    with pytest.raises(ConfigError) as refused:
        components.ShardBalancer(examples=[gen.outputs["examples"], gen])
    assert str(refused.value) == expected


@pytest.mark.parametrize("component", EXAMPLE_GENS)
@pytest.mark.parametrize("splits", [{"train": 8, "eval": 2}, {"train": 0.8, "eval": 0.2}])
def test_splits_setting_equals_output_config(component, splits, subtests):
    config = example_gen_pb2.SplitConfig()
    config.splits.add(name="train", hash_buckets=8)
    config.splits.add(name="eval", hash_buckets=2)
    output_config = example_gen_pb2.Output(split_config=config)
    given = make(component, {"splits": splits}).exec_properties
    assert given == make(component, {"output_config": output_config}).exec_properties
    for wrong in ({"splits": splits, "output_config": output_config}, {"splits": {"train": 0.5}}):
        with subtests.test(wrong=wrong):
            with pytest.raises(ConfigError) as refused:
                make(component, wrong)
            assert refused.value.setting == "splits"


def test_each_setting_may_be_a_runtime_parameter():
    for component in components.__all__:
        for name, kinds in types_of(component):
            for kind in kinds:
                parameter = RuntimeParameter(name, ptype=kind, default=DEFAULTS[kind])
                assert make(component, {name: parameter}).exec_properties[name] is parameter
            later = placeholder.execution_invocation().pipeline_run_id
            assert make(component, {name: later}).exec_properties[name] is later


def parameters_of(component):
    return {
        name: RuntimeParameter(f"{component}-{name}", ptype=kinds[0], default=DEFAULTS[kinds[0]])
        for name, kinds in types_of(component)
        if not name.endswith("_config")  # TFX compiles these
    }


def test_all_components_compile_for_kubeflow_with_their_types(tmp_path):
    from pipelines.kubeflow import compile_pipeline

    (tmp_path / "mine.py").write_text(
        "from tests.components.test_constructors import everything\n"
        "def make(pipeline_root):\n    return everything(pipeline_root)\n"
    )
    output = tmp_path / "pipeline.yaml"
    compile_pipeline(
        f"{tmp_path}/mine.py:make", str(output), image="image", pipeline_root="gs://bucket/runs"
    )
    inputs = yaml.safe_load(output.read_text())["root"]["inputDefinitions"]["parameters"]
    for component in components.__all__:
        for name, parameter in parameters_of(component).items():
            assert inputs[f"{component}-{name}"]["parameterType"] == KUBEFLOW[parameter.ptype]


def everything(pipeline_root):
    steps = [make(c, parameters_of(c)) for c in EXAMPLE_GENS]
    examples = steps[0].outputs["examples"]
    balanced = components.ShardBalancer(examples=examples, **parameters_of("ShardBalancer"))
    schema = components.SchemaExport(
        examples=balanced.outputs["balanced_examples"], **parameters_of("SchemaExport")
    )
    report = components.DatasetReport(examples=examples, **parameters_of("DatasetReport"))
    audit = components.DatasetAudit(examples=examples, **parameters_of("DatasetAudit"))
    return Pipeline(
        pipeline_name="everything",
        pipeline_root=pipeline_root,
        components=[*steps, balanced, schema, report, audit],
    )


def test_names_equal_the_names_in_tfx():
    assert properties.FINGERPRINT == utils.FINGERPRINT_PROPERTY_NAME
    assert (utils.SPAN_PROPERTY_NAME, utils.VERSION_PROPERTY_NAME) == ("span", "version")
    names = [specs.INPUT_BASE_KEY, specs.INPUT_CONFIG_KEY, specs.OUTPUT_CONFIG_KEY]
    assert names == ["input_base", "input_config", "output_config"]
    assert (specs.RANGE_CONFIG_KEY, specs.EXAMPLES_KEY) == ("range_config", "examples")


def test_all_files_are_requested_like_in_tfx():
    assert properties.all_files() == utils.make_default_input_config()
