"""Edit records while they are moved: exclude, relabel, and filter by a condition.

`exclude` is applied first, then `relabel`, then `where`, which sees the new values. The names of a
record are its `record_id`, `filename` and `id`. `EditCounts` counts the effects, which add up to
the accounting.
"""

import csv
import dataclasses
import functools
import hashlib
import io
import itertools
import json
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt
from absl import logging

from trainer_utils.core.errors import ConfigError, DatasetError, did_you_mean
from trainer_utils.core.json_text import JsonObject
from trainer_utils.format import Feature, RecordBlock
from trainer_utils.format.condition import parse_condition
from trainer_utils.format.example import decode_example, encode_example, read_fields, varint
from trainer_utils.format.example_columns import Column, parse_examples
from trainer_utils.format.naming import NAME_FEATURES
from trainer_utils.format.tfrecord import (
    HEADER_BYTES,
    RECORD_OVERHEAD_BYTES,
    footers_of,
    frame_parts,
)
from trainer_utils.storage import read_bytes, write_text
from trainer_utils.storage.paths import encode_path

LABEL = "label"
_UNDECODED = "surrogateescape"  # how `os.fsdecode` decodes file names that are not UTF-8
_MAX_NAMED = 20  # features named in a message
_MAX_SENT = 1000  # names that go to the workers with each task; more of them in a file
_INT64 = range(-(2**63), 2**63)
_FEATURES, _ENTRY, _KEY = 1, 1, 1  # field numbers in Example, in Features, and in a map entry
_DELIMITED = 2  # wire type
_FIRST = b"\x0a"  # the tag of a field 1 with a length


