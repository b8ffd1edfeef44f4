"""The kinds of findings of an audit, and its result."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from trainer_utils.core.errors import ConfigError, DatasetError, did_you_mean
from trainer_utils.core.json_text import JsonObject
from trainer_utils.core.text_output import Part, TextReport, make_table, quantity

KINDS = {
    "leakage": "records in different splits have the same or nearly the same content",
    "label_conflict": "records with the same content have different labels",
    "duplicates": "records in one split have the same content",
    "near_duplicates": "records in one split have nearly the same content",
    "missing_class": "a split has no record of a class",
    "label_shift": "the labels' shares differ between splits or datasets",
    "size_shift": "the images' sizes differ between splits or datasets",
    "brightness_shift": "the images' brightness differs between splits or datasets",
    "length_shift": "the texts' lengths differ between splits or datasets",
    "vocabulary_shift": "the texts' words differ between splits or datasets",
    "blank": "images of one colour",
    "dark": "images that are nearly black",
    "blurred": "images without any edges",
    "odd_aspect": "images with an unusual aspect ratio",
    "odd_size": "images far smaller or larger than the rest",
}
"""The kinds of findings, with a description of each."""

LABEL = "label"
_SHOWN_RECORDS = 3  # records of a finding that a sentence names


@dataclasses.dataclass(frozen=True, kw_only=True)
class RecordName:
    """A record: its split, its number there from 0, its name, and its label if it has one."""

    split: str
    number: int
    name: str
    label: str | None = None


@dataclasses.dataclass(frozen=True, kw_only=True)
class Finding:
    """One finding.

    Args:
        kind: one of `KINDS`.
        splits: the splits concerned.
        detail: a description.
        count: the number of records concerned.
        records: the first of these records.
        measure: the size of a shift, in [0, 1].
    """

    kind: str
    splits: tuple[str, ...]
    detail: str
    count: int = 0
    records: tuple[RecordName, ...] = ()
    measure: float | None = None

    def __str__(self) -> str:
        """Return the finding as a sentence, with a few records."""
        named = [f"{record.split}: {record.name}" for record in self.records[:_SHOWN_RECORDS]]
        more = ", …" if self.count > _SHOWN_RECORDS else ""
        return f"{self.detail} ({', '.join(named)}{more})" if named else self.detail


def check_kinds(setting: str, kinds: Any) -> tuple[str, ...]:
    """Return the kinds of findings of a setting; raise ConfigError for an unknown kind."""
    if isinstance(kinds, str) or not isinstance(kinds, Sequence):
        raise ConfigError.of(setting, kinds, allowed=f"a list of {', '.join(KINDS)}")
    for kind in kinds:
        if kind not in KINDS:
            advice = did_you_mean(kind, KINDS).strip()
            raise ConfigError.of(setting, kind, allowed=f"one of {', '.join(KINDS)}", advice=advice)
    return tuple(kinds)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Audit(TextReport):
    """The result of an audit.

    Args:
        uri: the uri of the dataset.
        against: the uri of the dataset that it was compared with.
        records: the number of records read, by split.
        counts: the number of findings by kind; kinds without findings are left out.
        findings: the listed findings, by kind and in the order of the dataset.
    """

    uri: str
    against: str | None
    records: Mapping[str, int]
    counts: Mapping[str, int]
    findings: Sequence[Finding]

    def failing(self, kinds: Sequence[str]) -> dict[str, int]:
        """Return the number of findings of each of these kinds."""
        return {kind: count for kind, count in self.counts.items() if kind in kinds}

    def check(self, fail_on: Sequence[str]) -> None:
        """Raise DatasetError, naming the first ones, if there are findings of these kinds."""
        failing = self.failing(check_kinds("fail_on", fail_on))
        if not failing:
            return
        listed = [finding for finding in self.findings if finding.kind in failing]
        examples = "; ".join(f"{finding.kind}: {finding}" for finding in listed[:3])
        counts = ", ".join(f"{count:,} {kind}" for kind, count in failing.items())
        raise DatasetError(
            f"dataset {self.uri!r}: expected no {', '.join(fail_on)}, got {counts}: {examples}. "
            f"See all: tfx-shards audit {self.uri}"
        )

    def to_json(self) -> JsonObject:
        """Return the audit as plain JSON types, with its fields by name."""
        return dataclasses.asdict(self)

    def parts(self) -> list[Part]:
        """Return the audit in the form that `print_parts` prints."""
        read = ", ".join(f"{name} {count:,}" for name, count in self.records.items())
        parts: list[Part] = [f"{quantity(sum(self.records.values()), 'record')} ({read})"]
        if not self.counts:
            return [*parts, "nothing found"]
        rows = [[kind, f"{count:,}", KINDS[kind]] for kind, count in self.counts.items()]
        parts += ["", make_table(["kind", "findings", "what it is"], rows)]
        shown = [
            [finding.kind, ", ".join(finding.splits), str(finding)] for finding in self.findings
        ]
        return [*parts, "", make_table(["kind", "splits", "what was found"], shown)]
