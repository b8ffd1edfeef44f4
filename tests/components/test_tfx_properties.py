"""The names and defaults of TFX's ExampleGens, beside TFX's own."""

from tfx.components.example_gen import utils
from tfx.types import standard_component_specs

from components.tfx import example_gen as properties


def test_names_are_those_of_tfx():
    specs = standard_component_specs
    assert properties.FINGERPRINT == utils.FINGERPRINT_PROPERTY_NAME
    assert (utils.SPAN_PROPERTY_NAME, utils.VERSION_PROPERTY_NAME) == ("span", "version")
    names = [specs.INPUT_BASE_KEY, specs.INPUT_CONFIG_KEY, specs.OUTPUT_CONFIG_KEY]
    assert names == ["input_base", "input_config", "output_config"]
    assert (specs.RANGE_CONFIG_KEY, specs.EXAMPLES_KEY) == ("range_config", "examples")


def test_all_files_are_asked_for_as_tfx_asks():
    assert properties.all_files() == utils.make_default_input_config()
