"""Lay out the shards of rows: decide the columns, and the split and position of every row.

    plan = RowPlanner(pieces, reports, folder=…, settings=settings, …).plan(excluded)

A row's split is named by its file or by itself, or decided by hash. A row is identified by its
source and its number there, or by its own name. The hash depends only on that and on the seed. Rows
are processed piece by piece, and only the relevant columns are read.
"""

import collections
import dataclasses
from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from components.common.advice import how_to_set
from components.common.entry import Column, ExcludedInput, label_column
from components.common.rejects import Reject
from components.example_gen.plan import (
    EXCLUDED,
    NEAR_DUPLICATES,
    OWN_NAME,
    Numbers,
    Partition,
    Plan,
    SplitRules,
    lay_out_shards,
)
from components.example_gen.row_pieces import (
    LOSS_MASK,
    TOKENS,
    EncodingReport,
    PieceReport,
    TokenPlan,
    id_feature,
    read_columns,
    read_digests,
)
from components.example_gen.settings import TextSettings
from components.tables.column_roles import (
    NoSplit,
    label_ids,
    make_vocabularies,
    split_column,
    split_of_word,
    text_columns,
)
from components.tables.hub import check_class_names
from components.tables.json_rows import cure_by_json
from components.tables.kinds import cast_column, check_columns, decide_column, texts_of
from components.tables.pieces import MAX_COLUMNS, Piece
from trainer_utils.format import ConfigError, Feature, InputError, keyed_hashes
from trainer_utils.format.json_text import JsonObject
from trainer_utils.format.naming import check_feature_names
from trainer_utils.format.planning import keyed_digests
from trainer_utils.format.tensors import TokenSpec
from trainer_utils.format.tfrecord import RECORD_OVERHEAD_BYTES
from trainer_utils.storage.file_system import encode_path

_ENTRY_BYTES = 14  # overhead of a feature, without its name and values
_ID_BYTES = 40
_BYTES_PER_TOKEN = 4  # approximate bytes of text

_Hashes = npt.NDArray[np.uint64]
_Records = npt.NDArray[np.int64]
_Columns = Mapping[str, pa.Array]


@dataclasses.dataclass(frozen=True, kw_only=True)
class RowPlan(Plan):
    """The complete plan for rows."""

    first_records: tuple[int, ...]  # number of each piece's first row in its source
    row_bytes: float  # approximate size of a record
    excluded: tuple[ExcludedInput, ...] = ()  # files that are not read
    # Split number of each row, or `EXCLUDED`, by piece
    assigned: tuple[Numbers, ...] = ()
    tokens: TokenPlan | None = None  # how tokens are created, if they are

    def features(self, reports: Sequence[EncodingReport]) -> dict[str, Feature]:
        """Return every feature of the examples, by name."""
        features = {}
        for column in self.columns:
            name = column.name
            lengths = [report.lengths[name] for report in reports if name in report.lengths]
            least = min((low for low, _ in lengths), default=0)
            most = max((high for _, high in lengths), default=0)
            features[name] = self.feature(
                column,
                length=least if least == most > 0 else None,
                longest=most,
                is_missing=any(name in report.missing for report in reports),
            )
        if self.tokens is not None:
            extra: JsonObject = {"encoding": "tokens", "tokens": self.tokens.spec.to_json()}
            features[TOKENS] = Feature(type="string", extra=extra)
            if self.tokens.is_chat:
                mask = Column(LOSS_MASK, "int", is_list=True)
                most = max(
                    (r.lengths[LOSS_MASK][1] for r in reports if LOSS_MASK in r.lengths), default=0
                )
                features[LOSS_MASK] = self.feature(mask, length=None, longest=most, is_missing=True)
            if not self.tokens.keep_text:
                del features[self.tokens.column]
        return features | {id_feature(features): Feature(type="string")}


