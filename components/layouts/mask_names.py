"""Recognise masks among images by their names: `1_mask.png` next to `1.jpg`."""

import re

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from components.inputs.advice import how_to_set
from components.inputs.arrow_columns import bool_array, bytes_of, bytes_scalar, to_numpy
from components.inputs.path_columns import folders_of, names_of, stems_of
from trainer_utils.core.errors import InputError
from trainer_utils.storage import display_path
from trainer_utils.storage.paths import decode_path, encode_path

_WORDS = "mask|masks|seg|segmentation|label|labels|labelids|gt|groundtruth|l|p|matte"
MASK_SUFFIX = re.compile(rf"[ ._-]({_WORDS})$", re.IGNORECASE)
# Arrow takes this pattern as well, so it has only what RE2 knows.
_PARTS = re.compile(rf"([ ._-](?:{_WORDS}))([ ._-]?[0-9]+)?(\.[^./]+)$", re.IGNORECASE)
_IMAGES = f"If they are images like all others: {how_to_set(layout='folder')}."
_ENDING = r"\.[^./]*$"
_ENOUGH = 3  # pairs that are no coincidence, though most names have none
_SHARED = 0.9  # the fraction of a folder whose names images in another folder have


def refuse_masks_among_images(base: str, root: str, paths: pa.Array) -> None:
    """Raise an InputError if some files are masks of other images, by their names.

    Args:
        base: the input base, for the message.
        root: the folder of the layout, relative to the input base.
        paths: the paths of the images, `large_binary`.
    """
    is_mask = to_numpy(pc.match_substring_regex(paths, pattern=f"(?i){_PARTS.pattern}"))
    masks, images = (pc.filter(paths, bool_array(mask)) for mask in (is_mask, ~is_mask))
    if not len(masks) or not len(images):
        return
    mask_stems = pc.replace_substring_regex(masks, pattern=f"(?i){_PARTS.pattern}", replacement="")
    image_stems = pc.replace_substring_regex(images, pattern=_ENDING, replacement="")
    paired = pc.filter(masks, pc.is_in(mask_stems, value_set=image_stems))
    if len(paired) and (2 * len(paired) >= len(masks) or len(paired) >= _ENOUGH):
        mask = decode_path(paired[0].as_py())
        stem = bytes_scalar(encode_path(_PARTS.sub("", mask)))
        image = images[pc.index(image_stems, stem).as_py()]
        raise InputError(
            f"input_base {base!r}: expected images, got {display_path(mask)!r} next to "
            f"{display_path(decode_path(image.as_py()))!r}, which may be its mask "
            f"({len(masks):,} such names in all). To read them, move the images to a folder "
            "`images`, and the masks to a folder `masks`. To leave the masks out: "
            f"{how_to_set(ignore=_patterns_of(masks))}. {_IMAGES}",
            path=base,
        )
    _refuse_folders_of_masks(base, root, masks, images)


def _patterns_of(masks: pa.Array) -> list[str]:
    """Return patterns for the setting `ignore` that match the names of masks."""
    patterns = set()
    for name in map(decode_path, bytes_of(masks)):
        parts = _PARTS.search(name)
        assert parts is not None
        patterns.add(f"*{parts[1]}{'*' if parts[2] else ''}{parts[3]}")
    return sorted(patterns)


def _refuse_folders_of_masks(base: str, root: str, masks: pa.Array, images: pa.Array) -> None:
    """Raise an InputError for `labels/1_L.png`, in a folder of such names, if `photos/1.png` is."""
    image_folders, folders = folders_of(images), pc.dictionary_encode(folders_of(masks))
    stems = pc.replace_substring_regex(
        names_of(masks), pattern=f"(?i){_PARTS.pattern}", replacement=""
    )
    places = to_numpy(pc.index_in(stems, value_set=stems_of(images)), null=-1)
    numbers, count = to_numpy(folders.indices), len(folders.dictionary)
    is_paired = places >= 0
    totals = np.bincount(numbers, minlength=count)
    paired = np.bincount(numbers[is_paired], minlength=count)
    firsts = np.full(count, len(images))  # the first image that has a mask in each folder
    np.minimum.at(firsts, numbers[is_paired], places[is_paired])
    with_images = pc.is_in(folders.dictionary, value_set=image_folders)
    has_pairs = (paired > 1) & (paired >= _SHARED * totals) & ~to_numpy(with_images)
    pairs = {
        decode_path(folders.dictionary[number].as_py()): decode_path(
            image_folders[int(firsts[number])].as_py()
        )
        for number in np.flatnonzero(has_pairs).tolist()
    }
    if not pairs:
        return
    mask_folder, image_folder = min(pairs.items())
    read = "To read them, name the folders `images/train` and `masks/train`, for each split. "
    if len(pairs) == 1 and len(pc.unique(image_folders)) == 1 and image_folder != root:
        start = f"{root}/" if root else ""
        how = how_to_set(
            layout="segmentation",
            image_dir=image_folder.removeprefix(start),
            label_dir=mask_folder.removeprefix(start),
        )
        read = f"To read them: {how}. "
    raise InputError(
        f"input_base {base!r}: expected images, got files in {display_path(mask_folder)!r} with "
        f"the names of masks of those in {display_path(image_folder)!r}. {read}To leave the masks "
        f"out: {how_to_set(ignore=[f'{folder}/*' for folder in sorted(pairs)])}. {_IMAGES}",
        path=base,
    )
