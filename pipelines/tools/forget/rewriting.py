"""A dataset written anew in its own place without some of its records, whole at every moment.

    rewrite_dataset(uri, {"Split-train/data_tfrecord-00000-of-00008": {17}}, names, request="…")
    finish_rewriting(uri)           # of a run that was killed; False: there is nothing to finish

Shards that lose records, their indices and the small files are first written whole to the working
folder, the new manifest and a plan last. From then on the old manifest goes, every file gets its
place, and the new manifest comes last of all. A run that is killed leaves the old dataset, the new
one, or one without a manifest and with a plan, which nothing opens and the next run finishes. All
other shards stay the files that they are, and keep their names: a shard that loses all of its
records stays as an empty one.
"""

import dataclasses
import json
from collections import Counter
from collections.abc import Collection, Mapping

from pipelines.tools.forget.records import rejects_without
from pipelines.tools.forget.wanted import Names
from pipelines.tools.verification.metadata_checks import label_features
from trainer_utils.dataset import Dataset, open_dataset, read_shard_blocks
from trainer_utils.dataset.files import read_origin
from trainer_utils.format import (
    Accounting,
    DatasetError,
    Manifest,
    RecordBlock,
    Shard,
    ShardName,
    ShardWriter,
    combine_checksums,
    multiset_checksum,
)
from trainer_utils.format.example_decoding import decode_example
from trainer_utils.format.json_text import Json
from trainer_utils.format.manifest import FORGOTTEN_KEY
from trainer_utils.format.naming import (
    DATASET_FILES,
    FORGET_PLAN,
    LINEAGE_FILE,
    MANIFEST_FILE,
    REJECTS_FILE,
    SCHEMA_FILE,
    check_inner_path,
    vocabulary_of,
)
from trainer_utils.format.origin import Ancestor, DatasetInput, DatasetSummary, Origin, Step
from trainer_utils.format.sealing import FileDigest
from trainer_utils.storage import (
    exists,
    join,
    make_folder,
    read_text,
    remove_file,
    remove_tree,
    rename,
    sync_files,
    sync_folder,
    write_text,
)
from trainer_utils.writing.publishing import texts_of_dataset, working_folder, write_texts
from trainer_utils.writing.shards import files_of_shard, verify_shard, write_shard

__all__ = ["COMPONENT", "finish_rewriting", "is_half_rewritten", "rewrite_dataset"]

COMPONENT = "Forget"
"""What `lineage.json` calls the step."""

_STAGE, _PLAN = FORGET_PLAN.split("/")[1:]
_BLOCK_BYTES = 8 << 20

Places = Mapping[str, Collection[int]]
"""Numbers of records by the path of their shard."""


def _stage(uri: str) -> str:
    return join(working_folder(uri), _STAGE)


def is_half_rewritten(uri: str) -> bool:
    """Whether a run was killed while files of a dataset got their places."""
    return exists(join(_stage(uri), _PLAN))


def rewrite_dataset(uri: str, places: Places, names: Names, *, request: str) -> None:
    """Takes records and names out of a dataset of ours.

    Args:
        uri: of it.
        places: the records.
        names: that no text of it is to have.
        request: what the run was asked for, as a digest, for the lineage.

    Raises:
        DatasetError: it is not whole, or damaged; it stays as it is.
    """
    dataset = open_dataset(uri, inspect=False)
    assert dataset.manifest is not None
    remove_tree(working_folder(uri))
    make_folder(working_folder(uri))
    stage = _stage(uri)
    written, labels = _write_shards(dataset, places, stage)
    existing = _existing_texts(dataset)
    manifest, texts = _describe(dataset, existing, written, labels, names)
    removed = sorted(existing.keys() - texts.keys())
    texts = {path: text for path, text in texts.items() if text != existing[path]}
    digests = write_texts(stage, texts)
    if manifest.files is not None:
        kept = {path: digest for path, digest in manifest.files.items() if path not in removed}
        manifest = dataclasses.replace(manifest, files=kept | digests)
    origin = _origin(dataset, names, request=request, records=sum(map(len, places.values())))
    beside = {LINEAGE_FILE: origin.to_json(), MANIFEST_FILE: manifest.to_json()}
    write_texts(stage, beside)
    shards = [path for shard in written.values() for path in files_of_shard(shard)]
    moves = [*shards, *texts, LINEAGE_FILE]
    sync_files(stage, [*moves, MANIFEST_FILE])
    plan = json.dumps({"moves": moves, "removes": removed})
    write_text(join(stage, _PLAN), plan, temporary_folder=working_folder(stage), is_durable=True)
    sync_folder(stage)
    finish_rewriting(uri)


