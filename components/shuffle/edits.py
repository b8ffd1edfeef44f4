"""What is changed of records while they are moved: left out, relabelled, kept by a condition.

    edits = read_edits(exclude=…, relabel=…, where=…, features=…)       # in the executor
    key = store_edits(edits, folder); edits = load_edits(folder, key)   # for workers
    block = edits.apply(block, counts, path=shard.path)                 # of each block of records

First the names that `exclude` has are left out, then `relabel` gives new values, then `where`
decides with these. A record's names are its `record_id`, `filename` and `id`. What became of the
records is counted in `EditCounts`, which add up to the accounting.
"""

import collections
import csv
import dataclasses
import functools
import hashlib
import io
import json
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np
from absl import logging

from components.shuffle.condition import parse_condition
from trainer_utils.format import ConfigError, DatasetError, Feature, RecordBlock, frame_parts
from trainer_utils.format.example_decoding import decode_example
from trainer_utils.format.example_editing import replace_feature
from trainer_utils.format.framing import FOOTER_BYTES, HEADER_BYTES, RECORD_OVERHEAD_BYTES
from trainer_utils.format.json_text import JsonObject
from trainer_utils.format.naming import LABEL_FEATURES, NAME_FEATURES
from trainer_utils.format.spelling import misspelt
from trainer_utils.storage import join, read_bytes, read_text, write_text

__all__ = [
    "EditCounts",
    "Edits",
    "check_edits",
    "check_feature",
    "decode_block",
    "describe_edits",
    "fingerprint_of_files",
    "load_edits",
    "read_edits",
    "store_edits",
    "total_counts",
]

_LABEL = "label"
_UNDECODED = "surrogateescape"  # as `os.fsdecode` has names of files that are no UTF-8
_MOST_NAMED = 20  # features in a message
_INT64 = range(-(2**63), 2**63)


class EditCounts(collections.Counter[tuple[Any, ...]]):
    """What became of some records, by what is counted.

    `("found",)`, `("excluded",)`, `("filtered",)` and `("relabelled",)` are records; a value that a
    record has already is none that it gets. `("exclude", n)` and `("relabel", n)` are those that
    have the n-th name; `("before", feature, value)` and `("after", …)` those with a label;
    `("feature", name)` those that have a feature of which no dataset said so, and
    `("other", name)` the features of the first record of each block.
    """

    def __getattr__(self, name: str) -> int:
        if name in ("found", "excluded", "filtered", "relabelled"):
            return self[name,]
        raise AttributeError(name)

    @property
    def skipped(self) -> int:
        """Records that are left out."""
        return self.excluded + self.filtered

    @property
    def changes_nothing(self) -> bool:
        """Whether every record stays as it is."""
        return not self.skipped and not self.relabelled

    def of(self, *key: str) -> dict[Any, int]:
        """The counts whose keys begin so, by what comes next."""
        return {k[len(key)]: count for k, count in self.items() if k[: len(key)] == key}

    def to_json(self) -> str:
        """As text."""
        return json.dumps([[list(key), count] for key, count in self.items()])

    @classmethod
    def from_json(cls, text: str) -> "EditCounts":
        """Reads what `to_json` made."""
        return cls({tuple(key): count for key, count in json.loads(text)})