@dataclasses.dataclass
class EditCounts:
    """The effects of edits, as numbers of records."""

    found: int = 0
    excluded: int = 0
    filtered: int = 0
    relabelled: int = 0  # without records that already had the new value
    # Records with the n-th name of `exclude` and of `relabel`, by n.
    excluded_names: Counter[int] = dataclasses.field(default_factory=Counter)
    relabelled_names: Counter[int] = dataclasses.field(default_factory=Counter)
    # Blocks with a value of a feature that no metadata lists, by feature.
    unknown_features: Counter[str] = dataclasses.field(default_factory=Counter)
    # Features of the first record of each block, if some of a condition are unknown.
    seen_features: Counter[str] = dataclasses.field(default_factory=Counter)
    # Values of labels before and after the edits, by feature.
    labels_before: dict[str, Counter[Any]] = dataclasses.field(default_factory=dict)
    labels_after: dict[str, Counter[Any]] = dataclasses.field(default_factory=dict)

    @property
    def skipped(self) -> int:
        """Records left out."""
        return self.excluded + self.filtered

    @property
    def changes_nothing(self) -> bool:
        """Whether every record stays unchanged."""
        return not self.skipped and not self.relabelled

    def add(self, other: "EditCounts") -> None:
        """Add the counts of other records."""
        self.found += other.found
        self.excluded += other.excluded
        self.filtered += other.filtered
        self.relabelled += other.relabelled
        self.excluded_names.update(other.excluded_names)
        self.relabelled_names.update(other.relabelled_names)
        self.unknown_features.update(other.unknown_features)
        self.seen_features.update(other.seen_features)
        for labels, added in (
            (self.labels_before, other.labels_before),
            (self.labels_after, other.labels_after),
        ):
            for feature, values in added.items():
                labels.setdefault(feature, Counter()).update(values)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Edits:
    """The edits to apply; by default none."""

    exclude: Sequence[str] = ()  # names to exclude, sorted
    # New values by name, sorted; strings if the kind of the feature is unknown
    relabel: Mapping[str, str | int | float] = dataclasses.field(default_factory=dict)
    feature: str = LABEL  # the feature that `relabel` changes
    kind: str = ""  # its kind: `int`, `float` or `string`; empty: the kind in each record
    where: str = ""  # a condition, or empty
    # Features of the condition that no metadata lists
    unknown: Sequence[str] = ()
    # The classes of features used in the condition
    vocabularies: Mapping[str, Sequence[str]] = dataclasses.field(default_factory=dict)
    labels: Sequence[str] = ()  # features whose values are counted
    # The index of the first input that `exclude` does not apply to, so that a record can be
    # replaced by another one with its name
    first_added: int = 1 << 32
    # A file with `exclude` and `relabel`, if these are too long to be sent to the workers
    stored_in: str = ""

    def stored(self, path: str, *, temporary_folder: str) -> "Edits":
        """Return the edits with their names in a file if there are many; workers read it there."""
        if len(self.exclude) + len(self.relabel) <= _MAX_SENT:
            return self
        text = json.dumps({"exclude": [*self.exclude], "relabel": {**self.relabel}})
        write_text(path, text, temporary_folder=temporary_folder)
        return dataclasses.replace(self, stored_in=path)

    def __getstate__(self) -> dict[str, Any]:
        fields = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        if self.stored_in:
            del fields["exclude"], fields["relabel"]
        return fields

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        if self.stored_in:
            vars(self).update(_stored_names(self.stored_in))

    def __bool__(self) -> bool:
        return bool(self.exclude or self.relabel or self.where)

    def apply(
        self, block: RecordBlock, counts: EditCounts, *, path: str, source: int = 0
    ) -> RecordBlock:
        """Return the edited block, or the same object if nothing changes.

        Args:
            block: the records.
            counts: the counts to add to.
            path: the file of the block, for messages.
            source: the index of its input.

        Raises:
            DatasetError: a record is not an example, or lacks the feature to relabel while its kind
                is unknown.
            ConfigError: the condition compares incompatible values.
        """
        if not self or not len(block):
            return block
        counts.found += len(block)
        self._count_labels(counts.labels_before, block, path)
        if self.unknown:
            columns = parse_block(block, self.unknown, path=path)
            counts.unknown_features.update(n for n, column in columns.items() if len(column.values))
            counts.seen_features.update(decode_example(block.record(0)).keys())
        names = _names_of(block, path) if self.exclude or self.relabel else []
        kept = np.ones(len(block), np.bool_)
        if self.exclude and source < self.first_added:
            excluded = [
                [self._excluded[n] for n in names_of_record if n in self._excluded]
                for names_of_record in names
            ]
            counts.excluded_names.update(
                place for excluded_names in excluded for place in excluded_names
            )
            kept = np.array([not names_of_record for names_of_record in excluded])
            counts.excluded += int((~kept).sum())
        changed = self._changed(block, names, kept, counts, path) if self.relabel else {}
        is_new = np.isin(np.flatnonzero(kept), [*changed])
        block = _selected(block, kept, changed)
        if self.where and len(block):
            condition = parse_condition(self.where)
            columns = parse_block(block, condition.features, path=path)
            kept = condition.mask(columns, self.vocabularies)
            counts.filtered += int((~kept).sum())
            block, is_new = _selected(block, kept, {}), is_new[kept]
        counts.relabelled += int(is_new.sum())
        self._count_labels(counts.labels_after, block, path)
        return block

    def _count_labels(self, labels: dict[str, Counter[Any]], block: RecordBlock, path: str) -> None:
        """Add the values of the labels of a block."""
        if self.labels and len(block):
            for name, column in parse_block(block, self.labels, path=path).items():
                labels.setdefault(name, Counter()).update(column.values.tolist())

    def _changed(
        self,
        block: RecordBlock,
        names: Sequence[Sequence[bytes]],
        kept: npt.NDArray[np.bool_],
        counts: EditCounts,
        path: str,
    ) -> dict[int, bytes]:
        """Return the relabelled records by their numbers."""
        column = parse_block(block, [self.feature], path=path)[self.feature]
        ends, changed = np.cumsum(column.counts), {}
        for number in np.flatnonzero(kept).tolist():
            name = next((name for name in names[number] if name in self._relabelled), None)
            if name is None:
                continue
            place, text = self._relabelled[name]
            counts.relabelled_names[place] += 1
            stop = int(ends[number])
            values = column.values[stop - int(column.counts[number]) : stop].tolist()
            if not values and not self.kind:
                got = f"none of {self.feature!r} ({name!r})"
                raise DatasetError.at(path, expected="a value that shows its kind", got=got)
            value = _as_kind(text, self.kind or column.kind, name.decode(errors="replace"))
            if values != [value]:
                changed[number] = replace_feature(block.record(number), self.feature, value)
        return changed

    @functools.cached_property
    def _excluded(self) -> Mapping[bytes, int]:
        return {encode_path(name): place for place, name in enumerate(self.exclude)}

    @functools.cached_property
    def _relabelled(self) -> Mapping[bytes, tuple[int, str | int | float]]:
        rows = enumerate(self.relabel.items())
        return {encode_path(name): (place, v) for place, (name, v) in rows}