def finish_rewriting(uri: str) -> bool:
    """Gives the files that are planned their places, and removes what is temporary.

    Returns:
        Whether there was a plan.

    Raises:
        OSError: a file cannot be moved.
    """
    if not is_half_rewritten(uri):
        return False
    stage = _stage(uri)
    plan = json.loads(read_text(join(stage, _PLAN)))
    moves, removes = ([check_inner_path(path) for path in plan[k]] for k in ("moves", "removes"))
    manifest, staged = join(uri, MANIFEST_FILE), join(stage, MANIFEST_FILE)
    if exists(staged):
        if exists(manifest):
            remove_file(manifest)  # first, so that nothing passes for whole
            sync_folder(uri)
        for path in moves:
            if exists(join(stage, path)):
                make_folder(join(uri, path).rpartition("/")[0])
                rename(join(stage, path), join(uri, path))
        for path in removes:
            if exists(join(uri, path)):
                remove_file(join(uri, path))
        sync_files(uri, moves)
        rename(staged, manifest)
        sync_folder(uri)
    remove_tree(working_folder(uri))
    return True


def _write_shards(
    dataset: Dataset, places: Places, stage: str
) -> tuple[dict[str, Shard], dict[str, Counter[str]]]:
    """The shards that lose records, by path, and the labels of what they lose, by split."""
    assert dataset.manifest is not None
    feature = _label_feature(dataset)
    written: dict[str, Shard] = {}
    labels: dict[str, Counter[str]] = {}
    for shard in dataset.manifest.shards:
        if shard.path in places:
            counts = labels.setdefault(shard.split, Counter[str]())
            written[shard.path] = _write_shard(
                dataset, shard, frozenset(places[shard.path]), stage, feature, counts
            )
    return written, labels


def _write_shard(
    dataset: Dataset,
    shard: Shard,
    left_out: frozenset[int],
    stage: str,
    feature: str | None,
    labels: Counter[str],
) -> Shard:
    """One shard without some records; what is written and what is left out make the old one."""
    sums = []

    def fill(writer: ShardWriter) -> None:
        first = 0
        for block in read_shard_blocks(join(dataset.uri, shard.path)):
            numbers = range(len(block))
            gone = [number for number in numbers if first + number in left_out]
            first += len(block)
            if not gone:
                writer.write_framed(block.data, block.lengths, block.payload_crcs)
                continue
            sums.append(multiset_checksum(block.lengths[gone], block.payload_crcs[gone]))
            kept = sorted({*numbers} - {*gone})
            frames = block.frames()
            framed = b"".join(frames[number] for number in kept)
            writer.write_framed(framed, block.lengths[kept], block.payload_crcs[kept])
            if feature is not None:
                for number in gone:
                    labels.update(_labels_of(block, number, feature, dataset))

    new = write_shard(ShardName.parse(shard.path), fill, uri=stage)
    verify_shard(new, uri=stage, block_bytes=_BLOCK_BYTES)
    assert new.content is not None
    whole = combine_checksums([new.content, *sums])
    if new.records + len(left_out) != shard.records or shard.content not in (None, whole):
        raise DatasetError(
            f"{join(dataset.uri, shard.path)!r}: expected {shard.records - len(left_out)} records "
            f"to stay as they are, wrote {new.records} or others. The dataset stays as it was: "
            "see whether another program writes to it, and run it again.",
            path=shard.path,
        )
    has_index = shard.index_crc32c is not None
    return dataclasses.replace(
        new,
        content=None if shard.content is None else new.content,
        index_crc32c=new.index_crc32c if has_index else None,
        names_bytes=new.names_bytes if shard.has_names else None,
        names_crc32c=new.names_crc32c if shard.has_names else None,
    )


def _label_feature(dataset: Dataset) -> str | None:
    """The feature that the manifest's counts of labels are of."""
    assert dataset.manifest is not None
    assert dataset.files is not None
    names = label_features(dataset.files, dataset.manifest)
    if len(names) < 2:
        return next(iter(names), None)
    split = next(iter(dataset.manifest.label_counts))
    counts = {name: Counter[str]() for name in names}
    for shard in dataset.manifest.shards_of(split):
        for block in read_shard_blocks(join(dataset.uri, shard.path)):
            for number in range(len(block)):
                for name in names:
                    counts[name].update(_labels_of(block, number, name, dataset))
    said = dict(dataset.manifest.label_counts[split])
    return next((name for name in names if dict(counts[name]) == said), None)


