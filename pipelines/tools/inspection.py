"""What is in a dataset, from its own small files: no record is read, TensorFlow not imported.

facts = inspect_dataset("datasets/photos")
facts.splits["train"].records, facts.features["image"], facts.labels["train"]
print(facts)
"""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from pipelines.tools.dataset_files import DatasetFiles, list_dataset
from pipelines.tools.tables import as_table, counted, human_bytes
from trainer_utils.format import Feature, Manifest
from trainer_utils.format.json_text import parse_json_object
from trainer_utils.format.layouts import Layout
from trainer_utils.format.naming import DATUM_SHARDS_FILE, REJECTS_FILE
from trainer_utils.format.printable import printable
from trainer_utils.format.tfds import TFDS_INFO_FILE

__all__ = ["DatasetFacts", "ShardFacts", "SplitFacts", "inspect_dataset"]

_MOST_LABELS = 20  # that are shown as text
_WRITERS = {DATUM_SHARDS_FILE: "Datum", TFDS_INFO_FILE: "TFDS"}


@dataclasses.dataclass(frozen=True, kw_only=True)
class ShardFacts:
    """A shard: its path as the dataset names it, records if they are known, and bytes on disk."""

    path: str
    records: int | None
    bytes: int | None


@dataclasses.dataclass(frozen=True, kw_only=True)
class SplitFacts:
    """The shards of a split, in order."""

    shards: Sequence[ShardFacts]

    @property
    def records(self) -> int | None:
        """Of all shards; None where only reading them can tell."""
        counts = [shard.records for shard in self.shards]
        return None if None in counts else sum(n for n in counts if n is not None)

    @property
    def bytes(self) -> int:
        """Of all shards that are there."""
        return sum(shard.bytes or 0 for shard in self.shards)

    @property
    def num_shards(self) -> int:
        """How many."""
        return len(self.shards)


@dataclasses.dataclass(frozen=True, kw_only=True)
class DatasetFacts:
    """What is known of a dataset.

    Args:
        uri: where it is.
        writer: the component or the project that wrote it, as far as its files tell.
        splits: by name, in order.
        features: by name; None where only reading the records can tell.
        classes: how many values the vocabulary of a feature has.
        manifest: of a dataset of ours.
    """

    uri: str
    writer: str
    splits: Mapping[str, SplitFacts]
    features: Mapping[str, Feature] | None
    classes: Mapping[str, int]
    manifest: Manifest | None

    @property
    def labels(self) -> Mapping[str, Mapping[str, int]]:
        """How often each label occurs, by split."""
        return self.manifest.label_counts if self.manifest else {}

    @property
    def is_gzip(self) -> bool:
        """Whether any shard is compressed."""
        return any(s.path.endswith(".gz") for split in self.splits.values() for s in split.shards)

    def to_json(self) -> dict[str, Any]:
        """All of it as JSON takes it."""
        facts: dict[str, Any] = {
            "uri": self.uri,
            "writer": self.writer,
            "splits": {
                name: {
                    "records": split.records,
                    "bytes": split.bytes,
                    "num_shards": split.num_shards,
                    "shards": [dataclasses.asdict(shard) for shard in split.shards],
                    "labels": dict(self.labels.get(name, {})),
                }
                for name, split in self.splits.items()
            },
            "features": self.features
            and {
                name: {**f.extra, "type": f.type, "shape": list(f.shape), "dense": f.dense}
                for name, f in self.features.items()
            },
            "classes": dict(self.classes),
        }
        if manifest := self.manifest:
            facts |= {
                "format_version": manifest.format_version,
                "accounting": {n: dataclasses.asdict(a) for n, a in manifest.accounting.items()},
                "rejects": dict(manifest.reject_counts),
                "conversions": dict(manifest.conversions),
                "config": dict(manifest.config),
                "versions": dict(manifest.versions),
            }
        return facts

    def __str__(self) -> str:
        parts = [self._head(), self._split_table()]
        if self.features is not None:
            rows = [_feature_row(n, f, self.classes) for n, f in sorted(self.features.items())]
            parts.append(as_table(["feature", "type", "shape"], rows))
        if self.labels:
            parts.append(self._label_table())
        if left_out := self._left_out():
            parts.append(left_out)
        return "\n\n".join(parts)

    def _head(self) -> str:
        splits = self.splits.values()
        counts = [split.records for split in splits]
        records = "?" if None in counts else f"{sum(n for n in counts if n is not None):,}"
        num_bytes = human_bytes(sum(s.bytes for s in splits))
        return (
            f"{printable(self.uri)}\n{records} examples, {num_bytes} in "
            f"{sum(s.num_shards for s in splits)} {'gzip ' if self.is_gzip else ''}shards, "
            f"written by {printable(self.writer)}"
        )

    def _split_table(self) -> str:
        rows = []
        for name, split in self.splits.items():
            records = [s.records for s in split.shards if s.records is not None]
            sizes = [s.bytes for s in split.shards if s.bytes is not None]
            rows.append(
                [
                    name,
                    split.records,
                    human_bytes(split.bytes),
                    split.num_shards,
                    _range(f"{min(records):,}", f"{max(records):,}") if records else "?",
                    _range(human_bytes(min(sizes)), human_bytes(max(sizes))) if sizes else "?",
                ]
            )
        header = ["split", "records", "bytes", "shards", "records a shard", "bytes a shard"]
        return as_table(header, rows)

    def _label_table(self) -> str:
        totals: dict[str, int] = {}
        for counts in self.labels.values():
            for label, number in counts.items():
                totals[label] = totals.get(label, 0) + number
        shown = sorted(totals, key=lambda label: (-totals[label], label))[:_MOST_LABELS]
        names = [name for name in self.splits if name in self.labels]
        rows = [[label, *(self.labels[n].get(label, 0) for n in names)] for label in shown]
        more = len(totals) - len(shown)
        table = as_table(["label", *names], rows)
        return f"{table}\n… and {more:,} more labels (--json has all)" if more else table

    def _left_out(self) -> str:
        if self.manifest is None:
            return "It has no manifest: nothing says how large and how whole it should be."
        lines = []
        if self.manifest.reject_counts:
            lines.append(
                f"Rejected: {counted(self.manifest.reject_counts)} ({self.uri}/{REJECTS_FILE})"
            )
        if skipped := self.manifest.total.skipped:
            lines.append(f"Skipped on purpose: {skipped:,}")
        if self.manifest.conversions:
            lines.append(f"Converted: {counted(self.manifest.conversions)}")
        return "\n".join(map(printable, lines))


