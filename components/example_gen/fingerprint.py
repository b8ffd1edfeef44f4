"""The fingerprint of a conversion's inputs, for its manifest.

    fingerprint_of_files(located, listing, plan, summaries)     # '5f0c…', 32 hexadecimal digits
    fingerprint_of_rows(located, pieces, reports, plan.excluded)

It is a sum, in no order, over everything that is an input, each with its name relative to the
input base and what is in it:

- a file or a part of one that becomes, or was to become, an example: its size and CRC-32C, also
  where it was rejected;
- what the layout itself reads: annotations by their CRC-32C, lists by their rows;
- what is skipped unread by a rule (hidden files, files in no image set), and what cannot be
  read: its size alone.

Of tables and texts it is over whole files, however they are cut: the sums of a file's pieces, as
they were read to be converted, make that of the file; what lies between them, such as a header, is
read for it. So are the originals of copies. A Parquet file is what its columns hold, however its
rows are grouped.

So it is the same for every conversion of the same inputs, whatever the settings, the number of
shards or the runner, and another one where a name or a byte differs. Contents are summed as they
are read to be converted; only what was rejected before that is read for the sum.
"""

import concurrent.futures
import itertools
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence

from components.common.blobs import BlobReader
from components.common.entry import Blob, ExcludedInput
from components.common.fingerprint import combine_facts
from components.common.listing import Listing
from components.common.rejects import RejectedInputError
from components.example_gen.file_plan import FilePlan
from components.example_gen.file_reports import ShardSummary
from components.example_gen.inputs import LocatedInputs
from components.example_gen.row_inspection import PieceReport
from components.tables.pieces import Piece
from trainer_utils.format.crc32c import combine_crc32c, extend_crc32c
from trainer_utils.storage.file_system import problem_of
from trainer_utils.storage.files import open_for_reading
from trainer_utils.storage.paths import join

__all__ = ["fingerprint_of_files", "fingerprint_of_rows"]

_THREADS = 8
_BLOCK_BYTES = 4 << 20
_Part = tuple[int, int, int]  # first byte, bytes, CRC-32C


def fingerprint_of_files(
    located: LocatedInputs, listing: Listing, plan: FilePlan, summaries: Sequence[ShardSummary]
) -> str:
    """Of images and sounds, as 32 hexadecimal digits.

    Args:
        located: where the inputs are.
        listing: of them all.
        plan: which of them were read for which shard.
        summaries: of the shards, in the order of the plan's tasks.
    """
    name_of = _names(located)
    unread: list[Blob] = []
    facts = itertools.chain(
        _facts_as_read(plan, summaries, unread),
        # Known only once those before are taken.
        _facts_of_others(located, listing.excluded, unread),
    )
    return combine_facts(
        itertools.chain(
            (((name_of(blob.path), *blob[1:]), crc) for blob, crc in facts),
            ((("read", name), crc) for name, crc in listing.contents.items()),
        )
    )


def _facts_as_read(
    plan: FilePlan, summaries: Sequence[ShardSummary], unread: list[Blob]
) -> Iterator[tuple[Blob, int | None]]:
    """What workers read; to `unread` come the files that are in no shard, or could not be read."""
    for task, summary in zip(plan.tasks, summaries, strict=True):
        blobs = (blob for entry in task.entries for blob in entry.blobs)
        for blob, crc in zip(blobs, summary.sums, strict=True):
            if crc is None:
                unread.append(blob)
            else:
                yield blob, crc
    for entry in plan.unread():
        unread += entry.blobs


def _facts_of_others(
    located: LocatedInputs, excluded: Sequence[ExcludedInput], unread: Iterable[Blob]
) -> Iterator[tuple[Blob, int | None]]:
    """What is rejected is read for its sum, where it can be; what is skipped is not."""
    wanted = dict.fromkeys(unread)
    for left in excluded:
        size = _known_size(located, left.name)
        blob = Blob(left.name, size or 0)
        if left.code is None or size is None:
            yield blob, None
        else:
            wanted[blob] = None
    yield from _read_sums(located.base, wanted).items()


def fingerprint_of_rows(
    located: LocatedInputs,
    pieces: Sequence[Piece],
    reports: Sequence[PieceReport],
    excluded: Sequence[ExcludedInput],
) -> str:
    """As `fingerprint_of_files`, of the files that rows are from, however they were cut.

    Args:
        located: where the inputs are.
        pieces, reports: of all that was read.
        excluded: files that were not.
    """
    files: dict[Blob, int | None] = {}
    parts: dict[str, list[_Part]] = {}
    columns: dict[tuple[str, ...], tuple[int, int]] = {}
    for piece, report in zip(pieces, reports, strict=True):
        if piece.layout == "folder":
            names = [Blob(name, size) for name, size, _ in piece.details["files"]]
            files |= dict(zip(names, report.sums, strict=True))
        elif piece.layout == "parquet":
            for name, stream, size, crc in report.sums:
                before = columns.get((piece.source, name, stream), (0, 0))
                whole = before[0] + size, combine_crc32c(before[1], crc, size)
                columns[piece.source, name, stream] = whole
        else:
            parts.setdefault(piece.source, []).extend(tuple(part) for part in report.sums)
    for left in excluded:
        files[Blob(left.name, _known_size(located, left.name) or 0)] = None
    skipped = {left.name for left in excluded if left.code is None}
    unread = [
        blob
        for blob, crc in files.items()
        if crc is None and blob.path not in skipped and _known_size(located, blob.path) is not None
    ]
    files |= _read_sums(located.base, unread)
    for path, read in parts.items():
        size = _known_size(located, path) or 0
        files[Blob(path, size)] = _whole(join(located.base, path), size, sorted(read))
    facts: dict[tuple[object, ...], object] = {(b.path, *b[1:]): crc for b, crc in files.items()}
    return combine_facts((facts | columns).items())


def _whole(path: str, size: int, parts: Iterable[_Part]) -> int | None:
    """The CRC-32C of a file of which some parts are known; None where the rest cannot be read."""
    whole = at = 0
    try:
        for start, length, crc in [*parts, (size, 0, 0)]:
            if start > at:
                whole = _extended(whole, path, at, start)
            whole, at = combine_crc32c(whole, crc, length), start + length
    except OSError as error:
        problem_of(error, path)
        return None
    return whole


def _extended(crc: int, path: str, start: int, stop: int) -> int:
    with open_for_reading(path) as stream:
        stream.seek(start)
        while start < stop and (block := stream.read(min(_BLOCK_BYTES, stop - start))):
            crc, start = extend_crc32c(crc, block), start + len(block)
    return crc


def _known_size(located: LocatedInputs, path: str) -> int | None:
    """The size of a listed file; None of one that cannot be read, or is not listed."""
    found = [pattern.files[path] for pattern in located.patterns if path in pattern.files]
    return found[-1].size if found and found[-1].problem is None else None


def _names(located: LocatedInputs) -> Callable[[str], str]:
    """What a path is called wherever the inputs lie: relative to the root that it is below."""
    roots = [f"{root.base.rstrip('/')}/" for root in located.image_roots]
    if not roots:
        return str  # as it is

    def name(path: str) -> str:
        root = next((root for root in roots if path.startswith(root)), "")
        return path.removeprefix(root)

    return name


def _read_sums(base: str, blobs: Iterable[Blob]) -> dict[Blob, int | None]:
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
