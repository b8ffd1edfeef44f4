"""Collect facts about a dataset from its metadata, or else from its records.

facts = inspect_dataset("datasets/photos")
facts.splits["train"].records, facts.features["image"], facts.labels["train"]
print(facts)
"""

import collections
import contextlib
import dataclasses
import os
from collections.abc import Mapping, Sequence

from components.inputs.rejects import REJECT_CODES, remedy
from trainer_utils.core.errors import DatasetError
from trainer_utils.core.json_text import JsonObject, parse_json_object
from trainer_utils.core.printable import image_extent
from trainer_utils.core.text_output import (
    Part,
    TextReport,
    human_bytes,
    list_counts,
    make_table,
    quantity,
)
from trainer_utils.dataset import Dataset, ShardFile, open_dataset
from trainer_utils.dataset.location import Place, read_origin
from trainer_utils.format import Feature, Manifest
from trainer_utils.format.lineage import DatasetSummary, Origin
from trainer_utils.format.naming import DATUM_SHARDS_FILE, REJECTS_FILE, TFDS_INFO_FILE

_MAX_LABELS = 20  # labels that are shown
_WRITERS = {DATUM_SHARDS_FILE: "Datum", TFDS_INFO_FILE: "TFDS"}


@dataclasses.dataclass(frozen=True, kw_only=True)
class SplitFacts:
    """The shards of a split, in order, and their totals."""

    shards: Sequence[ShardFile]

    @property
    def records(self) -> int:
        """Records of all shards."""
        return sum(shard.num_records for shard in self.shards)

    @property
    def bytes(self) -> int:
        """Bytes of all shards."""
        return sum(shard.bytes for shard in self.shards)

    @property
    def num_shards(self) -> int:
        """Number of shards."""
        return len(self.shards)


@dataclasses.dataclass(frozen=True, kw_only=True)
class DatasetFacts(TextReport):
    """The facts about a dataset.

    `writer` is the component or project that wrote it, if its files name one. `classes` is the size
    of each feature's vocabulary. `sampled` is the number of records that the features were inferred
    from, if these were not all. Only datasets written by tfx-shards have `manifest` and `origin`.
    An unreadable lineage is left out here; `verify` reports it.
    """

    uri: str
    writer: str
    splits: Mapping[str, SplitFacts]
    features: Mapping[str, Feature]
    classes: Mapping[str, int]
    manifest: Manifest | None
    origin: Origin | None = None
    sampled: int | None = None

    @property
    def left_out_before(self) -> list[DatasetSummary]:
        """Earlier steps that left inputs out, such as the conversion before a balancing."""
        before = [each.summary for each in self.origin.ancestors] if self.origin else []
        return [each for each in before if each and each.total.found != each.total.written]

    @property
    def labels(self) -> Mapping[str, Mapping[str, int]]:
        """Frequency of each label, by split."""
        return self.manifest.label_counts if self.manifest else {}

    @property
    def label_totals(self) -> Mapping[str, int]:
        """Frequency of each label over all splits, the most frequent first."""
        totals = collections.Counter[str]()
        for counts in self.labels.values():
            totals.update(counts)
        return dict(sorted(totals.items(), key=lambda item: (-item[1], item[0])))

    @property
    def is_gzip(self) -> bool:
        """Whether any shard is compressed."""
        return any(shard.is_gzip for split in self.splits.values() for shard in split.shards)

    def to_json(self) -> JsonObject:
        """Return the facts as plain JSON types."""
        splits = {
            name: {
                "records": split.records,
                "bytes": split.bytes,
                "num_shards": split.num_shards,
                "shards": [
                    {"path": shard.name, "records": shard.num_records, "bytes": shard.bytes}
                    for shard in split.shards
                ],
                "labels": dict(self.labels.get(name, {})),
            }
            for name, split in self.splits.items()
        }
        facts: JsonObject = {
            "uri": self.uri,
            "writer": self.writer,
            "splits": splits,
            "sampled_records": self.sampled,
            "features": {
                name: {**f.extra, "type": f.type, "shape": list(f.shape), "dense": f.dense}
                for name, f in self.features.items()
            },
            "classes": dict(self.classes),
        }
        if manifest := self.manifest:
            before = [dataclasses.asdict(each) for each in self.left_out_before]
            facts |= {
                "format_version": manifest.format_version,
                "accounting": {n: dataclasses.asdict(a) for n, a in manifest.accounting.items()},
                "rejects": dict(manifest.reject_counts),
                "before": [
                    {name: each[name] for name in ("producer", "accounting", "rejects")}
                    for each in before
                ],
                "conversions": dict(manifest.conversions),
                "config": dict(manifest.config),
                "versions": dict(manifest.versions),
            }
        return facts

    def parts(self) -> list[Part]:
        """Return the facts in the form that `print_parts` prints."""
        splits = self.splits.values()
        examples = quantity(sum(split.records for split in splits), "example")
        num_bytes = human_bytes(sum(s.bytes for s in splits))
        shards = quantity(sum(s.num_shards for s in splits), f"{'gzip ' * self.is_gzip}shard")
        rows = [feature_row(n, f, self.classes) for n, f in sorted(self.features.items())]
        return [
            self.uri,
            f"{examples}, {num_bytes} in {shards}, written by {self.writer}",
            "",
            self._split_table(),
            "",
            make_table(["feature", "type", "shape"], rows),
            *self._label_parts(),
            *self._excluded(),
        ]

    def _split_table(self) -> Part:
        rows = []
        for name, split in self.splits.items():
            records = [f"{n:,}" for n in sorted(shard.num_records for shard in split.shards)]
            sizes = [human_bytes(n) for n in sorted(shard.bytes for shard in split.shards)]
            row = [name, split.records, human_bytes(split.bytes), split.num_shards]
            rows.append([*row, _range(records), _range(sizes)])
        header = ["split", "records", "bytes", "shards", "records a shard", "bytes a shard"]
        return make_table(header, rows)

    def _label_parts(self) -> list[Part]:
        totals = self.label_totals
        shown = [*totals][:_MAX_LABELS]
        names = [name for name in self.splits if name in self.labels]
        rows = [[label, *(self.labels[n].get(label, 0) for n in names)] for label in shown]
        more = quantity(len(totals) - len(shown), "more label")
        parts: list[Part] = ["", make_table(["label", *names], rows)] if self.labels else []
        return [*parts, f"… and {more} (--json has all)"] if len(totals) > len(shown) else parts

    def _excluded(self) -> list[str]:
        """Return the lines about inputs that this step or an earlier one left out or converted."""
        if self.manifest is None:
            lines = ["", "It has no manifest: its expected size and contents are unknown."]
            if self.sampled is not None:
                lines.append(f"Its features were inferred from {self.sampled:,} of its records.")
            return [*lines, f"With an index and a manifest: tfx-shards balance {self.uri} OUT"]
        lines = []
        if rejects := self.manifest.reject_counts:
            lines.append(f"Rejected: {list_counts(rejects)} ({self.uri}/{REJECTS_FILE})")
            lines += [f"  {code}: {remedy(code)}" for code in rejects if code in REJECT_CODES]
        if skipped := self.manifest.total.skipped:
            lines.append(f"Skipped on purpose: {skipped:,}")
        if self.manifest.conversions:
            lines.append(f"Converted: {list_counts(self.manifest.conversions)}")
        for each in self.left_out_before:
            codes = f" ({list_counts(each.rejects)})" if each.rejects else ""
            lines.append(f"Before, by {each.producer}: {each.total}{codes}")
        return ["", *lines] if lines else []