@dataclasses.dataclass(frozen=True, kw_only=True)
class Edits:
    """What is to be changed; by default nothing.

    Args:
        exclude: names that are left out, sorted.
        relabel: new values by name, sorted; as texts, where their kind is not known.
        feature: which `relabel` is of.
        kind: of that feature: `int`, `float` or `string`; empty: as each record has it.
        where: a condition; empty: none.
        unknown: features of the condition of which no dataset says that there are such.
        vocabularies: the classes of the features that the condition has.
        labels: features whose values are counted.
        first_added: the number of the first input that `exclude` leaves alone, so that a record
            can be replaced by one of its name.
    """

    exclude: Sequence[str] = ()
    relabel: Mapping[str, str | int | float] = dataclasses.field(default_factory=dict)
    feature: str = _LABEL
    kind: str = ""
    where: str = ""
    unknown: Sequence[str] = ()
    vocabularies: Mapping[str, Sequence[str]] = dataclasses.field(default_factory=dict)
    labels: Sequence[str] = ()
    first_added: int = 1 << 32

    def __bool__(self) -> bool:
        return bool(self.exclude or self.relabel or self.where)

    def apply(
        self, block: RecordBlock, counts: EditCounts, *, path: str, source: int = 0
    ) -> RecordBlock:
        """A block as it is to be: the same object where nothing of it changes.

        Args:
            counts: what became of them is added to it.
            source: the number of that input.

        Raises:
            DatasetError: a record is no example, or lacks the feature whose kind it should show.
            ConfigError: the condition compares what cannot be compared.
        """
        if not self or not len(block):
            return block
        rows = decode_block(block, self._wanted, path=path)
        counts["found",] += len(rows)
        self._count("before", rows, counts)
        if self.unknown:
            counts.update(("feature", name) for row in rows for name in self.unknown if name in row)
            counts.update(("other", name) for name in decode_example(block.record(0)))
        kept, new = [], {}
        for number, row in enumerate(rows):
            names = _names_of(row)
            excluded = [n for n in names if n in self._exclude_places]
            if excluded and source < self.first_added:
                counts["excluded",] += 1
                counts.update(("exclude", self._exclude_places[name]) for name in excluded)
                continue
            kept.append(number)
            for name in [name for name in names if name in self._relabel_rows][:1]:
                place, text = self._relabel_rows[name]
                counts["relabel", place] += 1
                given = row.get(self.feature, [])
                value = _as_kind(text, self.kind or _kind_of(self.feature, given, path), name)
                if [bytes(v) if isinstance(v, memoryview) else v for v in given] != [value]:
                    new[number] = value
                row[self.feature] = [value]
        kept = self._filter(rows, kept, counts)
        self._count("after", [rows[number] for number in kept], counts)
        changed = {
            n: replace_feature(block.record(n), self.feature, new[n]) for n in kept if n in new
        }
        counts["relabelled",] += len(changed)
        if not changed and len(kept) == len(block):
            return block
        return _selected(block, kept, changed)

    def _filter(
        self, rows: Sequence[Mapping[str, Any]], kept: list[int], counts: EditCounts
    ) -> list[int]:
        if not self.where or not kept:
            return kept
        condition = parse_condition(self.where)
        values = {name: [rows[n].get(name, ()) for n in kept] for name in condition.features}
        mask = condition.mask(values, self.vocabularies).tolist()
        counts["filtered",] += mask.count(False)
        return [number for number, holds in zip(kept, mask, strict=True) if holds]

    def _count(self, when: str, rows: Sequence[Mapping[str, Any]], counts: EditCounts) -> None:
        for label in self.labels:
            found = (value for row in rows for value in row.get(label, ()))
            counts.update((when, label, value) for value in found if isinstance(value, int))

    @functools.cached_property
    def _exclude_places(self) -> Mapping[bytes, int]:
        return {_encode_name(name): place for place, name in enumerate(self.exclude)}

    @functools.cached_property
    def _relabel_rows(self) -> Mapping[bytes, tuple[int, str | int | float]]:
        rows = enumerate(self.relabel.items())
        return {_encode_name(name): (place, value) for place, (name, value) in rows}

    @functools.cached_property
    def _wanted(self) -> frozenset[str]:
        features = parse_condition(self.where).features if self.where else ()
        named = NAME_FEATURES if self.exclude or self.relabel else ()
        relabelled = (self.feature,) if self.relabel else ()
        return frozenset({*features, *named, *relabelled, *self.labels})


