"""Escape strings from the data for a terminal, a log or a line of a file.

It escapes control characters that drive a terminal, line ends that could forge a line, characters
that change the direction of the surrounding text, and unpaired surrogates.
Source: Unicode Technical Report 36, sections 3.6 and 3.7; ECMA-48 for C0 and C1.
"""

import re

_UNPRINTABLE = re.compile(
    "[\x00-\x1f\x7f-\x9f"  # C0, DEL, C1
    "\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u2069\ufeff\ufff9-\ufffb"
    "\U000e0000-\U000e007f\ud800-\udfff]"
)


def is_printable(text: str) -> bool:
    """Return whether `printable` would leave a string unchanged."""
    return _UNPRINTABLE.search(text) is None


def printable(text: str, *, keep: str = "") -> str:
    """Return a string with escapes such as `\\x1b`, except for characters in `keep`."""

    def shown(match: re.Match[str]) -> str:
        return match[0] if match[0] in keep else match[0].encode("unicode_escape").decode()

    return _UNPRINTABLE.sub(shown, text)


def image_extent(height: int, width: int, channels: int | None = None) -> str:
    """Return the size of an image as in all messages: width first, `640 x 480`."""
    return " x ".join(map(str, (width, height, *([] if channels is None else [channels]))))


def printable_json(text: str) -> str:
    """Return equivalent JSON with unprintable characters escaped, except for line ends and tabs."""

    def shown(match: re.Match[str]) -> str:
        octets = match[0].encode("utf-16-be", "surrogatepass")  # the encoding of JSON escapes
        units = (f"\\u{octets[at : at + 2].hex()}" for at in range(0, len(octets), 2))
        return match[0] if match[0] in "\n\r\t" else "".join(units)

    return _UNPRINTABLE.sub(shown, text)
