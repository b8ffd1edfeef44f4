"""A JPEG in arithmetic coding, and JPEGs whose header names another coding than they have."""

import base64
from collections.abc import Iterator

# Of 16 x 12 pixels, which no encoder of Python makes: `cjpeg -arithmetic -quality 50`.
ARITHMETIC = base64.b64decode(
    "/9j/4AAQSkZJRgABAQAAAQABAAD/2wBDABALDA4MChAODQ4SERATGCgaGBYWGDEjJR0oOjM9PDkzODdASFxOQERX"
    "RTc4UG1RV19iZ2hnPk1xeXBkeFxlZ2P/2wBDARESEhgVGC8aGi9jQjhCY2NjY2NjY2NjY2NjY2NjY2NjY2NjY2Nj"
    "Y2NjY2NjY2NjY2NjY2NjY2NjY2NjY2NjY2P/yQARCAAMABADASIAAhEBAxEB/8wACgAQEAUBEBEF/9oADAMBAAIR"
    "AxEAPwD/AAkiNadk82yNBeb1qapy/VoUNwUAb2EqVa6w/9k="
)


def miscoded_jpegs(plain: bytes, progressive: bytes) -> Iterator[tuple[str, bytes]]:
    """The whole one, then those whose frame's marker alone was changed."""
    yield "JPEG, arithmetic", ARITHMETIC
    yield "JPEG, said to be arithmetic", plain.replace(b"\xff\xc0", b"\xff\xc9", 1)
    name = "JPEG, progressive, said to be arithmetic"
    yield name, progressive.replace(b"\xff\xc2", b"\xff\xca", 1)
    yield "JPEG, arithmetic, said to be baseline", ARITHMETIC.replace(b"\xff\xc9", b"\xff\xc0", 1)
