"""Work on pieces and buckets by their numbers: what workers do, and a plan without them.

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

from components.common.summaries import (
    check_shared,
    read_summary,
    working_folder,
    write_summary,
)
from components.common.worker_errors import report_errors
from components.example_gen.row_encoding import encode_piece
from components.example_gen.row_inspection import inspect_piece
from components.example_gen.row_plan import RowPlan
from components.example_gen.row_shards import gather_bucket
from components.tables.options import TableOptions
from components.tables.pieces import Piece
from components.tables.texts import TextRules
from trainer_utils.storage.files import read_text, write_text
from trainer_utils.storage.paths import join

__all__ = [
    "EncodePieceGroup",
    "GatherBucket",
    "InspectPieceGroup",
    "group_pieces",
    "summary_name",
    "write_pieces",
]

_GROUP = 4  # pieces that one element stands for; as many threads at the most


def summary_name(step: str, number: int) -> str:
    """What the report of a piece or a bucket is called."""
    return f"{step}-{number:06d}"


def group_pieces(count: int) -> list[list[int]]:
    """The numbers of some pieces, in the groups that one worker takes at a time."""
    return [[*range(start, min(start + _GROUP, count))] for start in range(0, count, _GROUP)]


def _work_on_pieces(work: Callable[[int], None], numbers: Sequence[int]) -> None:
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


def _read_piece(uri: str, number: int) -> Piece:
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

    def __call__(self, numbers: Sequence[int]) -> dict[str, int]:
        """Reads the pieces of these numbers; nothing of it is counted."""
        check_shared(self.uri)
        _work_on_pieces(self._inspect, numbers)
        return {}

    def _inspect(self, number: int) -> None:
        name = summary_name("inspect", number)
        folder = working_folder(self.uri)
        with report_errors(self.uri, name):
            report = inspect_piece(
                self.base,
                _read_piece(self.uri, number),
                number=number,
                options=self.options,
                rules=self.rules,
                folder=folder,
            )
            write_summary(folder, name, dataclasses.asdict(report))


@dataclasses.dataclass(frozen=True, kw_only=True)
class EncodePieceGroup:
    """Encodes some pieces for the buckets that their rows belong to, and leaves a report of each.

    Args:
        plan: of all rows.
        uri: of the dataset.
        seed: of the order.
    """

    plan: RowPlan
    uri: str
    seed: int

    def __call__(self, numbers: Sequence[int]) -> dict[str, int]:
        """Encodes the pieces of these numbers; nothing of it is counted."""
        check_shared(self.uri)
        _work_on_pieces(self._encode, numbers)
        return {}

    def _encode(self, number: int) -> None:
        folder = working_folder(self.uri)
        report = encode_piece(
            _read_piece(self.uri, number),
            number=number,
            names=read_summary(folder, summary_name("inspect", number))["names"],
            plan=self.plan,
            seed=self.seed,
            folder=folder,
        )
        write_summary(folder, summary_name("encode", number), dataclasses.asdict(report))


@dataclasses.dataclass(frozen=True, kw_only=True)
class GatherBucket:
    """Puts a bucket's encoded rows in order, and writes its shards with a summary of them.

    Args:
        plan: of all rows.
        pieces: how many there are.
        uri: of the dataset.
        gzip: whether shards are compressed.
    """

    plan: RowPlan
    pieces: int
    uri: str
    gzip: bool

    def __call__(self, number: int) -> dict[str, int]:
        """Writes the shards of the bucket of this number."""
        check_shared(self.uri)
        shards = gather_bucket(
            number, plan=self.plan, pieces=self.pieces, uri=self.uri, gzip=self.gzip
        )
        summary = {"shards": [dataclasses.asdict(shard) for shard in shards]}
        write_summary(working_folder(self.uri), summary_name("gather", number), summary)
        return {"records_written": sum(shard.records for shard in shards)}
