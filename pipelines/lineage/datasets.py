"""Reconstruct lineage from the files of datasets, without a store of ML Metadata.

    found = load_datasets("out/artifacts/ShardBalancer/balanced_examples/4")
    load_datasets(root="out/").executions               # all datasets below a folder

A dataset names its inputs by the digests of their manifests, which are the ids of this graph. They
are searched below the root, or in the three folders above the dataset, nearest first. The facts of
a missing input come from `lineage.json` of the datasets made from it, and its uri is `digest:…`.
"""

import collections
import contextlib
import graphlib
import os
import posixpath
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from pipelines.lineage.graph import DATASET_TYPE, MISSING_PREFIX, Artifact, Execution, Id, Lineage
from trainer_utils.core.errors import InputError
from trainer_utils.dataset.location import read_manifest, read_origin
from trainer_utils.format.lineage import Ancestor, DatasetSummary
from trainer_utils.format.naming import MANIFEST_FILE, SPLIT_PREFIX, WORKING_FOLDER
from trainer_utils.storage import is_remote, join, list_files, path_of

_MAX_LEVELS = 3  # folders above a dataset; TFX has <root>/<component>/<output>/<execution>


class _Node(NamedTuple):
    """A dataset at a uri, or at `digest:…` if only another dataset's lineage describes it."""

    uri: str
    known: Ancestor
    ancestors: Mapping[str, Ancestor]

    @property
    def inputs(self) -> list[str]:
        """Digests of its inputs, without its own digest, which an identical input has."""
        made_by, own_digest = self.known.made_by, self.known.digest
        digests = [dataset.digest for dataset in made_by.inputs] if made_by else []
        return [digest for digest in digests if digest != own_digest]


def load_datasets(
    uri: str | os.PathLike[str] | None = None, *, root: str | os.PathLike[str] | None = None
) -> Lineage:
    """Return the lineage of the dataset at `uri`, or of all datasets below `root`.

    Raises:
        InputError: `uri` has no dataset with a manifest.
        DatasetError: the files of the dataset are damaged.
    """
    uri = None if uri is None else path_of("uri", uri)
    root = None if root is None else path_of("root", root)
    nodes: dict[str, _Node] = {}  # datasets by digest
    digest_of_uri = ""
    if uri is not None:
        if (node := _read_node(_absolute(uri))) is None:
            raise InputError(f"artifact {uri!r}: expected a dataset with a manifest, found none")
        digest_of_uri = node.known.digest
        nodes[digest_of_uri] = node
    if root is None and uri is not None:
        for folder in _folders_above(_absolute(uri)):
            if nodes.keys() >= _with_ancestors([digest_of_uri], nodes).keys():
                break  # all ancestors are known
            _add_datasets(nodes, folder)
    else:
        _add_datasets(nodes, _absolute(root or "."))
    wanted = [digest_of_uri] if root is None and uri is not None else [*nodes]
    return _lineage_of(
        _with_ancestors(wanted, nodes),
        metadata="manifests" if root is None else f"manifests in {root}",
        artifact_id=digest_of_uri,
    )


def _add_datasets(nodes: dict[str, _Node], folder: str) -> None:
    """Add the datasets at or below a folder, as far as they can be listed and read."""
    with contextlib.suppress(ValueError, OSError):  # a folder that cannot be listed
        for uri in _dataset_folders(folder):
            with contextlib.suppress(ValueError, OSError):  # `verify` reports damage
                if (node := _read_node(uri)) is not None:
                    nodes.setdefault(node.known.digest, node)


def _lineage_of(nodes: Mapping[str, _Node], *, metadata: str, artifact_id: str) -> Lineage:
    """Return datasets and their steps as a graph, each dataset after its inputs."""
    artifacts, executions = dict[Id, Artifact](), dict[Id, Execution]()
    summaries = dict[Id, DatasetSummary]()
    inputs_by_digest = {digest: node.inputs for digest, node in nodes.items()}
    for digest in graphlib.TopologicalSorter(inputs_by_digest).static_order():
        uri, known = nodes[digest].uri, nodes[digest].known
        state = "UNKNOWN" if uri.startswith(MISSING_PREFIX) else "LIVE"
        artifacts[digest] = Artifact(id=digest, type=DATASET_TYPE, uri=uri, state=state)
        if known.summary:
            summaries[digest] = known.summary
        if (step := known.made_by) is not None:
            inputs: dict[str, list[Id]] = {}
            for dataset in dict.fromkeys(step.inputs):
                inputs.setdefault(dataset.name, []).append(dataset.digest)
            executions[digest] = Execution(
                id=digest,
                type=step.component,
                component=step.component,
                settings=dict(step.settings),
                inputs=inputs,
                outputs={step.output: [digest]},
            )
    return Lineage(
        metadata=metadata,
        artifact_id=artifact_id,
        artifacts=artifacts,
        executions=executions,
        summaries=summaries,
        knows_runs=False,
    )


def _read_node(uri: str) -> _Node | None:
    manifest = read_manifest(uri)
    if manifest is None:
        return None
    origin, summary = read_origin(uri, manifest), DatasetSummary.of(manifest)
    known = Ancestor(digest=manifest.digest, summary=summary, made_by=origin.made_by)
    return _Node(uri, known, {each.digest: each for each in origin.ancestors})


def _with_ancestors(digests: list[str], nodes: Mapping[str, _Node]) -> dict[str, _Node]:
    """Return datasets and all their ancestors by digest.

    An ancestor that is missing from `nodes` is returned as its descendant's lineage describes it.
    """
    reached: dict[str, _Node] = {}
    waiting = collections.deque(nodes[digest] for digest in digests)
    while waiting:
        node = waiting.popleft()
        if reached.setdefault(node.known.digest, node) is not node:
            continue
        for digest in node.inputs:
            known = node.ancestors.get(digest) or Ancestor(digest=digest)
            missing = _Node(f"{MISSING_PREFIX}{digest}", known, node.ancestors)
            if digest not in reached:
                waiting.append(nodes.get(digest, missing))
    return reached


def _dataset_folders(root: str) -> Iterator[str]:
    """Yield the folders with a manifest at or below a root. Links are not followed."""
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
    """Yield the folders that may hold a dataset's inputs; never a whole bucket or file system."""
    scheme, separator, path = uri.rpartition("://")
    for _ in range(_MAX_LEVELS):
        path = posixpath.dirname(path)
        if not path.strip("/") or (separator and "/" not in path.strip("/")):
            return
        yield f"{scheme}{separator}{path}"


def _absolute(uri: str) -> str:
    return uri.rstrip("/") if is_remote(uri) else os.path.abspath(uri)
