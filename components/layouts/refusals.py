"""Errors that several layouts share."""

import shlex
from collections.abc import Collection
from typing import NoReturn

from components.inputs.listing import FileTable, LayoutInputs
from components.layouts.junk import names_at_top
from trainer_utils.core.errors import ConfigError, InputError
from trainer_utils.format.naming import SHARD_PREFIX, sign_of_dataset


def check_no_columns(inputs: LayoutInputs, layout: str) -> None:
    """Raise a ConfigError if the setting `columns` is given for a layout without columns."""
    if inputs.columns:
        rule = f"none for the layout {layout!r}, which defines its own features"
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
    numbered: Collection[str] = names
    if isinstance(names, FileTable):  # most folders have no such file, and many others
        numbered = names.containing(SHARD_PREFIX)
    if sign := sign_of_dataset(names, numbered):
        dataset = f"{path.rstrip('/')}/latest" if sign.startswith("artifacts/") else path
        raise InputError(
            f"{setting} {path!r}: expected raw files, got a dataset that is already in "
            f"TFRecords ({sign}). To rewrite it: tfx-shards balance {shlex.quote(dataset)} OUT, or "
            f"ShardBalancer(examples=tfx.dsl.Importer(source_uri={dataset!r}, "
            "artifact_type=tfx.types.standard_artifacts.Examples).outputs['result'])."
        )
