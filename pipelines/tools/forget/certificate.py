"""`Certificate`: which records were taken out, of what, and what there was before and after.

    certificate = Certificate.from_json(read_text("forgotten.json"), path="forgotten.json")
    certificate.datasets[0]["digest_before"], certificate.is_complete

Names are in it as `sha256:…` unless they are asked for. The same draft of it is kept while a run
takes records out, so that one that is killed loses nothing. docs/changing.md says its form.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from trainer_utils.format import DatasetError
from trainer_utils.format.json_text import JsonObject, parse_json_object, render_json
from trainer_utils.format.sealing import NO_CHECKSUM, seal
from trainer_utils.text_output import Part, as_text, make_table, quantity

__all__ = ["Certificate"]

_VERSION = 1
_KIND = "tfx-shards forget"
_IDENTITY = {  # by which an entry of a list is known
    "datasets": ("uri", "digest_before"),
    "same_content": ("uri", "shard", "record", "number", "path"),
    "removed": ("path",),
    "models": ("uri", "dataset"),
    "runs": ("run", "dataset"),
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Certificate:
    """What was asked for, and what became of it.

    Args:
        request: a digest of the names and of `with_content`.
        with_content: whether records were taken out that hold the same under another name.
        roots: the folders that were searched.
        records: the names, or what stands for them.
        not_found: those of them that no record and no rejected input has, or had.
        datasets: each that was rewritten: `uri`, `digest_before`, `digest_after`, `records`,
            `rejects`, `texts`, `shards`.
        same_content: what holds the same and stays.
        removed: each file or folder that was removed, and what it was.
        models: each that was made of one of the datasets, as ML Metadata tells.
        runs: each whose ledger says that it read one of them, and at how many steps.
        remains: what still holds them, and why.
        written_at: ISO 8601, UTC; empty in a draft.
        contents: of a draft alone: SHA-256 and size of what the records hold.
    """

    request: str
    with_content: bool
    roots: Sequence[str]
    records: Sequence[str]
    not_found: Sequence[str] = ()
    datasets: Sequence[JsonObject] = ()
    same_content: Sequence[JsonObject] = ()
    removed: Sequence[JsonObject] = ()
    models: Sequence[JsonObject] = ()
    runs: Sequence[JsonObject] = ()
    remains: Sequence[JsonObject] = ()
    written_at: str = ""
    contents: Mapping[str, int] = dataclasses.field(default_factory=dict)

    @property
    def is_complete(self) -> bool:
        """Whether nothing is left that holds one of the records."""
        return not self.remains

    @property
    def num_records(self) -> int:
        """How many were taken out, or will be."""
        return sum(len(dataset["records"]) for dataset in self.datasets)

    def merged(self, earlier: "Certificate") -> "Certificate":
        """With what an earlier run of the same request found or did."""
        lists: dict[str, Any] = {
            name: _merged(getattr(earlier, name), getattr(self, name), keys)
            for name, keys in _IDENTITY.items()
        }
        seen = {record["record"] for dataset in lists["datasets"] for record in dataset["records"]}
        seen |= {name for dataset in lists["datasets"] for name in dataset["rejects"]}
        return dataclasses.replace(
            self,
            **lists,
            not_found=[name for name in self.not_found if name not in seen],
            roots=sorted({*earlier.roots, *self.roots}),
            contents={**earlier.contents, **self.contents},
        )

    def to_json(self) -> JsonObject:
        """Plain JSON types."""
        facts = dataclasses.asdict(self)
        if self.written_at:
            del facts["contents"]
        return {"kind": _KIND, "format_version": _VERSION, "checksum": NO_CHECKSUM, **facts}

    def render(self) -> str:
        """The text of its file, with a checksum of its own bytes."""
        return seal(render_json(self.to_json()))

    @classmethod
    def from_json(cls, text: str, *, path: str) -> "Certificate":
        """Reads what `render` made.

        Raises:
            DatasetError: it is none, was changed, or is of a newer version.
        """
        try:
            value = parse_json_object(text, path=path)
            found = value.pop("kind"), value.pop("format_version")
            if found != (_KIND, _VERSION) or seal(text) != text:
                raise ValueError(f"{found}, or its checksum does not agree")
            del value["checksum"]
            return cls(**value)
        except (KeyError, TypeError, ValueError) as error:
            raise DatasetError(
                f"{path!r}: expected a certificate of tfx-shards forget: {error}. "
                "It was changed, or is another file: name another with --output.",
                path=path,
            ) from error

    def parts(self, names: Mapping[str, str]) -> list[Part]:
        """What a person sees.

        Args:
            names: of records, by what stands for them.
        """
        verb = "taken out of" if self.written_at else "to be taken out of"
        several = quantity(len(self.datasets), "dataset")
        parts: list[Part] = [f"{quantity(self.num_records, 'record')} {verb} {several}"]
        rows = [
            [names.get(r["record"], r["record"]), r["by"], r["shard"], r["number"], d["uri"]]
            for d in self.datasets
            for r in d["records"]
        ]
        parts += _table(["record", "by", "shard", "number", "dataset"], rows)
        done = "removed" if self.written_at else "to be removed"
        parts += _table([done, ""], [[each["path"], each["what"]] for each in self.removed])
        same = [
            [names.get(e.get("record", ""), ""), e.get("uri", e.get("path")), e.get("shard", "")]
            for e in self.same_content
        ]
        parts += _table(["also holds the same content", "where", "shard"], same)
        trained = [[each["uri"], each["dataset"]] for each in self.models]
        trained += [[each["run"], each["dataset"]] for each in self.runs]
        parts += _table(["trained on them", "of dataset"], trained)
        lost = [[names.get(name, name)] for name in self.not_found]
        parts += _table(["no record of this name"], lost)
        left = [[each["path"], each["why"]] for each in self.remains]
        return parts + _table(["still holds them", "why"], left)

    def __str__(self) -> str:
        return as_text(self.parts({}))


def _merged(
    earlier: Sequence[JsonObject], now: Sequence[JsonObject], keys: Sequence[str]
) -> list[JsonObject]:
    entries = {tuple(each.get(key) for key in keys): each for each in [*earlier, *now]}
    return list(entries.values())


def _table(header: list[str], rows: Sequence[Sequence[object]]) -> list[Part]:
    return ["", make_table(header, rows)] if rows else []
