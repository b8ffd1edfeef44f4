"""Gives every row its split: the one that its file or its row names, or one by hash.

A row is known by its source and its number there, or by a name of its own; that, and the seed, is
all that a hash looks at.
"""

import collections
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from components.common.entry import Column, label_column
from components.common.file_table import encode_path
from components.common.rejects import Reject
from components.example_gen.near_duplicates import find_similar_texts
from components.example_gen.partition import (
    EXCLUDED,
    NEAR_DUPLICATES,
    OWN_NAME,
    Numbers,
    Partition,
    SplitRules,
)
from components.example_gen.row_inspection import (
    PieceReport,
    count_before,
    names_of,
    own_split_column,
    read_columns,
    read_digests,
)
from components.example_gen.settings import ExampleGenSettings
from components.tables.kinds import cast_column, texts_of
from components.tables.pieces import Piece
from components.tables.splits import NoSplit, split_of_word
from components.tables.texts import text_columns
from components.tables.vocabularies import label_ids
from trainer_utils.format import ConfigError, keyed_hashes
from trainer_utils.format.planning import keyed_digests

_Hashes = npt.NDArray[np.uint64]
_Records = npt.NDArray[np.int64]


class RowAssignment:
    """The splits, and what each row gets.

    Args:
        partition: the splits that output_config asks for, or None.
        deduplicate: whether rows whose text came before are skipped.

    Raises:
        ConfigError: both the inputs and a setting decide splits, or a setting names no column.
        InputError: a row names a split that is none.
    """

    def __init__(
        self,
        pieces: Sequence[Piece],
        reports: Sequence[PieceReport],
        columns: Sequence[Column],
        vocabularies: Mapping[str, Sequence[str]],
        *,
        folder: str,
        partition: Partition | None,
        settings: ExampleGenSettings,
        deduplicate: bool,
    ) -> None:
        self._pieces, self._reports, self._vocabularies = pieces, reports, vocabularies
        self._folder, self._settings, self._deduplicate = folder, settings, deduplicate
        self.first_records = count_before([report.found for report in reports], pieces)
        self._first_lines = count_before([report.lines for report in reports], pieces)
        self.rejects: list[Reject] = []
        self.skipped: collections.Counter[str] = collections.Counter()
        self._split_column = own_split_column(reports, settings.columns)
        own = self._own_splits()
        self._texts = self._text_columns()
        self.rules = SplitRules(
            {split for split in own if isinstance(split, str)},
            columns,
            some_have_none=None in own,
            partition=partition,
            settings=settings,
            groups=[NEAR_DUPLICATES] if self._texts else [],
        )
        self._labels = [column for column in columns if column.kind == "label"]
        place = label_column(columns)
        self._label = None if place is None else columns[place]
        self._wanted = {self._split_column, *(column.name for column in self._labels)}
        if self.rules.hashed.feature != OWN_NAME and not self._texts:
            self._wanted.add(self.rules.hashed.feature)
        if settings.stratify and self._label is not None:
            self._wanted.add(self._label.name)
        self._seen: collections.defaultdict[str, set[str]] = collections.defaultdict(set)
        self._strata: list[tuple[pa.Array, _Hashes]] = []

    def _own_splits(self) -> set[str | NoSplit | None]:
        """The splits that the inputs name; None where some rows name none."""
        column = self._split_column
        if column is None:
            return {piece.split for piece in self._pieces}
        found: set[str | NoSplit | None] = set()
        for report, piece in zip(self._reports, self._pieces, strict=True):
            words = report.labels.get(column, [])
            found.update(split_of_word(word, column=column) for word in words)
            if report.kept > (report.facts[column].values if column in report.facts else 0):
                found.add(piece.split)
        return found

    def _text_columns(self) -> list[str]:
        """Those that say which rows are alike, where such rows are to share a split."""
        names = names_of(self._reports)
        if self._settings.group_by != NEAR_DUPLICATES or NEAR_DUPLICATES in names:
            return []
        texts = text_columns(names, self._settings.columns)
        if names and not texts:
            rule = f"a column with the texts, of {', '.join(names)}"
            advice = "Name it: columns={'<column>': 'text'}"
            raise ConfigError.of("group_by", NEAR_DUPLICATES, allowed=rule, advice=advice)
        return texts

    def of_pieces(self) -> list[Numbers]:
        """The number of each row's split, or `EXCLUDED`, by piece; fills rejects and skipped."""
        numbers = range(len(self._pieces))
        shared = self._hashes_of_copies() if self._texts else [None for _ in numbers]
        assigned = [self._of_piece(number, shared[number]) for number in numbers]
        if self._deduplicate:
            self._leave_out_duplicates(assigned)
        if self._settings.stratify:
            self._stratify(assigned)
        return assigned

    def _of_piece(self, number: int, shared: _Hashes | None) -> Numbers:
        """The same of one piece, whose file is read once."""
        self._count_bad_rows(number)
        columns, records = read_columns(self._folder, number, [*filter(None, self._wanted)])
        hashes = self._hashes(number, records)
        words = self._words(number, columns, len(records))
        own = None
        if self.rules.has_own:
            names = (None if isinstance(word, NoSplit) else word for word in words)
            own = np.array([*map(self.rules.number_of, names)], np.uint16)
        splits = self.rules.assign(own, self._hashes_of_values(hashes, columns, shared))
        found = [(row, word) for row, word in enumerate(words) if isinstance(word, NoSplit)]
        counted = self._of_bad_rows(number, records[[row for row, _ in found]])
        for (row, (code, detail)), split in zip(found, counted, strict=True):
            splits[row] = EXCLUDED
            if code is None:
                self.skipped[split] += 1
            else:
                self._reject(number, int(records[row]), split, code, detail)
        self._reject_repeated_names(number, records, splits)
        self._reject_labels(number, columns, records, splits)
        if self._settings.stratify and self._label is not None:
            values = _cast(columns, self._label, len(records)).cast(pa.string())
            self._strata.append((values, hashes))
        return splits

    def _reject(self, number: int, record: int, split: str, code: str, detail: str) -> None:
        """A row of a piece, by what it is known by."""
        names = self._reports[number].names
        name = f"{self._pieces[number].source}:{self.first_records[number] + record + 1}"
        self.rejects.append(Reject(split, name if names is None else names[record], code, detail))

    def _words(
        self, number: int, columns: Mapping[str, pa.Array], rows: int
    ) -> list[str | NoSplit | None]:
        """The split that each row of a piece names, None where it leaves it to the hash."""
        own, column = self._pieces[number].split, self._split_column
        if column is None or column not in columns or pa.types.is_null(columns[column].type):
            return [own] * rows
        encoded = texts_of(columns[column]).dictionary_encode()
        names = [split_of_word(value, column=column) for value in encoded.dictionary.to_pylist()]
        return [own if index is None else names[index] for index in encoded.indices.to_pylist()]

    def _count_bad_rows(self, number: int) -> None:
        report, piece = self._reports[number], self._pieces[number]
        first_line = self._first_lines[number] + int(piece.details.get("lines_before", 0)) + 1
        gone = np.array([bad.record for bad in report.bad], np.int64)
        for bad, split in zip(report.bad, self._of_bad_rows(number, gone), strict=True):
            line = "" if bad.line is None else f"line {first_line + bad.line}: "
            self._reject(number, bad.record, split, bad.code, line + bad.detail)
        self.skipped.update(self._of_bad_rows(number, np.array(report.skipped, np.int64)))

    def _of_bad_rows(self, number: int, records: _Records) -> list[str]:
        """Where rows count that are not there any more: by their file, or as others of it."""
        own, splits = self._pieces[number].split, self.rules.splits
        if own is not None or self.rules.has_own:
            return [own or splits[0]] * len(records)
        return [splits[n] for n in self.rules.assign(None, self._hashes(number, records))]

    def _hashes_of_values(
        self, hashes: _Hashes, columns: Mapping[str, pa.Array], shared: _Hashes | None
    ) -> _Hashes:
        """What decides each row's split: a value that it shares with others, or what it is."""
        values = columns.get(self.rules.hashed.feature)
        if shared is not None:
            return shared
        if values is None or self._texts or pa.types.is_null(values.type):
            return hashes
        encoded = texts_of(values).dictionary_encode()
        keys = self._digests(map(str.encode, encoded.dictionary.to_pylist()))
        # A row without a value has nothing to share a split for.
        places = encoded.indices.fill_null(-1).to_numpy(zero_copy_only=False)
        return np.where(places < 0, hashes, np.append(keys, np.uint64(0))[places])

    def _hashes_of_copies(self) -> list[_Hashes]:
        """By piece, the hash of the first of those rows whose texts are like each row's."""
        numbers = range(len(self._pieces))
        hashes = [self._hashes(n, read_columns(self._folder, n, [])[1]) for n in numbers]
        if not hashes:
            return []
        firsts = find_similar_texts(self._texts_of, len(self._pieces))
        ends = np.cumsum([len(part) for part in hashes])[:-1]
        return np.split(np.concatenate(hashes)[firsts], ends)

    def _texts_of(self, number: int) -> list[str]:
        """The text of each row of a piece, of all columns that hold one."""
        columns, records = read_columns(self._folder, number, self._texts)
        arrays = [pc.fill_null(texts_of(columns[name]), "") for name in columns]
        if not arrays:
            return [""] * len(records)
        texts: list[str] = pc.binary_join_element_wise(*arrays, "\n").to_pylist()
        return texts

    def _hashes(self, number: int, records: _Records) -> _Hashes:
        names = self._reports[number].names
        if names is not None:
            return self._digests(encode_path(names[record]) for record in records.tolist())
        identity, seed = encode_path(self._pieces[number].source), self._settings.seed
        numbers = records + self.first_records[number]
        return keyed_hashes(numbers, identity=identity, seed=seed, purpose="split")

    def _digests(self, identities: Iterable[bytes]) -> _Hashes:
        digests = keyed_digests(identities, seed=self._settings.seed, purpose="split")
        lower: _Hashes = digests[:, 0]
        return lower

    def _leave_out_duplicates(self, assigned: Sequence[Numbers]) -> None:
        """Skips rows whose text came before, in the order of the inputs."""
        digests = [read_digests(self._folder, number) for number in range(len(self._pieces))]
        splits = np.concatenate(assigned)
        rows = np.flatnonzero(splits != EXCLUDED)
        _, firsts = np.unique(np.concatenate(digests)[rows], return_index=True)
        gone = np.delete(rows, firsts)
        self.skipped.update(self.rules.splits[split] for split in splits[gone].tolist())
        splits[gone] = EXCLUDED
        _copy_back(splits, assigned)

    def _reject_repeated_names(self, number: int, records: _Records, splits: Numbers) -> None:
        """Leaves out rows whose own name stood in an earlier piece of the same file."""
        names, source = self._reports[number].names, self._pieces[number].source
        if names is None or not source:
            return
        for row, record in enumerate(records.tolist()):
            if (name := names[record]) in self._seen[source] and splits[row] != EXCLUDED:
                split, detail = self.rules.splits[splits[row]], f"{name!r} stands twice"
                self._reject(number, record, split, "DUPLICATE_KEY", detail)
                splits[row] = EXCLUDED
        self._seen[source].update(names)

    def _reject_labels(
        self, number: int, columns: Mapping[str, pa.Array], records: _Records, splits: Numbers
    ) -> None:
        """Leaves out rows without the label, or with one that a given vocabulary lacks."""
        for column in self._labels:
            array = _cast(columns, column, len(records))
            unknown = _without_id(array, label_ids(array, self._vocabularies[column.name]))
            missing = np.zeros(len(records), np.bool_)
            if not column.is_list and column is self._label:
                missing = np.asarray(array.is_null().to_numpy(zero_copy_only=False))
            for row in np.flatnonzero((unknown | missing) & (splits != EXCLUDED)).tolist():
                code, detail = "NO_LABEL", f"column {column.name!r} is empty"
                if unknown[row]:
                    code = "UNKNOWN_LABEL"
                    detail = f"{column.name} {array[row].as_py()!r} is not in the vocabulary"
                self._reject(
                    number, int(records[row]), self.rules.splits[splits[row]], code, detail
                )
                splits[row] = EXCLUDED

    def _stratify(self, assigned: Sequence[Numbers]) -> None:
        """Gives each class to the splits in their shares, to within one, by its rows' hashes."""
        values = [pa.array([], pa.string()), *(array for array, _ in self._strata)]
        encoded = pa.concat_arrays(values).dictionary_encode()
        classes = encoded.indices.fill_null(-1).to_numpy(zero_copy_only=False)
        labels = encoded.dictionary.to_pylist()
        splits = np.concatenate(assigned)
        rows = np.flatnonzero(splits != EXCLUDED)
        splits[rows] = self.rules.stratify(
            classes[rows],
            np.concatenate([hashes for _, hashes in self._strata])[rows],
            key_of=lambda number: b"" if number < 0 else labels[number].encode(),
        )
        _copy_back(splits, assigned)


def _cast(columns: Mapping[str, pa.Array], column: Column, rows: int) -> pa.Array:
    """A column as what it was decided to be; all missing where the piece has none."""
    return cast_column(columns.get(column.name, pa.nulls(rows)), column)


def _copy_back(splits: Numbers, assigned: Sequence[Numbers]) -> None:
    """Gives each piece its part of what was worked out for all rows together."""
    ends = np.cumsum([len(part) for part in assigned])[:-1]
    for part, whole in zip(assigned, np.split(splits, ends), strict=True):
        part[:] = whole


def _without_id(array: pa.Array, ids: pa.Array) -> npt.NDArray[np.bool_]:
    """Which rows have a label that got no id."""
    if not pa.types.is_list(array.type):
        mask = pc.and_(array.is_valid(), ids.is_null())
        return np.asarray(mask.to_numpy(zero_copy_only=False))
    lost = np.flatnonzero(ids.values.is_null().to_numpy(zero_copy_only=False))
    unknown = np.zeros(len(array), np.bool_)
    unknown[np.searchsorted(ids.offsets.to_numpy(), lost, side="right") - 1] = True
    return unknown
