"""Read and write `lineage.json`: the step that made a dataset, its settings and its inputs.

    Origin.from_json(text, path="out/lineage.json").made_by.component       # 'ShardBalancer'

Input datasets are identified by the digests of their manifests. It is not part of the manifest
since it contains the settings as given, including paths: remove it before you publish the dataset.
"""

import dataclasses
from collections.abc import Mapping

from trainer_utils.core.decoding import decode
from trainer_utils.core.errors import reading
from trainer_utils.core.json_text import Json, parse_json_object, render_json
from trainer_utils.format.accounting import Accounting
from trainer_utils.format.manifest import Manifest
from trainer_utils.format.naming import (
    check_split_name,
)
from trainer_utils.format.sealing import NO_CHECKSUM, seal

_LINEAGE_VERSION = 1


@dataclasses.dataclass(frozen=True, kw_only=True)
class DatasetInput:
    """A dataset that a step read.

    `name` is the name of the input. `digest` identifies the dataset among the ancestors: it is the
    digest of its manifest, or of its shards' sizes if it has no manifest.
    """

    name: str
    digest: str


@dataclasses.dataclass(frozen=True, kw_only=True)
class Step:
    """The step that made a dataset.

    Args:
        component: the component.
        settings: its settings as given, including the inputs' base.
        inputs: the datasets that it read.
        output: the name of the output that holds the dataset.
    """

    component: str
    settings: Mapping[str, Json] = dataclasses.field(default_factory=dict)
    inputs: tuple[DatasetInput, ...] = ()
    output: str = "examples"


@dataclasses.dataclass(frozen=True, kw_only=True)
class DatasetSummary:
    """The part of a manifest that describes the dataset as a whole.

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
        """Return the summary of a manifest."""
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
    """An earlier dataset in the lineage: its digest, the summary of its manifest, and its step."""

    digest: str
    summary: DatasetSummary | None = None
    made_by: Step | None = None


@dataclasses.dataclass(frozen=True, kw_only=True)
class Origin:
    """The lineage of a dataset: its last step, and all datasets before, the oldest first."""

    made_by: Step
    ancestors: tuple[Ancestor, ...] = ()

    def to_json(self) -> str:
        """Return the content of `lineage.json`."""
        value = dataclasses.asdict(self) | {
            "format_version": _LINEAGE_VERSION,
            "checksum": NO_CHECKSUM,
        }
        for summary in filter(None, (ancestor["summary"] for ancestor in value["ancestors"])):
            summary["split_order"] = list(summary["accounting"])  # JSON keys are sorted
        return seal(render_json(value))

    @classmethod
    def from_json(cls, text: str, *, path: str) -> "Origin":
        """Parse a lineage made by `to_json`; raise DatasetError with `path` if it is invalid."""
        advice = "It was changed: remove it, or write the dataset again."
        with reading(path, "the lineage of a dataset", advice=advice):
            value = parse_json_object(text, path=path)
            if value.get("format_version") != _LINEAGE_VERSION:
                raise ValueError(f"format_version: {value.get('format_version')!r}")
            if seal(text) != text:
                raise ValueError("its own checksum does not agree")
            for summary in filter(None, (ancestor["summary"] for ancestor in value["ancestors"])):
                splits = [check_split_name(split) for split in summary["split_order"]]
                for name in ("accounting", "num_shards"):
                    summary[name] = {split: summary[name][split] for split in splits}
            origin: Origin = decode(cls, value, takes_unknown=True)
            return origin