class RowPlanner:
    """The planner of rows, based on the reports about the pieces and on their files in `folder`.

    Args:
        pieces: the pieces of the tables, in order.
        reports: the report about each piece.
        folder: the folder with the inspected pieces.
        partition: the splits that output_config requests, or None.
        settings: the settings of the ExampleGen.
        token_spec: the type of stored tokens, if there is a tokenizer.

    Raises:
        ConfigError: both the inputs and a setting decide splits, or a setting names no column.
        InputError: a column has values that no feature can store.
    """

    def __init__(
        self,
        pieces: Sequence[Piece],
        reports: Sequence[PieceReport],
        *,
        folder: str,
        partition: Partition | None,
        settings: TextSettings,
        token_spec: TokenSpec | None,
    ) -> None:
        self._pieces, self._reports = pieces, reports
        self._token_spec = token_spec
        self._folder, self._settings = folder, settings
        self._names = [*dict.fromkeys(name for report in reports for name in report.facts)]
        self._texts = text_columns(self._names, settings.columns)
        words: dict[str, set[str]] = collections.defaultdict(set)
        for report in reports:
            for name, values in report.labels.items():
                words[name].update(values)
        self._split_column = split_column(
            self._names, given=settings.columns, words_of=words.__getitem__
        )
        self._first_records = _count_before([report.found for report in reports], pieces)
        self._first_lines = _count_before([report.lines for report in reports], pieces)
        self._class_names = self._agreed_class_names()
        self._columns = self._decide_columns()
        self._check_chats()
        self._labels = [column for column in self._columns if column.kind == "label"]
        found = {name: words[name] for name in sorted(column.name for column in self._labels)}
        by_files = {name: self._class_names[name] for name in found if name in self._class_names}
        self._vocabularies = make_vocabularies(found, given=by_files | settings.vocabularies)
        place = label_column(self._columns)
        self._label = None if place is None else self._columns[place]
        by_copies = settings.group_by == NEAR_DUPLICATES and NEAR_DUPLICATES not in self._names
        if by_copies and self._names and not self._texts:
            rule = f"a column with the texts, of {', '.join(self._names)}"
            advice = f"Name it, such as {how_to_set(columns={self._names[0]: 'text'})}"
            raise ConfigError.of("group_by", NEAR_DUPLICATES, allowed=rule, advice=advice)
        self._by_copies = by_copies and bool(self._texts)
        own = self._named_splits()
        self._rules = SplitRules(
            {split for split in own if isinstance(split, str)},
            self._columns,
            some_have_none=None in own,
            partition=partition,
            settings=settings,
            groups=[NEAR_DUPLICATES] if self._by_copies else [],
        )
        wanted = {self._split_column, *(column.name for column in self._labels)}
        if self._rules.hashed.feature != OWN_NAME and not self._by_copies:
            wanted.add(self._rules.hashed.feature)
        if self._label is not None:
            wanted.add(self._label.name)
        self._wanted = [*filter(None, wanted)]
        self._strata: list[tuple[pa.Array, _Hashes]] = []
        self._rejects: list[Reject] = []
        self._skipped: collections.Counter[str] = collections.Counter()

    def _named_splits(self) -> set[str | NoSplit | None]:
        """Return the splits that rows and files name, with None if some rows name no split."""
        own: set[str | NoSplit | None] = set()
        for report, piece in zip(self._reports, self._pieces, strict=True):
            column, named = self._split_column, 0
            if column is not None and column in report.facts:
                named = report.facts[column].values
                words = report.labels.get(column, ())
                own.update(split_of_word(word, column=column) for word in words)
            if column is None or report.kept > named:
                own.add(piece.split)
        return own

    def _agreed_class_names(self) -> dict[str, tuple[str, ...]]:
        """Return the names of classes by column, after checking that all files agree."""
        classes: dict[str, dict[str, tuple[str, ...]]] = {}
        columns: dict[str, set[str]] = collections.defaultdict(set)
        for report, piece in zip(self._reports, self._pieces, strict=True):
            classes.setdefault(piece.source, {}).update(report.class_names)
            columns[piece.source] |= report.facts.keys()
        check_class_names(classes, having=columns)
        return {name: names for of in classes.values() for name, names in of.items()}

    def _check_chats(self) -> None:
        """Raise InputError if a column has chats in some pieces and other values in others."""
        chats = {name for report in self._reports for name in report.chats}
        for name in chats - self._settings.columns.keys():
            for report, piece in zip(self._reports, self._pieces, strict=True):
                if name in report.facts and report.facts[name].values and name not in report.chats:
                    rule = f"chats in column {name!r}, as in other files"
                    cure = cure_by_json(name)
                    raise InputError.at(piece.source, expected=rule, got="others", advice=cure)

    def _decide_columns(self) -> tuple[Column, ...]:
        """Return the columns that become features, in the order of the inputs."""
        names, settings = self._names, self._settings
        if len(names) > MAX_COLUMNS:
            raise InputError(
                f"columns: expected at most {MAX_COLUMNS}, got {len(names)}, such as "
                f"{', '.join(map(repr, names[-3:]))}. Keep an object with any number of keys as "
                f"JSON, such as {how_to_set(columns={names[-1].split('.')[0]: 'json'})}."
            )
        check_columns(settings.columns, names, of="the inputs")

        def place(number: int, record: int) -> str:
            first = self._first_records[number]
            return f"{self._pieces[number].source}, row {first + record + 1}"

        reports = [*enumerate(self._reports)]
        decided = [
            decide_column(
                name,
                [(n, report.facts[name]) for n, report in reports if name in report.facts],
                given=settings.columns.get(name, "label" if name in self._class_names else None),
                is_text=name in self._texts,
                place=place,
            )
            for name in names
            if name != self._split_column
        ]
        columns = tuple(column for column in decided if column is not None)
        check_feature_names(column.name for column in columns)
        return columns

    def plan(self, excluded: Sequence[ExcludedInput]) -> RowPlan:
        """Lay out all shards; `excluded` are files that are not read."""
        assigned, rules = self._assign(), self._rules
        counts = np.bincount(
            np.concatenate([np.zeros(0, np.uint16), *assigned]), minlength=EXCLUDED
        )
        rejects, skipped = rules.count_excluded(excluded)
        tokens = self._token_plan()
        row_bytes = self._bytes_per_row(tokens)
        found = zip(rules.splits, counts.tolist(), strict=False)
        sizes = [(split, count, int(row_bytes * count)) for split, count in found]
        return RowPlan(
            columns=self._columns,
            vocabularies=self._vocabularies,
            layouts=lay_out_shards(sizes, self._settings),
            rejects=(*self._rejects, *rejects),
            skipped=dict(self._skipped + skipped),
            found=sum(report.found for report in self._reports) + len(excluded),
            first_records=tuple(self._first_records),
            row_bytes=row_bytes,
            excluded=tuple(excluded),
            assigned=tuple(assigned),
            tokens=tokens,
            own_splits=rules.own,
        )

    def _token_plan(self) -> TokenPlan | None:
        """Return the plan for tokens, or None without a tokenizer."""
        tokenizer, keep_text = self._settings.tokenizer, self._settings.keep_text
        if tokenizer is None or self._token_spec is None:
            if not keep_text:
                raise ConfigError.of("keep_text", False, allowed="True without a tokenizer")
            return None
        by_name = {column.name: column for column in self._columns}
        if not by_name:  # every row was rejected, which is reported later
            return None
        chats = {name for report in self._reports for name in report.chats}
        texts = [name for name in self._texts if name in by_name]
        texts = texts or sorted(chats & by_name.keys())
        if len(texts) != 1 or by_name[texts[0]].kind != "string" or by_name[texts[0]].is_list:
            among = ", ".join(by_name)
            rule = f"one column of texts, of {among}"
            advice = f"Name it, such as {how_to_set(columns={next(iter(by_name)): 'text'})}"
            raise ConfigError.of("tokenizer", tokenizer, allowed=rule, advice=advice)
        is_chat = texts[0] in chats
        for name in (TOKENS, LOSS_MASK) if is_chat else (TOKENS,):
            if name in by_name:
                rule = f"None where a column is called {name!r}"
                advice = f"Leave that column out: {how_to_set(columns={name: 'ignore'})}"
                raise ConfigError.of("tokenizer", tokenizer, allowed=rule, advice=advice)
        return TokenPlan(texts[0], tokenizer, self._token_spec, keep_text, is_chat)

    def _bytes_per_row(self, tokens: TokenPlan | None) -> float:
        """Estimate the size of a record: its values, the names of its features, its frame."""
        rows = sum(report.kept for report in self._reports)
        facts = [one for report in self._reports for one in report.facts.items()]
        values: float = sum(one.bytes for _, one in facts)
        if tokens is not None:
            share = tokens.spec.stored.itemsize / _BYTES_PER_TOKEN
            texts = sum(one.bytes for name, one in facts if name == tokens.column)
            values += texts * (share - (not tokens.keep_text))
        names = sum(len(column.name) + _ENTRY_BYTES for column in self._columns)
        return values / max(1, rows) + names + _ID_BYTES + RECORD_OVERHEAD_BYTES

    # The split of each row ------------------------------------------------------------------------

    def _assign(self) -> list[Numbers]:
        """Return the split number of each row, or `EXCLUDED`, by piece."""
        numbers = range(len(self._pieces))
        self._unlabelled = self._unlabelled_splits()
        shared = self._hashes_of_copies() if self._by_copies else [None for _ in numbers]
        assigned = [self._assign_piece(number, shared[number]) for number in numbers]
        splits = np.concatenate([np.zeros(0, np.uint16), *assigned])
        if self._settings.deduplicate and assigned:  # in input order
            digests = np.concatenate([read_digests(self._folder, number) for number in numbers])
            rows = np.flatnonzero(splits != EXCLUDED)
            _, firsts = np.unique(digests[rows], return_index=True)
            gone = np.delete(rows, firsts)
            self._skipped.update(self._rules.splits[split] for split in splits[gone].tolist())
            splits[gone] = EXCLUDED
        if self._settings.stratify and assigned:
            rows = np.flatnonzero(splits != EXCLUDED)
            values = pa.concat_arrays([array for array, _ in self._strata]).dictionary_encode()
            classes = values.indices.fill_null(-1).to_numpy(zero_copy_only=False)
            labels = values.dictionary.to_pylist()
            splits[rows] = self._rules.stratify(
                classes[rows],
                np.concatenate([hashes for _, hashes in self._strata])[rows],
                key_of=lambda number: b"" if number < 0 else labels[number].encode(),
            )
        return np.split(splits, np.cumsum([len(part) for part in assigned])[:-1])[: len(assigned)]

    def _unlabelled_splits(self) -> frozenset[int]:
        """Return the numbers of the splits named by the inputs that have no label at all."""
        rules, label = self._rules, self._label
        if label is None or label.is_list or not rules.has_own:
            return frozenset()
        labelled: set[int] = set()
        for number, report in enumerate(self._reports):
            facts = report.facts.get(label.name)
            if facts is None or not facts.values:
                continue
            columns, records = read_columns(self._folder, number, self._wanted)
            own, _ = self._own_splits(number, columns, len(records))
            assert own is not None
            array = _cast(columns, label, len(records))
            labelled.update(
                np.unique(own[array.is_valid().to_numpy(zero_copy_only=False)]).tolist()
            )
        return frozenset(map(rules.number_of, rules.own)) - labelled

    def _assign_piece(self, number: int, shared: _Hashes | None) -> Numbers:
        """Return the split number of each row of a piece, and count the rows left out."""
        report, piece = self._reports[number], self._pieces[number]
        first_line = self._first_lines[number] + int(piece.details.get("lines_before", 0)) + 1
        gone = np.array([bad.record for bad in report.bad], np.int64)
        for bad, split in zip(report.bad, self._of_bad_rows(number, gone), strict=True):
            line = "" if bad.line is None else f"line {first_line + bad.line}: "
            self._reject(number, bad.record, split, bad.code, line + bad.detail)
        self._skipped.update(self._of_bad_rows(number, np.array(report.skipped, np.int64)))
        columns, records = read_columns(self._folder, number, self._wanted)
        hashes = self._hashes(number, records)
        own, strange = self._own_splits(number, columns, len(records))
        splits = self._rules.assign(own, self._hashes_of_values(hashes, columns, shared))
        counted = self._of_bad_rows(number, records[[*strange]])
        for (row, (code, detail)), split in zip(strange.items(), counted, strict=True):
            splits[row] = EXCLUDED
            if code is None:
                self._skipped[split] += 1
            else:
                self._reject(number, int(records[row]), split, code, detail)
        for row, reject in self._bad_labels(columns, splits):
            if splits[row] != EXCLUDED:
                split = self._rules.splits[splits[row]]
                self._reject(number, int(records[row]), split, *reject)
                splits[row] = EXCLUDED
        if self._settings.stratify and self._label is not None:
            values = _cast(columns, self._label, len(records)).cast(pa.string())
            self._strata.append((values, hashes))
        return splits

    def _reject(self, number: int, record: int, split: str, code: str, detail: str) -> None:
        """Add a row of a piece to the rejects, with its name or source."""
        names = self._reports[number].names
        name = f"{self._pieces[number].source}:{self._first_records[number] + record + 1}"
        self._rejects.append(Reject(split, name if names is None else names[record], code, detail))

    def _of_bad_rows(self, number: int, records: _Records) -> list[str]:
        """Return the splits that count removed rows: their file's, or as for its other rows."""
        own, splits = self._pieces[number].split, self._rules.splits
        if own is not None or self._rules.has_own:
            return [own or splits[0]] * len(records)
        return [splits[n] for n in self._rules.assign(None, self._hashes(number, records))]

    def _own_splits(
        self, number: int, columns: _Columns, rows: int
    ) -> tuple[Numbers | None, dict[int, NoSplit]]:
        """Return the split that each row names, and the rows left out because of it.

        The first value has split numbers, with `EXCLUDED` for rows that name no split. The value
        None means that there are no named splits.
        """
        rules, column = self._rules, self._split_column
        words: list[str | NoSplit | None] = []
        places = np.full(rows, -1)
        if column is not None and column in columns and not pa.types.is_null(columns[column].type):
            encoded = texts_of(columns[column]).dictionary_encode()
            words = [split_of_word(one, column=column) for one in encoded.dictionary.to_pylist()]
            places = encoded.indices.fill_null(-1).to_numpy(zero_copy_only=False)
        words.append(self._pieces[number].split)  # for rows without a word
        bad = {n: word for n, word in enumerate(words) if isinstance(word, NoSplit)}
        strange = np.flatnonzero(np.isin(places, [*bad])).tolist()
        numbers = [rules.number_of(word if word in rules.splits else None) for word in words]
        own = np.array(numbers, np.uint16)[places] if rules.has_own else None
        return own, {row: bad[places[row]] for row in strange}

    def _bad_labels(
        self, columns: _Columns, splits: Numbers
    ) -> Iterator[tuple[int, tuple[str, str]]]:
        """Yield rows with a missing or unknown label, each with its reject code and detail.

        A label may be missing in splits that have no labels at all.
        """
        rows = len(splits)
        if self._label is not None and not self._label.is_list:
            missing = _cast(columns, self._label, rows).is_null().to_numpy(zero_copy_only=False)
            for row in np.flatnonzero(missing).tolist():
                if splits[row] not in self._unlabelled:
                    yield row, ("NO_LABEL", f"column {self._label.name!r} is empty")
        for column in self._labels:
            array = _cast(columns, column, rows)
            ids = label_ids(array, self._vocabularies[column.name])
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

    def _hashes_of_values(
        self, hashes: _Hashes, columns: _Columns, shared: _Hashes | None
    ) -> _Hashes:
        """Return the hash that decides each row's split: of a shared value, or of its identity."""
        values = columns.get(self._rules.hashed.feature)
        if shared is not None:
            return shared
        if values is None or self._by_copies or pa.types.is_null(values.type):
            return hashes
        if pa.types.is_list(values.type):
            feature = self._rules.hashed.feature
            rule = "a column of single values"
            raise ConfigError.of("group_by", feature, allowed=rule, advice="It has lists")
        array = values if pa.types.is_binary(values.type) else texts_of(values)
        encoded = array.cast(pa.binary()).dictionary_encode()
        keys = self._digests(encoded.dictionary.to_pylist())
        # A row without a value shares its split with no other.
        places = encoded.indices.fill_null(-1).to_numpy(zero_copy_only=False)
        return np.where(places < 0, hashes, np.append(keys, np.uint64(0))[places])

    def _hashes_of_copies(self) -> list[_Hashes]:
        """Return by piece, for each row, the hash of the first row with a similar text."""
        from components.example_gen.near_duplicates import find_similar_texts  # rarely needed

        def texts(number: int) -> list[str]:
            columns, records = read_columns(self._folder, number, self._texts)
            arrays = [pc.fill_null(texts_of(columns[name]), "") for name in columns]
            joined = pc.binary_join_element_wise(*arrays, "\n").to_pylist() if arrays else []
            return joined or [""] * len(records)

        numbers = range(len(self._pieces))
        hashes = [self._hashes(n, read_columns(self._folder, n, [])[1]) for n in numbers]
        if not hashes:
            return []
        firsts = find_similar_texts(texts, len(self._pieces))
        ends = np.cumsum([len(part) for part in hashes])[:-1]
        return np.split(np.concatenate(hashes)[firsts], ends)

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


def _count_before(counts: Sequence[int], pieces: Sequence[Piece]) -> list[int]:
    """Return the sum of the counts of earlier pieces of the same source, for each piece."""
    before: collections.Counter[str] = collections.Counter()
    sums = []
    for count, piece in zip(counts, pieces, strict=True):
        sums.append(before[piece.source])
        before[piece.source] += count
    return sums


def _cast(columns: _Columns, column: Column, rows: int) -> pa.Array:
    """Return a column in its decided type, with nulls if the piece does not have it."""
    return cast_column(columns.get(column.name, pa.nulls(rows)), column)
