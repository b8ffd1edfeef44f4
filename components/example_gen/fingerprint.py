"""The fingerprint of a conversion's inputs, for its manifest.

    media_fingerprint(located, listing, plan, summaries)     # '5f0c…', 32 hexadecimal digits

It is a sum, in no order, over everything that is an input, each with its name relative to the
input base and what is in it:

- a file or a part of one that becomes, or was to become, an example: its size and CRC-32C, also
  where it was rejected;
- what the layout itself reads: annotations by their CRC-32C, lists by their rows;
- what is skipped unread by a rule (hidden files, files in no image set), and what cannot be
  read: its size alone.

So it is the same for every conversion of the same inputs, whatever the settings, the number of
shards or the runner, and another one where a name or a byte differs. Contents are summed as they
are read to be converted; only what was rejected before that is read for the sum.
"""

import concurrent.futures
import threading
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from components.common.blobs import BlobReader
from components.common.fingerprint import add_facts
from components.common.listing import Blob, Listing
from components.common.rejects import RejectedInputError
from components.example_gen.inputs import LocatedInputs
from components.example_gen.plan import Plan
from components.example_gen.reports import ShardSummary
from trainer_utils.format.crc32c import extend_crc32c

__all__ = ["known_sizes", "media_fingerprint", "read_sums"]

_THREADS = 8


def media_fingerprint(
    located: LocatedInputs, listing: Listing, plan: Plan, summaries: Sequence[ShardSummary]
) -> str:
    """Of images and sounds, as 32 hexadecimal digits.

    Args:
        located: where the inputs are.
        listing: of them all.
        plan: which of them were read for which shard.
        summaries: of the shards, in the order of the plan's tasks.
    """
    sums = _sums_as_read(plan, summaries)
    entries = dict.fromkeys(blob for entry in listing.entries for blob in entry.blobs)
    sizes = known_sizes(located)
    skipped = {left.name for left in listing.left_out if left.code is None}
    left_out = [Blob(left.name, sizes.get(left.name) or 0) for left in listing.left_out]
    unread = [blob for blob in entries if sums.get(blob) is None]
    unread += [b for b in left_out if b.path not in skipped and sizes.get(b.path) is not None]
    sums |= read_sums(located.base, unread)
    name_of = _names(located)
    facts: dict[tuple[Any, ...], Any] = {
        (name_of(blob.path), *blob[1:]): sums.get(blob) for blob in [*left_out, *entries]
    }
    return add_facts(facts | {("read", name): crc for name, crc in listing.contents.items()})


def _sums_as_read(plan: Plan, summaries: Sequence[ShardSummary]) -> dict[Blob, int | None]:
    sums: dict[Blob, int | None] = {}
    for task, summary in zip(plan.tasks, summaries, strict=True):
        blobs = (blob for entry in task.entries for blob in entry.blobs)
        sums |= dict(zip(blobs, summary.sums, strict=True))
    return sums


def known_sizes(located: LocatedInputs) -> dict[str, int | None]:
    """The size of each listed file by path; None of one that cannot be read."""
    return {
        file.path: file.size if file.problem is None else None
        for pattern in located.patterns
        for file in pattern.files
    }


def _names(located: LocatedInputs) -> Callable[[str], str]:
    """What a path is called wherever the inputs lie: relative to the root that it is below."""
    roots = [f"{root.base.rstrip('/')}/" for root in located.image_roots]

    def name(path: str) -> str:
        root = next((root for root in roots if path.startswith(root)), "")
        return path.removeprefix(root)

    return name


def read_sums(base: str, blobs: Iterable[Blob]) -> dict[Blob, int | None]:
    """The CRC-32C of what was not read otherwise; None of what cannot be."""
    readers = threading.local()

    def read(blob: Blob) -> int | None:
        if not hasattr(readers, "own"):
            readers.own = BlobReader(base)
        try:
            return extend_crc32c(0, readers.own.read(blob))
        except RejectedInputError:
            return None

    wanted = list(blobs)
    with concurrent.futures.ThreadPoolExecutor(_THREADS) as pool:
        return dict(zip(wanted, pool.map(read, wanted), strict=True))
