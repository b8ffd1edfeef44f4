"""Assign rows to splits in workers, which write the split of each row to a file.

    assigned = assign_pieces(folder, decisions, pieces)  # in a worker
    splits = read_splits(folder, ASSIGNED, number=0)  # `(rows,) uint16`

A row's split is named by its file or by itself, or decided by hash. A row is identified by its
source and its number there, or by its own name. The hash depends only on that and on the seed. The
launcher gets a few numbers for each piece, and no number for each row.
"""

import collections
import dataclasses
from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from components.example_gen.row_pieces import PieceReport, read_columns, read_digests
from components.example_gen.row_split_files import (
    ASSIGNED,
    FINAL,
    count_splits,
    hashes_path,
    read_array,
    read_splits,
    write_splits,
)
from components.example_gen.split_rules import EXCLUDED, OWN_NAME, Numbers, SplitRules
from components.inputs.input_table import Column
from components.inputs.rejects import Reject
from components.tables.column_roles import NoSplit, label_ids, split_of_word
from components.tables.column_types import as_strings, cast_column
from components.tables.pieces import BadRow, Piece
from trainer_utils.core.errors import ConfigError
from trainer_utils.format import keyed_hashes
from trainer_utils.format.hashing import keyed_digests
from trainer_utils.storage.paths import encode_path

_DIGEST_BYTES = 16
_ROWS_AT_ONCE = 1 << 24  # rows whose digests are compared at a time; each takes some 60 bytes
_MAX_PASSES = 1 << 16

Hashes = npt.NDArray[np.uint64]
_Records = npt.NDArray[np.int64]
_Columns = Mapping[str, pa.Array]


@dataclasses.dataclass(frozen=True, kw_only=True)
class SplitDecisions:
    """The decisions about splits and labels that hold for all pieces."""

    rules: SplitRules
    seed: int
    split_column: str | None  # the column that names the split of each row, if any
    label: Column | None  # the label that each row needs
    labels: Sequence[Column]  # columns that become ids of a vocabulary
    vocabularies: Mapping[str, Sequence[str]]
    # Whether rows with similar texts share a split; their hashes are in files.
    by_copies: bool = False
    unlabelled: frozenset[int] = frozenset()  # splits that have no label at all

    @property
    def columns(self) -> list[str]:
        """The columns to read."""
        names = {self.split_column, *(column.name for column in self.labels)}
        if self.rules.hashed.feature != OWN_NAME and not self.by_copies:
            names.add(self.rules.hashed.feature)
        if self.label is not None:
            names.add(self.label.name)
        return [*filter(None, names)]


@dataclasses.dataclass(frozen=True, kw_only=True)
class PieceToAssign:
    """An inspected piece whose rows get their splits."""

    number: int
    source: str
    split: str | None  # the split that the file names
    names: Sequence[str] | None  # names of all rows found, if they have their own
    first_record: int  # number of its first row in its source
    first_line: int  # number of its first line in its source, from 1
    bad: Sequence[BadRow]
    skipped: Sequence[int]  # numbers of rows that are left out on purpose

    @classmethod
    def of(
        cls, number: int, piece: Piece, report: PieceReport, *, first_record: int, lines: int
    ) -> "PieceToAssign":
        """Return a piece for assignment; `lines` are those before it in its source."""
        return cls(
            number=number,
            source=piece.source,
            split=piece.split,
            names=report.names,
            first_record=first_record,
            first_line=lines + (piece.header.lines_before if piece.header else 0) + 1,
            bad=report.bad,
            skipped=report.skipped,
        )


@dataclasses.dataclass
class PieceAssignment:
    """The result of assigning the rows of one piece."""

    counts: list[int]  # rows of each split
    rejects: list[Reject]  # rows left out because of their values, and bad rows
    skipped: dict[str, int]  # rows left out on purpose, by split


def assign_pieces(
    folder: str, decisions: SplitDecisions, pieces: Sequence[PieceToAssign]
) -> list[PieceAssignment]:
    """Write the split of each row of some pieces, and count the rows.

    Raises:
        ConfigError: the column of `group_by` has lists.
    """
    return [_PieceAssigner(folder, decisions, piece).assign() for piece in pieces]


def hash_rows(seed: int, piece: PieceToAssign, records: _Records) -> Hashes:
    """Return the hash of the identity of each row, `(rows,) uint64`."""
    if piece.names is not None:
        names = piece.names
        return _hash_values(seed, (encode_path(names[record]) for record in records.tolist()))
    numbers = records + piece.first_record
    return keyed_hashes(numbers, identity=encode_path(piece.source), seed=seed, purpose="split")