def parse_block(block: RecordBlock, names: Collection[str], *, path: str) -> dict[str, Column]:
    """Parse features of all records; a `DatasetError` has the file and byte of the record."""
    begins = block.starts + HEADER_BYTES
    try:
        return parse_examples(block.data, begins, begins + block.lengths, names)
    except DatasetError as error:
        start = int(block.starts[error.record or 0])
        where = f"{path!r}, byte {block.file_offset + start}"
        raise DatasetError(f"{error} ({where})", path=path) from error


def _names_of(block: RecordBlock, path: str) -> list[list[bytes]]:
    """Return the names of each record. Numbers become strings."""
    names: list[list[bytes]] = [[] for _ in range(len(block))]
    for column in parse_block(block, NAME_FEATURES, path=path).values():
        firsts = np.cumsum(column.counts) - column.counts
        for number in np.flatnonzero(column.counts).tolist() if column.kind != "float" else ():
            value = column.values[firsts[number]]
            names[number].append(value if column.kind == "string" else str(value).encode())
    return names


def _as_kind(text: str | int | float, kind: str, name: str) -> bytes | int | float:
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
    raise ConfigError.of("relabel", text, allowed=f"a value of kind {kind} for {name!r}")


def _selected(
    block: RecordBlock, kept: npt.NDArray[np.bool_], changed: Mapping[int, bytes]
) -> RecordBlock:
    """Return the kept records with changed ones reframed; the block itself if it is all."""
    if kept.all() and not changed:
        return block
    frames = block.frames()
    for number, record in changed.items():
        header, footer = frame_parts([record])
        frames[number] = b"".join((header, record, footer))
    staying = [*itertools.compress(frames, kept)]
    sizes = np.array([*map(len, staying)], np.int64)
    data, ends = b"".join(staying), np.cumsum(sizes)
    crcs = footers_of(data, ends)
    return RecordBlock(data, ends - sizes, sizes - RECORD_OVERHEAD_BYTES, crcs, block.file_offset)


def check_feature(
    setting: str, name: str, features: Mapping[str, Feature], knows_all: bool
) -> None:
    """Raise ConfigError for an unknown feature, or one without comparable values."""
    feature = features.get(name)
    if feature is None and knows_all:
        _refuse_feature(setting, name, features)
    if feature is None:
        return
    if feature.is_image or feature.tensor is not None or feature.tokens is not None:
        raise ConfigError.of(setting, name, allowed="a feature of numbers or strings")


def _refuse_feature(setting: str, name: str, known: Iterable[str]) -> NoReturn:
    names = sorted(known)
    allowed = f"one of the features {', '.join(names[:_MAX_NAMED])}"
    raise ConfigError.of(setting, name, allowed=allowed, advice=did_you_mean(name, names).strip())


