"""What a folder of images means: one module a layout, each from files to a `InputTable`.

listing = read_layout(inputs, layout="auto")
"""

from types import ModuleType

from components.common.input_table import InputTable
from components.common.layout_inputs import LayoutInputs
from components.example_gen import lists
from components.example_gen.folder import (
    check_no_columns,
    name_simple,
    read_simple,
    refuse_layout,
    without_reserved,
)
from components.example_gen.settings import LISTS
from components.layouts import coco, segmentation, voc, webdataset

__all__ = ["LOOKED_FOR", "is_source_file", "name_layout", "read_layout"]

# In the order in which they are looked for. VOC's own archive is both of the first two.
_STRUCTURED: dict[str, ModuleType] = {
    "voc": voc,
    "segmentation": segmentation,
    "coco": coco,
    "tar": webdataset,
}
LOOKED_FOR = ", ".join(
    [
        *(module.LOOKED_FOR for module in _STRUCTURED.values()),
        f"a list of images ({', '.join(LISTS)}), and images in folders",
    ]
)


def is_source_file(path: str) -> bool:
    """Whether a file is a list or an archive of images by its name."""
    return lists.is_list(path) or webdataset.is_archive(path)


def read_layout(inputs: LayoutInputs, *, layout: str) -> InputTable:
    """Works out split, features and bytes of each input.

    Args:
        layout: as `ImageSettings` has it.

    Raises:
        InputError: the layout is not recognised, or is malformed.
        ConfigError: `columns` is for lists and archives.
    """
    for name, module in _STRUCTURED.items():
        if layout == name or (layout == "auto" and module.is_here(inputs)):
            if name != "tar":
                check_no_columns(inputs, name)
            listing: InputTable = module.read(inputs)
            if not listing.found:
                refuse_layout(inputs, layout, module.LOOKED_FOR)
            # An annotation's height and width are compared with its image's.
            return without_reserved(listing) if name == "tar" else listing
    return without_reserved(read_simple(inputs, layout=layout))


def name_layout(inputs: LayoutInputs, *, layout: str) -> str:
    """Which of the layouts `read_layout` would take the inputs for."""
    for name, module in _STRUCTURED.items():
        if layout == "auto" and module.is_here(inputs):
            return name
    return name_simple(inputs, layout=layout)
