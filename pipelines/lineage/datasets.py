"""Lineage from the datasets alone, where no store of ML Metadata is, or none is left.

    found = load_datasets("out/artifacts/ShardBalancer/balanced_examples/4")
    found.graph.makers(found.artifact)[0].settings
    load_datasets(root="out/").graph.executions         # of all datasets below a folder

A dataset names those that it was made from by the digests of their manifests, which are the ids of
this graph. They are looked for below the root, or else in the three folders above it, the nearest
first; of one that is not there, what it said is in `lineage.json` of whatever was made of it, and
its uri is `digest:…`.
"""

import collections
import contextlib
import dataclasses
import graphlib
import itertools
import os
import posixpath
from collections.abc import Iterable, Iterator, Mapping

from pipelines.lineage.graph import DATASET_TYPE, MISSING_PREFIX, Artifact, Execution, Graph, Id
from pipelines.lineage.places import alike
from trainer_utils.dataset.files import read_manifest, read_origin
from trainer_utils.format import InputError
from trainer_utils.format.naming import MANIFEST_FILE, SPLIT_PREFIX, WORKING_FOLDER
from trainer_utils.format.origin import Ancestor, DatasetSummary
from trainer_utils.storage import is_remote, join, list_files

__all__ = ["RUN_UNKNOWN", "KnownDatasets", "dataset_folders", "load_datasets"]

RUN_UNKNOWN = "not known: datasets name none, a store of ML Metadata does"
"""What is said of a run where datasets alone were asked."""

_MOST_LEVELS = 3  # above a dataset: TFX's are <root>/<component>/<output>/<execution>


@dataclasses.dataclass(frozen=True, kw_only=True)
class KnownDatasets:
    """What the datasets tell.

    Args:
        graph: of them and of the steps that made them.
        summaries: of their manifests, by artifact.
        artifact: the one that was asked for.
    """

    graph: Graph
    summaries: Mapping[Id, DatasetSummary]
    artifact: str = ""


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Node:
    """A dataset that is at a uri, or that is known by what others say of it.

    Args:
        uri: where it is; `digest:…` where it is not found.
        near: where what it was made from is looked for.
        known: what it is.
        ancestors: what it says of those before it, by digest.
    """

    uri: str
    near: str
    known: Ancestor
    ancestors: Mapping[str, Ancestor]


def load_datasets(uri: str | None = None, *, root: str | None = None) -> KnownDatasets:
    """Everything that a dataset, and all those below a root, say of their making.

    Args:
        uri: of a dataset; None for no particular one.
        root: a folder; None for the dataset and those that it was made from.

    Raises:
        InputError: there is no dataset of ours at `uri`.
        DatasetError: its own files are damaged.
    """
    shelf = _Shelf([] if root is None else map(_absolute, dataset_folders(root)))
    waiting = collections.deque(shelf.below_root)
    asked = None
    if uri is not None:
        if (asked := _read_node(_absolute(uri))) is None:
            raise InputError(f"artifact {uri!r}: expected a dataset with a manifest, found none")
        waiting = collections.deque([asked, *_nearest_first(waiting, asked.uri)])
    nodes: dict[str, _Node] = {}
    while waiting:
        node = waiting.popleft()
        if node.known.digest not in nodes:
            nodes[node.known.digest] = node
            given = node.known.made_by.inputs if node.known.made_by else ()
            waiting.extendleft(shelf.parent(node, each.digest) for each in given)
    before = {  # those of equal datasets are themselves
        digest: {i.digest for i in node.known.made_by.inputs} - {digest}
        if node.known.made_by
        else set[str]()
        for digest, node in sorted(nodes.items(), key=lambda item: item[1].uri)
    }
    order = [*graphlib.TopologicalSorter(before).static_order()]
    return KnownDatasets(
        graph=Graph(
            {digest: _artifact(nodes[digest]) for digest in order},
            {digest: _execution(nodes[digest]) for digest in order if nodes[digest].known.made_by},
        ),
        summaries={d: summary for d in order if (summary := nodes[d].known.summary) is not None},
        artifact="" if asked is None else asked.known.digest,
    )


