"""Pixels as Pillow holds them: decoded, brought to 8 bits a channel, encoded anew.

load(image)
encode_image(in_plain_colours(image), "JPEG", quality=95)
"""

import io

import numpy as np
from PIL import Image

from components.common.rejects import RejectedInputError
from trainer_utils.storage.file_system import is_fault


class ImageBytes(io.BytesIO):
    """A file in memory that knows whether more was read than there is.

    Pillow raises the same OSError for a file that ends too early and for one with bad codes.
    """

    is_exhausted = False

    def read(self, size: int | None = -1, /) -> bytes:
        """As any file's."""
        data = super().read(size)
        self.is_exhausted |= not data
        return data


def load(image: Image.Image) -> None:
    """Decodes every pixel of the first frame.

    Args:
        image: opened from `ImageBytes`.

    Raises:
        RejectedInputError: TRUNCATED_IMAGE or DAMAGED_IMAGE.
    """
    file = getattr(image, "fp", None)  # which Pillow forgets when it has read it
    # libtiff is given all of the file, and then what is behind its end, whatever is in it.
    by_libtiff = any(tile[0] == "libtiff" for tile in getattr(image, "tile", ()))
    if isinstance(file, ImageBytes):
        file.is_exhausted = False  # the search for the last frame may have gone behind the end
    try:
        image.load()
    except Exception as error:  # Pillow raises a dozen kinds on damaged data
        if is_fault(error):
            raise
        is_cut = isinstance(error, OSError) and not by_libtiff
        is_cut &= isinstance(file, ImageBytes) and file.is_exhausted
        code = "TRUNCATED_IMAGE" if is_cut else "DAMAGED_IMAGE"
        raise RejectedInputError(code, str(error) or type(error).__name__) from error


def in_plain_colours(image: Image.Image) -> Image.Image:
    """8 bits a channel: grey or RGB, with an alpha channel where there is transparency."""
    is_transparent = "transparency" in image.info
    if image.mode.startswith("I;16"):
        return Image.fromarray((np.asarray(image) >> 8).astype(np.uint8))
    if image.format == "GIF" and is_transparent and image.mode == "L":
        return image.convert("LA")
    if image.mode in ("L", "LA", "RGB", "RGBA"):
        return image
    if image.mode == "1":
        return image.convert("L")
    return image.convert("RGBA" if is_transparent else "RGB")


def encode_image(image: Image.Image, kind: str, **options: int) -> bytes:
    """An image as a JPEG or PNG file, its pixels alone."""
    stream = io.BytesIO()
    image.info.clear()  # else Pillow would write comments, profiles and the orientation again
    image.save(stream, kind, **options)
    return stream.getvalue()
