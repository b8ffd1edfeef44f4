"""`Certificate`: which records were taken out of what, and what still names them.

    certificate.is_complete, certificate.datasets[0]["digest_before"]
    certificate.render()

Names are in it as `sha256:…` unless they are asked for. docs/changing.md says its form.
"""

import dataclasses
from collections.abc import Mapping, Sequence

from pipelines.tools.forget.names import LEAST_BYTES
from trainer_utils.format.json_text import JsonObject, render_json
from trainer_utils.format.sealing import NO_CHECKSUM, seal
from trainer_utils.text_output import Part, make_table, quantity

__all__ = ["Certificate"]

_OUT_OF_SCOPE = (
    "whatever lies outside of roots and caches: backups, versions that a bucket keeps, freed "
    "blocks of a disk, caches of other machines",
    "records of other names, though these contain one, or the content is the same: tfx-shards "
    "audit finds copies",
    "trained models, and the rows of ML Metadata: tfx-shards lineage and ledger tell of them",
    "numbers in records, but for record_id, filename and id",
    "pictures and figures without a name, such as thumbnails and statistics",
    f"names of fewer than {LEAST_BYTES} bytes within files that are no text",
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Certificate:
    """What was asked for, and what became of it; docs/changing.md describes each field."""

    requested_at: str
    roots: Sequence[str]
    records: Sequence[str]
    not_found: Sequence[str]
    searched: Mapping[str, int]
    datasets: Sequence[JsonObject]
    removed: Sequence[str]
    remains: Sequence[JsonObject]

    @property
    def is_complete(self) -> bool:
        """Whether all that is in scope was searched, and nothing of it names a record."""
        return not self.remains

    def to_json(self) -> JsonObject:
        """Plain JSON types."""
        head = {"kind": "tfx-shards forget", "format_version": 2, "checksum": NO_CHECKSUM}
        scope = {"complete": self.is_complete, "out_of_scope": list(_OUT_OF_SCOPE)}
        return {**head, **scope, **vars(self)}

    def render(self) -> str:
        """The text of its file, with a checksum of its own bytes."""
        return seal(render_json(self.to_json()))

    def parts(self, names: Mapping[str, str]) -> list[Part]:
        """What a person sees; `names` are those of records, by what stands for them."""
        records = [(record, each["uri"]) for each in self.datasets for record in each["records"]]
        parts: list[Part] = [
            f"{quantity(len(records), 'record')} of {quantity(len(self.datasets), 'dataset')}, "
            f"{quantity(len(self.removed), 'copy', 'copies')} in caches"
        ]
        tables: list[tuple[list[str], list[list[object]]]] = [
            (
                ["record", "shard", "number", "dataset"],
                [[names[r["name"]], r["shard"], r["number"], uri] for r, uri in records],
            ),
            (["no record of this name"], [[names[name]] for name in self.not_found]),
            (["still names one", "why"], [[each["path"], each["why"]] for each in self.remains]),
        ]
        for header, rows in tables:
            parts += ["", make_table(header, rows)] if rows else []
        return parts
