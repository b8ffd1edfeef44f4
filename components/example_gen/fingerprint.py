"""The fingerprint of a conversion's inputs, for its manifest.

    fingerprint_of_files(located, inputs, plan, summaries)     # '5f0c…', 32 hexadecimal digits
    fingerprint_of_rows(located, pieces, reports, plan.excluded)

It is a sum, in no order, over every file or part of one that is an input: its name relative to the
input base, its size and its CRC-32C, whether it became an example or was rejected; of what is
skipped unread by a rule (hidden files, files in no image set), and of what cannot be read, the
size alone. So it is the same for every conversion of the same inputs, whatever the settings, the
number of shards or the runner, and another one where a name or a byte differs. Contents are summed
as they are read to be converted, but for Parquet files and what was rejected before it was read.
"""

import concurrent.futures
import itertools
import threading
from collections.abc import Iterable, Sequence

from components.common.entry import Blob, BlobReader, ExcludedInput
from components.common.fingerprint import combine_facts, sum_blobs, sum_facts
from components.common.input_table import InputTable
from components.common.rejects import RejectedInputError
from components.example_gen.file_plan import FilePlan
from components.example_gen.inputs import LocatedInputs
from components.example_gen.media import ShardSummary
from components.example_gen.row_inspection import PieceReport
from components.tables.pieces import Piece
from trainer_utils.format.checksums import combine_crc32c, extend_crc32c
from trainer_utils.storage.faults import problem_of
from trainer_utils.storage.file_system import join
from trainer_utils.storage.files import open_for_reading

__all__ = ["fingerprint_of_files", "fingerprint_of_rows"]

_THREADS = 8
_BLOCK_BYTES = 4 << 20
_Part = tuple[int, int, int]  # first byte, bytes, CRC-32C


def fingerprint_of_files(
    located: LocatedInputs, inputs: InputTable, plan: FilePlan, summaries: Sequence[ShardSummary]
) -> str:
    """Of images and sounds, as 32 hexadecimal digits.

    Args:
        located: where the inputs are.
        inputs: all of them.
        plan: which of them were read.
        summaries: of all shards.
    """
    roots = [root.base for root in located.image_roots]
    unread = {blob: True for entry in plan.unread() for blob in entry.blobs}
    total = sum(summary.fingerprint for summary in summaries)
    total += sum_blobs(_sums_of(located, inputs.excluded, unread).items(), roots)
    total += sum_facts((("read", name), crc) for name, crc in inputs.contents.items())
    return f"{total % 2**128:032x}"


def _sums_of(
    located: LocatedInputs, excluded: Iterable[ExcludedInput], blobs: dict[Blob, bool]
) -> dict[Blob, int | None]:
    """The CRC-32C of what is in no shard; None of what is skipped or cannot be read.

    Args:
        blobs: more of it, with whether it can be read; added to.
    """
    for left in excluded:
        size = _known_size(located, left.name)
        blobs[Blob(left.name, size or 0)] = left.code is not None and size is not None
    readers = threading.local()

    def read(blob: Blob) -> int | None:
        if not blobs[blob]:
            return None
        if not hasattr(readers, "own"):
            readers.own = BlobReader(located.base)
        try:
            return extend_crc32c(0, readers.own.read(blob))
        except RejectedInputError:
            return None

    with concurrent.futures.ThreadPoolExecutor(_THREADS) as pool:
        return dict(zip(blobs, pool.map(read, [*blobs]), strict=True))


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
    for piece, report in zip(pieces, reports, strict=True):
        if piece.layout == "folder":
            names = [Blob(name, size) for name, size, _ in piece.details["files"]]
            files |= dict(zip(names, report.sums, strict=True))
        else:
            parts.setdefault(piece.source, []).extend(tuple(part) for part in report.sums)
    unread = {
        blob: _known_size(located, blob.path) is not None
        for blob, crc in files.items()
        if crc is None
    }
    files |= _sums_of(located, excluded, unread)

    def whole(path: str) -> int | None:
        size = _known_size(located, path) or 0
        return _whole(join(located.base, path), size, sorted(parts[path]))

    with concurrent.futures.ThreadPoolExecutor(_THREADS) as pool:
        for path, crc in zip(parts, pool.map(whole, parts), strict=True):
            files[Blob(path, _known_size(located, path) or 0)] = crc
    return combine_facts(((blob.path, *blob[1:]), crc) for blob, crc in files.items())


def _whole(path: str, size: int, parts: Iterable[_Part]) -> int | None:
    """The CRC-32C of a file of which some parts are known; None where the rest cannot be read."""
    whole = at = 0
    try:
        for start, length, crc in itertools.chain(parts, [(size, 0, 0)]):
            if start > at:  # such as a header
                with open_for_reading(path) as stream:
                    stream.seek(at)
                    while at < start and (block := stream.read(min(_BLOCK_BYTES, start - at))):
                        whole, at = extend_crc32c(whole, block), at + len(block)
            whole, at = combine_crc32c(whole, crc, length), start + length
    except OSError as error:
        problem_of(error, path)
        return None
    return whole


def _known_size(located: LocatedInputs, path: str) -> int | None:
    """The size of a listed file; None of one that cannot be read, or is not listed."""
    found = [pattern.files[path] for pattern in located.patterns if path in pattern.files]
    return found[-1].size if found and found[-1].problem is None else None
