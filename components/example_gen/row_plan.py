"""Lays out the shards: what the columns are, and the split and place of every row."""

import dataclasses
from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from components.common.entry import Column, ExcludedInput
from components.example_gen.partition import EXCLUDED, Numbers, Partition
from components.example_gen.plan import Plan, lay_out_shards
from components.example_gen.row_assignment import RowAssignment
from components.example_gen.row_inspection import (
    PieceReport,
    count_before,
    names_of,
    own_split_column,
)
from components.example_gen.settings import ExampleGenSettings, TextSettings
from components.shuffle.layout import SplitLayout
from components.tables.kinds import check_columns, decide_column
from components.tables.pieces import MAX_COLUMNS, Piece
from components.tables.texts import text_columns
from components.tables.tokenizing import load_tokenizer, same_tokenizer
from components.tables.vocabularies import make_vocabularies
from trainer_utils.format import ConfigError, InputError
from trainer_utils.format.naming import check_feature_names
from trainer_utils.format.tensors import TokenSpec
from trainer_utils.format.tfrecord import RECORD_OVERHEAD_BYTES

BUCKET_BYTES = 128 << 20  # that are put in order at a time; about twice that in memory
_ENTRY_BYTES = 14  # of a feature beside its name and its values
_ID_BYTES = 40
_BYTES_PER_TOKEN = 4  # of a text
TOKENS = "tokens"
"""The feature that a tokenizer makes."""


@dataclasses.dataclass(frozen=True)
class TokenPlan:
    """How tokens are made: the column of the texts, the tokenizer, and whether texts stay."""

    column: str
    tokenizer: str
    spec: TokenSpec
    keep_text: bool

    def encode(self, features: dict[str, pa.Array]) -> None:
        """Adds the tokens to the features of some rows, or puts them in the place of the texts."""
        tokenizer = same_tokenizer(self.tokenizer, self.spec)
        features[TOKENS] = tokenizer.encode(features[self.column])
        if not self.keep_text:
            del features[self.column]


@dataclasses.dataclass(frozen=True, kw_only=True)
class RowPlan(Plan):
    """The whole of the work on rows."""

    layouts: tuple[SplitLayout, ...]  # of each split, where its rows go
    first_records: tuple[int, ...]  # of each piece, the number of its first row in its source
    row_bytes: float  # about how long a record is
    excluded: tuple[ExcludedInput, ...] = ()  # files that are not read
    # Of each piece, the number of each row's split, or `EXCLUDED`
    assigned: tuple[Numbers, ...] = ()
    tokens: TokenPlan | None = None  # how they are made, where they are


def plan_rows(
    pieces: Sequence[Piece],
    reports: Sequence[PieceReport],
    excluded: Sequence[ExcludedInput],
    *,
    folder: str,
    partition: Partition | None,
    settings: ExampleGenSettings,
    deduplicate: bool,
) -> RowPlan:
    """Lays out all shards.

    Args:
        folder: where inspection left its files.
        partition: the splits that output_config asks for, or None for those that the inputs name,
            or else train and eval, 2:1.
        deduplicate: whether rows whose text came before are skipped.
    """
    columns = _decide_columns(pieces, reports, settings)
    check_feature_names(column.name for column in columns)
    labels: dict[str, set[str]] = {
        name: {value for report in reports for value in report.labels.get(name, ())}
        for name in sorted(column.name for column in columns if column.kind == "label")
    }
    vocabularies = make_vocabularies(labels, given=settings.vocabularies)
    assignment = RowAssignment(
        pieces,
        reports,
        columns,
        vocabularies,
        folder=folder,
        partition=partition,
        settings=settings,
        deduplicate=deduplicate,
    )
    rules = assignment.rules
    assigned = assignment.of_pieces()
    counts = np.bincount(np.concatenate([np.zeros(0, np.uint16), *assigned]), minlength=EXCLUDED)
    rejects, skipped = rules.count_excluded(excluded)
    tokens = _token_plan(columns, settings)
    row_bytes = _bytes_per_row(reports, columns, tokens)
    found = zip(rules.splits, counts.tolist(), strict=False)
    shards = lay_out_shards([(s, count, int(row_bytes * count)) for s, count in found], settings)
    return RowPlan(
        columns=columns,
        vocabularies=vocabularies,
        split_shards=shards,
        layouts=tuple(
            SplitLayout(split=s.name, bounds=s.bounds, seed=settings.seed, gzip=settings.gzip)
            for s in shards
        ),
        rejects=(*assignment.rejects, *rejects),
        skipped=dict(assignment.skipped + skipped),
        found=sum(report.found for report in reports) + len(excluded),
        first_records=tuple(assignment.first_records),
        row_bytes=row_bytes,
        excluded=tuple(excluded),
        assigned=tuple(assigned),
        tokens=tokens,
    )


