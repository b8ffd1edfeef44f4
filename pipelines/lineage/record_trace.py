"""Where one record is: from the raw file through every dataset that was made of it.

trace = trace_record("cat/1.jpg", found, datasets=[1, 2])
trace.source.path, trace.steps[0].places
"""

import dataclasses
import os
import re
from collections.abc import Iterator, Mapping, Sequence

from components.report.records.lookup import Place, find_places, name_features
from pipelines.lineage.graph import Id
from pipelines.lineage.lookup import Found
from trainer_utils.dataset import open_dataset
from trainer_utils.format import InputError
from trainer_utils.format.json_text import Json, JsonObject, json_lines
from trainer_utils.format.naming import NAME_FEATURES, REJECTS_FILE
from trainer_utils.storage import display_path, exists, is_folder, is_remote, join, read_text

__all__ = ["RecordStep", "RecordTrace", "SourceFile", "find_source", "trace_record"]

_KNOWN = ("found", "rejected")
_ROW = re.compile(r"(?P<file>.+):(?P<row>\d+)", re.DOTALL)


@dataclasses.dataclass(frozen=True, kw_only=True)
class SourceFile:
    """Where a record came from.

    Args:
        path: of the file as it is now, else where it was.
        exists: whether it is there; None where that was not looked at, as for `gs://`.
        member: of the archive or folder of rows that the file is, where it is one.
        row: its number in the file, as TextExampleGen counts.
    """

    path: str
    exists: bool | None
    member: str | None = None
    row: int | None = None


@dataclasses.dataclass(frozen=True, kw_only=True)
class RecordStep:
    """One dataset, and where in it the record is.

    Args:
        artifact: the dataset.
        outcome: `found`, `rejected`, `not found`, or `unknown` where that cannot be known.
        detail: a sentence about an outcome that needs one.
        places: of the record; several where it is there several times.
        rejects: lines of `rejects.jsonl` that name it.
    """

    artifact: Id
    outcome: str
    detail: str = ""
    places: Sequence[Place] = ()
    rejects: Sequence[Mapping[str, Json]] = ()

    def to_json(self) -> JsonObject:
        """Plain JSON types."""
        places, rejects = [*self.places], [*self.rejects]
        return dataclasses.asdict(dataclasses.replace(self, places=places, rejects=rejects))


@dataclasses.dataclass(frozen=True, kw_only=True)
class RecordTrace:
    """The file that a record was made of, where the store names it, and the datasets in order."""

    source: SourceFile | None
    steps: Sequence[RecordStep]


def trace_record(record: str, found: Found, *, datasets: Sequence[Id]) -> RecordTrace:
    """Looks for a record in datasets.

    Args:
        record: its `filename` or `id`, or the path of the raw file.
        found: the graph of the datasets, and where their files are.
        datasets: the ids of their artifacts, the first one first.

    Raises:
        InputError: there is no dataset, or the record is in none of them.
    """
    bases = [found.path_of(base) for place in datasets for base in _bases(found, place)]
    names = [record, *_below(record, bases)]
    uris = {place: found.graph.artifacts[place].uri for place in datasets}
    steps = []
    for place, uri in uris.items():
        for name in names:
            step = _search(place, found.path_of(uri), name)
            if step.outcome in _KNOWN:
                break
        steps.append(step)
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
    # The last of its names is that of the records, where the path of a file was given.
    return RecordTrace(source=find_source(names[-1], bases=bases), steps=steps)


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
                yield base


def _below(record: str, bases: Sequence[str]) -> list[str]:
    """The record's path as the records have it, where it was given as a path to the raw file."""
    path = os.path.abspath(record)
    prefixes = [
        os.path.join(os.path.abspath(_folder_of(base)), "") for base in bases if "://" not in base
    ]
    found = [path.removeprefix(prefix) for prefix in prefixes if path.startswith(prefix)]
    return [name for name in dict.fromkeys(found) if name != record]


def _folder_of(base: str) -> str:
    return os.path.dirname(base) if os.path.isfile(base) else base


def find_source(name: str, *, bases: Sequence[str]) -> SourceFile | None:
    """The raw file of a record, by what that is called; the likeliest base comes first."""
    row = _ROW.fullmatch(name)
    file, number = (row["file"], int(row["row"])) if row else (name, None)
    for base in bases:
        folder = _folder_of(base)
        if is_remote(base):
            return SourceFile(path=join(base, file), exists=None, row=number)
        if os.path.isfile(path := join(folder, name)):
            return SourceFile(path=path, exists=True)
        if row and os.path.isfile(path := join(folder, file)):
            return SourceFile(path=path, exists=True, row=number)
        parts = name.split("/")
        for count in range(len(parts) - 1, 0, -1):  # an archive stands for a folder of its name
            if os.path.isfile(path := join(folder, "/".join(parts[:count]))):
                return SourceFile(path=path, exists=True, member="/".join(parts[count:]))
    return SourceFile(path=join(bases[0], file), exists=False, row=number) if bases else None
