"""Find inputs that are copies of one another, so that these can share a split.

All threads of this machine work on it, whichever runner writes the shards. An image needs 140 bytes
of memory meanwhile, and a kilobyte in a temporary file. A text needs 200 bytes, plus 8 per word.
"""

import concurrent.futures
import hashlib
from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow.compute as pc

from components.auditing.similarity import (
    ImageSketches,
    TextSketches,
    look_at_image,
    sketch_texts,
    split_words,
)
from components.inputs.blob_reader import BlobReader
from components.inputs.input_table import Entry, InputTable, entries_of
from components.inputs.rejects import RejectedInputError
from trainer_utils.runtime.machine import usable_cores

_AT_ONCE = 4096  # inputs per batch


def find_near_duplicates(inputs: InputTable, reader: BlobReader) -> dict[str, str]:
    """Return the representative of each input that has copies, by the input's name.

    It is the first name of the group of copies, in byte order. The first image feature is compared,
    or else the first audio feature, where copies have the same bytes. Inputs that cannot be read
    are left out.
    """
    kinds = [column.kind for column in inputs.blobs]
    are_images = "image" in kinds
    place = kinds.index("image" if are_images else "audio")

    def look(entry: Entry) -> bytes | None:
        try:
            data = reader.read(entry.blobs[place])
        except RejectedInputError:  # it will be rejected when its shard is written
            return None
        if not are_images:
            return hashlib.blake2b(data).digest()
        views = look_at_image(data)
        return None if views is None else views.sketch

    names, first = list[str](), dict[bytes, int]()
    same = list[int]()  # for each audio file, the index of the first with the same bytes
    # Sorted by name, so that groups do not depend on the order of the listing.
    rows = inputs.rows.take(pc.sort_indices(inputs.rows.column("name")))
    with (
        ImageSketches() as sketches,
        concurrent.futures.ThreadPoolExecutor(usable_cores()) as pool,
    ):
        for start in range(0, len(rows), _AT_ONCE):
            batch = [*entries_of(rows.slice(start, _AT_ONCE))]
            for entry, sketch in zip(batch, pool.map(look, batch), strict=True):
                if sketch is None:
                    continue
                if are_images:
                    sketches.add(sketch)
                else:
                    same.append(first.setdefault(sketch, len(names)))
                names.append(entry.name)
        groups = sketches.groups() if are_images else np.array(same, np.int32)
    sizes = np.bincount(groups, minlength=len(names))
    return {names[n]: names[groups[n]] for n in np.flatnonzero(sizes[groups] > 1).tolist()}


def find_similar_texts(
    texts_of: Callable[[int], Sequence[str]], num_pieces: int
) -> npt.NDArray[np.int32]:
    """Return for each text the index of the first similar one over all pieces, `(texts,) int32`.

    Args:
        texts_of: returns the texts of a piece by its number. It is called from several threads.
        num_pieces: the number of pieces.
    """
    cores = usable_cores()
    with TextSketches() as sketches, concurrent.futures.ThreadPoolExecutor(cores) as pool:
        for start in range(0, num_pieces, cores):
            for texts in pool.map(texts_of, range(start, min(start + cores, num_pieces))):
                parts = [texts[n : n + _AT_ONCE] for n in range(0, len(texts), _AT_ONCE)]
                for sketched in pool.map(
                    lambda part: sketch_texts([*map(split_words, part)]), parts
                ):
                    sketches.add(sketched)
        return sketches.groups()