def _hash_values(seed: int, values: Iterable[bytes]) -> Hashes:
    hashes: Hashes = keyed_digests(values, seed=seed, purpose="split")[:, 0]
    return hashes


class _PieceAssigner:
    """Assigns the rows of one piece."""

    def __init__(self, folder: str, decisions: SplitDecisions, piece: PieceToAssign) -> None:
        self._folder, self._decisions, self._piece = folder, decisions, piece
        self._rules = decisions.rules
        self._rejects: list[Reject] = []
        self._skipped: collections.Counter[str] = collections.Counter()

    def assign(self) -> PieceAssignment:
        """Write the split number of each row, or `EXCLUDED`, and count the rows left out."""
        piece, rules = self._piece, self._rules
        gone = np.array([bad.record for bad in piece.bad], np.int64)
        for bad, split in zip(piece.bad, self._splits_of_removed(gone), strict=True):
            line = "" if bad.line is None else f"line {piece.first_line + bad.line}: "
            self._reject(bad.record, split, bad.code, line + bad.detail)
        self._skipped.update(self._splits_of_removed(np.array(piece.skipped, np.int64)))
        columns, records = read_columns(self._folder, piece.number, self._decisions.columns)
        hashes = hash_rows(self._decisions.seed, piece, records)
        named_splits, strange = own_splits(self._decisions, piece.split, columns, len(records))
        splits = rules.assign(named_splits, self._hashes_of_values(hashes, columns))
        self._leave_out_strange(strange, splits, records)
        for row, reject in self._bad_labels(columns, splits):
            if splits[row] != EXCLUDED:
                self._reject(int(records[row]), rules.splits[splits[row]], *reject)
                splits[row] = EXCLUDED
        write_splits(self._folder, ASSIGNED, piece.number, splits)
        counts = count_splits(splits, len(rules.splits))
        return PieceAssignment(counts, self._rejects, dict(self._skipped))

    def _reject(self, record: int, split: str, code: str, detail: str) -> None:
        """Add a row to the rejects, with its name or source."""
        names = self._piece.names
        name = f"{self._piece.source}:{self._piece.first_record + record + 1}"
        self._rejects.append(Reject(split, name if names is None else names[record], code, detail))

    def _splits_of_removed(self, records: _Records) -> list[str]:
        """Return the splits that count removed rows: their file's, or as for its other rows."""
        piece_split, splits = self._piece.split, self._rules.splits
        if piece_split is not None or self._rules.has_own:
            return [piece_split or splits[0]] * len(records)
        hashes = hash_rows(self._decisions.seed, self._piece, records)
        return [splits[number] for number in self._rules.assign(None, hashes)]

    def _leave_out_strange(
        self, strange: Mapping[int, NoSplit], splits: Numbers, records: _Records
    ) -> None:
        """Exclude the rows whose word names no split."""
        counted = self._splits_of_removed(records[[*strange]])
        for (row, (code, detail)), split in zip(strange.items(), counted, strict=True):
            splits[row] = EXCLUDED
            if code is None:
                self._skipped[split] += 1
            else:
                self._reject(int(records[row]), split, code, detail)

    def _bad_labels(
        self, columns: _Columns, splits: Numbers
    ) -> Iterator[tuple[int, tuple[str, str]]]:
        """Yield rows with a missing or unknown label, each with its reject code and detail.

        A label may be missing in splits that have no labels at all.
        """
        decisions, rows = self._decisions, len(splits)
        if decisions.label is not None and not decisions.label.is_list:
            values = cast_or_null(columns, decisions.label, rows)
            missing = values.is_null().to_numpy(zero_copy_only=False)
            for row in np.flatnonzero(missing).tolist():
                if splits[row] not in decisions.unlabelled:
                    yield row, ("NO_LABEL", f"column {decisions.label.name!r} is empty")
        for column in decisions.labels:
            array = cast_or_null(columns, column, rows)
            ids = label_ids(array, decisions.vocabularies[column.name])
            lost = pc.is_null(ids.values if column.is_list else ids)
            if not column.is_list:
                lost = pc.and_(lost, array.is_valid())
            strange = np.flatnonzero(lost.to_numpy(zero_copy_only=False))
            if column.is_list:
                places = np.searchsorted(ids.offsets.to_numpy(), strange, side="right")
                strange = np.unique(places - 1)
            for row in strange.tolist():
                detail = f"{column.name} {array[row].as_py()!r} is not in the vocabulary"
                yield row, ("UNKNOWN_LABEL", detail)

    def _hashes_of_values(self, hashes: Hashes, columns: _Columns) -> Hashes:
        """Return the hash that decides each row's split: of a shared value, or of its identity."""
        if self._decisions.by_copies:
            return read_array(hashes_path(self._folder, self._piece.number), np.dtype(np.uint64))
        values = columns.get(self._rules.hashed.feature)
        if values is None or pa.types.is_null(values.type):
            return hashes
        if pa.types.is_list(values.type):
            feature = self._rules.hashed.feature
            rule = "a column of single values"
            raise ConfigError.of("group_by", feature, allowed=rule, advice="It has lists")
        array = values if pa.types.is_binary(values.type) else as_strings(values)
        encoded = array.cast(pa.binary()).dictionary_encode()
        keys = _hash_values(self._decisions.seed, encoded.dictionary.to_pylist())
        # A row without a value shares its split with no other.
        places = encoded.indices.fill_null(-1).to_numpy(zero_copy_only=False)
        return np.where(places < 0, hashes, np.append(keys, np.uint64(0))[places])


