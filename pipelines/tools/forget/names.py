"""Names of records, and whether a text or some bytes name one.

    wanted = Names(["cat/1.jpg"])
    wanted.are_in(b"photos/cat%2F1.jpg")                  # True
    wanted.without({"where": "filename != 'cat/1.jpg'"})  # {'where': '(forgotten)'}

In a text a name stands where no letter or digit of ASCII is right beside it.
"""

import contextlib
import functools
import hashlib
import html
import json
import re
import urllib.parse
from collections.abc import Iterable, Mapping

from components.report.records.lookup import encode_name
from trainer_utils.format.json_text import Json
from trainer_utils.storage import display_path

__all__ = ["LEAST_BYTES", "Names", "forgotten_label", "name_digest"]

_FORGOTTEN = "(forgotten)"
LEAST_BYTES = 4
"""Of a name that is looked for in what is no text, which has all shorter ones by chance."""
_BINARY = re.compile(rb"[\0-\x08\x0e-\x1a\x1c-\x1f]")  # but for the escape that colours a terminal
_OCTALS = {n: f"\\{n:03o}" for n in (*range(32), 34, 39, 92, *range(127, 256))}
_ESCAPES = {**{n: f"\\{n:03o}" for n in range(127, 256)}, 9: r"\t", 10: r"\n", 13: r"\r"}


def name_digest(name: str) -> str:
    """What stands for a name where the name itself must not: `sha256:…`."""
    return f"sha256:{hashlib.sha256(encode_name(name)).hexdigest()}"


def forgotten_label(number: int) -> str:
    """What a vocabulary has in place of a label that no record has any more, so that ids stay."""
    return f"{_FORGOTTEN} {number}"


class Names:
    """Names of records, as their `record_id`, `filename` or `id` have them.

    Args:
        names: each as a text; bytes that are not UTF-8 are surrogates.
    """

    def __init__(self, names: Iterable[str]) -> None:
        self.names = tuple(sorted(set(names)))
        self._plain = {
            form for n in self.names for form in (encode_name(n), display_path(n).encode())
        }
        self._forms = self._plain.union(*map(_forms, self.names))
        self.longest = max(map(len, self._forms), default=0)

    def are_in(self, data: bytes) -> bool:
        """Whether one stands in a text, plainly or escaped, or is part of what is no text."""
        found = [form for form in self._forms if form in data]
        if found and _BINARY.search(data):
            return any(len(form) >= LEAST_BYTES for form in found)
        return any(_standing(form).search(data) for form in found)

    def are_told(self, text: str) -> bool:
        """Whether one stands in a text as it is."""
        data = text.encode("utf-8", "surrogatepass")
        return any(form in data and _standing(form).search(data) for form in self._plain)

    def without(self, value: Json, *, is_inner: bool = False) -> Json:
        """What JSON holds, each text that names one replaced; so are keys, but for the first."""
        if isinstance(value, str):
            return _FORGOTTEN if self.are_told(value) else value
        if isinstance(value, Mapping):
            return {
                self.without(key) if is_inner else key: self.without(inner, is_inner=True)
                for key, inner in value.items()
            }
        if isinstance(value, (list, tuple)):
            return [self.without(inner, is_inner=True) for inner in value]
        return value


def _forms(name: str) -> set[bytes]:
    """How files of others may have a name: escaped for JSON, protobuf, Python, HTML, URLs, CSV."""
    raw = encode_name(name)
    quoted = raw.decode("latin-1").replace("\\", "\\\\").replace('"', '\\"').replace("'", "\\'")
    texts = {quoted.translate(_ESCAPES), quoted.replace("\\'", "'").translate(_ESCAPES)}
    texts.add(raw.decode("latin-1").translate(_OCTALS))  # as schema.pbtxt of ours has it
    texts |= {ascii(raw)[2:-1], ascii(name)[1:-1], name.replace('"', '""')}
    for as_ascii in (True, False):
        texts |= {(inner := json.dumps(name, ensure_ascii=as_ascii)[1:-1]), json.dumps(inner)[1:-1]}
    texts |= {urllib.parse.quote(raw), urllib.parse.quote(raw, safe=""), html.escape(name)}
    found = {html.escape(name).encode("ascii", "xmlcharrefreplace")}
    for text in texts:
        with contextlib.suppress(UnicodeEncodeError):
            found.add(text.encode())
    for encoding in ("utf-16-le", "utf-16-be", "latin-1"):
        with contextlib.suppress(UnicodeEncodeError):
            found.add(name.encode(encoding))
    return found


@functools.lru_cache(maxsize=1 << 16)
def _standing(form: bytes) -> "re.Pattern[bytes]":
    before = rb"(?<![0-9A-Za-z])" if form[:1].isalnum() else b""
    after = rb"(?![0-9A-Za-z])" if form[-1:].isalnum() else b""
    return re.compile(before + re.escape(form) + after)
