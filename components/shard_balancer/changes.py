"""What is changed of the records while they are moved: left out, relabelled, kept by a condition.

    changes = read_changes(settings, features=…, vocabularies=…)     # in the executor
    store_changes(changes, folder); changes = load_changes(folder, key)      # for workers
    block = changes.apply(block, tally, path=shard.path)             # of each block of records

First the names that `exclude` has are left out, then `relabel` gives new values, then `where`
decides with these. A record's names are its `record_id`, `filename` and `id`. What became of the
records is a `Tally`, which adds up to the accounting.
"""

import collections
import csv
import dataclasses
import functools
import hashlib
import io
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from absl import logging

from components.shard_balancer.condition import parse_condition
from components.shard_balancer.settings import BalancerSettings
from trainer_utils.format import ConfigError, DatasetError, Feature, RecordBlock, frame_parts
from trainer_utils.format.example_decoding import decode_example
from trainer_utils.format.example_editing import replace_feature
from trainer_utils.format.framing import FOOTER_BYTES, HEADER_BYTES, RECORD_OVERHEAD_BYTES
from trainer_utils.format.json_text import JsonObject
from trainer_utils.format.naming import LABEL_FEATURES, NAME_FEATURES
from trainer_utils.format.spelling import misspelt
from trainer_utils.storage import join, read_bytes, read_text, write_text

__all__ = [
    "Changes",
    "Tally",
    "Value",
    "check_changes",
    "check_feature",
    "describe_changes",
    "digest_of",
    "load_changes",
    "read_changes",
    "read_named",
    "store_changes",
]

_LABEL = "label"
_FILE = "changes.json"
_UNDECODED = "surrogateescape"  # as `os.fsdecode` has names of files that are no UTF-8
_MOST_NAMED = 20  # features in a message
_INT64 = range(-(2**63), 2**63)

Value = bytes | int | float
_Counts = dict[str, collections.Counter[int]]


@dataclasses.dataclass
class Tally:
    """What became of some records.

    Args:
        found: records that were read.
        relabelled: given another value; one that has it already does not count.
        excluded_names, relabelled_names: the places of the names that were found, in the order of
            `Changes`.
        features: those of the condition that nothing said, and that some record has.
        others: all features of the first record that lacks one of these.
        before, after: how often each value of the label features occurred, by feature.
    """

    found: int = 0
    excluded: int = 0
    filtered: int = 0
    relabelled: int = 0
    excluded_names: set[int] = dataclasses.field(default_factory=set)
    relabelled_names: set[int] = dataclasses.field(default_factory=set)
    features: set[str] = dataclasses.field(default_factory=set)
    others: set[str] = dataclasses.field(default_factory=set)
    before: _Counts = dataclasses.field(default_factory=dict)
    after: _Counts = dataclasses.field(default_factory=dict)

    @property
    def skipped(self) -> int:
        """Records that are left out."""
        return self.excluded + self.filtered

    @property
    def is_unchanged(self) -> bool:
        """Whether every record stays as it is."""
        return not self.skipped and not self.relabelled

    @property
    def is_empty(self) -> bool:
        """Whether no record stays."""
        return self.skipped == self.found

    @classmethod
    def total(cls, tallies: Iterable["Tally"]) -> "Tally":
        """What became of all records together."""
        total = cls()
        for tally in tallies:
            for name, more in vars(tally).items():
                mine = getattr(total, name)
                if isinstance(mine, int):
                    setattr(total, name, mine + more)
                elif isinstance(mine, set):
                    mine |= more
                else:
                    for feature, counts in more.items():
                        mine.setdefault(feature, collections.Counter()).update(counts)
        return total

    def to_json(self) -> JsonObject:
        """Plain JSON types."""
        return {
            **vars(self),
            "excluded_names": sorted(self.excluded_names),
            "relabelled_names": sorted(self.relabelled_names),
            "features": sorted(self.features),
            "others": sorted(self.others),
            "before": {name: [*counts.items()] for name, counts in self.before.items()},
            "after": {name: [*counts.items()] for name, counts in self.after.items()},
        }

    @classmethod
    def from_json(cls, entry: Mapping[str, Any]) -> "Tally":
        """Reads what `to_json` made."""
        return cls(
            **{
                **entry,
                "excluded_names": set(entry["excluded_names"]),
                "relabelled_names": set(entry["relabelled_names"]),
                "features": set(entry["features"]),
                "others": set(entry["others"]),
                "before": _counters(entry["before"]),
                "after": _counters(entry["after"]),
            }
        )


