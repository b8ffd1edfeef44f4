"""Which artifact a uri is, though stores keep paths that were relative, or that moved since.

found = locate(source, "runs/artifacts/ShardBalancer/balanced_examples/4", metadata="m.sqlite")
found.artifact                   # its id
found.path_of(other_uri)         # where another artifact's files are, moved alike
"""

import dataclasses
import os
from collections.abc import Iterator, Sequence
from typing import Protocol

from trainer_utils.format import InputError
from trainer_utils.format.naming import SPLIT_PREFIX

__all__ = ["ArtifactSource", "KnownArtifact", "Location", "dataset_folder", "locate"]

_LEAST_TAIL = 2  # parts of a path: TFX's end with an output's name and an execution's number
_SHOWN = 5


class KnownArtifact(Protocol):
    """An artifact as a store has it: its number and where it is."""

    @property
    def id(self) -> int:
        """Its number, the higher the later."""

    @property
    def uri(self) -> str:
        """Where it is; empty where it is nowhere."""


class ArtifactSource(Protocol):
    """What knows artifacts: a store of ML Metadata."""

    def at(self, uri: str) -> Sequence[KnownArtifact]:
        """The artifacts of exactly this uri."""

    def everything(self) -> Sequence[KnownArtifact]:
        """All artifacts."""

    def made(self, artifacts: Sequence[KnownArtifact]) -> set[int]:
        """The numbers of those that an execution made."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Location:
    """An artifact that was found.

    Args:
        artifact: its id.
        others: the ids of artifacts with the same uri.
        stored, found: beginnings of uris in the store, and what stands there instead here.
    """

    artifact: int
    others: tuple[int, ...] = ()
    stored: str = ""
    found: str = ""

    def path_of(self, uri: str) -> str:
        """Where the files of a uri in the store are."""
        if "://" in uri or os.path.exists(uri) or not uri.startswith(self.stored):
            return uri
        if not self.stored and os.path.isabs(uri):  # all that moved were relative ones
            return uri
        return self.found + uri.removeprefix(self.stored)


def locate(source: ArtifactSource, uri: str, *, metadata: str) -> Location:
    """The artifact at a uri.

    Args:
        source: to be asked.
        uri: of an artifact, or of a file or folder in it.
        metadata: what the store is called in messages.

    Raises:
        InputError: the store has none there.
    """
    for spelling in _spellings(uri):
        if artifacts := source.at(spelling):
            return _chosen(source, artifacts)
    artifacts = source.everything()
    for spelling in _spellings(uri):  # a dataset may lie elsewhere than its artifact
        if same := [artifact for artifact in artifacts if artifact.uri == spelling]:
            return _chosen(source, same)
    path = os.path.abspath(dataset_folder(uri.rstrip("/")))
    if "://" not in uri and (moved := _moved(artifacts, path)):
        tail, same = moved
        location = _chosen(source, same)
        stored, found = same[0].uri.rstrip("/"), path
        return dataclasses.replace(
            location, stored=stored[: len(stored) - tail], found=found[: len(found) - tail]
        )
    raise InputError(
        f"artifact {uri!r}: expected the uri of an artifact of {metadata}, which has "
        f"{len(artifacts)}. {_newest(artifacts)}"
    )


def _spellings(uri: str) -> Iterator[str]:
    """How the store may have the uri of the dataset."""
    base = dataset_folder(uri.rstrip("/"))
    bases = [base]
    if "://" not in base:
        bases += [os.path.abspath(base), os.path.realpath(base), os.path.relpath(base)]
    for spelling in dict.fromkeys(bases):
        yield spelling
        yield f"{spelling}/"


def dataset_folder(uri: str) -> str:
    """The folder of a dataset, where the uri is of a split or of a file in it."""
    folder, _, name = uri.rpartition("/")
    if name.startswith(SPLIT_PREFIX):
        return folder or "."
    above, _, split = folder.rpartition("/")
    if split.startswith(SPLIT_PREFIX):
        return above or "."
    return folder or "." if os.path.isfile(uri) else uri


def _chosen(source: ArtifactSource, artifacts: Sequence[KnownArtifact]) -> Location:
    """Of several at one uri the last that some execution made."""
    made = source.made(artifacts)
    ids = sorted((artifact.id for artifact in artifacts), key=lambda i: (i in made, i))
    return Location(artifact=ids[-1], others=tuple(sorted(ids[:-1])))


def _moved(artifacts: Sequence[KnownArtifact], path: str) -> tuple[int, list[KnownArtifact]] | None:
    """The artifacts whose uri ends most like a path, and how many characters of it are alike."""
    parts = path.split("/")
    best: dict[int, list[KnownArtifact]] = {}
    for artifact in artifacts:
        own = artifact.uri.rstrip("/").split("/")
        alike = 0
        while alike < min(len(own), len(parts)) and own[-1 - alike] == parts[-1 - alike]:
            alike += 1
        if alike >= min(_LEAST_TAIL, len(own)) and alike:
            best.setdefault(alike, []).append(artifact)
    if not best:
        return None
    nearest = best[most := max(best)]
    if len({artifact.uri for artifact in nearest}) > 1:
        return None
    return len("/".join(parts[-most:])), nearest


def _newest(artifacts: Sequence[KnownArtifact]) -> str:
    named = [a.uri for a in sorted(artifacts, key=lambda a: -a.id) if a.uri]
    return f"The newest: {', '.join(named[:_SHOWN])}." if named else "None of them has a uri."
