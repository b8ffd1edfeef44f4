"""What a folder means: one module a layout, each from a list of files to a `Listing`.

listing = read_layout(inputs, layout="auto")
"""

from components.common.listing import LayoutInputs, Listing
from components.image_example_gen.layouts import folder, manifest
from components.image_example_gen.layouts.manifest import is_list
from trainer_utils.format import InputError

__all__ = ["LAYOUTS", "is_list", "read_layout"]

_LISTS = ("csv", "tsv", "jsonl", "parquet")
LAYOUTS = ("auto", "folder", *_LISTS)


def read_layout(inputs: LayoutInputs, *, layout: str) -> Listing:
    """Works out split, features and bytes of each input.

    Args:
        inputs: the files and where the layout begins.
        layout: one of `LAYOUTS`.

    Raises:
        InputError: the layout cannot be told, or is malformed.
    """
    if layout == "folder":
        return folder.read(inputs)
    lists = manifest.find(inputs, kind=layout if layout in _LISTS else None)
    if lists:
        return manifest.read(inputs, lists)
    if layout in _LISTS:
        raise InputError(
            f"input_base {inputs.base!r}: expected a {layout.upper()} file for "
            f"layout={layout!r}, found none"
        )
    return folder.read(inputs)
