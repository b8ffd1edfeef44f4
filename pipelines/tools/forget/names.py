"""Names of records, and whether some bytes name one, however they are escaped.

    wanted = Names(["cat/1.jpg"])
    wanted.of(decode_example(record, NAME_FEATURES))      # ['cat/1.jpg']; [] of another record
    wanted.are_in_file(b"photos/cat%2F1.jpg")             # True
    wanted.without({"where": "filename != 'cat/1.jpg'"})  # {'where': '(forgotten)'}

A name stands in a text wherever no letter or digit of ASCII is right beside it.
"""

import contextlib
import hashlib
import html
import itertools
import re
import urllib.parse
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from trainer_utils.format.json_text import Json
from trainer_utils.format.naming import NAME_FEATURES
from trainer_utils.storage import display_path

__all__ = ["LEAST_BYTES", "Names", "forgotten_label", "name_digest"]

_FORGOTTEN = "(forgotten)"
LEAST_BYTES = 4
"""Of a name that is looked for in what is no text, which has all shorter ones by chance."""

_FEW = 16  # names, for each of which bytes are searched faster than split into words
_WORD = re.compile(rb"[0-9A-Za-z]+")
_ESCAPE = re.compile(  # of JSON, C, Python and protobuf's text format
    rb"\\(?:u([dD][89abAB][0-9a-fA-F]{2})\\u([dD][c-fC-F][0-9a-fA-F]{2})|u([0-9a-fA-F]{4})"
    rb"|U([0-9a-fA-F]{8})|x([0-9a-fA-F]{1,2})|([0-7]{1,3})|(.))",
    re.DOTALL,
)
_SIGNS = dict(zip(b"abfnrtv", b"\a\b\f\n\r\t\v", strict=True))
_LONGEST_ESCAPE = 12  # bytes in place of one
_ENCODINGS = ("utf-16-le", "utf-16-be", "latin-1")


def name_digest(name: str) -> str:
    """What stands for a name where the name itself must not: `sha256:…`."""
    return f"sha256:{hashlib.sha256(_encoded(name)).hexdigest()}"


def forgotten_label(number: int) -> str:
    """What a vocabulary has in place of a label that no record has any more, so that ids stay."""
    return f"{_FORGOTTEN} {number}"


def _encoded(name: str) -> bytes:
    return name.encode("utf-8", "surrogateescape")