def decode_block(
    block: RecordBlock, names: Collection[str], *, path: str
) -> list[dict[str, list[Any]]]:
    """The values of some features of each record: integers, floats, or views of bytes.

    Raises:
        DatasetError: one is no example; it names file and byte.
    """
    views, rows = memoryview(block.data), []
    begins = block.starts + HEADER_BYTES
    for begin, end in zip(begins.tolist(), (begins + block.lengths).tolist(), strict=True):
        try:
            rows.append(dict(decode_example(views[begin:end], names)))
        except DatasetError as error:
            where = f"{path!r}, byte {block.file_offset + begin - HEADER_BYTES}"
            raise DatasetError(f"{error} ({where})", path=path) from error
    return rows


def _encode_name(name: str) -> bytes:
    """A name as records hold it; of a file's name that is no UTF-8 `os.fsdecode`'s text counts."""
    return name.encode("utf-8", _UNDECODED)


def _names_of(values: Mapping[str, Any]) -> list[bytes]:
    """The names of a record; one that is a number as text."""
    return [
        str(value).encode() if isinstance(value, int) else bytes(value)
        for feature in NAME_FEATURES
        for value in values.get(feature, ())[:1]
        if not isinstance(value, float)
    ]


def _kind_of(feature: str, given: Sequence[Any], path: str) -> str:
    if not given:
        raise DatasetError(
            f"feature {feature!r}: expected a value that shows its kind, got none ({path!r})",
            path=path,
        )
    if isinstance(given[0], memoryview):
        return "string"
    return "int" if isinstance(given[0], int) else "float"


def _as_kind(text: str | int | float, kind: str, name: str | bytes) -> bytes | int | float:
    """A new value as a feature of that kind has it."""
    if kind == "string":
        return str(text).encode()
    try:
        if kind == "float":
            return float(np.float32(text))
        value = int(text)
        if value in _INT64 and value == float(text):
            return value
    except (ValueError, OverflowError):
        pass
    shown = name.decode(errors="replace") if isinstance(name, bytes) else name
    raise ConfigError(
        f"relabel[{shown!r}]: expected a value of kind {kind}, got {text!r}",
        setting="relabel",
        value=text,
    )


def _selected(block: RecordBlock, kept: Sequence[int], changed: Mapping[int, bytes]) -> RecordBlock:
    """A block of some of the records, those in `changed` with new frames."""
    frames = block.frames()
    lengths, crcs = block.lengths[kept].copy(), block.payload_crcs[kept].copy()
    for place, number in enumerate(kept):
        if number in changed:
            header, footer = frame_parts([changed[number]])
            frames[number] = b"".join((header, changed[number], footer))
            lengths[place] = len(changed[number])
            crcs[place] = int.from_bytes(footer[-FOOTER_BYTES:], "little")
    starts = np.cumsum(lengths + RECORD_OVERHEAD_BYTES) - lengths - RECORD_OVERHEAD_BYTES
    data = b"".join([frames[number] for number in kept])
    return RecordBlock(data, starts, lengths, crcs, block.file_offset)


def read_edits(
    *,
    exclude: str | Sequence[str] | None,
    relabel: str | Mapping[str, Any] | None,
    where: str | None,
    features: Mapping[str, Feature],
    knows_all: bool,
    vocabularies: Mapping[str, Sequence[str]],
    counts_labels: bool,
    first_added: int,
) -> Edits:
    """What the settings ask for, with the files that they name read.

    Args:
        knows_all: whether all inputs say theirs, so that `features` are all that there are.
        counts_labels: whether the inputs say how often each label occurs.
        first_added: the number of the first input that `add` names.

    Raises:
        ConfigError: a file cannot be read or is malformed, a label or feature is not known.
    """
    names = _names_to_exclude(exclude) if exclude else ()
    feature, table = _table(relabel) if relabel else (_LABEL, {})
    condition = parse_condition(where) if where else None
    named = condition.features if condition else ()
    for name in named:
        check_feature("where", name, features, knows_all)
    if table:
        check_feature("relabel", feature, features, knows_all)
    if condition:  # of no record: whether its classes are there
        condition.mask({}, vocabularies)
    kind = features[feature].type if feature in features else ""
    labels = [
        name
        for name, one in features.items()
        if one.type == "int" and (name in LABEL_FEATURES or name in vocabularies)
    ]
    return Edits(
        exclude=names,
        relabel=_values(table, feature, kind, vocabularies.get(feature)),
        feature=feature,
        kind=kind,
        where=where or "",
        unknown=[name for name in named if name not in features],
        vocabularies={name: list(vocabularies[name]) for name in named if name in vocabularies},
        labels=labels if counts_labels else (),
        first_added=first_added,
    )


