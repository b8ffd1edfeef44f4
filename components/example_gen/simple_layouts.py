"""The layouts that all kinds of files come in: class folders, and lists of files.

listing = read_simple(inputs, layout="auto")
"""

from collections.abc import Iterable

from absl import logging

from components.common.input_table import InputTable, with_excluded, without_column
from components.common.layout_inputs import LayoutInputs, select_readable
from components.example_gen import folder, lists
from components.example_gen.media import DESCRIPTIONS
from components.example_gen.settings import LISTS
from components.tables.reading import kind_of_table
from trainer_utils.format import ConfigError, InputError
from trainer_utils.storage import display_path


def read_simple(inputs: LayoutInputs, *, layout: str) -> InputTable:
    """Works out split, features and bytes of each input.

    Args:
        layout: `auto`, `folder`, or one of `LISTS`.

    Raises:
        InputError: the layout is not there, or is malformed.
        ConfigError: `columns` is for lists.
    """
    if layout != "folder":
        found = lists.find(inputs, kind=layout if layout in LISTS else None)
        if found:
            good, excluded = select_readable(inputs, found, "a list")
            return with_excluded(lists.read(inputs, good), excluded)
    if "csv_path" in inputs.names and layout != "folder":
        refuse_layout(inputs, layout, f"the csv_path {inputs.names['csv_path']!r}")
    if layout not in ("auto", "folder"):
        refuse_layout(inputs, layout, f"a {layout.upper()} file")
    check_no_columns(inputs, "folder")
    if layout == "auto":
        folder.refuse_plain_list(inputs)
    return folder.read(inputs)


def name_simple(inputs: LayoutInputs, *, layout: str) -> str:
    """Which of the layouts `read_simple` would take the inputs for."""
    if layout != "auto":
        return layout
    found = lists.find(inputs)
    return str(kind_of_table(found[0])) if found else "folder"


def check_no_columns(inputs: LayoutInputs, layout: str) -> None:
    """Refuses `columns` for a layout that has none.

    Raises:
        ConfigError: some are given.
    """
    if inputs.columns:
        raise ConfigError(
            f"columns: expected none for the layout {layout!r}, whose features are its own, "
            f"got {', '.join(inputs.columns)}",
            setting="columns",
        )


def refuse_layout(inputs: LayoutInputs, layout: str, expected: str) -> None:
    """Says what was looked for in vain.

    Raises:
        InputError: always.
    """
    raise InputError(
        f"input_base {inputs.base!r}: expected {expected} for layout={layout!r}, "
        f"found none; at its top: {names_at_top(parts[0] for parts, _ in inputs.below_root())}.",
        path=inputs.base,
    )


def names_at_top(names: Iterable[str]) -> str:
    """Some names, for a message."""
    shown = sorted({display_path(name) for name in names})
    return ", ".join(shown[:10]) + (", …" if len(shown) > 10 else "")


def without_reserved(listing: InputTable) -> InputTable:
    """The listing without columns whose names the engine gives to features of its own."""
    reserved = {"filename", *(blob.name for blob in listing.blobs)}
    for blob in listing.blobs:
        reserved.update(DESCRIPTIONS.get(blob.kind, ()))
    for name in {column.name for column in listing.columns} & reserved:
        logging.warning("column %r is left out: each example has a feature of that name", name)
        listing = without_column(listing, name)
    return listing