def replace_feature(record: bytes, name: str, value: bytes | int | float) -> bytes:
    """Return the record with the value of a feature replaced or added.

    In a `tf.train.SequenceExample` this changes the context. Integers are signed, of 64 bits. A
    malformed message raises `DatasetError`.
    """
    kept: list[bytes] = []  # entries of the feature map
    others: list[bytes] = []  # other fields of the record
    place: int | None = None  # index of the entry among `kept`
    try:
        for content, is_features in _parts(record, _FEATURES):
            if not is_features:
                others.append(content)
                continue
            for part, is_entry in _parts(content, _ENTRY):
                if not is_entry or _key(part) != name.encode():
                    kept.append(_delimited(part) if is_entry else part)
                elif place is None:
                    place = len(kept)
    except ValueError as error:
        raise DatasetError(f"record: expected a tf.train.Example, got another: {error}") from error
    # An example with one feature consists of the map entry, framed as in `Features`.
    example = b"".join(encode_example({name: value}))
    kept.insert(len(kept) if place is None else place, _parts(example, _FEATURES)[0][0])
    return _delimited(b"".join(kept)) + b"".join(others)


def _parts(message: bytes, wanted: int) -> list[tuple[bytes, bool]]:
    """Split a message into the content of wanted fields, and the other fields with their tags."""
    parts, start = [], 0
    for number, wire, begin, end in read_fields(message, 0, len(message)):
        is_wanted = number == wanted and wire == _DELIMITED
        parts.append((message[begin if is_wanted else start : end], is_wanted))
        start = end
    return parts


def _key(entry: bytes) -> bytes:
    return next((content for content, is_key in reversed(_parts(entry, _KEY)) if is_key), b"")


def _delimited(content: bytes) -> bytes:
    return _FIRST + varint(len(content)) + content


@functools.lru_cache(maxsize=1)
def _stored_names(path: str) -> dict[str, Any]:
    """Return the names to exclude and to relabel that were stored in a file, read once."""
    labels: dict[str, Any] = json.loads(read_bytes(path))
    return labels


def names_to_exclude(exclude: str | Sequence[str]) -> list[str]:
    """Return the names to exclude, sorted."""
    # Not splitlines(): a name may contain other line separators, such as U+2028.
    lines = _read("exclude", exclude).split("\n") if isinstance(exclude, str) else ()
    names = [line.removesuffix("\r") for line in lines] or exclude
    unique = sorted({name for name in names if name.strip()})
    if not unique:
        raise ConfigError.of("exclude", exclude, allowed="a file with a name a line")
    return unique