def _counters(entry: Mapping[str, Any]) -> _Counts:
    return {
        name: collections.Counter({int(value): count for value, count in counts})
        for name, counts in entry.items()
    }


@dataclasses.dataclass(frozen=True, kw_only=True)
class Changes:
    """What is to be changed.

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

    exclude: tuple[str, ...] = ()
    relabel: Mapping[str, str | int | float] = dataclasses.field(default_factory=dict)
    feature: str = _LABEL
    kind: str = ""
    where: str = ""
    unknown: tuple[str, ...] = ()
    vocabularies: Mapping[str, Sequence[str]] = dataclasses.field(default_factory=dict)
    labels: tuple[str, ...] = ()
    first_added: int = 1 << 32

    def apply(self, block: RecordBlock, tally: Tally, *, path: str, source: int = 0) -> RecordBlock:
        """A block as it is to be: the same object where nothing of it changes.

        Args:
            tally: what became of them is added to it.
            source: the number of that input.

        Raises:
            DatasetError: a record is no example, or lacks the feature whose kind it should show.
            ConfigError: the condition compares what cannot be compared.
        """
        views = memoryview(block.data)
        begins = (block.starts + HEADER_BYTES).tolist()
        ends = (block.starts + HEADER_BYTES + block.lengths).tolist()
        kept: list[int] = []
        changed: dict[int, bytes] = {}
        for number, (begin, end) in enumerate(zip(begins, ends, strict=True)):
            try:
                record = self._changed(views[begin:end], tally, source < self.first_added)
            except DatasetError as error:
                if isinstance(error, ConfigError):
                    raise
                where = f"{path!r}, byte {block.file_offset + begin - HEADER_BYTES}"
                raise DatasetError(f"{error} ({where})", path=path) from error
            if record is None:
                continue
            kept.append(number)
            if isinstance(record, bytes):
                changed[number] = record
        if not changed and len(kept) == len(block):
            return block
        return _selected(block, kept, changed)

    def _changed(
        self, record: memoryview, tally: Tally, excludes: bool
    ) -> bytes | memoryview | None:
        """The record as it is to be, in bytes where it is another; None: it is left out."""
        values: dict[str, Any] = dict(decode_example(record, self._wanted))
        tally.found += 1
        self._count(values, tally.before)
        if not tally.features.issuperset(self.unknown):
            self._note_features(record, values, tally)
        names = _names_of(values)
        excluded = [self._exclude_places[n] for n in names if n in self._exclude_places]
        if excluded and excludes:
            tally.excluded += 1
            tally.excluded_names.update(excluded)
            return None
        new = next((name for name in names if name in self._relabel_rows), None)
        is_other = False
        if new is not None:
            place, text = self._relabel_rows[new]
            tally.relabelled_names.add(place)
            given = values.get(self.feature, [])
            value = _as_kind(text, self.kind or _kind_of(self.feature, given), new)
            is_other = [bytes(v) if isinstance(v, memoryview) else v for v in given] != [value]
            values[self.feature] = [value]
        if self._condition is not None and not self._condition.holds(values):
            tally.filtered += 1
            return None
        self._count(values, tally.after)
        if not is_other:
            return record
        tally.relabelled += 1
        return replace_feature(bytes(record), self.feature, values[self.feature][0])

    def _note_features(self, record: memoryview, values: Mapping[str, Any], tally: Tally) -> None:
        tally.features.update(name for name in self.unknown if name in values)
        if not tally.others and not tally.features.issuperset(self.unknown):
            tally.others.update(decode_example(record))

    def _count(
        self, values: Mapping[str, Any], counts: dict[str, collections.Counter[int]]
    ) -> None:
        for label in self.labels:
            found = [value for value in values.get(label, ()) if isinstance(value, int)]
            counts.setdefault(label, collections.Counter()).update(found)

    @functools.cached_property
    def _exclude_places(self) -> Mapping[bytes, int]:
        return {_encode_name(name): place for place, name in enumerate(self.exclude)}

    @functools.cached_property
    def _relabel_rows(self) -> Mapping[bytes, tuple[int, str | int | float]]:
        rows = enumerate(self.relabel.items())
        return {_encode_name(name): (place, value) for place, (name, value) in rows}

    @functools.cached_property
    def _condition(self) -> Any:
        return parse_condition(self.where).bind(self.vocabularies) if self.where else None

    @functools.cached_property
    def _wanted(self) -> frozenset[str]:
        features = parse_condition(self.where).features if self.where else ()
        named = NAME_FEATURES if self.exclude or self.relabel else ()
        relabelled = (self.feature,) if self.relabel else ()
        return frozenset({*features, *named, *relabelled, *self.labels})


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


def _kind_of(feature: str, given: Sequence[Any]) -> str:
    if not given:
        raise DatasetError(f"feature {feature!r}: expected a value that shows its kind, got none")
    if isinstance(given[0], memoryview):
        return "string"
    return "int" if isinstance(given[0], int) else "float"


def _as_kind(text: str | int | float, kind: str, name: str | bytes) -> Value:
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
    chosen = []
    for place, number in enumerate(kept):
        record = changed.get(number)
        if record is None:
            chosen.append(frames[number])
            continue
        header, footer = frame_parts([record])
        chosen.append(b"".join((header, record, footer)))
        lengths[place], crcs[place] = len(record), int.from_bytes(footer[-FOOTER_BYTES:], "little")
    ends = np.cumsum(lengths + RECORD_OVERHEAD_BYTES)
    starts = np.concatenate([np.zeros(1, np.int64), ends[:-1]])[: len(kept)]
    return RecordBlock(b"".join(chosen), starts, lengths, crcs, block.file_offset)


def read_changes(
    settings: BalancerSettings,
    *,
    features: Mapping[str, Feature],
    knows_all: bool,
    vocabularies: Mapping[str, Sequence[str]],
    counts_labels: bool,
    first_added: int,
) -> Changes | None:
    """What the settings ask for, with the files that they name read.

    Args:
        counts_labels: whether the inputs say how often each label occurs.
        first_added: the number of the first input that `add` names.

    Returns:
        None: nothing is changed.

    Raises:
        ConfigError: a file cannot be read or is malformed, a label or feature is not known.
    """
    exclude = _names_to_exclude(settings.exclude) if settings.exclude else ()
    feature, table = _table(settings.relabel) if settings.relabel else (_LABEL, {})
    if not exclude and not table and settings.where is None:
        return None
    where = settings.where or ""
    named = parse_condition(where).features if where else ()
    for name in [*named, *([feature] if table else [])]:
        setting = "relabel" if name == feature and table else "where"
        check_feature(setting, name, features, knows_all)
    of_condition = {name: list(vocabularies[name]) for name in named if name in vocabularies}
    if where:
        parse_condition(where).bind(of_condition)
    kind = features[feature].type if feature in features else ""
    labels = [
        name
        for name, one in features.items()
        if one.type == "int" and (name in LABEL_FEATURES or name in vocabularies)
    ]
    return Changes(
        exclude=exclude,
        relabel=_values(table, feature, kind, vocabularies.get(feature)),
        feature=feature,
        kind=kind,
        where=where,
        unknown=tuple(name for name in named if name not in features),
        vocabularies=of_condition,
        labels=tuple(labels) if counts_labels else (),
        first_added=first_added,
    )


def check_feature(
    setting: str, name: str, features: Mapping[str, Feature], knows_all: bool
) -> None:
    """Refuses a feature that there is not, or that has no values to compare.

    Args:
        knows_all: whether all inputs say theirs, so that `features` are all that there are.

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


