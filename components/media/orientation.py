"""How a camera was held, and pixels turned upright.

orientation = orientation_of(image, structure)     # 6: the camera was turned to the left
turn_image(image, orientation)
"""

from PIL import Image, TiffImagePlugin

from components.media.pixels import load
from components.media.structure import ImageStructure
from trainer_utils.storage.file_system import is_fault

UPRIGHT = 1
_TAG = 0x0112  # of EXIF, and of TIFF
_METADATA = ("exif", "xmp", "XML:com.adobe.xmp", "Raw profile type exif")
_WAYS = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}
_WAYS_BACK = _WAYS | {6: Image.Transpose.ROTATE_90, 8: Image.Transpose.ROTATE_270}


def orientation_of(image: Image.Image, structure: ImageStructure) -> int:
    """What EXIF says, in its own chunk or in a PNG's text, or else XMP.

    Args:
        image: just opened; a TIFF, which Pillow turns while it decodes, must not be loaded yet.
        structure: of the same file.

    Returns:
        `UPRIGHT`, also where EXIF is damaged, or 2 to 8 as EXIF counts them.

    Raises:
        RejectedInputError: it comes after pixels, and these are damaged.
    """
    if not structure.has_metadata:
        return UPRIGHT
    if structure.metadata_is_late:
        load(image)
    try:
        if isinstance(image, TiffImagePlugin.TiffImageFile):
            orientation = image.tag_v2.get(_TAG)
        elif any(key in image.info for key in _METADATA):
            # Not a PNG's own method, which decodes all pixels to look for what is known to be none.
            orientation = Image.Image.getexif(image).get(_TAG)
        else:
            return UPRIGHT
        return orientation if orientation in _WAYS else UPRIGHT
    except Exception as error:  # of damaged EXIF a dozen kinds; pixels may be good
        if is_fault(error):
            raise
        return UPRIGHT


def turn_image(image: Image.Image, orientation: int) -> Image.Image:
    """An image as it was seen."""
    return image.transpose(_WAYS[orientation]) if orientation in _WAYS else image


def turn_back(image: Image.Image, orientation: int) -> Image.Image:
    """An image as it was before `turn_image`."""
    return image.transpose(_WAYS_BACK[orientation]) if orientation in _WAYS else image
