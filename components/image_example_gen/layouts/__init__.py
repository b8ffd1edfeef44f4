"""What a folder means: one module a layout, each from a list of files to a `Listing`.

listing = read_layout(inputs, layout="auto")
"""

import posixpath

from components.common.listing import LayoutInputs, Listing
from components.image_example_gen.layouts import csv_list, folder
from trainer_utils.format import InputError

__all__ = ["LAYOUTS", "is_list", "read_layout"]

LAYOUTS = ("auto", "folder", "csv")


def read_layout(inputs: LayoutInputs, *, layout: str) -> Listing:
    """Works out split, features and bytes of each input.

    Args:
        inputs: the files and where the layout begins.
        layout: one of `LAYOUTS`.

    Raises:
        InputError: the layout cannot be told, or is malformed.
    """
    csv_path = _csv_file(inputs, layout)
    return folder.read(inputs) if csv_path is None else csv_list.read_csv(inputs, csv_path)


def is_list(path: str) -> bool:
    """Whether a file is a list of images by its name."""
    return path.lower().endswith(".csv")


def _csv_file(inputs: LayoutInputs, layout: str) -> str | None:
    if layout == "folder":
        return None
    root, files, base = inputs.root, inputs.files, inputs.base
    if root.lower().endswith(".csv") and root in files:
        return root
    candidates = [
        path for path in files if posixpath.dirname(path) == root and path.lower().endswith(".csv")
    ]
    if len(candidates) > 1:
        raise InputError(
            f"input_base {base!r}: expected one CSV file, got {', '.join(sorted(candidates))}. "
            "Name one as the pattern of input_config."
        )
    if not candidates and layout == "csv":
        raise InputError(f"input_base {base!r}: expected a CSV file for layout='csv', found none")
    return candidates[0] if candidates else None
