"""Which images of the inputs are copies of one another, so that these can share a split.

groups = find_near_duplicates(listing, base="photos/", image_roots=())
groups["b.jpg"]       # 'a.jpg'

All threads of this machine decode, whatever runner writes the shards: what is found depends on the
images alone. A kilobyte an image lies in a temporary file meanwhile.
"""

import concurrent.futures
import os
import tempfile
import threading
from collections.abc import Sequence

import numpy as np

from components.common.blobs import BlobReader
from components.common.listing import Entry, Listing
from components.common.rejects import RejectedInputError
from trainer_utils.auditing.disjoint_sets import DisjointSets
from trainer_utils.auditing.image_sketch import THUMBNAIL_SIDE, sketch_image
from trainer_utils.auditing.similar_images import unite_similar_images
from trainer_utils.machine import usable_cores

__all__ = ["find_near_duplicates"]

_AT_ONCE, _OF_A_THREAD = 4096, 64  # images


def find_near_duplicates(
    listing: Listing, *, base: str, image_roots: Sequence[str]
) -> dict[str, str]:
    """The first name, in order of bytes, of each group of copies.

    Args:
        listing: of the inputs; the first feature of images is compared.
        base, image_roots: where their files are, as `BlobReader` takes them.

    Returns:
        By name, of the entries that have copies. An image that cannot be read has none.
    """
    place = next(n for n, column in enumerate(listing.blobs) if column.kind == "image")
    # In order of names, so that groups do not depend on how the inputs were listed.
    entries = sorted(listing.entries, key=lambda entry: os.fsencode(entry.name))
    local = threading.local()

    def sketch(some: Sequence[Entry]) -> list[bytes | None]:
        if not hasattr(local, "reader"):
            local.reader = BlobReader(base, image_roots)
        return [_thumbnail(local.reader, entry, place) for entry in some]

    names: list[str] = []
    with (
        tempfile.TemporaryFile(prefix="tfx-shards-thumbnails-") as stream,
        concurrent.futures.ThreadPoolExecutor(usable_cores()) as pool,
    ):
        for start in range(0, len(entries), _AT_ONCE):
            some = entries[start : start + _AT_ONCE]
            parts = [some[n : n + _OF_A_THREAD] for n in range(0, len(some), _OF_A_THREAD)]
            for part, thumbnails in zip(parts, pool.map(sketch, parts), strict=True):
                for entry, thumbnail in zip(part, thumbnails, strict=True):
                    if thumbnail is not None:
                        stream.write(thumbnail)
                        names.append(entry.name)
        stream.flush()
        sets = DisjointSets(len(names))
        if names:
            shape = (len(names), THUMBNAIL_SIDE, THUMBNAIL_SIDE)
            unite_similar_images(np.memmap(stream, np.uint8, "r", shape=shape), sets)
    groups = sets.groups()
    sizes = np.bincount(groups, minlength=len(names))
    return {names[n]: names[groups[n]] for n in np.flatnonzero(sizes[groups] > 1).tolist()}


def _thumbnail(reader: BlobReader, entry: Entry, place: int) -> bytes | None:
    try:
        found = sketch_image(reader.read(entry.blobs[place]))
    except RejectedInputError:  # it will be rejected when its shard is written
        return None
    return None if found is None else found.thumbnail.tobytes()
