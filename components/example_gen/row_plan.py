"""Lay out the shards of rows: decide the columns, and the split and position of every row.

    planner = RowPlanner(InspectedPieces.of(pieces, reports), columns, settings=settings, …)
    plan = planner.plan(excluded, assigned)

Rows are processed piece by piece in workers (`row_splits.py`), and only the relevant columns are
read. The plan has some numbers for each piece, and none for each row.
"""

import dataclasses
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow.compute as pc

from components.example_gen.plan import Plan, lay_out_shards
from components.example_gen.row_columns import InspectedPieces, RowColumns
from components.example_gen.row_pieces import (
    LOSS_MASK,
    TOKENS,
    EncodingReport,
    PieceReport,
    TokenPlan,
    id_feature,
    read_columns,
)
from components.example_gen.row_split_files import (
    ASSIGNED,
    FINAL,
    STRATIFIED,
    hashes_path,
    write_array,
)
from components.example_gen.row_splits import (
    PieceAssignment,
    PieceToAssign,
    SplitDecisions,
    cast_or_null,
    hash_rows,
    leave_out_duplicates,
    own_splits,
)
from components.example_gen.settings import TextSettings
from components.example_gen.split_rules import NEAR_DUPLICATES, Partition, SplitRules
from components.example_gen.stratified_splits import PieceMapper, stratify_rows
from components.inputs.advice import how_to_set
from components.inputs.input_table import Column, ExcludedInput
from components.tables.column_roles import NoSplit, split_of_word
from components.tables.column_types import as_strings
from components.tables.pieces import Piece
from trainer_utils.core.errors import ConfigError
from trainer_utils.core.json_text import JsonObject
from trainer_utils.format import Feature
from trainer_utils.format.tensors import TokenSpec
from trainer_utils.format.tfrecord import RECORD_OVERHEAD_BYTES

_ENTRY_BYTES = 14  # overhead of a feature, without its name and values
_ID_BYTES = 40
_BYTES_PER_TOKEN = 4  # approximate bytes of text


@dataclasses.dataclass(frozen=True, kw_only=True)
class RowPlan(Plan):
    """The complete plan for rows."""

    first_records: tuple[int, ...]  # number of each piece's first row in its source
    row_bytes: float  # approximate size of a record
    excluded: tuple[ExcludedInput, ...] = ()  # files that are not read
    # Number of rows of each split, by piece: `(pieces, splits)`
    counts: npt.NDArray[np.int64]
    splits_of: str  # the folder of the split of each row
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


def decide_splits(
    inspected: InspectedPieces,
    columns: RowColumns,
    *,
    folder: str,
    partition: Partition | None,
    settings: TextSettings,
) -> SplitDecisions:
    """Decide the splits, and how rows are assigned to them.

    Args:
        inspected: the pieces of the tables.
        columns: their columns.
        folder: the working folder with the inspected pieces.
        partition: the splits that output_config requests, or None.
        settings: the settings of the ExampleGen.

    Raises:
        ConfigError: both the inputs and a setting decide splits, or a setting names no column.
    """
    by_copies = settings.group_by == NEAR_DUPLICATES and NEAR_DUPLICATES not in columns.names
    if by_copies and columns.names and not columns.texts:
        rule = f"a column with the texts, of {', '.join(columns.names)}"
        advice = f"Name it, such as {how_to_set(columns={columns.names[0]: 'text'})}"
        raise ConfigError.of("group_by", NEAR_DUPLICATES, allowed=rule, advice=advice)
    by_copies = by_copies and bool(columns.texts)
    named_splits = _named_splits(inspected, columns.split_column)
    rules = SplitRules(
        {split for split in named_splits if isinstance(split, str)},
        columns.features,
        some_have_none=None in named_splits,
        partition=partition,
        settings=settings,
        groups=[NEAR_DUPLICATES] if by_copies else [],
    )
    decisions = SplitDecisions(
        rules=rules,
        seed=settings.seed,
        split_column=columns.split_column,
        label=columns.label,
        labels=columns.labels,
        vocabularies=columns.vocabularies,
        by_copies=by_copies,
    )
    unlabelled = _unlabelled_splits(inspected, decisions, folder)
    return dataclasses.replace(decisions, unlabelled=unlabelled)


