"""Lays out the shards: what the columns are, and the split and place of every row."""

import collections
import dataclasses
from collections.abc import Sequence

import numpy as np

from components.common.entry import Column, ExcludedInput
from components.example_gen.plan import EXCLUDED, Numbers, Partition, Plan, lay_out_shards
from components.example_gen.row_assignment import RowAssignment
from components.example_gen.row_pieces import (
    TOKENS,
    EncodingReport,
    PieceReport,
    TokenPlan,
    id_feature,
)
from components.example_gen.settings import ExampleGenSettings
from components.tables.column_roles import make_vocabularies, split_column, text_columns
from components.tables.kinds import check_columns, decide_column
from components.tables.pieces import MAX_COLUMNS, Piece
from components.tables.tokenizing import load_tokenizer
from trainer_utils.format import ConfigError, Feature, InputError
from trainer_utils.format.json_text import JsonObject
from trainer_utils.format.naming import check_feature_names
from trainer_utils.format.tfrecord import RECORD_OVERHEAD_BYTES

_ENTRY_BYTES = 14  # of a feature beside its name and its values
_ID_BYTES = 40
_BYTES_PER_TOKEN = 4  # of a text


@dataclasses.dataclass(frozen=True, kw_only=True)
class RowPlan(Plan):
    """The whole of the work on rows."""

    first_records: tuple[int, ...]  # of each piece, the number of its first row in its source
    row_bytes: float  # about how long a record is
    excluded: tuple[ExcludedInput, ...] = ()  # files that are not read
    # Of each piece, the number of each row's split, or `EXCLUDED`
    assigned: tuple[Numbers, ...] = ()
    tokens: TokenPlan | None = None  # how they are made, where they are

    def features(self, reports: Sequence[EncodingReport]) -> dict[str, Feature]:
        """Every feature of the examples, by name."""
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
            if not self.tokens.keep_text:
                del features[self.tokens.column]
        return features | {id_feature(features): Feature(type="string")}


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
    names = [*dict.fromkeys(name for report in reports for name in report.facts)]
    words: dict[str, set[str]] = collections.defaultdict(set)
    for report in reports:
        for name, values in report.labels.items():
            words[name].update(values)
    split = split_column(names, given=settings.columns, words_of=words.__getitem__)
    firsts = _count_before([report.found for report in reports], pieces)
    columns = _decide_columns(names, split, firsts, pieces, reports, settings)
    check_feature_names(column.name for column in columns)
    labels = sorted(column.name for column in columns if column.kind == "label")
    vocabularies = make_vocabularies(
        {name: words[name] for name in labels}, given=settings.vocabularies
    )
    assignment = RowAssignment(
        pieces,
        reports,
        columns,
        vocabularies,
        folder=folder,
        split_column=split,
        first_records=firsts,
        first_lines=_count_before([report.lines for report in reports], pieces),
        partition=partition,
        settings=settings,
    )
    assigned = assignment.of_pieces(deduplicate=deduplicate)
    rules = assignment.rules
    counts = np.bincount(np.concatenate([np.zeros(0, np.uint16), *assigned]), minlength=EXCLUDED)
    rejects, skipped = rules.count_excluded(excluded)
    tokens = _token_plan(columns, settings)
    row_bytes = _bytes_per_row(reports, columns, tokens)
    found = zip(rules.splits, counts.tolist(), strict=False)
    return RowPlan(
        columns=columns,
        vocabularies=vocabularies,
        layouts=lay_out_shards(
            [(s, count, int(row_bytes * count)) for s, count in found], settings
        ),
        rejects=(*assignment.rejects, *rejects),
        skipped=dict(assignment.skipped + skipped),
        found=sum(report.found for report in reports) + len(excluded),
        first_records=tuple(firsts),
        row_bytes=row_bytes,
        excluded=tuple(excluded),
        assigned=tuple(assigned),
        tokens=tokens,
    )


def _count_before(counts: Sequence[int], pieces: Sequence[Piece]) -> list[int]:
    """How much of its source comes before each piece."""
    before: collections.Counter[str] = collections.Counter()
    sums = []
    for count, piece in zip(counts, pieces, strict=True):
        sums.append(before[piece.source])
        before[piece.source] += count
    return sums


def _decide_columns(
    names: Sequence[str],
    split: str | None,
    firsts: Sequence[int],
    pieces: Sequence[Piece],
    reports: Sequence[PieceReport],
    settings: ExampleGenSettings,
) -> tuple[Column, ...]:
    """What becomes a feature, in the order of the inputs."""
    if len(names) > MAX_COLUMNS:
        raise InputError(
            f"columns: expected at most {MAX_COLUMNS}, got {len(names)}, such as "
            f"{', '.join(map(repr, names[-3:]))}. Objects whose keys are values should be lists, "
            "or be left out: columns={'<name>': 'ignore'}."
        )
    check_columns(settings.columns, names, of="the inputs")
    texts = text_columns(names, settings.columns)
    decided = [
        decide_column(
            name,
            [(n, report.facts[name]) for n, report in enumerate(reports) if name in report.facts],
            given=settings.columns.get(name),
            is_text=name in texts,
            place=lambda n, record: f"{pieces[n].source}, row {firsts[n] + record + 1}",
        )
        for name in names
        if name != split
    ]
    return tuple(column for column in decided if column is not None)


def _token_plan(columns: Sequence[Column], settings: ExampleGenSettings) -> TokenPlan | None:
    """How the settings have tokens made, if they do."""
    tokenizer, keep_text = (
        getattr(settings, "tokenizer", None),
        getattr(settings, "keep_text", True),
    )
    if tokenizer is None:
        if not keep_text:
            raise ConfigError.of("keep_text", False, allowed="True without a tokenizer")
        return None
    by_name = {column.name: column for column in columns}
    texts = text_columns([*by_name], settings.columns)
    if len(texts) != 1 or by_name[texts[0]].kind != "string" or by_name[texts[0]].is_list:
        rule = f"None, or one column of texts, by columns={{'…': 'text'}}, of {', '.join(by_name)}"
        raise ConfigError.of("tokenizer", tokenizer, allowed=rule)
    if TOKENS in by_name:
        rule = f"None where a column is called {TOKENS!r}"
        raise ConfigError.of("tokenizer", tokenizer, allowed=rule)
    return TokenPlan(texts[0], tokenizer, load_tokenizer(tokenizer).spec, keep_text)


def _bytes_per_row(
    reports: Sequence[PieceReport], columns: Sequence[Column], tokens: TokenPlan | None
) -> float:
    """About how long a record is: its values, the names of its features, its frame; in bytes."""
    rows = sum(report.kept for report in reports)
    values: float = sum(facts.bytes for report in reports for facts in report.facts.values())
    if tokens is not None:
        facts = [report.facts[tokens.column] for report in reports if tokens.column in report.facts]
        share = tokens.spec.stored.itemsize / _BYTES_PER_TOKEN
        values += sum(one.bytes for one in facts) * (share - (not tokens.keep_text))
    names = sum(len(column.name) + _ENTRY_BYTES for column in columns)
    return values / max(1, rows) + names + _ID_BYTES + RECORD_OVERHEAD_BYTES
