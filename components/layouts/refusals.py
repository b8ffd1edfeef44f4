"""Errors that several layouts share."""

import shlex
from collections.abc import Collection
from typing import NoReturn

from components.common.layout_inputs import LayoutInputs
from components.layouts.junk import names_at_top
from trainer_utils.format import ConfigError, InputError
from trainer_utils.format.naming import sign_of_dataset


def check_no_columns(inputs: LayoutInputs, layout: str) -> None:
    """Raise a ConfigError if the setting `columns` is given for a layout without columns."""
    if inputs.columns:
        rule = f"none for the layout {layout!r}, whose features are its own"
        raise ConfigError(
            f"columns: expected {rule}, got {', '.join(inputs.columns)}", setting="columns"
        )


def refuse_layout(inputs: LayoutInputs, layout: str, expected: str) -> NoReturn:
    """Raise an InputError that names the files that the layout needs."""
    raise InputError(
        f"input_base {inputs.base!r}: expected {expected} for layout={layout!r}, "
        f"found none; at its top: {names_at_top(parts[0] for parts, _ in inputs.below_root())}.",
        path=inputs.base,
    )


def refuse_dataset(setting: str, path: str, names: Collection[str]) -> None:
    """Raise an InputError if the inputs are already a dataset of TFRecords.

    Args:
        setting: the setting that names the inputs, for the message.
        path: the value of the setting.
        names: the paths of the files.
    """
    if sign := sign_of_dataset(names):
        dataset = f"{path.rstrip('/')}/latest" if sign.startswith("artifacts/") else path
        raise InputError(
            f"{setting} {path!r}: expected raw files, got a dataset of TFRecords already "
            f"({sign}). Write it again: tfx-shards balance {shlex.quote(dataset)} OUT, or "
            f"ShardBalancer(examples=tfx.dsl.Importer(source_uri={dataset!r}, "
            "artifact_type=tfx.types.standard_artifacts.Examples).outputs['result'])."
        )
