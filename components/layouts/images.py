"""What a folder of images means: each layout from files to an `InputTable`.

listing = read_layout(inputs, layout="auto")

How a layout is recognised stands here, by its files' names; how it is read, in a module of its own.
"""

import posixpath
import re
from collections.abc import Sequence

from components.common.entry import InputTable
from components.common.layout_inputs import LayoutInputs
from components.example_gen.settings import LISTS
from components.layouts import lists
from components.layouts.file_kinds import kind_of_name
from components.layouts.folder import (
    check_no_columns,
    is_clutter,
    name_simple,
    read_simple,
    refuse_layout,
    without_reserved,
)
from trainer_utils.storage import problem_of

# What is looked for, in that order. VOC's own archive is both of the first two.
_STRUCTURED = {
    "voc": "JPEGImages/ beside Annotations/ (voc)",
    "segmentation": "JPEGImages/ beside SegmentationClass/ (segmentation)",
    "coco": "annotations/instances_*.json (coco)",
    "tar": "*.tar (tar)",
}
LOOKED_FOR = ", ".join(
    [*_STRUCTURED.values(), f"a list of images ({', '.join(LISTS)}), and images in folders"]
)
_VOC_FOLDERS = {
    "image_dir": "JPEGImages",
    "annotation_dir": "Annotations",
    "label_dir": "SegmentationClass",
}
COCO_FOLDER, COCO_INSTANCES = "annotations", "instances_"
_COCO_NAME = re.compile(r"instances_.*\.json|(.*[._])?annotations(\.coco)?\.json|.*coco.*\.json")
_COCO_HEAD = re.compile(rb'"(images|annotations|categories)"\s*:\s*\[|^\W*"(info|licenses)"')
_HEAD_BYTES = 64 << 10
_HEADS = 8  # looked into: a folder may hold 100,000 files of JSON, one an image
COMPRESSED_ARCHIVES = (".tar.gz", ".tgz", ".tar.bz2", ".tar.xz", ".tar.zst")
_ARCHIVES = (".tar", *COMPRESSED_ARCHIVES)


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
    from components.layouts import coco, voc, webdataset

    read = {
        "voc": voc.read,
        "segmentation": voc.read_label_maps,
        "coco": coco.read,
        "tar": webdataset.read,
    }[name]
    listing = read(inputs)
    if not listing.found:
        refuse_layout(inputs, layout, _STRUCTURED[name])
    # An annotation's height and width are compared with its image's.
    return without_reserved(listing) if name == "tar" else listing


def name_layout(inputs: LayoutInputs, *, layout: str) -> str:
    """Which of the layouts `read_layout` would take the inputs for."""
    return _structured(inputs, layout) or name_simple(inputs, layout=layout)


def _structured(inputs: LayoutInputs, layout: str) -> str | None:
    if layout != "auto":
        return layout if layout in _STRUCTURED else None
    if _has_folders(inputs, "image_dir", "annotation_dir"):
        return "voc"
    if _has_folders(inputs, "image_dir", "label_dir"):
        return "segmentation"
    return "coco" if _has_instances(inputs) else "tar" if _are_archives(inputs) else None


def is_source_file(path: str) -> bool:
    """Whether a file is a list or an archive of images by its name."""
    return lists.is_list(path) or is_archive(path)


# VOC: folders of images and of annotations or label maps -----------------------------------------


def voc_folder(inputs: LayoutInputs, setting: str) -> str:
    """A folder of VOC's, by the setting that may call it otherwise."""
    return inputs.names.get(setting, _VOC_FOLDERS[setting])


def is_in(parts: Sequence[str], folder: str) -> bool:
    """Whether a path in parts is a folder, or leads into it."""
    wanted = tuple(folder.split("/"))
    return tuple(parts[: len(wanted)]) == wanted


def _has_folders(inputs: LayoutInputs, *settings: str) -> bool:
    names = [voc_folder(inputs, setting) for setting in settings]
    return all(any(is_in(parts, name) for parts in inputs.folders) for name in names)


# COCO: files of a usual name, that begin as such files do ----------------------------------------


def coco_files(inputs: LayoutInputs) -> list[str]:
    """JSON files at the root and in `annotations`; in other folders those of the usual names."""
    return [
        path
        for parts, path in inputs.paths_below_root(endings=(".json",))
        if not is_clutter(parts)
        and len(parts) <= 2
        and (len(parts) == 1 or parts[0] == COCO_FOLDER or _COCO_NAME.fullmatch(parts[1]))
    ]


def _has_instances(inputs: LayoutInputs) -> bool:
    usual = []
    for path in coco_files(inputs):
        folder, name = posixpath.split(path)
        if inputs.files[path].problem is not None:
            continue
        if name.startswith(COCO_INSTANCES):
            return True
        if _COCO_NAME.fullmatch(name) or posixpath.basename(folder) == COCO_FOLDER:
            usual.append(path)
    return any(_COCO_HEAD.search(_head(inputs, path)) for path in usual[:_HEADS])


def _head(inputs: LayoutInputs, path: str) -> bytes:
    try:
        with inputs.open(path) as stream:
            return stream.read(_HEAD_BYTES)
    except OSError as error:  # what it holds is then nobody's to say
        problem_of(error, path)
        return b""


# WebDataset: archives, and no images beside them -------------------------------------------------


def is_archive(path: str) -> bool:
    """Whether a file is an archive by its name."""
    return path.lower().endswith(_ARCHIVES)


def tar_files(inputs: LayoutInputs) -> list[str]:
    """The archives at the root or right below it."""
    if inputs.root in inputs.files:
        return [inputs.root] if is_archive(inputs.root) else []
    return [
        path
        for parts, path in inputs.paths_below_root(endings=_ARCHIVES)
        if len(parts) <= 2 and not is_clutter(parts)
    ]


def _are_archives(inputs: LayoutInputs) -> bool:
    return bool(tar_files(inputs)) and not any(
        kind_of_name(parts[-1]) == "image" and not is_clutter(parts)
        for parts, _ in inputs.below_root()
    )
