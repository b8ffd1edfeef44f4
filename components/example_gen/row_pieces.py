"""Work on pieces by their numbers, some at a time; the pieces lie in the working folder.

inspect = InspectPieces(base="reviews/", uri=uri, options=options, rules=rules)
write_pieces(uri, pieces)
for numbers in group_pieces(len(pieces)):
    inspect(numbers)
"""

import abc
import concurrent.futures
import dataclasses
import json
from collections.abc import Sequence
from typing import Any, ClassVar

import pyarrow as pa

from components.common.summaries import check_shared, working_folder, write_summary
from components.tables.pieces import Piece
from trainer_utils.storage.files import (
    make_folder,
    read_bytes,
    read_text,
    write_atomically,
    write_text,
)
from trainer_utils.storage.paths import is_remote, join

__all__ = [
    "PieceWork",
    "group_pieces",
    "open_batches",
    "summary_name",
    "write_batches",
    "write_pieces",
]

_GROUP = 4  # pieces that one element stands for; as many threads at the most


def summary_name(step: str, number: int) -> str:
    """What the report of a piece or a bucket is called."""
    return f"{step}-{number:06d}"


def group_pieces(count: int) -> list[list[int]]:
    """The numbers of some pieces, in the groups that one worker takes at a time."""
    return [[*range(start, min(start + _GROUP, count))] for start in range(0, count, _GROUP)]


def write_pieces(uri: str, pieces: Sequence[Piece]) -> None:
    """Keeps each piece as a file: thousands of them are too many for the graphs of runners."""
    for number, piece in enumerate(pieces):
        text = json.dumps(dataclasses.asdict(piece))
        write_text(_piece_file(uri, number), text, temporary_folder=working_folder(uri))


def _piece_file(uri: str, number: int) -> str:
    return join(working_folder(uri), f"pieces/{number:06d}.json")


@dataclasses.dataclass(frozen=True, kw_only=True)
class PieceWork(abc.ABC):
    """A step of the work on pieces, which leaves a report of each in the working folder.

    Attributes:
        step: how the names of its reports begin.
    """

    uri: str
    step: ClassVar[str]

    @property
    def folder(self) -> str:
        """The working folder."""
        return working_folder(self.uri)

    def __call__(self, numbers: Sequence[int]) -> dict[str, int]:
        """Works on the pieces of these numbers; nothing of it is counted."""
        check_shared(self.uri)
        # In threads: Arrow lets go of the interpreter's lock.
        with concurrent.futures.ThreadPoolExecutor(min(pa.cpu_count(), _GROUP)) as pool:
            for _ in pool.map(self._work, numbers):
                pass
        return {}

    def _work(self, number: int) -> None:
        piece = Piece(**json.loads(read_text(_piece_file(self.uri, number))))
        report = dataclasses.asdict(self.report(number, piece))
        write_summary(self.folder, summary_name(self.step, number), report)

    @abc.abstractmethod
    def report(self, number: int, piece: Piece) -> Any:
        """Works on one piece; returns its report, a dataclass."""


def write_batches(path: str, folder: str, batches: Sequence[pa.RecordBatch]) -> None:
    """Keeps Arrow's record batches, one or more of one schema, as a file of the working folder."""
    make_folder(path.rpartition("/")[0])
    with (
        write_atomically(path, temporary_folder=folder) as stream,
        pa.ipc.new_file(stream, batches[0].schema) as writer,
    ):
        for batch in batches:
            writer.write_batch(batch)


def open_batches(path: str) -> pa.ipc.RecordBatchFileReader:
    """The batches that `write_batches` kept."""
    source = pa.BufferReader(read_bytes(path)) if is_remote(path) else pa.memory_map(path)
    return pa.ipc.open_file(source)
