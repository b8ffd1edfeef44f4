"""Seal JSON files with their own checksum, and check the seal."""

import re

from trainer_utils.format.tfrecord import extend_crc32c

NO_CHECKSUM = "00000000"

# Only the top level has an indent of two spaces, and JSON strings contain no newline.
_CHECKSUM = re.compile(r'\n  "checksum": "([0-9a-f]{8})"')


def seal(text: str) -> str:
    """Return JSON text with its own checksum: the CRC-32C of its bytes with zeros as the digits.

    Raises:
        ValueError: the text has no line for the checksum, or several.
    """
    places = [match.span(1) for match in _CHECKSUM.finditer(text)]
    if len(places) != 1:
        raise ValueError(f"expected a line with its checksum, got {len(places)}")
    start, stop = places[0]
    crc = extend_crc32c(0, (text[:start] + NO_CHECKSUM + text[stop:]).encode())
    return f"{text[:start]}{crc:08x}{text[stop:]}"


def is_sealed(text: str) -> bool:
    """Return whether a text contains its own checksum, and it is right."""
    try:
        return seal(text) == text
    except ValueError:
        return False
