"""Where one record is: from the raw file through every dataset that was made of it.

trace = trace_record("cat/1.jpg", graph, location, datasets=[1, 2])
trace.source.path, trace.steps[0].search.places
"""

import dataclasses
import os
from collections.abc import Iterator, Sequence

from pipelines.lineage.graph import Graph
from pipelines.lineage.location import Location
from pipelines.lineage.source_files import SourceFile, find_source
from pipelines.tools.records.search import Search, search_dataset
from trainer_utils.format import InputError

__all__ = ["RecordStep", "RecordTrace", "trace_record"]

_KNOWN = ("found", "rejected")


@dataclasses.dataclass(frozen=True, kw_only=True)
class RecordStep:
    """One dataset, and where in it the record is."""

    artifact: int
    search: Search


@dataclasses.dataclass(frozen=True, kw_only=True)
class RecordTrace:
    """The file that a record was made of, where the store names it, and the datasets in order."""

    source: SourceFile | None
    steps: Sequence[RecordStep]


def trace_record(
    record: str, graph: Graph, location: Location, *, datasets: Sequence[int]
) -> RecordTrace:
    """Looks for a record in datasets; reads all of their shards.

    Args:
        record: its `filename` or `id`, or the path of the raw file.
        graph: of the datasets.
        location: tells where their files are.
        datasets: the ids of their artifacts, the first one first.

    Raises:
        InputError: there is no dataset, or the record is in none of them.
    """
    bases = [location.path_of(base) for place in datasets for base in _bases(graph, place)]
    names = [record, *_below(record, bases)]
    steps = []
    for place in datasets:
        search = _searched(location.path_of(graph.artifacts[place].uri), names)
        steps.append(RecordStep(artifact=place, search=search))
    if not steps:
        raise InputError(
            f"record {record!r}: expected a dataset among what "
            f"{graph.artifacts[location.artifact].uri!r} is or was made from, found none"
        )
    if not any(step.search.outcome in _KNOWN for step in steps):
        outcomes = "; ".join(
            f"{graph.artifacts[step.artifact].uri}: {step.search.outcome}, {step.search.detail}"
            for step in steps
        )
        raise InputError(
            f"record {record!r}: expected the filename or id of a record, found none. {outcomes}. "
            "Give it as it stands in the records: the path relative to the input base, or file:row."
        )
    # The last of its names is that of the records, where the path of a file was given.
    return RecordTrace(source=find_source(names[-1], bases=bases), steps=steps)


def _searched(uri: str, names: Sequence[str]) -> Search:
    for name in names:
        search = search_dataset(uri, name)
        if search.outcome in _KNOWN:
            break
    return search


def _bases(graph: Graph, artifact: int) -> Iterator[str]:
    """What an artifact's examples were made from, by the settings of what made it."""
    for maker in graph.makers(artifact)[:1]:
        roots = maker.settings.get("image_roots")
        for base in (maker.settings.get("input_base"), *(roots if isinstance(roots, list) else ())):
            if isinstance(base, str) and base:
                yield base


def _below(record: str, bases: Sequence[str]) -> list[str]:
    """The record's path as the records have it, where it was given as a path to the raw file."""
    path = os.path.abspath(record)
    found = []
    for base in bases:
        folder = os.path.dirname(base) if os.path.isfile(base) else base
        prefix = os.path.join(os.path.abspath(folder), "")
        if "://" not in base and path.startswith(prefix):
            found.append(path.removeprefix(prefix))
    return [name for name in dict.fromkeys(found) if name != record]
