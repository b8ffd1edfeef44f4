"""What a folder of images means: one module a layout, each from files to a `Listing`.

listing = read_layout(inputs, layout="auto")
"""

from collections.abc import Iterable
from types import ModuleType

from components.common.layout_inputs import LayoutInputs
from components.common.listing import Listing
from components.example_gen import lists
from components.example_gen.settings import LISTS
from components.example_gen.simple_layouts import (
    check_no_columns,
    name_simple,
    names_at_top,
    read_simple,
    refuse_layout,
    without_reserved,
)
from components.image_example_gen.layouts import coco, segmentation, voc, webdataset

__all__ = ["describe_search", "is_source_file", "name_layout", "read_layout"]

# In the order in which they are looked for. VOC's own archive is both of the first two.
_STRUCTURED: dict[str, ModuleType] = {
    "voc": voc,
    "segmentation": segmentation,
    "coco": coco,
    "tar": webdataset,
}


def is_source_file(path: str) -> bool:
    """Whether a file is a list or an archive of images by its name."""
    return lists.is_list(path) or webdataset.is_archive(path)


def read_layout(inputs: LayoutInputs, *, layout: str) -> Listing:
    """Works out split, features and bytes of each input.

    Args:
        inputs: the files and where the layout begins.
        layout: as `ImageSettings` has it.

    Raises:
        InputError: the layout is not recognised, or is malformed.
        ConfigError: `columns` is for lists and archives.
    """
    return without_reserved(_read(inputs, layout))


def name_layout(inputs: LayoutInputs, *, layout: str) -> str:
    """Which of the layouts `read_layout` would take the inputs for."""
    for name, module in _STRUCTURED.items():
        if layout == "auto" and module.is_here(inputs):
            return name
    return name_simple(inputs, layout=layout)


def _read(inputs: LayoutInputs, layout: str) -> Listing:
    for name, module in _STRUCTURED.items():
        if layout == name or (layout == "auto" and module.is_here(inputs)):
            if name != "tar":
                check_no_columns(inputs, name)
            listing: Listing = module.read(inputs)
            if not listing.found:
                refuse_layout(inputs, layout, module.LOOKED_FOR)
            return listing
    return read_simple(inputs, layout=layout)


def describe_search(names: Iterable[str]) -> str:
    """A sentence for an input that is none of the layouts, with what is at its top."""
    layouts = [module.LOOKED_FOR for module in _STRUCTURED.values()]
    lists = f"a list of images ({', '.join(LISTS)})"
    return (
        f"Looked for {', '.join([*layouts, lists])}, and images in folders; "
        f"at its top: {names_at_top(names)}."
    )
