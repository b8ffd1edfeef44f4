"""What an audit finds: kinds, and one finding of one kind with its records."""

import dataclasses
from collections.abc import Sequence
from typing import Any

from trainer_utils.format import ConfigError
from trainer_utils.format.errors import did_you_mean
from trainer_utils.format.json_text import JsonObject

KINDS = {
    "leakage": "records of two splits have the same or nearly the same content",
    "label_conflict": "records of the same content have different labels",
    "duplicates": "records of a split have the same content",
    "near_duplicates": "records of a split have nearly the same content",
    "missing_class": "a split has no record of a class",
    "label_shift": "the labels' shares differ between splits or datasets",
    "size_shift": "the images' sizes differ between splits or datasets",
    "brightness_shift": "the images' brightness differs between splits or datasets",
    "length_shift": "the texts' lengths differ between splits or datasets",
    "vocabulary_shift": "the texts' words differ between splits or datasets",
    "blank": "images of one colour",
    "dark": "images that are nearly black",
    "blurred": "images without any edge",
    "odd_aspect": "images of another shape than the others",
    "odd_size": "images far smaller or larger than the others",
}
"""Each kind of finding, and what it is."""


_SHOWN_RECORDS = 3  # of a finding, in a sentence


@dataclasses.dataclass(frozen=True, kw_only=True)
class RecordName:
    """A record: its split, its number in it from 0 on, its name, and its label where it has one."""

    split: str
    number: int
    name: str
    label: str | None = None


@dataclasses.dataclass(frozen=True, kw_only=True)
class Finding:
    """One thing that was found.

    Args:
        kind: one of `KINDS`.
        splits: that it is about.
        detail: what exactly.
        count: of records that it is about.
        records: some of them, the first ones.
        measure: how large it is, of a shift: in [0, 1].
    """

    kind: str
    splits: tuple[str, ...]
    detail: str
    count: int = 0
    records: tuple[RecordName, ...] = ()
    measure: float | None = None

    def __str__(self) -> str:
        """What was found, with some of the records."""
        named = [f"{one.split}: {one.name}" for one in self.records[:_SHOWN_RECORDS]]
        more = ", …" if self.count > _SHOWN_RECORDS else ""
        return f"{self.detail} ({', '.join(named)}{more})" if named else self.detail

    def to_json(self) -> JsonObject:
        """Plain JSON types."""
        found = dataclasses.asdict(self)
        return {**found, "splits": [*self.splits], "records": [*found["records"]]}


def check_kinds(setting: str, kinds: Any) -> tuple[str, ...]:
    """Kinds of findings, as a setting gives them.

    Raises:
        ConfigError: one of them is no kind.
    """
    if isinstance(kinds, str) or not isinstance(kinds, Sequence):
        raise ConfigError.of(setting, kinds, allowed=f"a list of {', '.join(KINDS)}")
    for kind in kinds:
        if kind not in KINDS:
            advice = did_you_mean(kind, KINDS).strip()
            raise ConfigError.of(setting, kind, allowed=f"one of {', '.join(KINDS)}", advice=advice)
    return tuple(kinds)
