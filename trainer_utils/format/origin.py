"""`lineage.json`: which step made a dataset, with what settings, and of which datasets.

It stands beside the manifest, since it holds the settings as they were given, paths among them:
whoever gives a dataset away may remove it. Datasets are named by the digests of their manifests.
"""

import dataclasses
from collections.abc import Mapping

from trainer_utils.format.checksums import NO_CHECKSUM, seal
from trainer_utils.format.errors import reading
from trainer_utils.format.json_text import Json, from_plain, parse_json_object, render_json
from trainer_utils.format.manifest import Accounting, Manifest
from trainer_utils.format.naming import check_split_name

_VERSION = 1


@dataclasses.dataclass(frozen=True, kw_only=True)
class DatasetInput:
    """A dataset that a step read: the input's name, and the digest of the dataset's manifest, or of
    its shards' sizes where it had none, by which it is known among the ancestors."""

    name: str
    digest: str


@dataclasses.dataclass(frozen=True, kw_only=True)
class Step:
    """What made a dataset: the component, its settings as they were given, the inputs' base among
    them, the datasets that it read, and the name of the output that the dataset is."""

    component: str
    settings: Mapping[str, Json] = dataclasses.field(default_factory=dict)
    inputs: tuple[DatasetInput, ...] = ()
    output: str = "examples"


@dataclasses.dataclass(frozen=True, kw_only=True)
class DatasetSummary:
    """What a manifest says of a dataset as a whole.

    `accounting`, `num_shards` and `content`, the order-free checksum of the records, are by split;
    `rejects` are counts by code.
    """

    producer: str
    input_fingerprint: str
    versions: Mapping[str, str]
    accounting: Mapping[str, Accounting]
    num_shards: Mapping[str, int]
    content: Mapping[str, str]
    rejects: Mapping[str, int] = dataclasses.field(default_factory=dict)

    @property
    def total(self) -> Accounting:
        """The accounting of all splits together."""
        return sum(self.accounting.values(), Accounting())

    @classmethod
    def of(cls, manifest: Manifest) -> "DatasetSummary":
        """What a manifest says."""
        sums = {split: manifest.content_of(split) for split in manifest.splits}
        return cls(
            producer=manifest.producer,
            input_fingerprint=manifest.input_fingerprint,
            versions=dict(manifest.versions),
            accounting=dict(manifest.accounting),
            num_shards={split: len(manifest.shards_of(split)) for split in manifest.splits},
            content={split: f"{value:016x}" for split, value in sums.items() if value is not None},
            rejects=dict(manifest.reject_counts),
        )


@dataclasses.dataclass(frozen=True, kw_only=True)
class Ancestor:
    """A dataset that was read on the way, by its digest: what its manifest said, and its maker."""

    digest: str
    summary: DatasetSummary | None = None
    made_by: Step | None = None


@dataclasses.dataclass(frozen=True, kw_only=True)
class Origin:
    """How a dataset came to be: its last step, and all datasets before, the first made first."""

    made_by: Step
    ancestors: tuple[Ancestor, ...] = ()

    def to_json(self) -> str:
        """The text of `lineage.json`."""
        value = dataclasses.asdict(self) | {"format_version": _VERSION, "checksum": NO_CHECKSUM}
        for one in filter(None, (ancestor["summary"] for ancestor in value["ancestors"])):
            one["split_order"] = list(one["accounting"])  # keys of JSON are sorted
        return seal(render_json(value))

    @classmethod
    def from_json(cls, text: str, *, path: str) -> "Origin":
        """Reads what `to_json` made; of anything else a DatasetError names `path`."""
        advice = "It was changed: remove it, or write the dataset again."
        with reading(path, "the lineage of a dataset", advice=advice):
            value = parse_json_object(text, path=path)
            if value.get("format_version") != _VERSION:
                raise ValueError(f"format_version: {value.get('format_version')!r}")
            if seal(text) != text:
                raise ValueError("its own checksum does not agree")
            for one in filter(None, (ancestor["summary"] for ancestor in value["ancestors"])):
                splits = [check_split_name(split) for split in one["split_order"]]
                for name in ("accounting", "num_shards"):
                    one[name] = {split: one[name][split] for split in splits}
            origin: Origin = from_plain(cls, value)
            return origin