def check_feature(
    setting: str, name: str, features: Mapping[str, Feature], knows_all: bool
) -> None:
    """Refuses a feature that there is not, or that has no values to compare.

    Raises:
        ConfigError: as said.
    """
    found = features.get(name)
    if found is None and knows_all:
        raise ConfigError(
            f"{setting}: expected one of the features {', '.join(features)}, "
            f"got {misspelt(name, features)}",
            setting=setting,
            value=name,
        )
    if found is not None and (found.is_image or found.tensor is not None):
        raise ConfigError.of(setting, name, allowed="a feature of numbers or texts")


def _names_to_exclude(exclude: str | Sequence[str]) -> list[str]:
    """The names, sorted, each once."""
    # Not splitlines(): a name may have other ends of lines in it, such as U+2028.
    lines = _read("exclude", exclude).split("\n") if isinstance(exclude, str) else ()
    names = [line.removesuffix("\r") for line in lines] or exclude
    found = sorted({name for name in names if name.strip()})
    if not found:
        raise ConfigError.of("exclude", exclude, allowed="a file with a name a line")
    return found


def _table(relabel: str | Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """The feature, and its new values by name."""
    if not isinstance(relabel, str):
        return _LABEL, dict(relabel)
    rows = csv.reader(io.StringIO(_read("relabel", relabel), newline=""))
    header = [name.strip() for name in next(rows, [])]
    table: dict[str, str] = {}
    for row in filter(any, rows):
        if len(row) != 2 or table.setdefault(row[0], row[1]) != row[1]:
            rule = "one value a name" if len(row) == 2 else "a name and a value"
            raise ConfigError(
                f"relabel: expected {rule}, got {','.join(row)!r} ({relabel!r}, "
                f"line {rows.line_num})",
                setting="relabel",
                value=relabel,
            )
    if len(header) != 2 or header[0] not in ("name", *NAME_FEATURES) or not header[1] or not table:
        rule = f"a CSV that begins with the line name,{_LABEL} and has rows below it"
        raise ConfigError.of("relabel", relabel, allowed=rule)
    return header[1], table


def _read(setting: str, path: str) -> str:
    return _read_named(setting, path).decode("utf-8", _UNDECODED).removeprefix("\ufeff")


def _read_named(setting: str, path: str) -> bytes:
    try:
        return read_bytes(path)
    except OSError as error:
        raise ConfigError.of(
            setting, path, allowed="a file that can be read", advice=f"{error.strerror or error}"
        ) from error


def _values(
    table: Mapping[str, Any], feature: str, kind: str, vocabulary: Sequence[str] | None
) -> dict[str, str | int | float]:
    """New values as they will be written, as far as that is known; names sorted."""
    ids = {name: number for number, name in enumerate(vocabulary or ())}
    values: dict[str, str | int | float] = {}
    for name, value in sorted(table.items()):
        if vocabulary is not None and value not in ids:
            raise ConfigError(
                f"relabel[{name!r}]: expected one of the classes of {feature!r}, "
                f"got {misspelt(value, ids)}",
                setting="relabel",
                value=value,
            )
        values[name] = ids.get(value, value)
        if kind and vocabulary is None:
            _as_kind(value, kind, name)
    return values


def check_edits(edits: Edits, by_split: Mapping[str, EditCounts]) -> None:
    """Refuses lists of which no name was found, and changes that leave no record.

    So is a condition with a feature that no record has, where nothing else says what there are.
    Of other names that were not found, and of a split that is emptied, a warning says so.

    Raises:
        ConfigError: as said.
    """
    total = total_counts(by_split.values())
    others = sorted(total.of("other"))
    for name in edits.unknown:
        if name not in total.of("feature") and total.found:
            raise ConfigError(
                f"where: expected features that some record has, such as "
                f"{', '.join(others[:_MOST_NAMED])}, got {misspelt(name, others)}",
                setting="where",
                value=name,
            )
    for setting, names in (("exclude", edits.exclude), ("relabel", [*edits.relabel])):
        found = total.of(setting)
        missing = [name for place, name in enumerate(names) if place not in found]
        if names and not found:
            raise ConfigError(
                f"{setting}: expected names of records as {', '.join(NAME_FEATURES)} have them, "
                f"found none of {len(names)}, such as {names[0]!r}. "
                "`tfx-shards show` lists records with their names",
                setting=setting,
                value=names[0],
            )
        if missing:
            logging.warning(
                "%s: %d of %d names are of no record, such as %r",
                *(setting, len(missing), len(names), missing[0]),
            )
    emptied = [name for name, one in by_split.items() if one.found and one.skipped == one.found]
    if emptied and total.skipped == total.found:
        setting = "where" if total.filtered else "exclude"
        raise ConfigError(
            f"{setting}: expected some records to stay, got none of {total.skipped}: "
            f"exclude= names {total.excluded}, where= is not true of {total.filtered}",
            setting=setting,
        )
    for split in emptied:
        logging.warning(
            "split %r: all of its %d records are left out", split, by_split[split].found
        )


def total_counts(parts: Collection[EditCounts]) -> EditCounts:
    """What became of the records of all parts together."""
    total = EditCounts()
    for counts in parts:
        total.update(counts)
    return total


def describe_edits(edits: Edits, counts: EditCounts) -> JsonObject:
    """What the manifest keeps of them: digests of names, and how many records each was about."""
    described: JsonObject = {}
    for setting, feature, table, records in (
        ("exclude", "", [*edits.exclude], counts.excluded),
        ("relabel", edits.feature, [*edits.relabel.items()], counts.relabelled),
    ):
        if table:
            described[setting] = {
                "digest": _digest_of(json.dumps([feature, *table]).encode()),
                "names": len(table),
                "unmatched": len(table) - len(counts.of(setting)),
                "records": records,
            }
    if edits.where:
        described["where"] = {"condition": edits.where, "records": counts.filtered}
    return described


def fingerprint_of_files(files: Mapping[str, Any], datasets: Sequence[str]) -> str | None:
    """Of what settings name, so that a change of it is seen; None where they name nothing.

    Args:
        files: by setting, its value: the path of a file where it is a text.
        datasets: digests of datasets.

    Raises:
        ConfigError: a file cannot be read.
    """
    facts: dict[str, Any] = {
        name: _digest_of(_read_named(name, path))
        for name, path in files.items()
        if isinstance(path, str)
    }
    if datasets:
        facts["add"] = [*datasets]
    return _digest_of(json.dumps(facts).encode()) if facts else None


def _digest_of(data: bytes) -> str:
    return hashlib.blake2b(data, digest_size=16).hexdigest()


def store_edits(edits: Edits, folder: str) -> str:
    """Keeps edits where workers find them; returns the key that `load_edits` takes."""
    text = json.dumps(dataclasses.asdict(edits))
    write_text(join(folder, "edits.json"), text, temporary_folder=folder)
    return _digest_of(text.encode())


@functools.lru_cache(maxsize=1)
def load_edits(folder: str, key: str) -> Edits:
    """What `store_edits` kept, read once by each process; `key` is what it returned."""
    assert key
    return Edits(**json.loads(read_text(join(folder, "edits.json"))))
