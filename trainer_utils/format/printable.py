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
    if is_printable(text):
        return text
    return _UNPRINTABLE.sub(lambda found: found[0] if found[0] in keep else _escape(found[0]), text)


def _escape(character: str) -> str:
    number = ord(character)
    if number <= 0xFF:
        return {"\n": "\\n", "\r": "\\r", "\t": "\\t"}.get(character, f"\\x{number:02x}")
    return f"\\u{number:04x}" if number <= 0xFFFF else f"\\U{number:08x}"


def printable_json(text: str) -> str:
    """JSON that says the same, in which only ends of lines between values are not printable."""
    return _UNPRINTABLE.sub(
        lambda found: found[0] if found[0] in "\n\r\t" else _escape_utf16(found[0]), text
    )


def _escape_utf16(character: str) -> str:
    """As JSON writes a character: its units of UTF-16."""
    octets = character.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{octets[at : at + 2].hex()}" for at in range(0, len(octets), 2))
