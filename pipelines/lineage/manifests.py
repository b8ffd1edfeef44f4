"""Lineage from the datasets alone, where no store of ML Metadata is, or none is left.

    found = load_datasets("out/artifacts/ShardBalancer/balanced_examples/4")
    found.graph.makers(found.artifact)[0].settings
    load_datasets(root="out/").graph.executions         # of all datasets below a folder

A dataset names those that it was made from by their uris and digests. One that moved is looked for
by the end of its uri in the folders above, and known by its digest; of one that is gone, what it
said is in `lineage.json` of whatever was made of it.
"""

import contextlib
import dataclasses
import os
from collections.abc import Iterator, Mapping
from typing import TypeAlias

from pipelines.lineage.dataset_files import FoundDataset, dataset_folders, read_dataset
from pipelines.lineage.graph import Artifact, Execution, Graph
from trainer_utils.format import InputError
from trainer_utils.format.origin import Ancestor, DatasetInput, DatasetSummary, Step
from trainer_utils.storage import exists, is_remote

__all__ = ["KnownDatasets", "load_datasets"]

_TYPE = "Examples"  # what TFX calls datasets
_Key: TypeAlias = tuple[str, str]  # uri and digest


@dataclasses.dataclass(frozen=True, kw_only=True)
class KnownDatasets:
    """What the datasets tell.

    Args:
        graph: of them and of the steps that made them.
        summaries: of their manifests, by artifact.
        artifact: the one that was asked for.
    """

    graph: Graph
    summaries: Mapping[int, DatasetSummary]
    artifact: int | None = None


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Node:
    """A dataset, there or gone, and the nodes that it was made from, by input."""

    uri: str
    digest: str
    is_there: bool
    summary: DatasetSummary | None
    made_by: Step | None
    ancestors: Mapping[_Key, Ancestor]


def load_datasets(uri: str | None = None, *, root: str | None = None) -> KnownDatasets:
    """Everything that a dataset, and all those below a root, say of their making.

    Args:
        uri: of a dataset; None for no particular one.
        root: a folder; None for the dataset and those that it was made from.

    Raises:
        InputError: there is no dataset of ours at `uri`.
        DatasetError: its own files are damaged.
    """
    book = _Book()
    if root is not None:
        for folder in dataset_folders(root):
            book.add_below_root(_absolute(folder))
    asked = None
    if uri is not None:
        if (found := read_dataset(_absolute(uri))) is None:
            raise InputError(f"artifact {uri!r}: expected a dataset with a manifest, found none")
        asked = book.add(found)
    book.follow()
    return book.finish(asked)


