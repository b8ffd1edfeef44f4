"""The inputs that TFX's properties mean, and whether the outcome of a conversion is good.

located = locate_inputs(exec_properties, is_source_file=is_list, unit="images")
check_outcome(conversion, plan, rejects, written=99, uri=uri)
"""

from collections.abc import Callable, Sequence
from typing import Any

from tfx import types
from tfx.components.example_gen import utils
from tfx.proto import example_gen_pb2, range_config_pb2
from tfx.types import standard_component_specs
from tfx.utils import proto_utils

from components.common.rejects import Reject, check_reject_fraction, render_rejects
from components.common.settings import ExecProperties
from components.common.summaries import working_folder
from components.example_gen.conversion import Conversion
from components.example_gen.inputs import LocatedInputs, locate
from components.example_gen.partition import check_split_names
from components.example_gen.plan import Plan
from trainer_utils.format import InputError
from trainer_utils.storage.files import list_names, write_text

__all__ = ["check_outcome", "locate_inputs", "set_span"]


def locate_inputs(
    exec_properties: ExecProperties,
    *,
    image_roots: Sequence[str] = (),
    is_source_file: Callable[[str], bool],
    sees_siblings: bool = True,
    unit: str,
) -> LocatedInputs:
    """The inputs that the properties `input_base`, `input_config` and `range_config` mean.

    Raises:
        InputError, ConfigError: as `locate`.
    """
    input_config = example_gen_pb2.Input()
    proto_utils.json_to_proto(
        exec_properties[standard_component_specs.INPUT_CONFIG_KEY], input_config
    )
    range_config = None
    given = exec_properties.get(standard_component_specs.RANGE_CONFIG_KEY)
    if given and not _driver_ran(exec_properties):
        range_config = range_config_pb2.RangeConfig()
        proto_utils.json_to_proto(given, range_config)
    check_split_names("input_config", [split.name for split in input_config.splits])
    return locate(
        exec_properties[standard_component_specs.INPUT_BASE_KEY],
        input_config,
        range_config,
        image_roots=image_roots,
        is_source_file=is_source_file,
        sees_siblings=sees_siblings,
        unit=unit,
    )


def _driver_ran(exec_properties: ExecProperties) -> bool:
    """Whether TFX's driver has filled in spans; open-source Kubeflow runs none."""
    return exec_properties.get(utils.FINGERPRINT_PROPERTY_NAME) is not None


def set_span(
    artifact: types.Artifact, located: LocatedInputs, exec_properties: ExecProperties
) -> None:
    """Sets on the artifact what TFX's driver sets, where no driver ran."""
    if _driver_ran(exec_properties):
        return
    artifact.set_int_custom_property(utils.SPAN_PROPERTY_NAME, located.span)
    if located.version is not None:
        artifact.set_int_custom_property(utils.VERSION_PROPERTY_NAME, located.version)


def check_outcome(
    conversion: Conversion[Any],
    plan: Plan,
    rejects: Sequence[Reject],
    *,
    written: int,
    uri: str,
) -> None:
    """Refuses too many rejects. TFX removes a failed run's output, so the list goes beside it.

    Args:
        conversion: that was run, or is about to be.
        plan: that it made.
        rejects: all of them.
        written: examples.
        uri: of the dataset.

    Raises:
        InputError: there are too many, or no example is left.
    """
    listed_in = f"{uri.rstrip('/')}.rejects.jsonl"
    base, settings = conversion.located.base, conversion.settings
    try:
        check_reject_fraction(
            rejects,
            found=plan.found,
            max_reject_fraction=settings.max_reject_fraction,
            listed_in=listed_in,
        )
        if not written:
            raise InputError(
                f"input_base {base!r}: expected {conversion.unit}, found none that can be read.",
                path=base,
            )
    except InputError as error:
        write_text(listed_in, render_rejects(rejects), temporary_folder=working_folder(uri))
        if settings.layout == "auto" and not written:
            raise InputError(f"{error} {conversion.describe_search(list_names(base))}") from None
        raise
