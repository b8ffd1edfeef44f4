"""Gives every row its split: the one that its file or its row names, or one by hash.

A row is known by its source and its number there, or by a name of its own; that, and the seed, is
all that a hash looks at. Rows are looked at a piece at a time, and only at the columns that decide.
"""

import collections
from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from components.common.entry import Column, label_column
from components.common.file_table import encode_path
from components.common.rejects import Reject
from components.example_gen.near_duplicates import find_similar_texts
from components.example_gen.plan import (
    EXCLUDED,
    NEAR_DUPLICATES,
    OWN_NAME,
    Numbers,
    Partition,
    SplitRules,
)
from components.example_gen.row_pieces import PieceReport, read_columns, read_digests
from components.example_gen.settings import ExampleGenSettings
from components.tables.column_roles import NoSplit, label_ids, split_of_word, text_columns
from components.tables.kinds import cast_column, texts_of
from components.tables.pieces import Piece
from trainer_utils.format import ConfigError, keyed_hashes
from trainer_utils.format.planning import keyed_digests

_Hashes = npt.NDArray[np.uint64]
_Records = npt.NDArray[np.int64]
_Columns = Mapping[str, pa.Array]


class RowAssignment:
    """The splits, and what each row gets; `rejects` and `skipped` are filled by `of_pieces`.

    Args:
        folder: where inspection left the rows.
        split_column: the column that says each row's split, if there is one.
        first_records, first_lines: of each piece, where it begins in its source.
        partition: the splits that output_config asks for, or None.

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
        split_column: str | None,
        first_records: Sequence[int],
        first_lines: Sequence[int],
        partition: Partition | None,
        settings: ExampleGenSettings,
    ) -> None:
        self._pieces, self._reports, self._vocabularies = pieces, reports, vocabularies
        self._folder, self._settings, self._split_column = folder, settings, split_column
        self._first_records, self._first_lines = first_records, first_lines
        self.rejects: list[Reject] = []
        self.skipped: collections.Counter[str] = collections.Counter()
        own: set[str | NoSplit | None] = set()
        for report, piece in zip(reports, pieces, strict=True):
            named = 0
            if split_column is not None and split_column in report.facts:
                named = report.facts[split_column].values
                words = report.labels.get(split_column, ())
                own.update(split_of_word(word, column=split_column) for word in words)
            if split_column is None or report.kept > named:
                own.add(piece.split)
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
        wanted = {split_column, *(column.name for column in self._labels)}
        if self.rules.hashed.feature != OWN_NAME and not self._texts:
            wanted.add(self.rules.hashed.feature)
        if settings.stratify and self._label is not None:
            wanted.add(self._label.name)
        self._wanted = [*filter(None, wanted)]
        self._seen: collections.defaultdict[str, set[str]] = collections.defaultdict(set)
        self._strata: list[tuple[pa.Array, _Hashes]] = []

    def _text_columns(self) -> list[str]:
        """Those that say which rows are alike, where such rows are to share a split."""
        names = [*dict.fromkeys(name for report in self._reports for name in report.facts)]
        if self._settings.group_by != NEAR_DUPLICATES or NEAR_DUPLICATES in names:
            return []
        texts = text_columns(names, self._settings.columns)
        if names and not texts:
            rule = f"a column with the texts, of {', '.join(names)}"
            advice = "Name it: columns={'<column>': 'text'}"
            raise ConfigError.of("group_by", NEAR_DUPLICATES, allowed=rule, advice=advice)
        return texts

    def of_pieces(self, *, deduplicate: bool) -> list[Numbers]:
        """The number of each row's split, or `EXCLUDED`, by piece.

        Args:
            deduplicate: whether rows whose text came before are skipped.
        """
        numbers = range(len(self._pieces))
        shared = self._hashes_of_copies() if self._texts else [None for _ in numbers]
        assigned = [self._of_piece(number, shared[number]) for number in numbers]
        splits = np.concatenate([np.zeros(0, np.uint16), *assigned])
        if deduplicate and assigned:  # in the order of the inputs
            digests = np.concatenate([read_digests(self._folder, number) for number in numbers])
            rows = np.flatnonzero(splits != EXCLUDED)
            _, firsts = np.unique(digests[rows], return_index=True)
            gone = np.delete(rows, firsts)
            self.skipped.update(self.rules.splits[split] for split in splits[gone].tolist())
            splits[gone] = EXCLUDED
        if self._settings.stratify and assigned:
            rows = np.flatnonzero(splits != EXCLUDED)
            values = pa.concat_arrays([array for array, _ in self._strata]).dictionary_encode()
            classes = values.indices.fill_null(-1).to_numpy(zero_copy_only=False)
            labels = values.dictionary.to_pylist()
            splits[rows] = self.rules.stratify(
                classes[rows],
                np.concatenate([hashes for _, hashes in self._strata])[rows],
                key_of=lambda number: b"" if number < 0 else labels[number].encode(),
            )
        return np.split(splits, np.cumsum([len(part) for part in assigned])[:-1])[: len(assigned)]

    def _of_piece(self, number: int, shared: _Hashes | None) -> Numbers:
        """The same of one piece, whose file is read once."""
        self._count_bad_rows(number)
        columns, records = read_columns(self._folder, number, self._wanted)
        hashes = self._hashes(number, records)
        own, bad = self._own_splits(number, columns, len(records))
        splits = self.rules.assign(own, self._hashes_of_values(hashes, columns, shared))
        counted = self._of_bad_rows(number, records[[*bad]])
        for (row, (code, detail)), split in zip(bad.items(), counted, strict=True):
            splits[row] = EXCLUDED
            if code is None:
                self.skipped[split] += 1
            else:
                self._reject(number, int(records[row]), split, code, detail)
        for row, (code, detail) in self._bad_names_and_labels(number, columns, records):
            if splits[row] != EXCLUDED:
                split = self.rules.splits[splits[row]]
                self._reject(number, int(records[row]), split, code, detail)
                splits[row] = EXCLUDED
        if self._settings.stratify and self._label is not None:
            values = _cast(columns, self._label, len(records)).cast(pa.string())
            self._strata.append((values, hashes))
        return splits

    def _reject(self, number: int, record: int, split: str, code: str, detail: str) -> None:
        """A row of a piece, by what it is known by."""
        names = self._reports[number].names
        name = f"{self._pieces[number].source}:{self._first_records[number] + record + 1}"
        self.rejects.append(Reject(split, name if names is None else names[record], code, detail))

    def _own_splits(
        self, number: int, columns: _Columns, rows: int
    ) -> tuple[Numbers | None, dict[int, NoSplit]]:
        """The number of the split that each row names, or `EXCLUDED`, None where none names one;
        and the rows that are in no split for what they name."""
        rules, column = self.rules, self._split_column
        words: list[str | NoSplit | None] = []
        places = np.full(rows, -1)
        if column is not None and column in columns and not pa.types.is_null(columns[column].type):
            encoded = texts_of(columns[column]).dictionary_encode()
            words = [split_of_word(one, column=column) for one in encoded.dictionary.to_pylist()]
            places = encoded.indices.fill_null(-1).to_numpy(zero_copy_only=False)
        words.append(self._pieces[number].split)  # of rows without a word
        bad = np.flatnonzero(np.array([isinstance(word, NoSplit) for word in words])[places])
        reasons = {row: words[places[row]] for row in bad.tolist()}
        named = [rules.number_of(word if word in rules.splits else None) for word in words]
        own = np.array(named, np.uint16)[places] if rules.has_own else None
        return own, {row: word for row, word in reasons.items() if isinstance(word, NoSplit)}

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

    def _bad_names_and_labels(
        self, number: int, columns: _Columns, records: _Records
    ) -> Iterator[tuple[int, tuple[str, str]]]:
        """Rows whose own name stood in an earlier piece of the same file, and those without the
        label, or with one that a given vocabulary lacks; each with its code and detail."""
        names, source = self._reports[number].names, self._pieces[number].source
        if names is not None and source:
            seen = self._seen[source]
            for row, record in enumerate(records.tolist()):
                if names[record] in seen:
                    yield row, ("DUPLICATE_KEY", f"{names[record]!r} stands twice")
            seen.update(names)
        for column in self._labels:
            array = _cast(columns, column, len(records))
            ids = label_ids(array, self._vocabularies[column.name])
            flat = ids.values if column.is_list else ids
            lost = (
                pc.is_null(flat) if column.is_list else pc.and_(array.is_valid(), pc.is_null(flat))
            )
            rows = np.flatnonzero(lost.to_numpy(zero_copy_only=False))
            if column.is_list:
                rows = np.unique(np.searchsorted(ids.offsets.to_numpy(), rows, side="right") - 1)
            for row in rows.tolist():
                detail = f"{column.name} {array[row].as_py()!r} is not in the vocabulary"
                yield row, ("UNKNOWN_LABEL", detail)
            if not column.is_list and column is self._label:
                for row in np.flatnonzero(array.is_null().to_numpy(zero_copy_only=False)).tolist():
                    yield row, ("NO_LABEL", f"column {column.name!r} is empty")

    def _hashes_of_values(
        self, hashes: _Hashes, columns: _Columns, shared: _Hashes | None
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
        numbers = records + self._first_records[number]
        return keyed_hashes(numbers, identity=identity, seed=seed, purpose="split")

    def _digests(self, identities: Iterable[bytes]) -> _Hashes:
        digests = keyed_digests(identities, seed=self._settings.seed, purpose="split")
        lower: _Hashes = digests[:, 0]
        return lower


def _cast(columns: _Columns, column: Column, rows: int) -> pa.Array:
    """A column as what it was decided to be; all missing where the piece has none."""
    return cast_column(columns.get(column.name, pa.nulls(rows)), column)