def _named_splits(inspected: InspectedPieces, column: str | None) -> set[str | NoSplit | None]:
    """Return the splits that rows and files name, with None if some rows name no split."""
    named_splits: set[str | NoSplit | None] = set()
    for report, piece in zip(inspected.reports, inspected.pieces, strict=True):
        named = 0
        if column is not None and column in report.facts:
            named = report.facts[column].values
            words = report.labels.get(column, ())
            named_splits.update(split_of_word(word, column=column) for word in words)
        if column is None or report.kept > named:
            named_splits.add(piece.split)
    return named_splits


def _unlabelled_splits(
    inspected: InspectedPieces, decisions: SplitDecisions, folder: str
) -> frozenset[int]:
    """Return the numbers of the splits named by the inputs that have no label at all.

    Only pieces that may show another split to have labels are read.
    """
    rules, label = decisions.rules, decisions.label
    if label is None or label.is_list or not rules.has_own:
        return frozenset()
    labelled: set[int] = set()
    for number, (piece, report) in enumerate(zip(inspected.pieces, inspected.reports, strict=True)):
        facts = report.facts.get(label.name)
        if facts is None or not facts.values:
            continue  # no row of the piece has a label
        if labelled.issuperset(_splits_of_piece(decisions, piece, report)):
            continue  # it cannot add a split
        columns, records = read_columns(folder, number, decisions.columns)
        row_splits, _ = own_splits(decisions, piece.split, columns, len(records))
        assert row_splits is not None, "the inputs name splits"
        has_label = cast_or_null(columns, label, len(records)).is_valid()
        labelled.update(np.unique(row_splits[has_label.to_numpy(zero_copy_only=False)]).tolist())
    return frozenset(map(rules.number_of, rules.own)) - labelled


def _splits_of_piece(decisions: SplitDecisions, piece: Piece, report: PieceReport) -> set[int]:
    """Return the numbers of the splits that a piece or its rows name."""
    rules, column = decisions.rules, decisions.split_column or ""
    words = report.labels.get(column, ())
    names = {piece.split, *(split_of_word(word, column=column) for word in words)}
    return {rules.number_of(str(name)) for name in names if name in rules.splits}


