"""Recognise masks among images by their names: `1_mask.png` next to `1.jpg`."""

import re

import pyarrow as pa
import pyarrow.compute as pc

from components.inputs.advice import how_to_set
from components.inputs.arrow_columns import bool_array, bytes_of, to_numpy
from trainer_utils.core.errors import InputError
from trainer_utils.storage import display_path
from trainer_utils.storage.paths import decode_path

_WORDS = "mask|masks|seg|segmentation|label|labels|labelids|gt|groundtruth|l|matte"
MASK_SUFFIX = re.compile(rf"[ ._-]({_WORDS})$", re.IGNORECASE)
# Arrow takes this pattern as well, so it has only what RE2 knows.
_PARTS = re.compile(rf"([ ._-](?:{_WORDS}))([ ._-]?[0-9]+)?(\.[^./]+)$", re.IGNORECASE)
_MAX_COMPARED = 8  # names whose images are looked for


def refuse_masks_among_images(base: str, paths: pa.Array) -> None:
    """Raise an InputError if some files are masks of images in the same folder, by their names.

    Args:
        base: the input base, for the message.
        paths: the paths of the images, `large_binary`.
    """
    is_mask = to_numpy(pc.match_substring_regex(paths, pattern=f"(?i){_PARTS.pattern}"))
    masks = [decode_path(path) for path in bytes_of(pc.filter(paths, bool_array(is_mask)))]
    if not masks or len(masks) == len(paths):
        return
    images = pc.filter(paths, bool_array(~is_mask))
    for mask in masks[:_MAX_COMPARED]:
        stem = _PARTS.sub("", mask)
        start = f"{stem}.".encode("utf-8", "surrogateescape")
        named = pc.filter(images, pc.starts_with(images, start))
        if not len(named):
            return
    patterns = set()
    for name in masks:
        parts = _PARTS.search(name)
        assert parts is not None
        patterns.add(f"*{parts[1]}{'*' if parts[2] else ''}{parts[3]}")
    raise InputError(
        f"input_base {base!r}: expected images, got {display_path(mask)!r} next to "
        f"{display_path(decode_path(named[0].as_py()))!r}, which may be its mask ({len(masks):,} "
        f"such names in all). To leave the masks out: {how_to_set(ignore=sorted(patterns))}. To "
        "read them, move the images to a folder `images`, and the masks to a folder `masks`. If "
        f"they are images like all others: {how_to_set(layout='folder')}.",
        path=base,
    )
