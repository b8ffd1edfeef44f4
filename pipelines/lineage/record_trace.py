"""Where one record is: from the raw file through every dataset that was made of it.

source, steps = trace_record("cat/1.jpg", found, datasets=[1, 2])
steps[0].places
"""

import dataclasses
import os
import posixpath
from collections.abc import Iterator, Mapping, Sequence

from components.report.records.lookup import Place, find_places, name_features
from pipelines.lineage.graph import Found, Id
from trainer_utils.dataset import open_dataset
from trainer_utils.format import InputError
from trainer_utils.format.json_text import Json, JsonObject, json_lines
from trainer_utils.format.naming import NAME_FEATURES, REJECTS_FILE
from trainer_utils.storage import display_path, exists, is_folder, join, read_text

__all__ = ["RecordStep", "trace_record"]

_KNOWN = ("found", "rejected")


@dataclasses.dataclass(frozen=True, kw_only=True)
class RecordStep:
    """One dataset: `found`, `rejected`, `not found`, or `unknown`; places and rejects."""

    artifact: Id
    outcome: str
    detail: str = ""
    places: Sequence[Place] = ()
    rejects: Sequence[Mapping[str, Json]] = ()

    def to_json(self) -> JsonObject:
        """Plain JSON types."""
        places, rejects = [*self.places], [*self.rejects]
        return dataclasses.asdict(dataclasses.replace(self, places=places, rejects=rejects))


def trace_record(
    record: str, found: Found, *, datasets: Sequence[Id]
) -> tuple[str | None, list[RecordStep]]:
    """Where the raw file was, where that is known, and each dataset with where the record is.

    Raises:
        InputError: there is no dataset, or the record is in none of them.
    """
    uris = {place: found.graph.artifacts[place].uri for place in datasets}
    steps = [_search(place, uri, record) for place, uri in uris.items()]
    if not steps:
        raise InputError(
            f"record {record!r}: expected a dataset among what "
            f"{found.graph.artifacts[found.artifact_id].uri!r} is or was made from, found none"
        )
    if not any(step.outcome in _KNOWN for step in steps):
        outcomes = "; ".join(f"{uris[s.artifact]}: {s.outcome}, {s.detail}" for s in steps)
        raise InputError(
            f"record {record!r}: expected the filename or id of a record, found none. {outcomes}. "
            "Give it as it stands in the records: the path relative to the input base, or file:row."
        )
    bases = (base for place in datasets for base in _bases(found, place))
    return next((join(base, record) for base in bases), None), steps


def _search(artifact: Id, uri: str, name: str) -> RecordStep:
    """Looks for one name among the shards and the rejects of a dataset."""
    rejects: list[JsonObject] = []
    try:
        if not is_folder(uri):
            return RecordStep(
                artifact=artifact, outcome="unknown", detail=f"its files are gone ({uri})"
            )
        dataset = open_dataset(uri)
        if exists(path := join(uri, REJECTS_FILE)):
            entries = json_lines(read_text(path), path=path)
            rejects = [entry for entry in entries if entry.get("source") == display_path(name)]
        features, places = name_features(dataset), find_places(dataset, name)
    except (ValueError, OSError) as error:
        detail = f"it cannot be read: {error}"
        return RecordStep(artifact=artifact, outcome="unknown", detail=detail)
    outcome, detail = "found" if places else "rejected", ""
    if not places and not rejects and not features:
        outcome = "unknown"
        wanted = " nor ".join(sorted(NAME_FEATURES))
        detail = f"its records have no feature that says what they are from: neither {wanted}"
    elif not places and not rejects:
        outcome, detail = "not found", f"no record has this {' or '.join(features)}"
        if dataset.manifest and (skipped := dataset.manifest.total.skipped):
            detail += f"; {skipped} inputs were skipped by a setting, which are not listed"
    return RecordStep(
        artifact=artifact, outcome=outcome, detail=detail, places=places, rejects=rejects
    )


def _bases(found: Found, artifact: Id) -> Iterator[str]:
    """What an artifact's examples were made from, by the settings of what made it."""
    for maker in found.graph.makers(artifact)[:1]:
        roots = maker.settings.get("image_roots")
        for base in (maker.settings.get("input_base"), *(roots if isinstance(roots, list) else ())):
            if isinstance(base, str) and base:
                yield posixpath.dirname(base) if os.path.isfile(base) else base
