"""The names and defaults of TFX's ExampleGens, beside TFX's own."""

from tfx.components.example_gen import utils
from tfx.types import standard_component_specs

from components.example_gen import tfx_properties


def test_names_are_those_of_tfx():
    theirs = {
        "EXAMPLES": standard_component_specs.EXAMPLES_KEY,
        "INPUT_BASE": standard_component_specs.INPUT_BASE_KEY,
        "INPUT_CONFIG": standard_component_specs.INPUT_CONFIG_KEY,
        "OUTPUT_CONFIG": standard_component_specs.OUTPUT_CONFIG_KEY,
        "RANGE_CONFIG": standard_component_specs.RANGE_CONFIG_KEY,
        "FINGERPRINT": utils.FINGERPRINT_PROPERTY_NAME,
        "SPAN": utils.SPAN_PROPERTY_NAME,
        "VERSION": utils.VERSION_PROPERTY_NAME,
    }
    ours = {name: getattr(tfx_properties, name) for name in tfx_properties.__all__}
    assert {name: value for name, value in ours.items() if name.isupper()} == theirs


def test_all_files_are_asked_for_as_tfx_asks():
    assert tfx_properties.all_files() == utils.make_default_input_config()
