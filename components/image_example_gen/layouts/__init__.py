"""What a folder means: one module a layout, each from a list of files to a `Listing`.

listing = read_layout(inputs, layout="auto")
"""

from collections.abc import Iterable
from types import ModuleType

from absl import logging

from components.common.files import display_path
from components.common.layout_inputs import LayoutInputs
from components.common.listing import Listing, without_column
from components.example_gen import folder
from components.image_example_gen.layouts import (
    coco,
    manifest,
    segmentation,
    voc,
    webdataset,
)
from trainer_utils.format import ConfigError, InputError

__all__ = ["LAYOUTS", "is_source_file", "read_layout", "what_was_looked_for"]

_LISTS = ("csv", "tsv", "jsonl", "parquet")
# In the order in which they are looked for. VOC's own archive is both of the first two.
_STRUCTURED: dict[str, ModuleType] = {
    "voc": voc,
    "segmentation": segmentation,
    "coco": coco,
    "tar": webdataset,
}
RESERVED = ("filename", "height", "width", "channels")
LAYOUTS = ("auto", "folder", *_LISTS, *_STRUCTURED)


def is_source_file(path: str) -> bool:
    """Whether a file is a list or an archive of images by its name."""
    return manifest.is_list(path) or webdataset.is_archive(path)


def read_layout(inputs: LayoutInputs, *, layout: str) -> Listing:
    """Works out split, features and bytes of each input.

    Args:
        inputs: the files and where the layout begins.
        layout: one of `LAYOUTS`.

    Raises:
        InputError: the layout cannot be told, or is malformed.
        ConfigError: `columns` is for lists and archives.
    """
    listing = _read(inputs, layout)
    for name in {column.name for column in listing.columns} & {*RESERVED, *listing.blobs}:
        logging.warning("column %r is left out: each example has a feature of that name", name)
        listing = without_column(listing, name)
    return listing


def _read(inputs: LayoutInputs, layout: str) -> Listing:
    for name, module in _STRUCTURED.items():
        if layout == name or (layout == "auto" and module.is_here(inputs)):
            _check_columns(inputs, name)
            listing: Listing = module.read(inputs)
            return listing if listing.found else _refuse(inputs, layout)
    if layout != "folder":
        lists = manifest.find(inputs, kind=layout if layout in _LISTS else None)
        if lists:
            return manifest.read(inputs, lists)
    if layout not in ("auto", "folder"):
        _refuse(inputs, layout)
    _check_columns(inputs, "folder")
    return folder.read(inputs)


def _check_columns(inputs: LayoutInputs, layout: str) -> None:
    if inputs.columns and layout != "tar":
        raise ConfigError(
            f"columns: expected none for the layout {layout!r}, whose features are its own, "
            f"got {', '.join(inputs.columns)}"
        )


def what_was_looked_for(names: Iterable[str]) -> str:
    """A sentence for an input that is none of the layouts, with what is at its top."""
    looked_for = [module.LOOKED_FOR for module in _STRUCTURED.values()]
    lists = f"a list of images ({', '.join(_LISTS)})"
    return (
        f"Looked for {', '.join([*looked_for, lists])}, and images in folders; "
        f"at its top: {_some(names)}."
    )


def _refuse(inputs: LayoutInputs, layout: str) -> Listing:
    looked_for = (
        _STRUCTURED[layout].LOOKED_FOR if layout in _STRUCTURED else f"a {layout.upper()} file"
    )
    raise InputError(
        f"input_base {inputs.base!r}: expected {looked_for} for layout={layout!r}, "
        f"found none; at its top: {_some(parts[0] for parts, _ in inputs.below_root())}."
    )


def _some(names: Iterable[str]) -> str:
    shown = sorted({display_path(name) for name in names})
    return ", ".join(shown[:10]) + (", …" if len(shown) > 10 else "")
