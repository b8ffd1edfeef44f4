"""EXIF that cannot turn an image."""

from components.media.jpeg_structure import scan_jpeg
from tests.components.media import variants

VARIANTS = variants.variants()


def test_exif_that_cannot_turn_an_image_is_told_without_reading_it():
    for orientation in range(1, 9):
        turned = VARIANTS[f"JPEG, turned {orientation}"]
        assert scan_jpeg(turned).has_metadata == (orientation > 1)
    assert scan_jpeg(VARIANTS["JPEG, two EXIF"]).has_metadata
    assert scan_jpeg(VARIANTS["JPEG, turned by XMP"]).has_metadata
    # The number of the tag where no entry is: Pillow has to look.
    exif = variants.exif(1) + b"\x01\x12"
    assert scan_jpeg(
        variants.after_start(VARIANTS["JPEG 2"], variants.app1_exif(exif))
    ).has_metadata
