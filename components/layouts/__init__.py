"""What a folder of images means: each layout from files to an `InputTable`.

listing = read_layout(inputs, layout="auto")
"""

from components.common.entry import InputTable
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
from components.layouts import coco, voc, webdataset

__all__ = ["LOOKED_FOR", "is_source_file", "name_layout", "read_layout"]


# Whether one is there, its reader, and what is looked for, in that order. VOC's own archive is both
# of the first two.
_STRUCTURED = {
    "voc": (voc.is_here, voc.read, voc.LOOKED_FOR),
    "segmentation": (voc.has_label_maps, voc.read_label_maps, voc.LABEL_MAPS_LOOKED_FOR),
    "coco": (coco.is_here, coco.read, coco.LOOKED_FOR),
    "tar": (webdataset.is_here, webdataset.read, webdataset.LOOKED_FOR),
}
LOOKED_FOR = ", ".join(
    [
        *(looked_for for _, _, looked_for in _STRUCTURED.values()),
        f"a list of images ({', '.join(LISTS)}), and images in folders",
    ]
)


def is_source_file(path: str) -> bool:
    """Whether a file is a list or an archive of images by its name."""
    return lists.is_list(path) or webdataset.is_archive(path)


def read_layout(inputs: LayoutInputs, *, layout: str) -> InputTable:
    """Works out split, features and bytes of each input; `layout` is as `ImageSettings` has it.

    Raises:
        InputError: the layout is not recognised, or is malformed.
        ConfigError: `columns` is for lists and archives.
    """
    name = _structured(inputs, layout)
    if name is None:
        return without_reserved(read_simple(inputs, layout=layout))
    if name != "tar":
        check_no_columns(inputs, name)
    _, read, looked_for = _STRUCTURED[name]
    listing = read(inputs)
    if not listing.found:
        refuse_layout(inputs, layout, looked_for)
    # An annotation's height and width are compared with its image's.
    return without_reserved(listing) if name == "tar" else listing


def name_layout(inputs: LayoutInputs, *, layout: str) -> str:
    """Which of the layouts `read_layout` would take the inputs for."""
    return _structured(inputs, layout) or name_simple(inputs, layout=layout)


def _structured(inputs: LayoutInputs, layout: str) -> str | None:
    if layout != "auto":
        return layout if layout in _STRUCTURED else None
    return next((name for name, (is_here, _, _) in _STRUCTURED.items() if is_here(inputs)), None)
