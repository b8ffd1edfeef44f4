"""The cases of `growth.py` for the launcher of text conversions: plan ever more rows.

    python benchmarks/growth.py --case rows --sizes 100000000,1000000000
    python benchmarks/growth.py --case stratify --sizes 100000000,1000000000

A real table is inspected and assigned to splits once. Then the launcher plans as many pieces like
it as the size asks for, as if workers had returned their results. With `stratify`, the rows that
workers find near the bounds of classes are drawn: as many as uniform hashes give.
"""

import collections
import functools
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

__all__ = ["CASES", "SIZES"]

_ROWS = 1 << 18  # rows of a piece
_CLASSES = 7
_GROUP = 64  # pieces whose results a worker returns together


def rows(size: int) -> None:
    """Plan `size` rows of text, from the results of workers."""
    _plan(size, stratify=False)


def stratify(size: int) -> None:
    """Plan `size` rows in stratified splits."""
    _plan(size, stratify=True)


def _plan(size: int, *, stratify: bool) -> None:
    import dataclasses

    from components.example_gen.row_columns import InspectedPieces, decide_columns
    from components.example_gen.row_pieces import inspect_pieces
    from components.example_gen.row_plan import RowPlanner, decide_splits
    from components.example_gen.row_splits import assign_pieces
    from components.example_gen.settings import TextSettings
    from components.tables.column_roles import TextRules
    from components.tables.pieces import Header, Piece, TableOptions, select_settings

    settings = TextSettings(stratify=stratify)
    rules = select_settings(TextRules, settings)
    num_pieces = max(1, size // _ROWS)
    with tempfile.TemporaryDirectory() as folder:
        data = b"".join(b"text %d,%d\n" % (row, row % 7) for row in range(_ROWS))
        Path(folder, "t.csv").write_bytes(data)
        header = Header(names=["text", "label"], certainty="shown", delimiter=",", lines_before=0)
        piece = Piece(
            path="t.csv", source="t.csv", layout="csv", stop=len(data), rows=_ROWS, header=header
        )
        (report,) = inspect_pieces(folder, folder, TableOptions(), rules, [(0, piece)])
        first = InspectedPieces.of([piece], [report])
        columns = decide_columns(first, settings)
        decisions = decide_splits(first, columns, folder=folder, partition=None, settings=settings)
        planner = RowPlanner(
            first, columns, decisions, folder=folder, settings=settings, token_spec=None
        )
        (assigned,) = assign_pieces(folder, decisions, planner.pieces_to_assign())
        inspected = InspectedPieces.of(
            [dataclasses.replace(piece) for _ in range(num_pieces)],
            [dataclasses.replace(report) for _ in range(num_pieces)],
        )
        columns = decide_columns(inspected, settings)
        decisions = decide_splits(
            inspected, columns, folder=folder, partition=None, settings=settings
        )
        planner = RowPlanner(
            inspected, columns, decisions, folder=folder, settings=settings, token_spec=None
        )
        pieces = planner.pieces_to_assign()
        plan = planner.plan(
            [],
            pieces,
            [dataclasses.replace(assigned) for _ in range(num_pieces)],
            map_pieces=functools.partial(_results_of_workers, assigned.counts),
        )
        assert plan.num_records == num_pieces * _ROWS


def _results_of_workers(
    counts: Sequence[int], step: str, function: Any, pieces: Sequence[Any]
) -> list[Any]:
    """Return drawn results of the steps of `stratify`, one for each group of pieces."""
    chance, results = np.random.default_rng(0), list[Any]()
    for start in range(0, len(pieces), _GROUP):
        num_pieces = len(pieces[start : start + _GROUP])
        if step == "classes":
            words = {str(number): num_pieces * _ROWS // _CLASSES for number in range(_CLASSES)}
            words["0"] += num_pieces * _ROWS - sum(words.values())
            results.append(collections.Counter(words))
        elif step == "stratify":
            results.append([[*counts] for _ in range(num_pieces)])
        else:
            results.append(_draw_windows(chance, function.args[1], num_pieces * _ROWS // _CLASSES))
    return results


def _draw_windows(chance: np.random.Generator, windows: Any, num_rows: int) -> tuple[Any, ...]:
    """Return the rows of each class in its windows, and the numbers below them."""
    below = chance.binomial(num_rows, windows.lows / 2.0**64)
    slots, hashes = [], []
    spans = zip(windows.lows.ravel().tolist(), windows.highs.ravel().tolist(), strict=True)
    for slot, (low, high) in enumerate(spans):
        inside = chance.binomial(num_rows, (high - low) / 2.0**64)
        slots.append(np.full(inside, slot, np.int32))
        hashes.append(chance.integers(low, high, inside, dtype=np.uint64))
    positions = np.arange(sum(map(len, slots)), dtype=np.int64)
    return below, np.concatenate(slots), np.concatenate(hashes), positions


CASES: dict[str, Callable[[int], None]] = {"rows": rows, "stratify": stratify}
SIZES = {"rows": (10**8, 10**9, 10**10), "stratify": (10**8, 10**9, 10**10)}