def _read_node(uri: str) -> _Node | None:
    manifest = read_manifest(uri)
    if manifest is None:
        return None
    origin = read_origin(uri, manifest)
    summary = DatasetSummary.of(manifest)
    known = Ancestor(digest=manifest.digest, summary=summary, made_by=origin.made_by)
    ancestors = {each.digest: each for each in origin.ancestors}
    return _Node(uri=uri, near=uri, known=known, ancestors=ancestors)


class _Shelf:
    """Datasets by where they are; what was read once is remembered."""

    def __init__(self, below_root: Iterable[str]) -> None:
        self._read: dict[str, _Node | None] = {}
        self._silent: set[str] = set()  # object stores that do not answer
        self._folders: dict[str, list[str]] = {}
        self.below_root = [node for uri in below_root if (node := self._at(uri)) is not None]

    def _at(self, uri: str) -> _Node | None:
        """The dataset at a uri; None where none can be read: `verify` tells what is wrong."""
        scheme, separator, path = uri.partition("://")
        store = f"{scheme}://{path.partition('/')[0]}" if separator else uri
        if uri not in self._read and store not in self._silent:
            self._read[uri] = None
            try:
                self._read[uri] = _read_node(uri)
            except (PermissionError, ValueError):
                pass
            except OSError:  # after some minutes, of which one dataset is enough
                self._silent.add(store)
        return self._read.get(uri)

    def parent(self, child: _Node, digest: str) -> _Node:
        """An input of a dataset: where it is, else what is known of it."""
        above = map(self._below, _folders_above(child.near))
        for places in itertools.chain([self.below_root], above):
            for node in _nearest_first(places, child.near):
                if node.known.digest == digest and node.uri != child.near:
                    return node
        return _Node(
            uri=f"{MISSING_PREFIX}{digest}",
            near=child.near,
            known=child.ancestors.get(digest) or Ancestor(digest=digest),
            ancestors=child.ancestors,
        )

    def _below(self, folder: str) -> list[_Node]:
        """The datasets below a folder; those that can be listed and read."""
        if folder not in self._folders:
            self._folders[folder] = []
            with contextlib.suppress(ValueError, OSError):
                self._folders[folder] = list(dataset_folders(folder))
        return [node for uri in self._folders[folder] if (node := self._at(uri)) is not None]


def _artifact(node: _Node) -> Artifact:
    state = "UNKNOWN" if node.uri.startswith(MISSING_PREFIX) else "LIVE"
    return Artifact(id=node.known.digest, type=DATASET_TYPE, uri=node.uri, state=state)


def _execution(node: _Node) -> Execution:
    step, inputs = node.known.made_by, dict[str, tuple[str, ...]]()
    assert step is not None
    for given in step.inputs:
        inputs[given.name] = tuple(dict.fromkeys((*inputs.get(given.name, ()), given.digest)))
    return Execution(
        id=node.known.digest,
        type=step.component,
        component=step.component,
        settings=dict(step.settings),
        inputs=inputs,
        outputs={step.output: (node.known.digest,)},
    )


def dataset_folders(root: str) -> Iterator[str]:
    """The folders below a root, itself included, that have a manifest; no link is followed."""
    if is_remote(root):
        for file in list_files(root):
            folder, _, name = file.path.rpartition("/")
            if name == MANIFEST_FILE:
                yield join(root, folder) if folder else root
        return
    for folder, inner, names in os.walk(root):
        if MANIFEST_FILE in names:
            yield folder
            inner.clear()
        inner[:] = sorted(n for n in inner if not n.startswith((SPLIT_PREFIX, WORKING_FOLDER)))


def _folders_above(uri: str) -> Iterator[str]:
    """Where what a dataset was made from may be; never a whole bucket or file system."""
    scheme, separator, path = uri.rpartition("://")
    for _ in range(_MOST_LEVELS):
        path = posixpath.dirname(path)
        if not path.strip("/") or (separator and "/" not in path.strip("/")):
            return
        yield f"{scheme}{separator}{path}"


def _nearest_first(nodes: Iterable[_Node], near: str) -> list[_Node]:
    """By how much their paths have in common at their beginnings with another."""
    parts = near.split("/")
    return sorted(nodes, key=lambda node: (-alike(node.uri.split("/"), parts), node.uri))


def _absolute(uri: str) -> str:
    return uri.rstrip("/") if is_remote(uri) else os.path.abspath(uri)
