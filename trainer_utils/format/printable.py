"""Texts of the data on their way to a terminal, a log or a line of a file.

Shown as escapes are controls that drive a terminal, ends of lines with which a name would forge
one, marks that turn the direction of what stands beside it, and halves of surrogate pairs.
Source: Unicode Technical Report 36, sections 3.6 and 3.7; ECMA-48 for C0 and C1.
"""

import re

_UNPRINTABLE = re.compile(
    "[\x00-\x1f\x7f-\x9f"  # C0, DEL, C1
    "\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u2069\ufeff\ufff9-\ufffb"
    "\U000e0000-\U000e007f\ud800-\udfff]"
)


def is_printable(text: str) -> bool:
    """Whether a text holds nothing that `printable` escapes."""
    return _UNPRINTABLE.search(text) is None


def printable(text: str, *, keep: str = "") -> str:
    """A text with escapes such as `\\x1b`; what is in `keep`, such as a newline, stays."""

    def shown(found: re.Match[str]) -> str:
        return found[0] if found[0] in keep else found[0].encode("unicode_escape").decode()

    return _UNPRINTABLE.sub(shown, text)


def image_extent(height: int, width: int, channels: int | None = None) -> str:
    """Return the size of an image as all messages have it: width first, as `640 x 480`."""
    return " x ".join(map(str, (width, height, *([] if channels is None else [channels]))))


def printable_json(text: str) -> str:
    """JSON that says the same, in which only ends of lines between values are not printable."""

    def shown(found: re.Match[str]) -> str:
        octets = found[0].encode("utf-16-be", "surrogatepass")  # as JSON writes a character
        units = (f"\\u{octets[at : at + 2].hex()}" for at in range(0, len(octets), 2))
        return found[0] if found[0] in "\n\r\t" else "".join(units)

    return _UNPRINTABLE.sub(shown, text)
