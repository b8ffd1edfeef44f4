"""Lineage from the datasets alone, where no store of ML Metadata is, or none is left.

    found = load_datasets("out/artifacts/ShardBalancer/balanced_examples/4")
    found.graph.makers(found.artifact)[0].settings
    load_datasets(root="out/").graph.executions         # of all datasets below a folder

A dataset names those that it was made from by the digests of their manifests. They are looked for
below the root, or else in the three folders above it, the nearest first; of one that is not there,
what it said is in `lineage.json` of whatever was made of it, and its uri is `digest:…`.
"""

import contextlib
import dataclasses
import itertools
import os
import posixpath
from collections.abc import Iterator, Mapping
from typing import TypeAlias

from pipelines.lineage.dataset_files import FoundDataset, dataset_folders, read_dataset
from pipelines.lineage.graph import DATASET_TYPE, MISSING_PREFIX, Artifact, Execution, Graph
from trainer_utils.format import InputError
from trainer_utils.format.origin import Ancestor, DatasetInput, DatasetSummary, Step
from trainer_utils.storage import is_remote

__all__ = ["RUN_UNKNOWN", "KnownDatasets", "load_datasets"]

RUN_UNKNOWN = "not known: datasets name none, a store of ML Metadata does"
"""What is said of a run where datasets alone were asked."""

_MOST_LEVELS = 3  # above a dataset: TFX's are <root>/<component>/<output>/<execution>
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
    """A dataset, there or not found; what it was made from is looked for near its own place."""

    uri: str
    near: str
    is_there: bool
    known: Ancestor
    ancestors: Mapping[str, Ancestor]  # by digest


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
    """Datasets that are known so far, by where they are and their digests."""

    def __init__(self) -> None:
        self._read: dict[str, FoundDataset | None] = {}
        self._silent: set[str] = set()  # object stores that do not answer
        self._nodes: dict[_Key, _Node] = {}
        self._inputs: dict[_Key, list[tuple[str, _Key]]] = {}
        self._below_root: list[str] = []
        self._folders: dict[str, list[str]] = {}

    def read(self, uri: str) -> FoundDataset | None:
        """The dataset at a uri; None where none can be read: `verify` tells what is wrong."""
        if uri not in self._read:
            self._read[uri] = None
            if (store := _store_of(uri)) in self._silent:
                return None
            try:
                self._read[uri] = read_dataset(uri)
            except (PermissionError, ValueError):
                pass
            except OSError:  # after some minutes, of which one dataset is enough
                self._silent.add(store)
        return self._read[uri]

    def add(self, found: FoundDataset) -> _Key:
        """Takes note of a dataset that is there."""
        key = found.uri, found.digest
        self._nodes[key] = _Node(
            uri=found.uri,
            near=found.uri,
            is_there=True,
            known=Ancestor(
                digest=found.digest, summary=found.summary, made_by=found.origin.made_by
            ),
            ancestors={each.digest: each for each in found.origin.ancestors},
        )
        return key

    def add_below_root(self, uri: str) -> None:
        """Takes note of a dataset that is one of those to be told of, where it can be read."""
        if (found := self.read(uri)) is not None:
            self.add(found)
            self._below_root.append(found.uri)

    def follow(self) -> None:
        """Adds what the datasets were made from, back to the first."""
        waiting = list(self._nodes)
        while waiting:
            key = waiting.pop()
            if key in self._inputs:
                continue
            node = self._nodes[key]
            given = () if node.known.made_by is None else node.known.made_by.inputs
            self._inputs[key] = [(each.name, self._parent(node, each)) for each in given]
            waiting += [parent for _, parent in self._inputs[key]]

    def _parent(self, child: _Node, given: DatasetInput) -> _Key:
        """An input of a dataset: where it is, else what is known of it."""
        if (found := self._find(given.digest, near=child.near)) is not None:
            return self.add(found)
        node = _Node(
            uri=f"{MISSING_PREFIX}{given.digest}",
            near=child.near,
            is_there=False,
            known=child.ancestors.get(given.digest) or Ancestor(digest=given.digest),
            ancestors=child.ancestors,
        )
        self._nodes.setdefault((node.uri, given.digest), node)
        return node.uri, given.digest

    def _find(self, digest: str, *, near: str) -> FoundDataset | None:
        """A dataset below the root or else in the folders above another, the nearest to that."""
        for places in itertools.chain([self._below_root], map(self._below, _folders_above(near))):
            same = [
                found
                for uri in places
                if uri != near and (found := self.read(uri)) is not None and found.digest == digest
            ]
            if same:
                return min(same, key=lambda found: (-_alike(found.uri, near), found.uri))
        return None

    def _below(self, folder: str) -> list[str]:
        """The datasets below a folder; those that can be listed."""
        if folder not in self._folders:
            self._folders[folder] = []
            with contextlib.suppress(ValueError, OSError):
                self._folders[folder] = list(dataset_folders(folder))
        return self._folders[folder]

    def finish(self, asked: _Key | None) -> KnownDatasets:
        ids = {key: number for number, key in enumerate(self._in_order(), start=1)}
        artifacts, executions = {}, {}
        for key, number in ids.items():
            node = self._nodes[key]
            artifacts[number] = _artifact(number, node)
            if (step := node.known.made_by) is not None:
                given = [(name, ids[parent]) for name, parent in self._inputs[key]]
                executions[number] = _execution(number, step, given)
        summaries = {
            number: summary
            for key, number in ids.items()
            if (summary := self._nodes[key].known.summary) is not None
        }
        return KnownDatasets(
            graph=Graph(artifacts, executions),
            summaries=summaries,
            artifact=None if asked is None else ids[asked],
        )

    def _in_order(self) -> list[_Key]:
        """By uri, and each after what it was made from."""
        order: dict[_Key, None] = {}
        stack = [(key, False) for key in sorted(self._nodes, reverse=True)]
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
        type=DATASET_TYPE,
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
        type=step.component,
        component=step.component,
        pipeline=None,
        run=None,
        state="COMPLETE",
        started=None,
        ended=None,
        settings=dict(step.settings),
        inputs=inputs,
        outputs={step.output: (number,)},
    )


def _folders_above(uri: str) -> Iterator[str]:
    """Where what a dataset was made from may be; never a whole bucket or file system."""
    scheme, separator, path = uri.rpartition("://")
    for _ in range(_MOST_LEVELS):
        path = posixpath.dirname(path)
        if not path.strip("/") or (separator and "/" not in path.strip("/")):
            return
        yield f"{scheme}{separator}{path}"


def _store_of(uri: str) -> str:
    """The bucket of a url; of a local path itself, since disks answer at once."""
    scheme, separator, path = uri.partition("://")
    return f"{scheme}://{path.partition('/')[0]}" if separator else uri


def _alike(one: str, other: str) -> int:
    """How many parts two paths have in common at their beginnings."""
    pairs = zip(one.split("/"), other.split("/"), strict=False)
    return sum(1 for _ in itertools.takewhile(lambda pair: pair[0] == pair[1], pairs))


def _absolute(uri: str) -> str:
    return uri.rstrip("/") if is_remote(uri) else os.path.abspath(uri)