def _token_plan(columns: Sequence[Column], settings: ExampleGenSettings) -> TokenPlan | None:
    """How the settings have tokens made, if they do."""
    if not isinstance(settings, TextSettings):
        return None
    if settings.tokenizer is None:
        if not settings.keep_text:
            raise ConfigError.of("keep_text", False, allowed="True without a tokenizer")
        return None
    by_name = {column.name: column for column in columns}
    texts = text_columns([*by_name], settings.columns)
    if len(texts) != 1 or by_name[texts[0]].kind != "string" or by_name[texts[0]].is_list:
        rule = f"None, or one column of texts, by columns={{'…': 'text'}}, of {', '.join(by_name)}"
        raise ConfigError.of("tokenizer", settings.tokenizer, allowed=rule)
    if TOKENS in by_name:
        rule = f"None where a column is called {TOKENS!r}"
        raise ConfigError.of("tokenizer", settings.tokenizer, allowed=rule)
    spec = load_tokenizer(settings.tokenizer).spec
    return TokenPlan(texts[0], settings.tokenizer, spec, settings.keep_text)


def _bytes_per_row(
    reports: Sequence[PieceReport], columns: Sequence[Column], tokens: TokenPlan | None
) -> float:
    """About how long a record is: its values, the names of its features, its frame; in bytes."""
    rows = sum(report.kept for report in reports)
    values: float = sum(facts.bytes for report in reports for facts in report.facts.values())
    if tokens is not None:
        facts = [report.facts[tokens.column] for report in reports if tokens.column in report.facts]
        texts = sum(one.bytes for one in facts)
        share = tokens.spec.stored.itemsize / _BYTES_PER_TOKEN
        values += texts * (share - (not tokens.keep_text))
    names = sum(len(column.name) + _ENTRY_BYTES for column in columns)
    return values / max(1, rows) + names + _ID_BYTES + RECORD_OVERHEAD_BYTES


def _decide_columns(
    pieces: Sequence[Piece], reports: Sequence[PieceReport], settings: ExampleGenSettings
) -> tuple[Column, ...]:
    """What becomes a feature, in the order of the inputs."""
    names = names_of(reports)
    if len(names) > MAX_COLUMNS:
        raise InputError(
            f"columns: expected at most {MAX_COLUMNS}, got {len(names)}, such as "
            f"{', '.join(map(repr, names[-3:]))}. Objects whose keys are values should be lists, "
            "or be left out: columns={'<name>': 'ignore'}."
        )
    check_columns(settings.columns, names, of="the inputs")
    texts = text_columns(names, settings.columns)
    split = own_split_column(reports, settings.columns)
    firsts = count_before([report.found for report in reports], pieces)

    def place(number: int, record: int) -> str:
        return f"{pieces[number].source}, row {firsts[number] + record + 1}"

    decided = [
        decide_column(
            name,
            [(n, report.facts[name]) for n, report in enumerate(reports) if name in report.facts],
            given=settings.columns.get(name),
            is_text=name in texts,
            place=place,
        )
        for name in names
        if name != split
    ]
    return tuple(column for column in decided if column is not None)