class Names:
    """Names of records, as their `record_id`, `filename` or `id` have them.

    Args:
        names: each as a text; bytes that are not UTF-8 are surrogates.
    """

    def __init__(self, names: Iterable[str]) -> None:
        self.names = tuple(sorted(set(names)))
        self._by_bytes = {_encoded(name): name for name in self.names}
        self._needles = {*self._by_bytes, *(display_path(name).encode() for name in self.names)}
        self._raw = {raw for name in self.names for raw in _raw_forms(name)}
        self._words: dict[bytes, list[bytes]] = {}  # needles by their longest word
        for needle in self._needles:
            word = max(_WORD.findall(needle), key=len, default=b"")
            self._words.setdefault(word, []).append(needle)
        self._has_numbers = any(name.lstrip("-").isdigit() for name in self.names)
        self.overlap = _LONGEST_ESCAPE * max(map(len, self._needles), default=0) + 1

    def of(self, values: Mapping[str, Sequence[Any]]) -> list[str]:
        """Those that a record has, by the values of its features."""
        found = (
            bytes(value) if isinstance(value, memoryview) else str(value).encode()
            for feature in NAME_FEATURES
            for value in values.get(feature, ())
            if not isinstance(value, float)
        )
        return [self._by_bytes[name] for name in dict.fromkeys(found) if name in self._by_bytes]

    def may_be_of(self, data: bytes) -> bool:
        """Whether some serialized records may have or hold one."""
        return self._has_numbers or bool(self._candidates(data))

    def are_in(self, value: bytes) -> bool:
        """Whether one stands in a value, or is part of what is no text."""
        found = self._candidates(value)
        if not found or _is_text(value):
            return any(_stands(name, value) for name in found)
        return any(len(name) >= LEAST_BYTES for name in found)

    def are_in_file(self, data: bytes) -> bool:
        """Whether one stands in some of a file, as it is or unescaped."""
        has_escapes = b"\0" not in data  # as any text, in whatever encoding of 8 bits
        for form in _unescaped(data) if has_escapes else ():
            if any(_stands(name, form) for name in self._candidates(form)):
                return True
        return not _is_text(data) and any(raw in data for raw in self._raw)

    def without(self, value: Json, *, with_keys: bool = False) -> Json:
        """What JSON holds, each text that names one replaced; so are keys, but for the first."""
        if isinstance(value, str):
            data = value.encode("utf-8", "surrogatepass")
            is_named = any(_stands(name, data) for name in self._candidates(data))
            return _FORGOTTEN if is_named else value
        if isinstance(value, Mapping):
            return {
                self.without(key) if with_keys else key: self.without(inner, with_keys=True)
                for key, inner in value.items()
            }
        if isinstance(value, (list, tuple)):
            return [self.without(inner, with_keys=True) for inner in value]
        return value

    def _candidates(self, data: bytes) -> list[bytes]:
        """Those that are somewhere in some bytes; of many, where their longest word is one."""
        if len(self._needles) <= _FEW:
            return [needle for needle in self._needles if needle in data]
        words = self._words.keys() & {b"", *_WORD.findall(data)}
        named = itertools.chain.from_iterable(self._words[word] for word in words)
        return [needle for needle in named if needle in data]


def _raw_forms(name: str) -> list[bytes]:
    """As files that are no text may hold it."""
    forms = [_encoded(name)]
    for encoding in _ENCODINGS:
        with contextlib.suppress(UnicodeEncodeError):
            forms.append(name.encode(encoding))
    return [form for form in forms if len(form) >= LEAST_BYTES]


def _stands(name: bytes, data: bytes) -> bool:
    before = rb"(?<![0-9A-Za-z])" if _WORD.match(name) else b""
    after = rb"(?![0-9A-Za-z])" if _WORD.match(name[-1:]) else b""
    return re.search(before + re.escape(name) + after, data) is not None


def _is_text(data: bytes) -> bool:
    """Whether bytes are UTF-8 without a NUL, where they may begin or end within a character."""
    if b"\0" in data:
        return False
    start = next((n for n, byte in enumerate(data[:4]) if byte & 0xC0 != 0x80), 0)
    try:
        data[start:].decode()
    except UnicodeDecodeError as error:
        return "end of data" in error.reason
    return True


def _unescaped(data: bytes) -> Iterator[bytes]:
    """A text as it is, and as those read it whose escapes it has."""
    yield (form := data)
    for _ in range(2):  # JSON within JSON, or in a schema's annotation
        if b"\\" in form:
            yield (form := _ESCAPE.sub(_character, form))
    if b"&" in data:
        text = data.decode("utf-8", "surrogateescape")
        yield html.unescape(text).encode("utf-8", "surrogateescape")
    if b"%" in data:
        yield urllib.parse.unquote_to_bytes(data)
    if b'""' in data:
        yield data.replace(b'""', b'"')


def _character(escape: "re.Match[bytes]") -> bytes:
    high, low, short, long, octet, octal, sign = escape.groups()
    if sign is not None:
        return bytes([_SIGNS.get(sign[0], sign[0])])
    if octet or octal:
        return bytes([int(octet, 16) if octet else int(octal, 8) & 0xFF])
    if high:
        number = 0x10000 + ((int(high, 16) & 0x3FF) << 10) + (int(low, 16) & 0x3FF)
    else:
        number = int(short or long, 16)
    return chr(number).encode("utf-8", "surrogatepass") if number < 0x110000 else escape[0]
