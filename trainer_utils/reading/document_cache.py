"""Keep decoded documents in memory while packs of them are read.

    cache = DocumentCache(max_bytes=256 << 20)
    cache.keep(17, Document(tokens, None))
    cache.get([3, 17])                       # {17: Document(…)}

A document that is longer than a pack is needed for several packs, which a shuffle spreads over many
steps. Without this cache it would be read and decoded for each of them.
"""

import collections
import os
import threading
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

_MAX_SHORT = 1 << 16  # tokens below this take two bytes


class Document(NamedTuple):
    """A decoded document.

    Attributes:
        tokens: `(tokens,)` integers, with the end token if there is one.
        mask: `(tokens,) float32`, each token's weight in the loss; None if all are 1.
    """

    tokens: npt.NDArray[Any]
    mask: npt.NDArray[Any] | None

    def compact(self) -> "Document":
        """Return a copy that takes as little memory as possible."""
        is_short = len(self.tokens) and int(self.tokens.max()) < _MAX_SHORT
        tokens = self.tokens.astype(np.uint16 if is_short else np.int32)
        return Document(tokens, None if self.mask is None else self.mask.copy())

    @property
    def num_bytes(self) -> int:
        """Size of the arrays in bytes."""
        return int(self.tokens.nbytes) + (0 if self.mask is None else int(self.mask.nbytes))


class DocumentCache:
    """The most recently used documents by record, for several threads; empty in a forked process.

    Args:
        max_bytes: the maximum size of all documents together.
    """

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._start_empty()

    def _start_empty(self) -> None:
        self._lock, self._process = threading.Lock(), os.getpid()
        self._documents = collections.OrderedDict[int, Document]()
        self._bytes = 0

    def get(self, records: Iterable[int]) -> dict[int, Document]:
        """Return the documents of these records that are kept."""
        if self._process != os.getpid():
            self._start_empty()
        found = {}
        with self._lock:
            for record in records:
                if (document := self._documents.get(record)) is not None:
                    self._documents.move_to_end(record)
                    found[record] = document
        return found

    def keep(self, record: int, document: Document) -> None:
        """Keep a compact copy of a document, and drop the least recently used ones for it."""
        compact = document.compact()
        if compact.num_bytes > self._max_bytes:
            return
        with self._lock:
            old = self._documents.pop(record, None)
            self._bytes -= 0 if old is None else old.num_bytes
            self._documents[record] = compact
            self._bytes += compact.num_bytes
            while self._bytes > self._max_bytes:
                self._bytes -= self._documents.popitem(last=False)[1].num_bytes
