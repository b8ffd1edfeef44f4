"""Audit a dataset: copies within and across splits, label conflicts, shifts, odd images."""

import contextlib
import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from trainer_utils.dataset import Dataset, open_dataset
from trainer_utils.format import ConfigError, DatasetError
from trainer_utils.format.errors import did_you_mean
from trainer_utils.format.json_text import JsonObject
from trainer_utils.text_output import Part, TextReport, make_table, quantity

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

_LABEL = "label"
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
        named = [f"{one.split}: {one.name}" for one in self.records[:_SHOWN_RECORDS]]
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
        listed = [one for one in self.findings if one.kind in failing]
        examples = "; ".join(f"{one.kind}: {one}" for one in listed[:3])
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
        shown = [[one.kind, ", ".join(one.splits), str(one)] for one in self.findings]
        return [*parts, "", make_table(["kind", "splits", "what was found"], shown)]


def audit_dataset(
    uri: str,
    *,
    against: str | None = None,
    label: str = _LABEL,
    most: int = 100,
    advance: Callable[[int, int], None] = lambda done, total: None,
) -> Audit:
    """Read a whole dataset, and optionally another to compare with, and return the findings.

    This takes about a hundred bytes of memory per record, and 8 bytes of disk per word of text.

    Args:
        uri: the uri of any dataset that `open_dataset` reads.
        against: the uri of an earlier dataset.
        label: the feature with the class of a record.
        most: the maximum number of findings to list for each kind; all are counted.
        advance: called regularly with the bytes read since the last call, and the total.

    Raises:
        DatasetError: a uri is not a dataset, or a record is damaged.
        ConfigError: no dataset has the label.
    """
    # These import Pillow, which checking kinds does not need.
    from components.auditing.checks import find_all
    from components.auditing.scanning import Scan

    datasets = [open_dataset(one) for one in (uri, against) if one is not None]
    _check_label(label, datasets)
    total = sum(shard.bytes for one in datasets for shard in one.shard_files)
    by_kind: dict[str, list[Finding]] = {kind: [] for kind in KINDS}
    with contextlib.ExitStack() as stack:
        scans = [stack.enter_context(Scan(one, label)) for one in datasets]
        for scan in scans:
            scan.read_all(advance=lambda done: advance(done, total))
        for one in find_all(*scans):
            by_kind[one.kind].append(one)
    return Audit(
        uri=datasets[0].uri,
        against=datasets[1].uri if against is not None else None,
        records=datasets[0].records,
        counts={kind: len(found) for kind, found in by_kind.items() if found},
        findings=[one for found in by_kind.values() for one in found[:most]],
    )


def _check_label(label: str, datasets: Sequence[Dataset]) -> None:
    """Raise ConfigError for an unknown feature: without classes there are no label conflicts."""
    names = sorted({name for dataset in datasets for name in dataset.features})
    if label != _LABEL and label not in names:
        allowed, meant = f"one of the features {', '.join(names)}", did_you_mean(label, names)
        raise ConfigError.of("label", label, allowed=allowed, advice=meant.strip())
