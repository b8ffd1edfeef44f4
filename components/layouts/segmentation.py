"""Images and their label maps, as Pascal VOC keeps them: JPEGImages, SegmentationClass.

    [blob.name for blob in read(inputs).blobs]         # ['image', 'label']

Source: `datum/generator/image.py` (SegDatumGenerator); the VOC2012 development kit, section 8.
"""

from components.common.entry import Blob, BlobColumn, Entry, ExcludedInput
from components.common.input_table import InputTable
from components.common.layout_inputs import LayoutInputs
from components.layouts.image_sets import (
    by_stem,
    has_folders,
    listed_images,
    read_image_sets,
)
from trainer_utils.storage import display_path

LOOKED_FOR = "JPEGImages/ beside SegmentationClass/ (segmentation)"


def is_here(inputs: LayoutInputs) -> bool:
    """Whether the folders are there."""
    return has_folders(inputs, *_folders(inputs))


def _folders(inputs: LayoutInputs) -> tuple[str, str]:
    """Those of the images and of the label maps."""
    names = inputs.names
    return names.get("image_dir", "JPEGImages"), names.get("label_dir", "SegmentationClass")


def read(inputs: LayoutInputs) -> InputTable:
    """Pairs images and label maps by name; `SegmentationObject` is not read.

    Raises:
        InputError: two files have one name, or an image is named twice in the image sets.
    """
    image_dir, label_dir = _folders(inputs)
    own_sets = inputs.names.get("image_set_dir")
    images = by_stem(inputs, image_dir)
    folders = [own_sets] if own_sets else ["ImageSets/Segmentation", "ImageSets", ""]
    sets = read_image_sets(inputs, folders, images)
    taken, excluded = listed_images(inputs, image_dir, images, sets)
    label_maps = by_stem(inputs, label_dir)
    entries = []
    for stem, split, file in taken:
        label_map = label_maps.get(stem)
        if label_map is None:
            detail = f"no label map {label_dir}/{display_path(stem)}.png"
            excluded.append(ExcludedInput(file.path, split, "NO_LABEL_MAP", detail))
        elif label_map.problem is not None:
            code, detail = label_map.problem
            excluded.append(ExcludedInput(file.path, split, code, f"its label map: {detail}"))
        else:
            blobs = (Blob(file.path, file.size), Blob(label_map.path, label_map.size))
            entries.append(Entry(file.path, split, blobs))
    return InputTable.of(
        entries,
        excluded,
        blobs=(BlobColumn("image", "image"), BlobColumn("label", "label_map")),
    )
