"""What is looked for: names of records, and what the records of these names hold.

    wanted = Names(["cat/1.jpg"])
    wanted.of(decode_example(record, NAME_FEATURES))    # ['cat/1.jpg'], or [] of another record
    wanted.redact("path = cat/1.jpg")                   # 'path = (forgotten)'
    content_of(record).key                              # the same for a copy of another name

The content of a record is its longest text or bytes, an image, a sound or a text: two records that
differ in name and label alone hold the same. Where that is shorter than 32 bytes, as in a table of
numbers, it is all values but the names.
"""

import functools
import hashlib
import html
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from trainer_utils.format import DatasetError
from trainer_utils.format.example_decoding import decode_example
from trainer_utils.format.naming import NAME_FEATURES

__all__ = ["FORGOTTEN", "Content", "Names", "content_of", "name_digest", "needle_of"]

FORGOTTEN = "(forgotten)"
"""What stands in texts in place of a name."""

_LEAST_NAME_BYTES = 6  # of a name that is looked for in files that are no datasets
_LEAST_CONTENT_BYTES = 32  # of a value that stands for a record
_NEEDLE_BYTES = 64 << 10


class Content(NamedTuple):
    """What a record holds.

    Args:
        key: SHA-256 of it, hexadecimal.
        size: of what the key is of, in bytes.
        needle: bytes by which it is found in any file; empty where it is too short for that.
    """

    key: str
    size: int
    needle: bytes


def content_of(record: bytes) -> Content:
    """The content of a serialized example; of a record that is none, all of its bytes."""
    try:
        values = decode_example(record)
    except DatasetError:
        return _content(record)
    texts = [
        value
        for name, found in values.items()
        if name not in NAME_FEATURES
        for value in found
        if isinstance(value, memoryview)
    ]
    longest = max(texts, key=len, default=b"")
    if len(longest) >= _LEAST_CONTENT_BYTES:
        return _content(bytes(longest))
    plain = [
        (name, [bytes(v) if isinstance(v, memoryview) else v for v in found])
        for name, found in sorted(values.items())
        if name not in NAME_FEATURES
    ]
    return _content(repr(plain).encode(), is_found=False)


def _content(data: bytes, *, is_found: bool = True) -> Content:
    needle = needle_of(data) if is_found else b""
    return Content(hashlib.sha256(data).hexdigest(), len(data), needle)


def needle_of(data: bytes) -> bytes:
    """Bytes of the middle, by which some data is found in any file; empty where it has too few."""
    start = max(len(data) - _NEEDLE_BYTES, 0) // 2
    needle = data[start : start + _NEEDLE_BYTES]
    return needle if len(needle) >= _LEAST_CONTENT_BYTES and len(set(needle)) > 1 else b""


def name_digest(name: str) -> str:
    """What stands for a name where the name itself must not: `sha256:…`."""
    return f"sha256:{hashlib.sha256(_encoded(name)).hexdigest()}"


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
        self._are_texts = not any(name.lstrip("-").isdigit() for name in self.names)

    @property
    def digest(self) -> str:
        """Of all of them, whatever their order."""
        listed = json.dumps([name_digest(name) for name in self.names])
        return hashlib.sha256(listed.encode()).hexdigest()

    def of(self, values: Mapping[str, Sequence[Any]]) -> list[str]:
        """Those that a record has, by the values of its features."""
        found = (
            bytes(value) if isinstance(value, memoryview) else str(value).encode()
            for feature in NAME_FEATURES
            for value in values.get(feature, ())
            if not isinstance(value, float)
        )
        return [self._by_bytes[name] for name in dict.fromkeys(found) if name in self._by_bytes]

    def may_be_in(self, data: bytes) -> bool:
        """Whether some records may have one, by their bytes alone."""
        return (
            not self._are_texts
            or len(self.names) > 16  # looking for each would take longer than to parse
            or any(name in data for name in self._by_bytes)
        )

    @functools.cached_property
    def needles(self) -> tuple[bytes, ...]:
        """As files may spell those that are long enough to be nothing else."""
        return tuple(dict.fromkeys(form for name in self._searchable for form in _spellings(name)))

    @functools.cached_property
    def _searchable(self) -> tuple[str, ...]:
        return tuple(
            name
            for name, data in zip(self.names, map(_encoded, self.names), strict=True)
            if len(data) >= _LEAST_NAME_BYTES and not name.isdigit()
        )

    @functools.cached_property
    def _pattern(self) -> "re.Pattern[str] | None":
        found = sorted(self._searchable, key=len, reverse=True)
        return re.compile(rf"(?<!\w)(?:{'|'.join(map(re.escape, found))})(?!\w)") if found else None

    def redact(self, value: Any) -> Any:
        """A text, or whatever JSON holds, without the names."""
        if self._pattern is None:
            return value
        if isinstance(value, str):
            return self._pattern.sub(FORGOTTEN, value)
        if isinstance(value, Mapping):
            return {self.redact(name): self.redact(inner) for name, inner in value.items()}
        if isinstance(value, (list, tuple)):
            return [self.redact(inner) for inner in value]
        return value

    def without_lines(self, lines: Sequence[str]) -> list[str]:
        """Lines of a vocabulary: one that is a name gives its place to what is none."""
        own = {*self._searchable}
        return [
            f"{FORGOTTEN} {number}" if line in own else line for number, line in enumerate(lines)
        ]


def _spellings(name: str) -> list[bytes]:
    """As it is, as JSON has it, and as a page has it."""
    data = _encoded(name)
    shown = data.decode("utf-8", "backslashreplace")
    return [data, json.dumps(shown)[1:-1].encode(), html.escape(shown).encode()]
