"""Where records are in a dataset, by name or by what they hold; what else of it names them.

found = find_named(uri, manifest, names)        # [Hit(record='cat/1.jpg', split='train', …)]
find_same(uri, manifest, [hit.content for hit in found], known=found)
find_texts(uri, manifest, names)                # ['rejects.jsonl']
"""

import dataclasses
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

from pipelines.tools.forget.wanted import Content, Names, content_of, needle_of
from trainer_utils.dataset import read_shard_blocks
from trainer_utils.format import DatasetError, Manifest, RecordBlock, Shard
from trainer_utils.format.example_decoding import decode_example
from trainer_utils.format.json_text import JsonObject, json_lines
from trainer_utils.format.naming import (
    LINEAGE_FILE,
    MANIFEST_FILE,
    NAME_FEATURES,
    REJECTS_FILE,
    is_index_file,
    vocabulary_of,
)
from trainer_utils.storage import display_path, exists, join, read_text

__all__ = ["Hit", "find_named", "find_same", "find_texts", "rejects_without"]

Advance = Callable[[int], None]


def _unseen(size: int) -> None:
    """Shows nothing of the progress."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Hit:
    """A record that was found.

    Args:
        name: of the record.
        by: `name`, or `content` where it holds the same as one of a name.
        split: that it is in.
        shard: its file, relative to the dataset's uri.
        number: in that file, from 0.
        size: of the record in bytes, without its frame.
        content: what it holds.
        needle: bytes of the record itself, by which copies of it are found in any file.
    """

    name: str
    by: str
    split: str
    shard: str
    number: int
    size: int
    content: Content
    needle: bytes


def find_named(
    uri: str, manifest: Manifest, names: Names, *, advance: Advance = _unseen
) -> list[Hit]:
    """The records of some names, in order; every record's checksums are compared.

    Args:
        uri, manifest: of the dataset.
        names: that are looked for.
        advance: called with bytes that were read.

    Raises:
        CorruptShardError: a shard is damaged.
        OSError: one cannot be read.
    """
    found = []
    for shard, first, block in _blocks(uri, manifest, advance):
        if not names.may_be_in(block.data):
            continue
        for number, record in enumerate(block.records()):
            if named := names.of(_names_in(record)):
                found.append(_hit(named[0], "name", shard, first + number, record))
    return found


def find_same(
    uri: str,
    manifest: Manifest,
    contents: Collection[Content],
    *,
    known: Collection[Hit],
    advance: Advance = _unseen,
) -> list[Hit]:
    """Further records that hold the same as some.

    Args:
        uri, manifest: of the dataset.
        contents: of those.
        known: of this dataset, which are left out.
        advance: called with bytes that were read.
    """
    keys = {content.key for content in contents}
    places = {(hit.shard, hit.number) for hit in known}
    needles = [content.needle for content in contents]
    found = []
    for shard, first, block in _blocks(uri, manifest, advance):
        if all(needles) and not any(needle in block.data for needle in needles):
            continue
        for number, record in enumerate(block.records()):
            if (shard.path, first + number) in places or content_of(record).key not in keys:
                continue
            values = _names_in(record)
            name = next((v for f in NAME_FEATURES for v in values.get(f, ())), "")
            text = name if isinstance(name, str) else _text(name)
            found.append(_hit(text, "content", shard, first + number, record))
    return found


def _text(name: object) -> str:
    if isinstance(name, memoryview):
        return bytes(name).decode("utf-8", "surrogateescape")
    return str(name)


def _hit(name: str, by: str, shard: Shard, number: int, record: bytes) -> Hit:
    return Hit(
        name=name,
        by=by,
        split=shard.split,
        shard=shard.path,
        number=number,
        size=len(record),
        content=content_of(record),
        needle=needle_of(record),
    )


def _blocks(
    uri: str, manifest: Manifest, advance: Advance
) -> Iterator[tuple[Shard, int, RecordBlock]]:
    """Every block of every shard, with the number of its first record in the shard."""
    for shard in manifest.shards:
        first = 0
        for block in read_shard_blocks(join(uri, shard.path)):
            yield shard, first, block
            first += len(block)
        advance(shard.bytes)


def _names_in(record: bytes) -> Mapping[str, Sequence[object]]:
    try:
        return decode_example(record, NAME_FEATURES)
    except DatasetError:
        return {}  # no example, and so without a name


def find_texts(uri: str, manifest: Manifest, names: Names) -> list[str]:
    """The small files of a dataset that name one of them.

    Raises:
        OSError, DatasetError: one cannot be read.
    """
    paths = [MANIFEST_FILE, LINEAGE_FILE, *manifest.published]
    if manifest.files is None and exists(join(uri, REJECTS_FILE)):
        paths.append(REJECTS_FILE)
    found = []
    for path in paths:
        if is_index_file(path) or not exists(join(uri, path)):
            continue
        text = read_text(join(uri, path))
        is_listed = path == REJECTS_FILE and bool(rejects_without(text, names)[1])
        if vocabulary_of(path) is not None:
            is_listed = names.without_lines(lines := text.split("\n")) != lines
        elif not is_listed:
            is_listed = names.redact(text) != text
        if is_listed:
            found.append(path)
    return found


def rejects_without(text: str, names: Names) -> tuple[str, list[JsonObject]]:
    """A list of rejects without those of some names, and the lines that were taken out of it."""
    sources = {display_path(name) for name in names.names}
    kept, removed = [], []
    for line in text.split("\n"):
        if not line:
            continue
        (entry,) = json_lines(line + "\n", path=REJECTS_FILE)
        if entry.get("source") in sources:
            removed.append(entry)
        else:
            kept.append(f"{names.redact(line)}\n")
    return "".join(kept), removed
