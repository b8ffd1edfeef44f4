"""What the bytes of an image file say, before any library sees it; no pixel is decoded."""

from typing import NamedTuple


class ImageStructure(NamedTuple):
    """What a JPEG's or PNG's marks say; of other files nothing does, since all are decoded.

    Args:
        format: `JPEG` or `PNG`; None of others.
        size: width and height in pixels, (0, 0) of others.
        channels: of a JPEG.
        doubt: what is odd, of which only decoders know if it matters; None where nothing is.
        has_metadata: whether EXIF or XMP may turn it.
        metadata_is_late: whether Pillow knows that only once the pixels are read.
        can_be_scaled: whether a decoder may be asked for a smaller image.
        is_lossy: whether its pixels were quantized.
    """

    format: str | None = None
    size: tuple[int, int] = (0, 0)
    channels: int = 0
    doubt: str | None = None
    has_metadata: bool = True
    metadata_is_late: bool = False
    can_be_scaled: bool = False
    is_lossy: bool = False
