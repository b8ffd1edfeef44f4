"""Keep long documents in memory while packs of them are read.

    cache = DocumentCache(max_bytes=256 << 20)
    cache.keep(17, Document(VarintList(data), None, eos=0))
    cache.get([3, 17])[17].part(2048, 4097)          # (tokens, weights)

A document that is longer than a pack is needed for several packs, which a shuffle spreads over many
steps. Without this cache it would be read and checked for each of them. Only the part that a pack
needs is decoded.
"""

import collections
import os
import threading
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from trainer_utils.format.varints import VarintList

_MAX_SHORT = 1 << 16  # tokens below this take two bytes

Array = npt.NDArray[Any]


class Document(NamedTuple):
    """The tokens of a document.

    Attributes:
        tokens: `(tokens,)` integers, decoded or not.
        mask: `(tokens,) float32`, each token's weight in the loss; None if all are 1.
        eos: the token after the last one, which has the weight of the last one; None for none.
    """

    tokens: Array | VarintList
    mask: Array | None = None
    eos: int | None = None

    def part(self, begin: int, end: int) -> tuple[Array, Array | None]:
        """Return the tokens from `begin` to `end`, fewer at the end of the document.

        Returns:
            Tokens, and their weights in the loss; None if these are all 1.
        """
        size = len(self.tokens)
        stop = min(end, size)
        if isinstance(self.tokens, VarintList):
            tokens: Array = self.tokens.part(begin, stop)
        else:
            tokens = self.tokens[begin:stop]
        mask = None if self.mask is None else self.mask[begin:stop]
        if self.eos is not None and begin <= size < end:
            tokens = np.append(tokens, self.eos)
            mask = None if mask is None or self.mask is None else np.append(mask, self.mask[-1:])
        return tokens, mask

    def compact(self) -> "Document":
        """Return a copy that takes as little memory as possible."""
        tokens = self.tokens
        if isinstance(tokens, VarintList):
            tokens = tokens.copy()
        else:
            is_short = tokens.itemsize <= 2 or (len(tokens) and int(tokens.max()) < _MAX_SHORT)
            tokens = tokens.astype(np.uint16 if is_short else np.int32)
        mask = None if self.mask is None else self.mask.copy()
        return Document(tokens, mask, self.eos)

    @property
    def num_bytes(self) -> int:
        """Size of the arrays in bytes."""
        size = self.tokens.num_bytes if isinstance(self.tokens, VarintList) else self.tokens.nbytes
        return int(size) + (0 if self.mask is None else int(self.mask.nbytes))


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
        documents = {}
        with self._lock:
            for record in records:
                if (document := self._documents.get(record)) is not None:
                    self._documents.move_to_end(record)
                    documents[record] = document
        return documents

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