def _names_to_exclude(exclude: str | Sequence[str]) -> tuple[str, ...]:
    """The names, sorted, each once."""
    # Not splitlines(): a name may have other ends of lines in it, such as U+2028.
    lines = _read("exclude", exclude).split("\n") if isinstance(exclude, str) else ()
    names = [line.removesuffix("\r") for line in lines] or exclude
    found = tuple(sorted({name for name in names if name.strip()}))
    if not found:
        raise ConfigError.of("exclude", exclude, allowed="a file with a name a line")
    return found


def _table(relabel: str | Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """The feature, and its new values by name."""
    if not isinstance(relabel, str):
        return _LABEL, dict(relabel)
    rows = csv.reader(io.StringIO(_read("relabel", relabel), newline=""))
    header = [name.strip() for name in next(rows, [])]
    if len(header) != 2 or header[0] not in ("name", *NAME_FEATURES) or not header[1]:
        raise ConfigError.of(
            "relabel", relabel, allowed=f"a CSV that begins with the line name,{_LABEL}"
        )
    table: dict[str, str] = {}
    for row in rows:
        if not any(row):
            continue
        if len(row) != 2 or table.setdefault(row[0], row[1]) != row[1]:
            rule = "one value a name" if len(row) == 2 else "a name and a value"
            raise ConfigError(
                f"relabel: expected {rule}, got {','.join(row)!r} ({relabel!r}, "
                f"line {rows.line_num})",
                setting="relabel",
                value=relabel,
            )
    if not table:
        raise ConfigError.of("relabel", relabel, allowed="a CSV with rows below its header")
    return header[1], table


def _read(setting: str, path: str) -> str:
    return read_named(setting, path).decode("utf-8", _UNDECODED).removeprefix("\ufeff")


def read_named(setting: str, path: str) -> bytes:
    """The file that a setting names.

    Raises:
        ConfigError: it cannot be read.
    """
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
        if vocabulary is None or value in ids:
            values[name] = ids.get(value, value)
            if kind and vocabulary is None:
                _as_kind(value, kind, name)
            continue
        raise ConfigError(
            f"relabel[{name!r}]: expected one of the classes of {feature!r}, "
            f"got {misspelt(value, ids)}",
            setting="relabel",
            value=value,
        )
    return values


def check_changes(changes: Changes | None, tallies: Mapping[str, Tally]) -> None:
    """Refuses lists of which no name was found, and changes that leave no record.

    So is a condition with a feature that no record has, where nothing else says what there are.
    Of other names that were not found, and of a split that is emptied, a warning says so.

    Args:
        changes: None: nothing is changed.

    Raises:
        ConfigError: as said.
    """
    if changes is None:
        return
    tally = Tally.total(tallies.values())
    for name in changes.unknown:
        if name not in tally.features and tally.found:
            raise ConfigError(
                f"where: expected features that some record has, such as "
                f"{', '.join(sorted(tally.others)[:_MOST_NAMED])}, "
                f"got {misspelt(name, sorted(tally.others))}",
                setting="where",
                value=name,
            )
    for setting, names, found in _named(changes, tally):
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
    emptied = [split for split, of_split in tallies.items() if of_split.found and of_split.is_empty]
    if emptied and tally.is_empty:
        setting = "where" if tally.filtered else "exclude"
        raise ConfigError(
            f"{setting}: expected some records to stay, got none of {tally.skipped}: "
            f"exclude= names {tally.excluded}, where= is not true of {tally.filtered}",
            setting=setting,
        )
    for split in emptied:
        logging.warning("split %r: all of its %d records are left out", split, tallies[split].found)


def _named(changes: Changes, tally: Tally) -> list[tuple[str, tuple[str, ...], set[int]]]:
    return [
        ("exclude", changes.exclude, tally.excluded_names),
        ("relabel", tuple(changes.relabel), tally.relabelled_names),
    ]


def describe_changes(changes: Changes, tally: Tally) -> JsonObject:
    """What the manifest keeps of them: digests of names, and how many records each was about."""
    described: JsonObject = {}
    tables: list[Iterable[Any]] = [changes.exclude, changes.relabel.items()]
    records = [tally.excluded, tally.relabelled]
    for (setting, names, found), table, count in zip(
        _named(changes, tally), tables, records, strict=True
    ):
        if names:
            feature = changes.feature if setting == "relabel" else ""
            described[setting] = {
                "digest": digest_of(json.dumps([feature, *table]).encode()),
                "names": len(names),
                "unmatched": len(names) - len(found),
                "records": count,
            }
    if changes.where:
        described["where"] = {"condition": changes.where, "records": tally.filtered}
    return described


def digest_of(data: bytes) -> str:
    """A checksum of 32 hexadecimal digits."""
    return hashlib.blake2b(data, digest_size=16).hexdigest()


def store_changes(changes: Changes | None, folder: str) -> str | None:
    """Keeps changes where workers find them; returns the key that `load_changes` takes."""
    if changes is None:
        return None
    text = json.dumps(dataclasses.asdict(changes))
    write_text(join(folder, _FILE), text, temporary_folder=folder)
    return digest_of(text.encode())


@functools.lru_cache(maxsize=1)
def load_changes(folder: str, key: str | None) -> Changes | None:
    """What `store_changes` kept, read once by each process.

    Args:
        key: what `store_changes` returned; None: nothing is changed.
    """
    if key is None:
        return None
    value = json.loads(read_text(join(folder, _FILE)))
    return Changes(
        **{
            **value,
            "exclude": tuple(value["exclude"]),
            "labels": (*value["labels"],),
            "unknown": tuple(value["unknown"]),
        }
    )