class _Book:
    """Datasets that are known so far, by where they are or were and their digests."""

    def __init__(self) -> None:
        self._read: dict[str, FoundDataset | None] = {}
        self._nodes: dict[_Key, _Node] = {}
        self._inputs: dict[_Key, list[tuple[str, _Key]]] = {}
        self._below_root: list[_Key] = []

    def read(self, uri: str) -> FoundDataset | None:
        """The dataset at a uri; None where none can be read: `verify` tells what is wrong."""
        if uri not in self._read:
            self._read[uri] = None
            with contextlib.suppress(ValueError, OSError):
                self._read[uri] = read_dataset(uri)
        return self._read[uri]

    def add(self, found: FoundDataset) -> _Key:
        """Takes note of a dataset that is there."""
        key = found.uri, found.digest
        self._nodes[key] = _Node(
            uri=found.uri,
            digest=found.digest,
            is_there=True,
            summary=found.summary,
            made_by=found.origin.made_by,
            ancestors={each.key: each for each in found.origin.ancestors},
        )
        return key

    def add_below_root(self, uri: str) -> None:
        """Takes note of a dataset that is one of those to be told of, where it can be read."""
        if (found := self.read(uri)) is not None:
            self._below_root.append(self.add(found))

    def follow(self) -> None:
        """Adds what the datasets were made from, back to the first."""
        waiting = list(self._nodes)
        while waiting:
            key = waiting.pop()
            if key in self._inputs:
                continue
            node = self._nodes[key]
            given = () if node.made_by is None else node.made_by.inputs
            self._inputs[key] = [(each.name, self._parent(node, each)) for each in given]
            waiting += [parent for _, parent in self._inputs[key]]

    def _parent(self, child: _Node, given: DatasetInput) -> _Key:
        """An input of a dataset: where it is, else what is known of it."""
        if same := [key for key in self._below_root if key[1] == given.digest]:
            own = _absolute(given.uri)
            return max(same, key=lambda key: (key[0] == own, _alike(key[0], own), key))
        for uri in _places(child.uri if child.is_there else "", given.uri):
            found = self.read(uri)
            if found is not None and found.digest == given.digest:
                return self.add(found)
        known = child.ancestors.get(given.key)
        node = _Node(
            uri=given.uri,
            digest=given.digest,
            is_there=False,
            summary=None if known is None else known.summary,
            made_by=None if known is None else known.made_by,
            ancestors=child.ancestors,
        )
        self._nodes.setdefault(given.key, node)
        return given.key

    def finish(self, asked: _Key | None) -> KnownDatasets:
        ids = {key: number for number, key in enumerate(self._in_order(), start=1)}
        artifacts, executions = {}, {}
        for key, number in ids.items():
            node = self._nodes[key]
            artifacts[number] = _artifact(number, node)
            if node.made_by is not None:
                given = [(name, ids[parent]) for name, parent in self._inputs[key]]
                executions[number] = _execution(number, node.made_by, given)
        summaries = {
            number: summary
            for key, number in ids.items()
            if (summary := self._nodes[key].summary) is not None
        }
        return KnownDatasets(
            graph=Graph(artifacts, executions),
            summaries=summaries,
            artifact=None if asked is None else ids[asked],
        )

    def _in_order(self) -> list[_Key]:
        """What was made first comes first: by run, and after what it was made from."""

        def run_of(key: _Key) -> tuple[str, str]:
            made_by = self._nodes[key].made_by
            return (made_by.run if made_by is not None else None) or "", key[0]

        order: dict[_Key, None] = {}
        stack = [(key, False) for key in sorted(self._nodes, key=run_of, reverse=True)]
        begun = set()
        while stack:
            key, is_ready = stack.pop()
            if is_ready:
                order[key] = None
            elif key not in begun:
                begun.add(key)
                stack.append((key, True))
                stack += [(parent, False) for _, parent in reversed(self._inputs[key])]
        return list(order)


def _artifact(number: int, node: _Node) -> Artifact:
    return Artifact(
        id=number,
        type=_TYPE,
        uri=node.uri,
        name="",
        state="LIVE" if node.is_there else "UNKNOWN",
        created=None,
        properties={},
    )


def _execution(number: int, step: Step, given: list[tuple[str, int]]) -> Execution:
    inputs: dict[str, tuple[int, ...]] = {}
    for name, artifact in given:
        inputs[name] = tuple(dict.fromkeys((*inputs.get(name, ()), artifact)))
    return Execution(
        id=number,
        type=step.type,
        component=step.component,
        pipeline=step.pipeline,
        run=step.run,
        state="COMPLETE",
        started=None,
        ended=None,
        settings=dict(step.settings),
        inputs=inputs,
        outputs={step.output: (number,)},
    )


def _places(child: str, uri: str) -> Iterator[str]:
    """Where a dataset may be that is called `uri` in one that lies at `child`: the likeliest first.

    Whole pipelines move, so its end stays the same below one of the folders above.
    """
    own = _absolute(uri)
    yield own
    if not child or is_remote(child):
        return
    parts = [part for part in uri.partition("://")[-1 if is_remote(uri) else 0].split("/") if part]
    for count in range(len(parts), 0, -1):
        folder = child
        while folder != (folder := os.path.dirname(folder)):
            place = os.path.join(folder, *parts[-count:])
            if place not in (own, child) and exists(place):
                yield place


def _alike(one: str, other: str) -> int:
    """How many parts two paths have in common at their ends."""
    pairs = zip(reversed(one.split("/")), reversed(other.rstrip("/").split("/")), strict=False)
    count = 0
    for left, right in pairs:
        if left != right:
            break
        count += 1
    return count


def _absolute(uri: str) -> str:
    return uri.rstrip("/") if is_remote(uri) else os.path.abspath(uri)
