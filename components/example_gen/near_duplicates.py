"""Which inputs are copies of one another, so that these can share a split.

All threads of this machine look at them, whatever runner writes the shards. Of an image 150 bytes
are held in memory meanwhile, of a text 200, and 8 a word of it in a temporary file.
"""

import concurrent.futures
import functools
import hashlib
import itertools
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from components.auditing.similarity import (
    SketchedTexts,
    TextSketches,
    group_similar_images,
    look_at_image,
    sketch_texts,
    split_words,
)
from components.common.entry import Blob, BlobReader, Entry
from components.common.input_table import InputTable, entries_of
from components.common.rejects import RejectedInputError
from trainer_utils.machine import usable_cores

_AT_ONCE, _OF_A_THREAD = 4096, 64  # inputs

_Sketch = TypeVar("_Sketch")


def find_near_duplicates(
    inputs: InputTable, *, base: str, image_roots: Sequence[str]
) -> dict[str, str]:
    """The first name, in order of bytes, of each group of copies, by the names of all in it.

    Of the first feature of images, else of the first of sounds, which are copies where their
    bytes are the same. An input that cannot be read has none.
    """
    kinds = [column.kind for column in inputs.blobs]
    # In order of names, so that groups do not depend on how the inputs were listed.
    rows = inputs.rows.take(pc.sort_indices(inputs.rows.column("name")))
    files = _Files(rows, base, image_roots)
    if "image" in kinds:
        names, groups = _group_images(files, kinds.index("image"))
    else:
        names, groups = _group_sounds(files, kinds.index("audio"))
    sizes = np.bincount(groups, minlength=len(names))
    return {names[n]: names[groups[n]] for n in np.flatnonzero(sizes[groups] > 1).tolist()}


class _Files:
    """The files of entries, read and looked at by all threads."""

    def __init__(self, rows: pa.Table, base: str, image_roots: Sequence[str]) -> None:
        self._rows, self._local = rows, threading.local()
        self._make_reader = functools.partial(BlobReader, base, image_roots)

    def each(
        self, place: int, look: Callable[[bytes], _Sketch | None]
    ) -> Iterator[tuple[str, _Sketch]]:
        """The name of each entry, in order, and what is seen of its file at a place."""

        def seen(part: Sequence[Entry]) -> list[_Sketch | None]:
            if not hasattr(self._local, "reader"):
                self._local.reader = self._make_reader()
            return [see(entry.blobs[place]) for entry in part]

        def see(blob: Blob) -> _Sketch | None:
            try:
                return look(self._local.reader.read(blob))
            except RejectedInputError:  # it will be rejected when its shard is written
                return None

        with concurrent.futures.ThreadPoolExecutor(usable_cores()) as pool:
            for start in range(0, len(self._rows), _AT_ONCE):
                some = [*entries_of(self._rows.slice(start, _AT_ONCE))]
                parts = [some[n : n + _OF_A_THREAD] for n in range(0, len(some), _OF_A_THREAD)]
                found = itertools.chain.from_iterable(pool.map(seen, parts))
                yield from ((e.name, s) for e, s in zip(some, found, strict=True) if s is not None)


def _group_images(files: _Files, place: int) -> tuple[list[str], npt.NDArray[np.int32]]:
    """The names of those that can be read, and the number of the first copy of each."""
    names, sketches = list[str](), bytearray()
    for name, sketch in files.each(place, _sketch):
        names.append(name)
        sketches += sketch
    return names, group_similar_images(sketches)


def _sketch(data: bytes) -> bytes | None:
    found = look_at_image(data)
    return None if found is None else found.sketch


def _group_sounds(files: _Files, place: int) -> tuple[list[str], npt.NDArray[np.int32]]:
    names: list[str] = []
    first: dict[bytes, int] = {}
    groups = []
    for name, digest in files.each(place, lambda data: hashlib.blake2b(data).digest()):
        groups.append(first.setdefault(digest, len(names)))
        names.append(name)
    return names, np.array(groups, np.int32)


def find_similar_texts(
    texts_of: Callable[[int], Sequence[str]], num_pieces: int
) -> npt.NDArray[np.int32]:
    """The first of those texts that each is like, over all pieces, `(texts,)`.

    Args:
        texts_of: gives the texts of a piece by its number; called from several threads.
    """
    cores = usable_cores()
    with TextSketches() as sketches, concurrent.futures.ThreadPoolExecutor(cores) as pool:
        for start in range(0, num_pieces, cores):
            for texts in pool.map(texts_of, range(start, min(start + cores, num_pieces))):
                parts = [texts[n : n + _AT_ONCE] for n in range(0, len(texts), _AT_ONCE)]
                for sketched in pool.map(_sketched, parts):
                    sketches.add(sketched)
        return sketches.groups()


def _sketched(texts: Sequence[str]) -> SketchedTexts:
    return sketch_texts([split_words(text) for text in texts])