def _labels_of(block: RecordBlock, number: int, feature: str, dataset: Dataset) -> list[str]:
    names = dataset.vocabularies.get(feature, ())
    return [
        names[value] if value in range(len(names)) else str(value)
        for value in decode_example(block.record(number), {feature}).get(feature, ())
        if isinstance(value, int)
    ]


def _describe(
    dataset: Dataset,
    existing: Mapping[str, str],
    written: Mapping[str, Shard],
    labels: Mapping[str, Counter[str]],
    names: Names,
) -> tuple[Manifest, dict[str, str]]:
    """The manifest, with the files of the old one, and those small files that stay, as they are."""
    old = dataset.manifest
    assert old is not None
    rejects, rejected = rejects_without(existing.get(REJECTS_FILE, ""), names)
    accounting = {
        split: _accounting(
            counts,
            gone=sum(s.records - written[s.path].records for s in _of(old, split, written)),
            rejected=sum(entry.get("split") == split for entry in rejected),
        )
        for split, counts in old.accounting.items()
    }
    codes = Counter(old.reject_counts)
    codes.subtract(entry["code"] for entry in rejected)
    counts = {split: Counter(of) - labels.get(split, Counter()) for split, of in _labels(old)}
    records = sum(s.records for s in old.shards if s.path in written)
    config = names.redact(old.config) | {
        FORGOTTEN_KEY: {
            "digests": [*old.earlier_digests, old.digest],
            "records": records - sum(s.records for s in written.values()),
        }
    }
    manifest = dataclasses.replace(
        old,
        shards=tuple(written.get(shard.path, shard) for shard in old.shards),
        accounting=accounting,
        config=config,
        label_counts={s: names.redact(dict(of)) for s, of in counts.items() if of},
        reject_counts={code: count for code, count in codes.items() if count},
    )
    vocabularies = {
        feature: names.without_lines(list(values))
        for feature, values in dataset.vocabularies.items()
    }
    texts = texts_of_dataset(
        manifest,
        dataset.features,
        vocabularies=vocabularies,
        schema=names.redact(existing.get(SCHEMA_FILE, "")),
        others={REJECTS_FILE: rejects} if rejects else {},
    )
    others = {path: names.redact(text) for path, text in existing.items() if path != REJECTS_FILE}
    return manifest, {path: text for path, text in (others | texts).items() if path in existing}


def _of(manifest: Manifest, split: str, written: Mapping[str, Shard]) -> list[Shard]:
    return [shard for shard in manifest.shards_of(split) if shard.path in written]


def _labels(manifest: Manifest) -> list[tuple[str, Counter[str]]]:
    return [(split, Counter(of)) for split, of in manifest.label_counts.items()]


def _accounting(counts: Accounting, *, gone: int, rejected: int) -> Accounting:
    """Of a split; what was there once is skipped now."""
    return Accounting(
        found=counts.found,
        written=counts.written - gone,
        rejected=counts.rejected - rejected,
        skipped=counts.skipped + gone + rejected,
    )


def _existing_texts(dataset: Dataset) -> dict[str, str]:
    """The small files that are there, but for the manifest and the lineage."""
    assert dataset.files is not None
    assert dataset.manifest is not None
    own = dataset.manifest.files
    if own is None:  # of a manifest that names none
        beside = (MANIFEST_FILE, LINEAGE_FILE)
        own = {
            path: FileDigest(0, 0)
            for path in dataset.files.sizes
            if vocabulary_of(path) is not None or (path in DATASET_FILES and path not in beside)
        }
    return {path: read_text(join(dataset.uri, path)) for path in own}


def _origin(dataset: Dataset, names: Names, *, request: str, records: int) -> Origin:
    """The lineage: this step, and before it the dataset as it was, by its digest."""
    manifest = dataset.manifest
    assert manifest is not None
    before = read_origin(dataset.uri, manifest)
    settings: dict[str, Json] = {"request": request, "records": records}
    own = Ancestor(
        digest=manifest.digest,
        summary=DatasetSummary.of(manifest),
        made_by=_redacted(before.made_by, names),
    )
    ancestors = [
        dataclasses.replace(each, made_by=each.made_by and _redacted(each.made_by, names))
        for each in before.ancestors
    ]
    return Origin(
        made_by=Step(
            component=COMPONENT,
            settings=settings,
            inputs=(DatasetInput(name="examples", digest=manifest.digest),),
            output=before.made_by.output,
        ),
        ancestors=(*ancestors, own),
    )


def _redacted(step: Step, names: Names) -> Step:
    return dataclasses.replace(step, settings=names.redact(step.settings))