class RowPlanner:
    """The planner of rows, after all decisions about columns and splits.

    Args:
        inspected: the pieces of the tables.
        columns: their columns.
        decisions: the decisions about splits.
        folder: the working folder with the inspected pieces.
        settings: the settings of the ExampleGen.
        token_spec: the type of stored tokens, if there is a tokenizer.
    """

    def __init__(
        self,
        inspected: InspectedPieces,
        columns: RowColumns,
        decisions: SplitDecisions,
        *,
        folder: str,
        settings: TextSettings,
        token_spec: TokenSpec | None,
    ) -> None:
        self._inspected, self._columns, self._decisions = inspected, columns, decisions
        self._folder, self._settings, self._token_spec = folder, settings, token_spec

    def pieces_to_assign(self) -> list[PieceToAssign]:
        """Return the pieces whose rows `assign_pieces` assigns to splits, in order."""
        inspected = self._inspected
        pieces = [
            PieceToAssign.of(number, piece, report, first_record=first, lines=lines)
            for number, (piece, report, first, lines) in enumerate(
                zip(
                    inspected.pieces,
                    inspected.reports,
                    inspected.first_records,
                    inspected.lines_before,
                    strict=True,
                )
            )
        ]
        if self._decisions.by_copies:
            self._write_hashes_of_copies(pieces)
        return pieces

    def plan(
        self,
        excluded: Sequence[ExcludedInput],
        pieces: Sequence[PieceToAssign],
        assigned: Sequence[PieceAssignment],
        *,
        map_pieces: PieceMapper,
    ) -> RowPlan:
        """Lay out all shards.

        Args:
            excluded: files that are not read.
            pieces: the pieces, from `pieces_to_assign`.
            assigned: the result of `assign_pieces` for each.
            map_pieces: calls a function with groups of pieces, in workers.
        """
        splits_of = self._apply_rules_for_all_rows(pieces, assigned, map_pieces)
        rules = self._decisions.rules
        counts = np.array([assignment.counts for assignment in assigned], np.int64)
        counts = counts.reshape(len(assigned), len(rules.splits))
        rejects, skipped = rules.count_excluded(excluded)
        for assignment in assigned:
            skipped.update(assignment.skipped)
        tokens = self._token_plan()
        row_bytes = self._bytes_per_row(tokens)
        split_counts = zip(rules.splits, counts.sum(axis=0).tolist(), strict=True)
        sizes = [(split, count, int(row_bytes * count)) for split, count in split_counts]
        reports = self._inspected.reports
        return RowPlan(
            columns=self._columns.features,
            vocabularies=self._columns.vocabularies,
            layouts=lay_out_shards(sizes, self._settings),
            rejects=(
                *(reject for assignment in assigned for reject in assignment.rejects),
                *rejects,
            ),
            skipped=dict(skipped),
            found=sum(report.found for report in reports) + len(excluded),
            first_records=tuple(self._inspected.first_records),
            row_bytes=row_bytes,
            excluded=tuple(excluded),
            counts=counts,
            splits_of=splits_of,
            tokens=tokens,
            own_splits=rules.own,
        )

    def _apply_rules_for_all_rows(
        self,
        pieces: Sequence[PieceToAssign],
        assigned: Sequence[PieceAssignment],
        map_pieces: PieceMapper,
    ) -> str:
        """Leave out duplicates and stratify, and return the folder of the rows' splits."""
        kind, rules = ASSIGNED, self._decisions.rules
        if self._settings.deduplicate and assigned:
            leave_out_duplicates(self._folder, rules, kind, assigned)
            kind = FINAL
        if self._settings.stratify and assigned:
            stratify_rows(
                self._folder, self._decisions, kind, pieces, assigned, map_pieces=map_pieces
            )
            kind = STRATIFIED
        return kind

    def _write_hashes_of_copies(self, pieces: Sequence[PieceToAssign]) -> None:
        """Write the hash that decides each row's split: of the first row with a similar text."""
        from components.example_gen.near_duplicates import find_similar_texts  # rarely needed

        def texts(number: int) -> list[str]:
            columns, records = read_columns(self._folder, number, self._columns.texts)
            arrays = [pc.fill_null(as_strings(columns[name]), "") for name in columns]
            joined = pc.binary_join_element_wise(*arrays, "\n").to_pylist() if arrays else []
            return joined or [""] * len(records)

        hashes = [
            hash_rows(self._settings.seed, piece, read_columns(self._folder, piece.number, [])[1])
            for piece in pieces
        ]
        if not hashes:
            return
        firsts = find_similar_texts(texts, len(pieces))
        ends = np.cumsum([len(part) for part in hashes])[:-1]
        shared = np.split(np.concatenate(hashes)[firsts], ends)
        for piece, part in zip(pieces, shared, strict=True):
            write_array(self._folder, hashes_path(self._folder, piece.number), part)

    def _token_plan(self) -> TokenPlan | None:
        """Return the plan for tokens, or None without a tokenizer."""
        tokenizer, keep_text = self._settings.tokenizer, self._settings.keep_text
        if tokenizer is None or self._token_spec is None:
            if not keep_text:
                raise ConfigError.of("keep_text", False, allowed="True without a tokenizer")
            return None
        by_name = {column.name: column for column in self._columns.features}
        if not by_name:  # every row was rejected, which is reported later
            return None
        chats = self._inspected.chats
        texts = [name for name in self._columns.texts if name in by_name]
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
        rows = sum(report.kept for report in self._inspected.reports)
        facts = [item for report in self._inspected.reports for item in report.facts.items()]
        values: float = sum(column_facts.bytes for _, column_facts in facts)
        if tokens is not None:
            share = tokens.spec.stored.itemsize / _BYTES_PER_TOKEN
            texts = sum(column_facts.bytes for name, column_facts in facts if name == tokens.column)
            values += texts * (share - (not tokens.keep_text))
        names = sum(len(column.name) + _ENTRY_BYTES for column in self._columns.features)
        return values / max(1, rows) + names + _ID_BYTES + RECORD_OVERHEAD_BYTES