def _range(ordered: Sequence[str]) -> str | None:
    return " to ".join(dict.fromkeys((ordered[0], ordered[-1]))) if ordered else None


def inspect_dataset(place: Place | os.PathLike[str]) -> DatasetFacts:
    """Read a dataset's metadata, and records if the metadata does not describe the features.

    Args:
        place: the uri of a dataset written by tfx-shards, Datum, TFDS or a stock ExampleGen, or of
            a folder of TFRecord files; or such files, by path or pattern.

    Raises:
        DatasetError: there is no dataset, or it is incomplete.
    """
    dataset, origin = open_dataset(place), None
    if dataset.manifest is not None:
        with contextlib.suppress(DatasetError, OSError):
            origin = read_origin(dataset.uri, dataset.manifest)
    return DatasetFacts(
        uri=dataset.uri,
        writer=_writer(dataset),
        splits={split: SplitFacts(shards=shards) for split, shards in dataset.shards.items()},
        features=dataset.features,
        sampled=dataset.sampled,
        classes={name: len(values) for name, values in dataset.vocabularies.items()},
        manifest=dataset.manifest,
        origin=origin,
    )


def _writer(dataset: Dataset) -> str:
    if dataset.manifest is not None:
        return dataset.manifest.producer
    if dataset.named_in == TFDS_INFO_FILE:
        info = parse_json_object(dataset.read_text(TFDS_INFO_FILE), path=TFDS_INFO_FILE)
        return f"TFDS ({info.get('name', '?')})"
    return _WRITERS.get(dataset.named_in, "others, without a manifest")


def feature_row(name: str, feature: Feature, classes: Mapping[str, int]) -> list[str]:
    """Return the name, type and shape of a feature, for people."""
    extra = feature.extra
    if feature.is_image or feature.is_raw_image:
        channels = feature.shape[2] if len(feature.shape) == 3 else 1
        size = image_extent(*feature.shape[:2]) if feature.is_fixed_size else "any size"
        if feature.is_raw_image:
            return [name, "pixels", image_extent(*extra["image_shape"])]
        formats = ", ".join(map(str, extra.get("formats", ())))
        kind = f"image ({formats})" if formats else "image"
        return [name, kind, f"{size}, {quantity(channels, 'channel')}"]
    if feature.tokens is not None:
        return [name, f"tokens ({feature.tokens.dtype})", f"of {feature.tokens.vocabulary_size:,}"]
    shape = " x ".join(map(str, feature.shape)) if feature.shape else "one value"
    if not feature.dense:
        shape = f"up to {shape} values" if all(feature.shape) else "any number of values"
    if name in classes:
        shape += f", {quantity(classes[name], 'class', 'classes')}"
    return [name, feature.type, shape]