def _range(least: str, most: str) -> str:
    return least if least == most else f"{least} to {most}"


def inspect_dataset(uri: str) -> DatasetFacts:
    """Reads what a dataset says of itself.

    Args:
        uri: ours, Datum's, TFDS's, a stock ExampleGen's, or a folder of TFRecord files.

    Raises:
        DatasetError: there is no dataset, or it is not whole.
    """
    files = list_dataset(uri)
    found = files.layout()
    return DatasetFacts(
        uri=files.uri,
        writer=_writer(found, files),
        splits={
            split: SplitFacts(
                shards=[
                    ShardFacts(path=s.path, records=s.records, bytes=files.size(s.path))
                    for s in shards
                ]
            )
            for split, shards in found.shards.items()
        },
        features=found.features,
        classes={
            name: len(files.read_lines(path)) for name, path in found.vocabulary_files.items()
        },
        manifest=found.manifest,
    )


def _writer(found: Layout, files: DatasetFiles) -> str:
    if found.manifest is not None:
        return found.manifest.producer
    if found.named_in == TFDS_INFO_FILE:
        info = parse_json_object(files.read_text(TFDS_INFO_FILE), path=TFDS_INFO_FILE)
        return f"TFDS ({info.get('name', '?')})"
    return _WRITERS.get(found.named_in, "others, without a manifest")


def _feature_row(name: str, feature: Feature, classes: Mapping[str, int]) -> list[str]:
    extra = feature.extra
    if feature.is_image or feature.is_raw_image:
        channels = feature.shape[2] if len(feature.shape) == 3 else 1
        size = f"{feature.shape[0]} x {feature.shape[1]}" if feature.is_fixed_size else "any size"
        if feature.is_raw_image:
            size = " x ".join(map(str, extra.get("image_shape", ())))
            return [name, "pixels", size]
        formats = ", ".join(map(str, extra.get("formats", ())))
        many = "1 channel" if channels == 1 else f"{channels} channels"
        return [name, f"image ({formats})" if formats else "image", f"{size}, {many}"]
    shape = " x ".join(map(str, feature.shape)) if feature.shape else "one value"
    if not feature.dense:
        shape = f"up to {shape} values" if all(feature.shape) else "any number of values"
    if name in classes:
        shape += f", {classes[name]:,} classes"
    return [name, feature.type, shape]
