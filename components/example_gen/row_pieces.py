"""Work on pieces by their numbers: what Beam's workers do, and a plan without Beam.

inspect = InspectPieceGroup(base="reviews/", uri=uri, options=options, rules=rules)
write_pieces(uri, pieces)
for numbers in group_pieces(len(pieces)):
    inspect(numbers)
"""

import concurrent.futures
import dataclasses
import json
from collections.abc import Callable, Sequence

import pyarrow as pa

from components.common.summaries import check_shared, working_folder, write_summary
from components.common.worker_errors import report_errors
from components.example_gen.row_inspection import inspect_piece
from components.tables.options import TableOptions
from components.tables.pieces import Piece
from components.tables.texts import TextRules
from trainer_utils.storage.files import read_text, write_text
from trainer_utils.storage.paths import join

__all__ = [
    "InspectPieceGroup",
    "group_pieces",
    "read_piece_file",
    "summary_name",
    "work_on_pieces",
    "write_pieces",
]

_GROUP = 4  # pieces that one element stands for; as many threads at the most


def summary_name(step: str, number: int) -> str:
    """What the report of a piece or a bucket is called."""
    return f"{step}-{number:06d}"


def group_pieces(count: int) -> list[list[int]]:
    """The numbers of some pieces, in the groups that one worker takes at a time."""
    return [[*range(start, min(start + _GROUP, count))] for start in range(0, count, _GROUP)]


def work_on_pieces(work: Callable[[int], None], numbers: Sequence[int]) -> None:
    """Works on pieces in threads: Arrow lets go of the interpreter's lock."""
    with concurrent.futures.ThreadPoolExecutor(min(pa.cpu_count(), _GROUP)) as pool:
        for _ in pool.map(work, numbers):
            pass


def write_pieces(uri: str, pieces: Sequence[Piece]) -> None:
    """Keeps each piece as a file: thousands of them are too many for the graphs of runners."""
    for number, piece in enumerate(pieces):
        write_text(
            _piece_file(uri, number),
            json.dumps(dataclasses.asdict(piece)),
            temporary_folder=working_folder(uri),
        )


def read_piece_file(uri: str, number: int) -> Piece:
    """The piece of a number, as `write_pieces` has kept it."""
    return Piece(**json.loads(read_text(_piece_file(uri, number))))


def _piece_file(uri: str, number: int) -> str:
    return join(working_folder(uri), f"pieces/{number:06d}.json")


@dataclasses.dataclass(frozen=True, kw_only=True)
class InspectPieceGroup:
    """Reads some pieces, and leaves their rows and a report of each in the working folder.

    Args:
        base: that the pieces' files are relative to.
        uri: of the dataset.
        options, rules: of the tables, and of the texts in them.
    """

    base: str
    uri: str
    options: TableOptions
    rules: TextRules

    def __call__(self, numbers: Sequence[int]) -> None:
        """Reads the pieces of these numbers."""
        check_shared(self.uri)
        work_on_pieces(self._inspect, numbers)

    def _inspect(self, number: int) -> None:
        name = summary_name("inspect", number)
        folder = working_folder(self.uri)
        with report_errors(self.uri, name):
            report = inspect_piece(
                self.base,
                read_piece_file(self.uri, number),
                number=number,
                options=self.options,
                rules=self.rules,
                folder=folder,
            )
            write_summary(folder, name, dataclasses.asdict(report))