def own_splits(
    decisions: SplitDecisions, split: str | None, columns: _Columns, rows: int
) -> tuple[Numbers | None, dict[int, NoSplit]]:
    """Return the split that each row names, and the rows left out because of it.

    Args:
        decisions: the decisions about splits.
        split: the split of rows that name none themselves.
        columns: the columns of the rows.
        rows: the number of rows.

    Returns:
        Split numbers, with `EXCLUDED` for rows that name no split, or None if there are no named
        splits. Then the rows that are left out.
    """
    rules, column = decisions.rules, decisions.split_column
    words: list[str | NoSplit | None] = []
    places = np.full(rows, -1)
    if column is not None and column in columns and not pa.types.is_null(columns[column].type):
        encoded = as_strings(columns[column]).dictionary_encode()
        words = [split_of_word(word, column=column) for word in encoded.dictionary.to_pylist()]
        places = encoded.indices.fill_null(-1).to_numpy(zero_copy_only=False)
    words.append(split)  # for rows without a word
    bad = {n: word for n, word in enumerate(words) if isinstance(word, NoSplit)}
    strange = np.flatnonzero(np.isin(places, [*bad])).tolist()
    numbers = [rules.number_of(word if word in rules.splits else None) for word in words]
    named_splits = np.array(numbers, np.uint16)[places] if rules.has_own else None
    return named_splits, {row: bad[places[row]] for row in strange}


def cast_or_null(columns: _Columns, column: Column, rows: int) -> pa.Array:
    """Return a column in its decided type, with nulls if the piece does not have it."""
    return cast_column(columns.get(column.name, pa.nulls(rows)), column)


# Rules for all rows together ----------------------------------------------------------------------


def leave_out_duplicates(
    folder: str, rules: SplitRules, kind: str, assigned: Sequence[PieceAssignment]
) -> None:
    """Exclude rows whose text is the text of an earlier row, and write the splits as `FINAL`.

    Digests are compared in several passes, each over a part of all possible digests. So memory is
    one byte per row, and some 60 bytes for each row of a pass.

    Args:
        folder: the working folder.
        rules: the splits.
        kind: the splits to read.
        assigned: the assignments, which are updated.
    """
    num_rows = sum(sum(assignment.counts) for assignment in assigned)
    passes = min(max(1, -(-num_rows // _ROWS_AT_ONCE)), _MAX_PASSES)
    firsts = [0]
    for number in range(len(assigned)):
        firsts.append(firsts[-1] + len(read_splits(folder, kind, number)))
    is_gone = np.zeros(firsts[-1], np.bool_)
    for part in range(passes):
        rows, digests = [np.zeros(0, np.int64)], [np.zeros(0, f"V{_DIGEST_BYTES}")]
        for number in range(len(assigned)):
            piece_digests = read_digests(folder, number)
            octets = piece_digests.view(np.uint8).reshape(-1, _DIGEST_BYTES)
            is_of_part = octets[:, :2].copy().view(np.uint16)[:, 0] % passes == part
            chosen = np.flatnonzero(is_of_part & (read_splits(folder, kind, number) != EXCLUDED))
            rows.append(chosen + firsts[number])
            digests.append(piece_digests[chosen])
        _, first_of_each = np.unique(np.concatenate(digests), return_index=True)
        is_gone[np.delete(np.concatenate(rows), first_of_each)] = True
    for number, assignment in enumerate(assigned):
        splits = read_splits(folder, kind, number)
        gone = is_gone[firsts[number] : firsts[number + 1]]
        skipped = collections.Counter(rules.splits[split] for split in splits[gone].tolist())
        assignment.skipped = dict(collections.Counter(assignment.skipped) + skipped)
        splits[gone] = EXCLUDED
        assignment.counts = count_splits(splits, len(rules.splits))
        write_splits(folder, FINAL, number, splits)