def table_of_labels(relabel: str | Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """Return the feature that `relabel` changes, and its new values by name."""
    if not isinstance(relabel, str):
        return LABEL, dict(relabel)
    rows = csv.reader(io.StringIO(_read("relabel", relabel), newline=""))
    header = [name.strip() for name in next(rows, [])]
    table: dict[str, str] = {}
    for row in filter(any, rows):
        if len(row) != 2 or table.setdefault(row[0], row[1]) != row[1]:
            rule = f"a name and one value for it, not {','.join(row)!r} (line {rows.line_num})"
            raise ConfigError.of("relabel", relabel, allowed=rule)
    if len(header) != 2 or header[0] not in ("name", *NAME_FEATURES) or not header[1] or not table:
        rule = f"a CSV that begins with the line name,{LABEL} and has rows below it"
        raise ConfigError.of("relabel", relabel, allowed=rule)
    return header[1], table


def _read(setting: str, path: str) -> str:
    try:
        return read_bytes(path).decode("utf-8", _UNDECODED).removeprefix("\ufeff")
    except OSError as error:
        why = f"{error.strerror or error}"
        raise ConfigError.of(setting, path, allowed="a readable file", advice=why) from error


def values_by_name(
    table: Mapping[str, Any], feature: str, kind: str, vocabulary: Sequence[str] | None
) -> dict[str, str | int | float]:
    """Return the new values by sorted name, converted to the feature's kind if that is known."""
    ids = {name: number for number, name in enumerate(vocabulary or ())}
    values: dict[str, str | int | float] = {}
    for name, value in sorted(table.items()):
        if vocabulary is not None and value not in ids:
            allowed = f"one of the classes of {feature!r} for {name!r}"
            advice = did_you_mean(value, ids).strip()
            raise ConfigError.of("relabel", value, allowed=allowed, advice=advice)
        values[name] = ids.get(value, value)
        if kind and vocabulary is None:
            _as_kind(value, kind, name)
    return values


def check_edits(edits: Edits, by_split: Mapping[str, EditCounts]) -> None:
    """Raise ConfigError if no name of a list was found, or if edits leave no record.

    A condition on a feature that neither a record nor metadata has is an error too. Names that were
    not found and splits that become empty cause a warning.
    """
    total = total_counts(by_split.values())
    for name in edits.unknown:
        if name not in total.unknown_features and total.found:
            _refuse_feature("where", name, total.seen_features)
    for setting, names, matched in (
        ("exclude", edits.exclude, total.excluded_names),
        ("relabel", [*edits.relabel], total.relabelled_names),
    ):
        missing = [name for place, name in enumerate(names) if place not in matched]
        if names and not matched:
            allowed = f"names of records as {', '.join(NAME_FEATURES)} have them"
            advice = f"None of the {len(names)} names matches: see `tfx-shards show`"
            raise ConfigError.of(setting, names[0], allowed=allowed, advice=advice)
        if missing:
            counted = setting, len(missing), len(names), missing[0]
            logging.warning("%s: %d of %d names match no record, such as %r", *counted)
    emptied = [
        name for name, edits in by_split.items() if edits.found and edits.skipped == edits.found
    ]
    if emptied and total.skipped == total.found:
        setting = "where" if total.filtered else "exclude"
        raise ConfigError(
            f"{setting}: expected some records to remain, got 0 of {total.skipped}: "
            f"exclude= removes {total.excluded}, where= removes {total.filtered}",
            setting=setting,
        )
    for split in emptied:
        records = by_split[split].found
        logging.warning("split %r: all of its %d records are left out", split, records)


def total_counts(parts: Iterable[EditCounts]) -> EditCounts:
    """Add up the counts of all parts."""
    total = EditCounts()
    for counts in parts:
        total.add(counts)
    return total


def describe_edits(edits: Edits, counts: EditCounts) -> JsonObject:
    """Return the manifest's entry for edits: digests of names, and counts of records."""
    described: JsonObject = {}
    relabelled = edits.feature, [*edits.relabel.items()]
    for setting, (feature, table), records, matched in (
        ("exclude", ("", [*edits.exclude]), counts.excluded, counts.excluded_names),
        ("relabel", relabelled, counts.relabelled, counts.relabelled_names),
    ):
        if table:
            described[setting] = {
                "digest": _digest_of(json.dumps([feature, *table]).encode()),
                "names": len(table),
                "unmatched": len(table) - len(matched),
                "records": records,
            }
    if edits.where:
        described["where"] = {"condition": edits.where, "records": counts.filtered}
    return described


def fingerprint_of_files(files: Mapping[str, Any], datasets: Sequence[str]) -> str | None:
    """Return a fingerprint of the files and datasets that settings name, or None without any.

    Args:
        files: values by setting; a string is the path of a file.
        datasets: digests of datasets.
    """
    facts: dict[str, Any] = {
        name: _digest_of(encode_path(_read(name, path)))
        for name, path in files.items()
        if isinstance(path, str)
    }
    if datasets:
        facts["add"] = [*datasets]
    return _digest_of(json.dumps(facts).encode()) if facts else None


def _digest_of(data: bytes) -> str:
    return hashlib.blake2b(data, digest_size=16).hexdigest()
