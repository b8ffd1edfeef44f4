"""Read listed inputs of any layout into the table of all examples.

table = read_layout(inputs, layout="auto")
name_layout(inputs, layout="auto")             # 'coco'
"""

import dataclasses

from absl import logging

from components.inputs.advice import how_to_set
from components.inputs.input_table import InputTable
from components.inputs.listing import LayoutInputs
from components.layouts.boxes import SIZE_COLUMNS
from components.layouts.meaningful import refuse_unread_files, warn_of_unread_folders
from components.layouts.refusals import check_no_columns, refuse_layout
from components.layouts.registry import locate_layout
from components.media.options import DESCRIPTIONS
from trainer_utils.core.errors import ConfigError


def read_layout(inputs: LayoutInputs, *, layout: str) -> InputTable:
    """Return the split, features and files of each input.

    Args:
        inputs: the listed inputs.
        layout: the setting `layout`: `auto`, or the name of a registered layout.

    Raises:
        InputError: the layout is not recognised, or the inputs are malformed.
        ConfigError: `columns` is set for a layout without columns, or `name_pattern` for another
            layout than `folder`, or there is no such layout.
    """
    reader, inputs = locate_layout(dataclasses.replace(inputs, layout=layout), layout)
    if not reader.takes_columns:
        check_no_columns(inputs, reader.name)
    if inputs.name_pattern is not None and reader.name != "folder":
        rule = f"None for the layout {reader.name!r}, which says what each file is"
        advice = f"To read files in folders: {how_to_set(layout='folder')}"
        raise ConfigError.of("name_pattern", inputs.name_pattern, allowed=rule, advice=advice)
    listing = reader.read(inputs)
    if not listing.found and reader.name != "folder":
        refuse_layout(inputs, reader.name, f"files such as {', '.join(reader.tree.splitlines())}")
    if reader.name != "folder":
        refuse_unread_files(inputs, reader, listing)
        warn_of_unread_folders(inputs, reader, listing)
    return listing if reader.keeps_sizes else without_reserved(listing)


def name_layout(inputs: LayoutInputs, *, layout: str) -> str:
    """Return the name of the layout that `read_layout` would use for the inputs.

    Args:
        inputs: the listed inputs.
        layout: the setting `layout`.
    """
    return locate_layout(dataclasses.replace(inputs, layout=layout), layout)[0].name


def without_reserved(listing: InputTable) -> InputTable:
    """Drop columns with the names of features that every example has anyway."""
    reserved = {"filename", *(blob.name for blob in listing.blobs)}
    for blob in listing.blobs:
        reserved.update(DESCRIPTIONS.get(blob.kind, ()))
    if any(column.name == "xmin" and column.is_list for column in listing.columns):
        # Keep an annotation's height and width: they are compared with the actual size.
        reserved -= {column.name for column in SIZE_COLUMNS}
    for name in {column.name for column in listing.columns} & reserved:
        logging.warning(
            "column %r is left out: every example already has a feature with that name", name
        )
        listing = dataclasses.replace(
            listing,
            rows=listing.rows.drop([f"value:{name}"]),
            columns=tuple(column for column in listing.columns if column.name != name),
        )
    return listing
