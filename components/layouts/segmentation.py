"""Pair images and label maps by name, in Pascal VOC's folders for semantic segmentation.

Source: `datum/generator/image.py` (SegDatumGenerator); the VOC2012 development kit, section 7.
"""

from components.inputs.input_table import Blob, BlobColumn, Entry, ExcludedInput, InputTable
from components.inputs.listing import LayoutInputs
from components.layouts.mask_names import MASK_SUFFIX
from components.layouts.registry import Layout, register
from components.layouts.voc import (
    by_stem,
    find_folders,
    folder_of,
    listed_images,
    read_image_sets,
)
from trainer_utils.storage import display_path


def read(inputs: LayoutInputs) -> InputTable:
    """Pair images and label maps by name; `SegmentationObject` is not read."""
    folder = folder_of(inputs, "label_dir")
    label_maps = by_stem(inputs, folder)
    images = by_stem(inputs, folder_of(inputs, "image_dir"))
    for stem in [*label_maps]:  # 1_L.png is the label map of 1.png
        image_stem = MASK_SUFFIX.sub("", stem)
        if stem not in images and image_stem in images and image_stem not in label_maps:
            label_maps[image_stem] = label_maps.pop(stem)
    sets = read_image_sets(inputs, ["ImageSets/Segmentation", "ImageSets", ""], images)
    taken, excluded = listed_images(inputs, images, sets)
    entries = []
    for stem, split, file in taken:
        if (label_map := label_maps.get(stem)) is None:
            detail = f"no label map {folder}/{display_path(stem)}.png"
            excluded.append(ExcludedInput(file.path, split, "NO_LABEL_MAP", detail))
        elif label_map.problem is not None:
            code, detail = label_map.problem
            excluded.append(ExcludedInput(file.path, split, code, f"its label map: {detail}"))
        else:
            blobs = (Blob(file.path, file.size), Blob(label_map.path, label_map.size))
            entries.append(Entry(file.path, split, blobs))
    columns = (BlobColumn("image", "image"), BlobColumn("label", "label_map"))
    return InputTable.of(entries, excluded, blobs=columns)


register(
    Layout(
        name="segmentation",
        kinds=("image",),
        rank=30,
        tree="""\
JPEGImages/1.jpg
SegmentationClass/1.png
ImageSets/Segmentation/train.txt
ImageSets/Segmentation/val.txt""",
        features="label: the map of class ids",
        splits="ImageSets/Segmentation/*.txt",
        refused="two files with the same name; an image in two sets",
        detect=lambda inputs: find_folders(inputs, "image_dir", "label_dir"),
        read=read,
        keeps_sizes=True,
        known=("ImageSets/*", "SegmentationObject/*"),
    )
)
